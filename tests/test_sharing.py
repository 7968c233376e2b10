"""What holds when things go wrong or happen at once: full disks, failing jobs, closing, other processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import anyio
import apsw
import pytest
from stores import BACKENDS, bodies, child, finish, opened, put, serving, tell, told

from lcm_mcp.errors import StoreBusy, StoreClosed, StoreError, StoreUnavailable
from lcm_mcp.storage import files, schema
from lcm_mcp.storage.connections import Store

NEEDLE = "a text of some length that is stored as it is"


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def read_back(path: Path) -> list[str]:
    async with opened(path) as store:
        return await store.read(bodies)


# --- what holds when things go wrong


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(store_path: Path) -> None:
    def full(db: apsw.Connection) -> None:
        db.pragma("max_page_count", db.pragma("page_count") + 4)

    async with opened(store_path) as store:
        await store.write(put, "acknowledged")
        await store.write(full)
        with pytest.raises(StoreUnavailable, match=r"the disk is full.*nothing was lost"):
            await store.write(put, *[NEEDLE * 100] * 50)
        assert await store.read(bodies) == ["acknowledged"]
        await store.write(put, "small enough")
        await store.write(lambda db: db.pragma("max_page_count", 1_000_000))
        await store.write(put, *[NEEDLE * 100] * 50)
    assert await read_back(store_path) == ["acknowledged", "small enough", *[NEEDLE * 100] * 50]


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
    found = await read_back(store_path)
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


async def write(store: Store) -> None:
    await store.write(put, "by us")


async def test_a_writer_in_another_process_is_waited_for(store_path: Path) -> None:
    async with opened(store_path) as store:
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write, store)
                await anyio.sleep(0.2)
                assert await store.read(bodies) == []
                tell(other, "go on")
            assert await store.read(bodies) == ["by the other process", "by us"]
            assert finish([other]) == [["released"]]


async def test_a_writer_that_never_ends_is_told_of(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BUSY_S", 0.1)
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


async def test_a_call_that_waits_for_another_process_can_be_cancelled(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BUSY_S", 1000.0)
    async with opened(store_path) as store:
        with child("hold", store_path) as other:
            told(other.stdout)
            tell(other, "start")
            assert told(other.stdout) == "locked"
            # Ends the wait of a call that does not notice: without it the test would never end.
            watchdog = threading.Timer(30, other.kill)
            watchdog.start()
            with anyio.move_on_after(0.1) as scope:
                await store.write(put, "by us")
            watchdog.cancel()
            watchdog.join()
            assert scope.cancelled_caught
            assert other.poll() is None
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
            assert store.checksummed == (files.apsw.sqlite_extra.has("cksumvfs") is not None)
            assert await store.read(schema.version_of) == schema.VERSION


def test_a_file_that_becomes_ours_while_we_look_is_ours(store_path: Path) -> None:
    looking, other = apsw.Connection(str(store_path)), apsw.Connection(str(store_path))
    with closing(looking), closing(other):
        asked = 0

        def trace(_cursor: object, _sql: str, _bindings: object) -> bool:
            nonlocal asked
            asked += 1
            if asked == 2:
                schema.migrate(other)
            return True

        looking.exec_trace = trace
        assert schema.is_ours(looking)
