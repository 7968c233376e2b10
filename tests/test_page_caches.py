"""What a process holds of a store in memory does not grow with the store, however many read at once."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import apsw
from stores import opened, put

from lcm_mcp.storage.connections import READERS

TEXTS = 70
TEXT = "x" * 200_000
MOST_BYTES = 24_000_000


async def test_readers_that_each_read_all_of_a_store_keep_little_of_it(store_path: Path) -> None:
    together = threading.Barrier(READERS)

    def read_all(db: apsw.Connection) -> int:
        together.wait(60)
        read: int = db.execute("SELECT sum(length(body)) FROM text").get
        together.wait(60)
        return read

    async with opened(store_path) as store:
        await store.write(put, *[TEXT] * TEXTS)
    async with opened(store_path) as store:
        before, _ = apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)
        async with anyio.create_task_group() as tasks:
            for _ in range(READERS):
                tasks.start_soon(store.read, read_all)
        after, _ = apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)
    assert after - before < MOST_BYTES < TEXTS * len(TEXT) * 2
