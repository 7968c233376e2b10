"""A store's file that is taken away while a server has it open: nothing is acknowledged and then lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from connecting import answered, asked, serving, text
from mcp import Client

from lcm_mcp.errors import StoreUnavailable
from lcm_mcp.storage.connections import Store


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
                    "was written. Put it back; or end what uses it, move its -wal and -shm away as well, and "
                    "start again."
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


async def test_the_log_of_a_file_that_was_taken_away_is_not_read_into_a_new_one(store_path: Path) -> None:
    entry = {"role": "user", "content": "the harbour"}
    with serving(store_path) as (port, running):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await answered(client, "lcm_append", session="s", entries=[entry])
            store_path.unlink()
        running.terminate()
        await anyio.to_thread.run_sync(running.wait)
    with pytest.raises(StoreUnavailable) as refused:
        Store.open(store_path)
    assert str(refused.value) == (
        f"{store_path}: the file is gone, and its log, with what was last written, is still there. Put the "
        f"file back, or move {store_path.name}-wal and {store_path.name}-shm away to begin a new store."
    )
    for side in ("-wal", "-shm"):
        store_path.with_name(store_path.name + side).unlink()
    Store.open(store_path).close_now()
