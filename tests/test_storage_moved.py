"""A store's file that is taken away while a server has it open: nothing is acknowledged and then lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from connecting import answered, asked, serving, text
from mcp import Client


def _move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def _replace(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.replace(path)


@pytest.mark.parametrize("take_away", [_move, Path.unlink, _replace])
async def test_a_file_that_was_taken_away_is_neither_written_nor_read(
    take_away: Callable[[Path], object], store_path: Path
) -> None:
    entry = {"role": "user", "content": "the harbour"}
    with serving(store_path) as (port, _):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert (await answered(client, "lcm_append", session="s", entries=[entry]))["last_seq"] == 1
            await anyio.to_thread.run_sync(take_away, store_path)
            for name, given in (("lcm_append", {"session": "s", "entries": [entry]}), ("lcm_sessions", {})):
                refused = await asked(client, name, **given)
                assert refused.is_error
                assert text(refused) == (
                    f"{store_path}: the file was moved, deleted or replaced while it was open, and nothing "
                    "was written. Put it back, or start the command or the server again to use what is there "
                    "now."
                )


async def test_a_file_that_was_put_back_is_written_again(store_path: Path) -> None:
    entry = {"role": "user", "content": "the harbour"}
    away = store_path.with_name("moved.db")
    with serving(store_path) as (port, _):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await answered(client, "lcm_append", session="s", entries=[entry])
            store_path.rename(away)
            assert (await asked(client, "lcm_append", session="s", entries=[entry])).is_error
            away.rename(store_path)
            assert (await answered(client, "lcm_append", session="s", entries=[entry]))["last_seq"] == 2
