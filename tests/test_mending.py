"""Doctor and repair: each kind of fault is planted in a real file, found, mended, and no row is touched."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from commands import Cli
from stores import assert_sound, settings_for

from lcm_mcp.service import Service
from lcm_mcp.service.answers import Check
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.storage import files
from lcm_mcp.transcript.checking import strays

WORDS = "the meeting is moved to Thursday, bring the signed papers and the red folder"
Plant = Callable[[apsw.Connection], object]
GONE = 2**22 + 7
"""A process id beyond what Linux gives."""


async def filled(path: Path) -> None:
    """A store of two sessions with nodes, cuts, pins, calls, an image and an index."""
    service = Service.open(settings_for(path))
    try:
        for key in ("one", "two"):
            rows: list[dict[str, Any]] = []
            for n in range(60):
                rows.append({"role": "user", "content": f"{key} {n}: {WORDS}. " * 6, "entry_id": f"u{n}"})
                rows.append({"role": "assistant", "content": f"noted {n}. " * 40, "pin": n == 3})
            await service.append(key, rows)
            query = PrepareQuery(session=key, window_tokens=6000, strategy="lcm", compact="force")
            await service.prepare(query)
        await service.index()
    finally:
        await service.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a filled store."""
    path = tmp_path_factory.mktemp("filled") / "lcm.sqlite"
    anyio.run(filled, path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, whole: bytes) -> Path:
    place = tmp_path / "lcm.sqlite"
    place.write_bytes(whole)
    place.chmod(0o600)
    return place


def plant(path: Path, job: Plant) -> None:
    db = files.connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        with db:
            job(db)
    finally:
        db.close()


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    db = files.connect(path, apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(query))
    finally:
        db.close()


def said(path: Path) -> list[tuple[Any, ...]]:
    """All that was said, as the file holds it."""
    rows = "SELECT session, seq, prev, unit, round, role, entry_id, at, digest, text FROM row"
    return asked(path, rows) + asked(path, "SELECT id, body FROM text WHERE id IN (SELECT text FROM row)")


async def failed(service: Service) -> dict[str, Check]:
    return {check.name: check for check in (await service.doctor()).checks if not check.ok}


def sql(*statements: str) -> Plant:
    def run(db: apsw.Connection) -> None:
        for statement in statements:
            db.execute(statement)

    return run


UNLOCK = "DROP TRIGGER row_is_never_edited"
LOCK = """CREATE TRIGGER row_is_never_edited BEFORE UPDATE ON row
    BEGIN SELECT RAISE(ABORT, 'rows are never edited'); END"""
SOME = "(SELECT max(id) FROM node WHERE session = 1 AND depth = 0)"
PARENTS = "SELECT id FROM node WHERE session = 1 AND depth > 0"
PARENT = "(SELECT min(id) FROM node WHERE session = 1 AND depth = 1)"


def lease(holder: str, expires_at: int) -> str:
    return f"INSERT INTO lease VALUES(1, 'token', '{holder}', {expires_at})"


STRAYS = {
    "pin": "1, 777, 0",
    "call": "1, 'c', 777, 0",
    "answer": "1, 'c', 777, 0, 778",
    "variant": "1, 777, x'00', 'user', 0, x'5b5d'",
    "file": "1, 1, 777, 0, '/a', 'text', 'x', 'x', 'x', 0, 1",
    "large_inline": "1, 777, 0, 1",
    "edge": "1, 777, 0, 1",
    "tier": "1, 777, 'primary', 1, 1, 1, 'x', 0, 0, 0",
    "superseded": "1, 777, 1, 'primary', 0, 0, 1, 1, 1, 'x'",
    "cut": "9, 1, 'lcm', 1, x'7b7d', 'x', 1, 1",
    "lease": f"9, 'x', '{socket.gethostname()}/{GONE}', {2**60}",
    "observation": "9, 1, 'x', 0, x'', NULL, 0, 0, NULL, NULL",
    "spend": "'2026-01-01', 9, 'x', 1, 1, 1, 1, 1, 1",
    "followed_session": "1, 9",
    "followed_line": "9, 0, x'00', 1, 1, '@1'",
    "payload": "99999, x'57'",
}
"""A mark of each table that has any, beside a row, node, session, file or text that is not there."""

FAULTS: dict[str, tuple[str, Plant]] = {
    "a total": ("paths", sql(UNLOCK, "UPDATE row SET cum_bytes = cum_bytes + 1 WHERE seq = 9", LOCK)),
    "a size": ("paths", sql(UNLOCK, "UPDATE row SET bytes = 3 WHERE session = 2 AND seq = 4", LOCK)),
    "a last row": ("sessions", sql("UPDATE session SET leaf = 999 WHERE id = 1")),
    "a next row": ("sessions", sql("UPDATE session SET next_seq = 5 WHERE id = 1")),
    "a next node": ("sessions", sql("UPDATE session SET next_node = 1 WHERE id = 2")),
    "a span beyond the rows": ("spans", sql(f"UPDATE node SET last = 999 WHERE id = {SOME}")),
    "a span before the rows": ("spans", sql(f"UPDATE node SET first = 0 WHERE id = {SOME}")),
    "a count of rows": ("spans", sql(f"UPDATE node SET rows = rows + 1 WHERE session = 1 AND id = {SOME}")),
    "a node without text": ("shape", sql("DELETE FROM tier WHERE session = 1 AND node = 2")),
    "a child that is gone": (
        "shape",
        sql(
            f"""DELETE FROM node WHERE session = 1 AND id =
                (SELECT child FROM edge WHERE session = 1 AND node = {PARENT})"""
        ),
    ),
    "a parent without children": ("shape", sql(f"DELETE FROM edge WHERE session = 1 AND node = {PARENT}")),
    "a depth": ("shape", sql(f"UPDATE node SET depth = 3 WHERE session = 1 AND id = {PARENT}")),
    "a child too few": (
        "shape",
        sql(f"DELETE FROM edge WHERE session = 1 AND node = {PARENT} AND n = 0"),
    ),
    "a node twice": (
        "duplicates",
        sql(
            """INSERT INTO node SELECT session, 500, depth, first, last, rows, source_tokens, made_at, anchor
                FROM node WHERE session = 1 AND id = 1""",
            """INSERT INTO tier(session, node, kind, text, tokens, level, model)
                SELECT session, 500, kind, text, tokens, level, model
                FROM tier WHERE session = 1 AND node = 1""",
            "UPDATE session SET next_node = 501 WHERE id = 1",
        ),
    ),
    "a cut of a node that is not there": (
        "cuts",
        sql(
            """UPDATE cut SET shape = CAST(replace(shape, '"nodes":[[', '"nodes":[[77') AS BLOB)
                WHERE session = 1"""
        ),
    ),
    "a cut that cannot be read": ("cuts", sql("UPDATE cut SET shape = x'7b' WHERE session = 1")),
    "a tail that is not there": ("cuts", sql("UPDATE cut SET tail_from = 998 WHERE session = 2")),
    "rows without a leaf": (
        "coverage",
        sql(
            *(
                f"DELETE FROM {table} WHERE session = 1 AND {column} IN (SELECT 1 UNION {PARENTS})"
                for table, column in (("edge", "node"), ("tier", "node"), ("cut", "1"), ("node", "id"))
            )
        ),
    ),
    "an index that is gone": ("schema", sql("DROP INDEX node_by_last")),
    "a trigger that is gone": ("schema", sql("DROP TRIGGER row_is_never_edited")),
    "a parent that is not there": (
        "references",
        sql("UPDATE session SET parent = 99, link = 'child' WHERE id = 2"),
    ),
    "a lease of a dead process": ("leases", sql(lease(f"{socket.gethostname()}/{GONE}", 2**60))),
    "a text of nobody": ("payloads", sql("INSERT INTO text(body) VALUES('nobody said this')")),
    "a false watermark": ("index", sql("UPDATE gram_state SET upto = 100000")),
    "no watermark": ("index", sql("DELETE FROM gram_state")),
    "an emptied index": ("index", sql("INSERT INTO gram(gram) VALUES('delete-all')")),
    "an entry that is missing": (
        "index",
        sql("INSERT INTO gram(gram, rowid, folded) SELECT 'delete', id, body FROM text WHERE id = 7"),
    ),
    "an entry of a text that is not there": (
        "index",
        sql("INSERT INTO gram(rowid, folded) VALUES(5000, 'false trail')"),
    ),
    "an entry with other words": ("index", sql("INSERT INTO gram(rowid, folded) VALUES(3, 'qqqwww')")),
    "a broken index": ("index", sql("UPDATE gram_data SET block = x'00' WHERE id > 1000")),
    "a lost part of the index": ("index", sql("DELETE FROM gram_data WHERE id > 1000")),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found_mended_and_no_row_is_touched(path: Path, fault: str) -> None:
    check, job = FAULTS[fault]
    before = said(path)
    plant(path, job)
    service = Service.open(settings_for(path))
    try:
        planted = path.read_bytes()
        found = await failed(service)
        assert check in found, found
        assert path.read_bytes() == planted
        assert not path.with_name("lcm.sqlite-wal").stat().st_size
        assert "lcm-mcp doctor --repair" in found[check].detail
        done = await service.mend()
        assert len(done) > 1, done
        assert (await failed(service)) == {}
        assert await service.mend() == []
        hits = await service.grep(GrepQuery("SIGNED papers", session="one", limit=3))
        assert len(hits.hits) == 3
        for key in ("one", "two"):
            await service.compact(key, "lcm")
        assert (await failed(service)) == {}
        await service.work.store.read(assert_sound)
    finally:
        await service.close()
    assert said(path) == before
    (copy,) = path.parent.glob("*.before-repair")
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_a_mark_beside_nothing_is_found_in_whatever_table_and_dropped(path: Path) -> None:
    before = {table: asked(path, f"SELECT * FROM {table}") for table in STRAYS}
    db = files.connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        for number, (table, values) in enumerate(STRAYS.items(), 1):
            db.execute(f"INSERT INTO {table} VALUES({values})")
            assert strays(db) == number, table
    finally:
        db.close()
    service = Service.open(settings_for(path))
    try:
        assert "lcm-mcp doctor --repair" in (await failed(service))["references"].detail
        assert f"{len(STRAYS)} marks that belonged to nothing were dropped." in await service.mend()
        assert (await failed(service)) == {}
    finally:
        await service.close()
    assert {table: asked(path, f"SELECT * FROM {table}") for table in STRAYS} == before


async def test_a_lease_of_a_living_process_is_left_alone(path: Path) -> None:
    plant(path, sql(lease(f"{socket.gethostname()}/{os.getppid()}", 2**60), "DELETE FROM pin"))
    service = Service.open(settings_for(path))
    try:
        assert (await failed(service)) == {}
        assert await service.mend() == []
    finally:
        await service.close()
    assert len(asked(path, "SELECT * FROM lease")) == 1


async def test_a_lease_that_has_run_out_is_told_and_taken_away_by_the_next_compaction(path: Path) -> None:
    plant(path, sql(lease("elsewhere/1", 1)))
    service = Service.open(settings_for(path))
    try:
        (check,) = [check for check in (await service.doctor()).checks if check.name == "leases"]
        assert (check.ok, check.detail) == (True, "1 have run out")
        await service.append(
            "two", [{"role": "user", "content": f"more {n}: {WORDS}. " * 6} for n in range(60)]
        )
        await service.compact("two", "lcm")
    finally:
        await service.close()
    assert asked(path, "SELECT * FROM lease") == []


async def test_a_table_that_is_gone_needs_a_backup(path: Path) -> None:
    plant(path, sql("DROP TABLE spend"))
    service = Service.open(settings_for(path))
    try:
        assert "spend not there. Restore a backup" in (await failed(service))["schema"].detail
    finally:
        await service.close()


async def test_sizes_and_what_is_not_indexed_yet_are_told(path: Path) -> None:
    plant(path, sql("UPDATE gram_state SET upto = upto - 5"))
    service = Service.open(settings_for(path))
    try:
        told = {check.name: check for check in (await service.doctor()).checks}
    finally:
        await service.close()
    assert (told["index"].ok, told["index"].detail) == (True, "to be indexed yet: 5 texts")
    assert told["payloads"].detail.startswith("0 payloads of 0 bytes, the largest of 0; 0 images")


@pytest.mark.parametrize("table", ["text", "session"])
async def test_what_rows_need_is_never_made_up(path: Path, table: str) -> None:
    plant(path, sql(f"DELETE FROM {table} WHERE id = 1"))
    rows = asked(path, "SELECT count(*) FROM row")
    service = Service.open(settings_for(path))
    try:
        assert "Restore a backup" in (await failed(service))["references"].detail
        await service.mend()
        assert "references" in await failed(service)
    finally:
        await service.close()
    assert asked(path, "SELECT count(*) FROM row") == rows


async def test_looking_writes_nothing(path: Path, whole: bytes) -> None:
    service = Service.open(settings_for(path))
    try:
        diagnosis = await service.doctor()
    finally:
        await service.close()
    assert diagnosis.healthy, diagnosis.checks
    assert path.read_bytes() == whole
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_store_without_index_and_totals_answers_the_same_once_they_are_rebuilt(path: Path) -> None:
    async def answers() -> Sequence[object]:
        service = Service.open(settings_for(path))
        try:
            grep = GrepQuery("noted 1", session="*", limit=50)
            return [
                await service.grep(grep),
                await service.expand("e5..e30", "one"),
                await service.prepare(PrepareQuery(session="two", window_tokens=6000, compact="never")),
                await service.stats("one"),
            ]
        finally:
            await service.close()

    def without_place(found: Sequence[object]) -> str:
        return repr(found[:2]) + repr(found[3]).split("file_bytes")[0]

    before = await answers()
    plant(
        path,
        sql(
            UNLOCK,
            "UPDATE row SET bytes = 0, fixed = 0, cum_bytes = 0, cum_inputs = 0, cum_fixed = 0",
            LOCK,
            "INSERT INTO gram(gram) VALUES('delete-all')",
        ),
    )
    service = Service.open(settings_for(path))
    try:
        assert {"paths", "index"} <= (await failed(service)).keys()
        await service.mend()
        assert await failed(service) == {}
    finally:
        await service.close()
    after = await answers()
    assert without_place(after) == without_place(before)


def test_the_command_repairs_and_ends_with_what_is_left(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    cli = Cli(capsys, path)
    path.chmod(0o644)
    plant(path, FAULTS["a total"][1])
    ended = cli("doctor", "--json")
    assert ended.code == 1
    assert not ended.answer["healthy"]
    assert {each["name"] for each in ended.answer["checks"] if not each["ok"]} == {"paths", "permissions"}
    ended = cli("doctor", "--repair", "--json")
    assert ended.code == 0, ended.err
    assert ended.answer["healthy"]
    assert "the totals of 2 rows" in ended.err
    assert path.stat().st_mode & 0o777 == 0o600
