"""Followed files that cannot be read on, such as documents and databases, are read again once changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import pytest
from growing import caught_up, look, texts
from stores import serving
from test_import_codex import answer, meta, user
from test_import_databases import BUBBLES, COMPOSER, asked, cursor, opencode

from lcm_mcp.errors import ImportRefused
from lcm_mcp.service.following import catch_up_all, keep_up

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def gemini(path: Path, said: Sequence[str]) -> None:
    told = [{"id": text, "type": "user", "content": text} for text in said]
    path.write_text(json.dumps({"sessionId": "s", "projectHash": "h", "messages": told}, indent=1))


def in_database(path: Path, said: Sequence[str]) -> None:
    path.unlink(missing_ok=True)
    opencode(path, [asked(text, text) for text in said])


def in_cursor(path: Path, said: Sequence[str]) -> None:
    path.unlink(missing_ok=True)
    heads = {"fullConversationHeadersOnly": [{"bubbleId": text} for text in said]}
    bubbles = [(f"bubbleId:one:{text}", {"type": 1, "text": text}) for text in said]
    cursor(path, ("composerData:one", heads), *bubbles)


def packed(path: Path, said: Sequence[str]) -> None:
    lines = [meta("s"), *map(user, said)]
    path.write_bytes(zstd.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))


def array(path: Path, said: Sequence[str]) -> None:
    path.write_text(json.dumps([{"role": "user", "content": text} for text in said]))


KINDS = {
    "session-1.json": gemini,
    "opencode.db": in_database,
    "state.vscdb": in_cursor,
    "rollout-1.jsonl.zst": packed,
    "conversations.json": array,
}
Writer = Callable[[Path, Sequence[str]], None]


@pytest.mark.parametrize(("name", "write"), KINDS.items())
async def test_what_was_added_to_it_is_there_at_the_next_read(
    name: str, write: Writer, tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / name
    write(path, ["one", "two"])
    async with serving(store_path) as service:
        await service.import_file(path, fold=False)
        first = [text for text in await texts(service) if text != "dig"]
        for said in (["one", "two", "three"], ["one", "two", "three", "four", "five"]):
            write(path, said)
            await caught_up(service)
            assert [text for text in await texts(service) if text != "dig"] == said
        path.unlink()
        assert await look(service) is None
        assert (first, (await service.doctor()).healthy) == (["one", "two"], True)


@pytest.mark.parametrize(("name", "write"), KINDS.items())
async def test_a_new_one_in_a_followed_folder_is_taken_in(
    name: str, write: Writer, tmp_path: Path, store_path: Path
) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    async with serving(store_path) as service:
        await service.follow_folder(folder, "auto", None, fold=False)
        assert await look(service) is None
        write(folder / name, ["one", "two"])
        await caught_up(service)
        assert [text for text in await texts(service) if text != "dig"] == ["one", "two"]


async def test_what_a_program_wrote_to_its_open_database_is_there_at_the_next_read(
    tmp_path: Path, store_path: Path
) -> None:
    path = cursor(tmp_path / "state.vscdb", ("composerData:one", COMPOSER), *BUBBLES[1:3])
    async with serving(store_path) as service:
        await service.import_file(path, fold=False)
        live = apsw.Connection(str(path))
        live.execute("PRAGMA journal_mode = wal").fetchall()
        await caught_up(service)
        before = path.stat()
        put = "INSERT INTO cursorDiskKV VALUES(?, ?)"
        live.execute(put, (BUBBLES[3][0], json.dumps(BUBBLES[3][1]).encode()))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        await caught_up(service)
        assert (await texts(service))[-1] == "done"
        live.close()


async def test_a_database_that_was_locked_is_read_once_it_no_longer_is_though_it_did_not_change(
    tmp_path: Path, store_path: Path
) -> None:
    path = cursor(tmp_path / "state.vscdb", ("composerData:one", COMPOSER), *BUBBLES[1:3])
    async with serving(store_path) as service:
        await service.import_file(path, fold=False)
        with closing(apsw.Connection(str(path))) as live:
            put = "INSERT INTO cursorDiskKV VALUES(?, ?)"
            live.execute(put, (BUBBLES[3][0], json.dumps(BUBBLES[3][1]).encode()))
            live.execute("BEGIN EXCLUSIVE")
            for _ in range(2):
                assert "1 followed file has more to read" in (await look(service) or "")
            assert await catch_up_all(service.work) == {}
            assert (await texts(service))[-1] != "done"
            (said,) = (check for check in (await service.doctor()).checks if check.name == "following")
            assert "1 with trouble: state.vscdb: it could not be read: another program keeps" in said.detail
            with pytest.raises(ImportRefused, match="another program keeps the database locked"):
                await service.import_file(path, "cursor", fold=False)
        await caught_up(service)
        assert (await texts(service))[-1] == "done"
        (said,) = (check for check in (await service.doctor()).checks if check.name == "following")
        assert said.detail == "1 file is followed"


async def test_an_array_that_says_something_else_now_keeps_what_it_said(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    async with serving(store_path) as service:
        array(path, ["one", "two", "ok", "ok"])
        await service.import_file(path, fold=False)
        array(path, ["a summary of it", "ok", "ok", "ok"])
        await caught_up(service)
        assert await texts(service) == ["one", "two", "ok", "ok", "a summary of it", "ok"]
        outcome = await service.import_file(path, fold=False)
        assert (outcome.report.rows_added, outcome.report.conflicts) == (0, ())


async def test_a_large_one_is_left_to_an_import_and_to_watch(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "session-1.json"
    gemini(path, ["one"])
    async with serving(store_path) as service:
        await service.import_file(path, fold=False)
        gemini(path, ["one", "x" * 9_000_000])
        assert "1 followed file has more to read" in (await look(service) or "")
        assert await catch_up_all(service.work) == {"s": 1}
        assert await look(service) is None


async def test_a_server_reads_a_large_one_beside_the_requests(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "session-1.json"
    gemini(path, ["one"])
    async with serving(store_path) as service, service.running():
        await service.import_file(path, fold=False)
        for more in ("x" * 9_000_000, "y" * 9_000_000):
            gemini(path, ["one", more])
            behind = await look(service)
            assert behind == "1 followed file has more to read: read beside the requests now, call again."
            while await look(service) is not None:
                await anyio.sleep(0.02)
            assert (await texts(service))[-1] == more


async def test_a_hook_reads_one_that_was_not_imported(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "session-1.json"
    async with serving(store_path) as service:
        for said in (["one"], ["one", "two"]):
            gemini(path, said)
            assert await keep_up(service.work, path) is not None
            assert await texts(service) == said


async def test_a_rollout_that_was_compressed_is_the_same_session(tmp_path: Path, store_path: Path) -> None:
    plain = tmp_path / "rollout-1.jsonl"
    plain.write_text("".join(json.dumps(line) + "\n" for line in (meta("s"), user("one"), answer("two"))))
    async with serving(store_path) as service:
        await service.import_file(plain, fold=False)
        await service.follow_folder(tmp_path, "auto", None, fold=False)
        (tmp_path / "rollout-1.jsonl.zst").write_bytes(zstd.compress(plain.read_bytes()))
        plain.unlink()
        await caught_up(service)
        assert await texts(service) == ["one", "two"]
