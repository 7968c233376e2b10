"""A cancelled call is done wholly or not at all, and the next one finds the store as if it had never been.

Jobs are cancelled at random moments: before they begin, while they wait, inside a statement, at the end.
Each writes its own tag several times, in one transaction; a tag is there always or never so often.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import anyio
import apsw
import pytest
from anyio.abc import TaskGroup
from stores import BACKENDS, opened

from lcm_mcp.storage.connections import Store

TIMES = 3
LONG = 100_000
"""Steps of a statement that is long enough to be cancelled in its midst."""
NEVER = 1000.0


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def put_tag(db: apsw.Connection, tag: str, steps: int) -> str:
    for _ in range(TIMES):
        db.execute("INSERT INTO text(body) VALUES(?)", (tag,))
        count(db, steps)
    return tag


def count(db: apsw.Connection, steps: int) -> int:
    """A statement that keeps SQLite busy."""
    found: int = db.execute(
        """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            SELECT count(*) FROM n""",
        (steps,),
    ).get
    return found


def tags(db: apsw.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT body, count(*) FROM text GROUP BY body"))


class Jobs:
    """Jobs with what became of them: `returned` are those whose call came back."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self._started = 0
        self.returned: set[str] = set()

    def steps(self) -> int:
        return self._chance.choice([1, 1, 2000, LONG // 10, LONG])

    def delay(self) -> float:
        """Seconds until the job is cancelled: at once, sometime in its midst, or never."""
        return self._chance.choice([0, 0.001, 0.004, 0.02, NEVER]) * (0.1 + self._chance.random())

    async def write(self) -> None:
        self._started += 1
        self.returned.add(await self._store.write(put_tag, f"job {self._started}", self.steps()))

    async def read(self) -> None:
        steps = self.steps()
        assert await self._store.read(count, steps) == steps

    async def check(self) -> None:
        """Nothing stayed open, nothing is half, what returned is there."""
        other = apsw.Connection(str(self._store.path))
        try:
            other.execute("BEGIN IMMEDIATE; ROLLBACK")  # busy if a transaction of ours were still open
        finally:
            other.close()
        await self._store.write(put_tag, "the next one", 1)
        found = await self._store.read(tags)
        assert found.pop("the next one") % TIMES == 0
        assert set(found.values()) <= {TIMES}
        assert self.returned <= set(found)
        assert len(found) <= self._started


async def test_jobs_under_tiny_deadlines_are_done_or_not_done(store_path: Path) -> None:
    cancelled = 0
    async with opened(store_path) as store:
        jobs = Jobs(store, 1)
        for _ in range(250):
            with anyio.move_on_after(jobs.delay()) as scope:
                await jobs.write()
            cancelled += scope.cancelled_caught
        assert cancelled > 30
        assert len(jobs.returned) > 30
        await jobs.check()


async def test_jobs_of_cancelled_task_groups_are_done_or_not_done(store_path: Path) -> None:
    async with opened(store_path) as store:
        jobs = Jobs(store, 2)
        for turn in range(30):
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(jobs.write)
                if turn % 3:
                    await anyio.sleep(0.001 * turn)
                else:
                    await jobs.write()
                group.cancel_scope.cancel()
            await jobs.check()
        assert jobs.returned


async def test_a_call_that_fails_beside_others_leaves_them_done_or_not_done(store_path: Path) -> None:
    def fail(db: apsw.Connection) -> None:
        db.execute("INSERT INTO text(body) VALUES('never')")
        raise LookupError

    async with opened(store_path) as store:
        jobs = Jobs(store, 3)

        async def fail_among_others() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(jobs.write)
                group.start_soon(store.write, fail)
                for _ in range(5):
                    group.start_soon(jobs.write)

        for _ in range(10):
            with pytest.raises(ExceptionGroup):
                await fail_among_others()
            await jobs.check()
        assert "never" not in await store.read(tags)


async def test_cancelled_reads_leave_readers_and_writers_alone(store_path: Path) -> None:
    cancelled = 0
    async with opened(store_path) as store:
        jobs = Jobs(store, 4)
        for _ in range(60):
            with anyio.move_on_after(jobs.delay()) as scope:
                async with anyio.create_task_group() as group:
                    for _ in range(6):
                        group.start_soon(jobs.read)
                    group.start_soon(jobs.write)
            cancelled += scope.cancelled_caught
        assert cancelled > 10
        await jobs.check()
        # A snapshot that a cancelled read had left open would hide this.
        await store.write(put_tag, "seen by all", 1)

        async def see(tasks_seen: list[int]) -> None:
            tasks_seen.append((await store.read(tags))["seen by all"])

        seen: list[int] = []
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(see, seen)
        assert seen == [TIMES] * 8


async def test_a_long_statement_is_stopped_by_cancelling(store_path: Path) -> None:
    started = threading.Event()
    ended: list[int] = []

    def endless(db: apsw.Connection) -> None:
        started.set()
        ended.append(count(db, 10**12))

    async with opened(store_path) as store:
        for call in (store.write, store.read, store.read_soon):
            started.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(call, endless)
                await anyio.to_thread.run_sync(started.wait)
                group.cancel_scope.cancel()
        assert ended == []
        await store.write(put_tag, "afterwards", 1)
        assert await store.read(tags) == {"afterwards": TIMES}


async def test_a_call_cancelled_before_it_begins_does_nothing(store_path: Path) -> None:
    async with opened(store_path) as store:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.write(put_tag, "never", 1)
        assert scope.cancelled_caught
        assert await store.read(tags) == {}


async def test_a_store_closes_while_its_caller_is_cancelled(store_path: Path) -> None:
    async def use(group: TaskGroup) -> None:
        async with opened(store_path) as store:
            await store.write(put_tag, "before", 1)
            group.cancel_scope.cancel()
            await store.write(put_tag, "after", LONG)

    async with anyio.create_task_group() as group:
        group.start_soon(use, group)
    async with opened(store_path) as store:
        assert await store.read(tags) == {"before": TIMES}
