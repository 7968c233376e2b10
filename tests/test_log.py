"""The write-ahead log stays short whoever reads, and a reader that stays keeps nobody from writing."""

from __future__ import annotations

import threading
from functools import partial
from itertools import cycle
from pathlib import Path

import anyio
import anyio.to_thread
import apsw
from stores import bodies, opened, put

from lcm_mcp.storage.checkpoints import FURTHER_PAGES, LONG_PAGES
from lcm_mcp.storage.connections import Store
from lcm_mcp.storage.schema import PAGE_BYTES

TEXT = "x" * 200_000
BOUND = 2 * (LONG_PAGES + FURTHER_PAGES) * PAGE_BYTES
"""Bytes."""


async def most_of_log(store: Store, texts: int) -> int:
    """The most bytes that the log has while so many texts are written, each in a transaction of its own."""
    log, most = store.path.with_name(f"{store.path.name}-wal"), 0
    for _ in range(texts):
        await store.write(put, TEXT)
        most = max(most, log.stat().st_size)
    return most


class Relay:
    """Readers of which each stays until the next one has begun."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = False

    def leg(self, db: apsw.Connection, mine: threading.Event, following: threading.Event) -> None:
        before = db.execute("SELECT count(*) FROM text").get
        mine.set()
        while not following.wait(0.05) and not self.over:
            pass
        assert db.execute("SELECT count(*) FROM text").get == before

    async def run(self, *stores: Store) -> None:
        turns = cycle(stores)
        async with anyio.create_task_group() as tasks:
            while True:
                following = threading.Event()
                store = next(turns)
                tasks.start_soon(store.read, partial(self.leg, mine=self.begun, following=following))
                await anyio.to_thread.run_sync(self.begun.wait)
                await anyio.sleep(0.005)
                self.begun = following
                if self.over:
                    return


async def test_readers_of_whom_there_is_always_one_do_not_make_it_grow(store_path: Path) -> None:
    relay = Relay()
    async with opened(store_path) as store, opened(store_path) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(relay.run, store, other)
        try:
            assert await most_of_log(store, 400) < BOUND < 400 * len(TEXT)
        finally:
            relay.over = True


async def test_a_reader_that_stays_keeps_nobody_from_writing_and_then_it_is_short_again(
    store_path: Path,
) -> None:
    reading, leave = threading.Event(), threading.Event()

    def stay(db: apsw.Connection) -> None:
        before = bodies(db)
        reading.set()
        leave.wait()
        assert bodies(db) == before

    async with opened(store_path) as store:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.read, stay)
            await anyio.to_thread.run_sync(reading.wait)
            try:
                assert await most_of_log(store, 200) > BOUND
            finally:
                leave.set()
        await most_of_log(store, 20)
        assert await most_of_log(store, 200) < BOUND
