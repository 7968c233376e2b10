"""Reads that mostly take a moment are done at once, and never keep others waiting for more than a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import anyio
import apsw
import pytest
from stores import BACKENDS, bodies, opened, put, serving
from test_cancellation import count

from lcm_mcp.errors import StoreClosed, StoreUnavailable, UnknownSession
from lcm_mcp.service import following
from lcm_mcp.service.intake import facts_at
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.storage.connections import READERS, Store
from lcm_mcp.storage.hurrying import AT_ONCE_S, STANDING_S
from lcm_mcp.transcript.followed import Facts

LONG = 3_000_000
"""Steps that take some hundred times as long as a read may take at once."""


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Watched:
    """A read of so many steps that notes on which threads it was begun."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.begun: list[int] = []

    def __call__(self, db: apsw.Connection) -> int:
        self.begun.append(threading.get_ident())
        return count(db, self._steps)


async def warm(store: Store) -> None:
    """The first read opens a connection, in a thread."""
    assert await store.read_soon(bodies) == await store.read(bodies)


async def test_a_short_read_is_done_on_the_caller_s_thread(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        short = Watched(10)
        assert await store.read_soon(short) == 10
        assert short.begun == [threading.get_ident()]


async def test_a_long_read_is_begun_anew_in_a_thread_while_others_go_on(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        long, beside = Watched(LONG), Watched(10)
        turns = 0
        async with anyio.create_task_group() as tasks:

            async def read_long() -> None:
                assert await store.read_soon(long) == LONG
                tasks.cancel_scope.cancel()

            tasks.start_soon(read_long)
            while True:
                await store.read_soon(beside)
                turns += 1
        assert [each == threading.get_ident() for each in long.begun] == [True, False]
        assert turns > 3


def work() -> None:
    until = time.thread_time() + 2 * AT_ONCE_S
    while time.thread_time() < until:
        pass


def stand() -> None:
    """As on a drive far away."""
    time.sleep(AT_ONCE_S + STANDING_S)


DWELLING = pytest.mark.parametrize("dwell", [work, stand])


@DWELLING
async def test_a_read_that_dwells_on_its_rows_is_begun_anew_in_a_thread_like_one_of_many_steps(
    store_path: Path, dwell: Callable[[], None]
) -> None:
    def read(db: apsw.Connection) -> int:
        looked_at = 0
        for _ in db.execute("SELECT body FROM text"):
            looked_at += 1
            here[threading.get_ident()] = looked_at
            dwell()
        return looked_at

    here: dict[int, int] = {}
    async with opened(store_path) as store:
        await store.write(put, *"abcdef")
        await warm(store)
        assert await store.read_soon(read) == 6
        assert here.pop(threading.get_ident()) == 1
        assert list(here.values()) == [6]


@DWELLING
async def test_a_read_that_looks_at_many_files_is_begun_anew_in_a_thread_and_reads_them_on_there(
    store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dwell: Callable[[], None]
) -> None:
    def looked(path: str) -> Facts | None:
        on.append(threading.get_ident())
        dwell()
        return facts_at(path)

    on: list[int] = []
    async with serving(store_path) as service:
        for number in range(4):
            path = tmp_path / f"{number}.jsonl"
            path.write_text(f'{{"role": "user", "content": "row {number}", "entry_id": "1"}}\n')
            await service.import_file(path)
        assert (await service.sessions(None)).total == 4
        monkeypatch.setattr(following, "facts_at", looked)
        assert len((await service.grep(GrepQuery("row", session="*"))).hits) == 4
        assert on.count(threading.get_ident()) <= 1
        assert len(on) == 4 + on.count(threading.get_ident())


async def test_a_short_read_is_not_kept_waiting_by_as_many_long_ones_as_threads_take(
    store_path: Path,
) -> None:
    let_go = threading.Event()

    def dwell(db: apsw.Connection) -> list[str]:
        let_go.wait(30)
        return bodies(db)

    async with opened(store_path) as store:
        await store.write(put, "a", "b")
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(2 * READERS):
                    tasks.start_soon(store.read, dwell)
                await anyio.wait_all_tasks_blocked()
                for _ in range(5):
                    assert await store.read_soon(bodies) == ["a", "b"]
                assert not let_go.is_set()
                let_go.set()


async def test_others_have_their_turn_between_reads_however_short_these_are(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        turns: list[str] = []

        async def beside() -> None:
            while True:
                await anyio.sleep(0)
                turns.append("beside")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            for _ in range(50):
                await store.read_soon(bodies)
                turns.append("read")
            tasks.cancel_scope.cancel()
        changes = sum(one != other for one, other in pairwise(turns))
        assert changes > 20


async def test_a_flood_of_reads_is_cancelled_from_outside(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                tasks.cancel_scope.cancel()

            tasks.start_soon(cancel)
            while True:
                await store.read_soon(bodies)
        await store.write(put, "new")
        assert await store.read_soon(bodies) == ["new"]


async def test_what_a_read_refuses_is_raised_and_the_next_read_is_as_if_nothing_was(store_path: Path) -> None:
    def refuse(db: apsw.Connection) -> None:
        count(db, 10)
        raise UnknownSession("s7")

    async with opened(store_path) as store:
        await warm(store)
        with pytest.raises(UnknownSession):
            await store.read_soon(refuse)
        await store.write(put, "new")
        assert await store.read_soon(bodies) == ["new"]
        await store.write(put, "newer")
        assert await store.read_soon(bodies) == ["new", "newer"]


async def test_a_fault_of_sqlite_is_told_as_one_of_the_store(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        with pytest.raises(StoreUnavailable, match="no such table: missing"):
            await store.read_soon(lambda db: db.execute("SELECT 1 FROM missing").get)


async def test_nothing_is_read_of_a_closed_store(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        await store.close()
        with pytest.raises(StoreClosed):
            await store.read_soon(bodies)


async def test_a_call_that_is_cancelled_already_reads_nothing(store_path: Path) -> None:
    async with opened(store_path) as store:
        await warm(store)
        never = Watched(10)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.read_soon(never)
        assert never.begun == []
