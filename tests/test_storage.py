"""The database file: whose it is, what is refused, what is noticed, and what holds when things go wrong."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import pytest
from stores import BACKENDS, child, database, finish, opened, serving, tell, told

from lcm_mcp.errors import (
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from lcm_mcp.storage import connections, integrity, schema
from lcm_mcp.storage.connections import Store

NEEDLE = "a text that stands in the file in plain bytes"
NOBODY = 65534


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def put(db: apsw.Connection, *bodies: str) -> None:
    for body in bodies:
        db.execute("INSERT INTO text(body) VALUES(?)", (body,))


def bodies(db: apsw.Connection) -> list[str]:
    return [str(body) for (body,) in db.execute("SELECT body FROM text ORDER BY id")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x10
    path.write_bytes(raw)


async def read_everything(path: Path) -> list[str]:
    """All texts. Raises StoreError, also where only the check of the structure finds the fault."""
    async with opened(path) as store:
        found = await store.read(bodies)
        if faults := await store.read(integrity.faults):
            raise StoreDamaged(str(path), faults[0])
        return found


@pytest.fixture
def open_umask() -> Generator[None]:
    """A process whose files would be everyone's, if nobody took care."""
    before = os.umask(0)
    yield
    os.umask(before)


# --- whose it is


@pytest.mark.usefixtures("open_umask")
async def test_file_folder_and_side_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "lcm.sqlite"
    async with opened(path) as store:
        await store.write(put, NEEDLE)
        assert mode(path.parent) == 0o700
        files = {each.name: mode(each) for each in path.parent.iterdir()}
        assert files == {"lcm.sqlite": 0o600, "lcm.sqlite-wal": 0o600, "lcm.sqlite-shm": 0o600}
    assert [each.name for each in path.parent.iterdir()] == ["lcm.sqlite"]


async def test_a_file_that_exists_keeps_its_content_and_its_mode(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, NEEDLE)
    store_path.chmod(0o640)
    assert await read_everything(store_path) == [NEEDLE]
    assert mode(store_path) == 0o640


# --- what is noticed


async def test_a_flipped_byte_of_a_text_is_reported_and_never_read(store_path: Path) -> None:
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, *(f"{n}: {NEEDLE}" for n in range(500)))
    flip(store_path, store_path.read_bytes().index(f"250: {NEEDLE}".encode()) + 20)
    async with opened(store_path) as store:
        with pytest.raises(StoreDamaged, match=r"fails its checksum.*doctor"):
            await store.read(bodies)
        assert await store.read(lambda db: db.execute("SELECT count(*) FROM session").get) == 0
    async with serving(store_path) as service:
        diagnosis = await service.doctor()
        assert not diagnosis.healthy
        assert [check.name for check in diagnosis.checks if not check.ok] == ["integrity", "references"]


async def test_a_flipped_byte_anywhere_is_reported_or_harmless(store_path: Path) -> None:
    wanted = [f"{n}: {NEEDLE}" * 3 for n in range(200)]
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, *wanted)
    chance = random.Random(20)
    reported = 0
    for position in chance.sample(range(store_path.stat().st_size), 60):
        flip(store_path, position)
        try:
            # A page that nothing uses may be read or not, but what is read is right.
            assert await read_everything(store_path) == wanted
        except StoreError as error:
            assert isinstance(error, StoreDamaged | NotAStore)
            reported += 1
        flip(store_path, position)
    assert reported > 50
    assert await read_everything(store_path) == wanted


async def test_every_flipped_byte_of_the_header_is_reported_or_harmless(store_path: Path) -> None:
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, NEEDLE)
    whole = store_path.read_bytes()
    reported = 0
    for position in range(100):
        flip(store_path, position)
        try:
            assert await read_everything(store_path) == [NEEDLE], position
        except (StoreDamaged, NotAStore, StoreTooNew):
            reported += 1
        store_path.write_bytes(whole)
    assert reported > 90
    assert await read_everything(store_path) == [NEEDLE]


async def test_a_truncated_file_is_reported(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, *(f"{n}: {NEEDLE}" for n in range(2000)))
    whole = store_path.read_bytes()
    for size in (len(whole) - schema.PAGE_BYTES, len(whole) // 2, 3 * schema.PAGE_BYTES, 512, 100):
        store_path.write_bytes(whole[:size])
        with pytest.raises(StoreDamaged):
            await read_everything(store_path)


# --- what is refused


def refused(path: Path, error: type[StoreError], match: str) -> None:
    """Opening is refused with that error, and every byte of the file stays."""
    before = path.read_bytes()
    with pytest.raises(error, match=match) as caught:
        Store.open(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_of_a_newer_version_is_refused_untouched(store_path: Path) -> None:
    with database(store_path) as db:
        db.pragma("user_version", schema.VERSION + 1)
    refused(store_path, StoreTooNew, f"version {schema.VERSION + 1}.*up to {schema.VERSION}.*Upgrade")


def test_the_database_of_another_program_is_refused_untouched(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as db:
        db.execute("CREATE TABLE recipes(name)")
        db.commit()
    refused(store_path, NotAStore, "not a store of lcm-mcp.*--db or LCM_DB")


def test_the_database_of_another_program_with_a_version_of_its_own_is_refused(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as db:
        db.execute("PRAGMA application_id = 1234")
        db.execute("PRAGMA user_version = 99")
        db.execute("CREATE TABLE recipes(name)")
        db.commit()
    refused(store_path, NotAStore, "not a store of lcm-mcp")


@pytest.mark.parametrize("text", ["text", "a text file\n" * 3, "a text file\n" * 5000, "SQLite format 3\x00"])
def test_a_file_that_is_no_database_is_refused_untouched(store_path: Path, text: str) -> None:
    store_path.write_text(text)
    refused(store_path, NotAStore, "not a store of lcm-mcp")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"it is a folder. Name a file with --db"):
        Store.open(tmp_path)


def test_a_file_for_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="--db"):
        Store.open(tmp_path / "file" / "lcm.sqlite")


async def test_an_empty_file_becomes_a_store(store_path: Path) -> None:
    store_path.touch()
    async with opened(store_path) as store:
        await store.write(put, NEEDLE)
        assert await store.read(bodies) == [NEEDLE]


_AS_NOBODY = """
import os, sys
from pathlib import Path
from lcm_mcp.errors import StoreError
from lcm_mcp.storage.connections import Store
if os.geteuid() == 0:
    os.setgid({nobody})
    os.setuid({nobody})
try:
    Store.open(Path(sys.argv[1]))
except StoreError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o555, None), (0o555, 0o444), (0o777, 0o444), (0o000, 0o666)]
)
async def test_a_place_without_permission_is_refused_in_words(folder_mode: int, file_mode: int | None) -> None:
    # A folder of its own: pytest's are closed to the user without rights that root has to become.
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "place"
        place.mkdir()
        path = place / "lcm.sqlite"
        if file_mode is not None:
            async with opened(path) as store:
                await store.write(put, NEEDLE)
            path.chmod(file_mode)
        Path(folder).chmod(0o755)
        place.chmod(folder_mode)
        said = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY.format(nobody=NOBODY), str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        place.chmod(0o755)
    assert said.stdout.startswith(f"StoreUnavailable {path}: "), said.stderr
    assert "--db" in said.stdout


# --- what holds when things go wrong


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(store_path: Path) -> None:
    def full(db: apsw.Connection) -> None:
        db.pragma("max_page_count", db.pragma("page_count") + 4)

    async with opened(store_path) as store:
        await store.write(put, "acknowledged")
        await store.write(full)
        with pytest.raises(StoreUnavailable, match="the disk is full.*nothing was lost"):
            await store.write(put, *[NEEDLE * 100] * 50)
        assert await store.read(bodies) == ["acknowledged"]
        await store.write(put, "small enough")
        await store.write(lambda db: db.pragma("max_page_count", 1_000_000))
        await store.write(put, *[NEEDLE * 100] * 50)
    assert await read_everything(store_path) == ["acknowledged", "small enough", *[NEEDLE * 100] * 50]


_OUT_OF_ROOM = """
import resource, sys
from pathlib import Path
import anyio
from lcm_mcp.errors import StoreUnavailable
from lcm_mcp.storage.connections import Store

def put(db, *bodies):
    for body in bodies:
        db.execute("INSERT INTO text(body) VALUES(?)", (body,))

async def main():
    store = Store.open(Path(sys.argv[1]))
    await store.write(put, "before")
    room = Path(sys.argv[1] + "-wal").stat().st_size + 30_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    told = 0
    for n in range(40):
        try:
            await store.write(put, f"{n}: " + "x" * 5000)
            print(n)
        except StoreUnavailable:
            told += 1
    assert told, "nothing was refused"
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.write(put, "after")
    await store.close()

anyio.run(main)
"""


async def test_a_write_that_the_system_refuses_is_told_and_undone(store_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _OUT_OF_ROOM, str(store_path)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    acknowledged = said.stdout.split()
    found = await read_everything(store_path)
    assert [body.partition(":")[0] for body in found] == ["before", *acknowledged, "after"]


async def test_a_job_that_fails_leaves_nothing_behind(store_path: Path) -> None:
    def fail(db: apsw.Connection) -> None:
        put(db, "half a job")
        raise LookupError("half-way")

    async with opened(store_path) as store:
        with pytest.raises(LookupError, match="half-way"):
            await store.write(fail)
        await store.write(put, NEEDLE)
        assert await store.read(bodies) == [NEEDLE]


async def test_a_read_cannot_write(store_path: Path) -> None:
    async with opened(store_path) as store:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await store.read(put, NEEDLE)
        assert await store.read(bodies) == []


async def test_rows_refuse_to_be_edited(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": "as it was"}])
        with pytest.raises(StoreError, match="rows are never edited"):
            await service.work.store.write(lambda db: db.execute("UPDATE row SET role = 'tool'").get)


async def test_a_closed_store_says_so(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.read(bodies)
        await store.close()
        with pytest.raises(StoreClosed, match="is closed"):
            await store.write(put, NEEDLE)
        with pytest.raises(StoreClosed, match="is closed"):
            await store.read(bodies)


async def test_closing_under_running_calls_ends_each_of_them_well(store_path: Path) -> None:
    ended: list[str] = []

    async def use(store: Store, number: int) -> None:
        try:
            if number % 2:
                await store.write(put, str(number))
            else:
                await store.read(bodies)
            ended.append("done")
        except StoreClosed:
            ended.append("closed")

    for _ in range(10):
        async with opened(store_path) as store, anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(use, store, number)
            await anyio.sleep(0)
            tasks.start_soon(store.close)
    assert len(ended) == 120


# --- one state for each reader


async def test_a_reader_sees_one_state_of_the_file_while_others_write(store_path: Path) -> None:
    reading, written = threading.Event(), threading.Event()

    def look_twice(db: apsw.Connection) -> tuple[list[str], list[str]]:
        before = bodies(db)
        reading.set()
        assert written.wait(30)
        return before, bodies(db)

    async with opened(store_path) as store:
        await store.write(put, "before")
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                await anyio.to_thread.run_sync(reading.wait)
                await store.write(put, "meanwhile")
                assert await store.read(bodies) == ["before", "meanwhile"]
                written.set()

            tasks.start_soon(write)
            assert await store.read(look_twice) == (["before"], ["before"])
        assert await store.read(bodies) == ["before", "meanwhile"]


# --- several processes


async def test_a_writer_in_another_process_is_waited_for(store_path: Path) -> None:
    async with opened(store_path) as store:
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.write, put, "by us")
                await anyio.sleep(0.2)
                assert await store.read(bodies) == []
                tell(other, "go on")
            assert await store.read(bodies) == ["by the other process", "by us"]
            assert finish([other]) == [["released"]]


async def test_a_writer_that_never_ends_is_told_of(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BUSY_S", 0.1)
    async with opened(store_path) as store:
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            with pytest.raises(StoreBusy, match=r"locked by another process for 0.1 s; nothing was written"):
                await store.write(put, "by us")
            tell(other, "go on")
            finish([other])
            await store.write(put, "later")
            assert await store.read(bodies) == ["by the other process", "later"]


async def test_a_call_that_waits_for_another_process_can_be_cancelled(store_path: Path) -> None:
    async with opened(store_path) as store:
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            with anyio.move_on_after(0.1) as scope:
                await store.write(put, "by us")
            assert scope.cancelled_caught
            tell(other, "go on")
            finish([other])
        assert await store.read(bodies) == ["by the other process"]
        await store.write(put, "later")


async def test_a_store_closes_while_another_process_writes(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, *[NEEDLE] * 3000)
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            await store.close()
            tell(other, "go on")
            finish([other])


async def test_many_processes_make_one_new_file_together(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.sqlite" for n in range(12)]
    with (
        child("open", *paths) as one,
        child("open", *paths) as two,
        child("open", *paths) as three,
        child("open", *paths) as four,
    ):
        children = (one, two, three, four)
        for _ in paths:
            assert [told(each.stdout) for each in children] == ["ready"] * 4
            for each in children:
                tell(each, "now")
        finish(children)
    for path in paths:
        async with opened(path) as store:
            assert store.checksummed == (connections.apsw.sqlite_extra.has("cksumvfs") is not None)
            assert await store.read(schema.version_of) == schema.VERSION


def test_a_file_that_becomes_ours_while_we_look_is_ours(store_path: Path) -> None:
    with closing(apsw.Connection(str(store_path))) as looking, closing(apsw.Connection(str(store_path))) as other:
        asked = 0

        def trace(_cursor: object, _sql: str, _bindings: object) -> bool:
            nonlocal asked
            asked += 1
            if asked == 2:
                schema.migrate(other)
            return True

        looking.exec_trace = trace
        assert schema.is_ours(looking)


_LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute("SELECT count(*) FROM text").fetchone() == (1,)
db.close()
"""


async def test_a_second_store_of_one_process_leaves_the_locks_of_the_first(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, "one")
        async with opened(store_path):
            pass
        # Another program that looks at the file and closes it last would delete our WAL.
        subprocess.run([sys.executable, "-c", _LOOK, str(store_path)], check=True)
        assert Path(f"{store_path}-wal").exists()
        await store.write(put, "two")
    assert await read_everything(store_path) == ["one", "two"]
