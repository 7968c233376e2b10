"""What a fork costs beside copying its session's texts and indexing them again: `python -m benchmarks.fork`.

Both are done in one run, on one file each, and the medians compared.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median

import anyio
import apsw

from lcm_mcp.service import Service
from lcm_mcp.settings import load_settings

SENTENCE = "the harbour is measured pier by pier and what was found there is written down for those who come"
WORDS = SENTENCE.split()
BATCH = 1000


def text(luck: Random) -> str:
    return " ".join(luck.choice(WORDS) + str(luck.randint(0, 99_999)) for _ in range(luck.randint(20, 110)))


async def filled(service: Service, rows: int) -> list[str]:
    """A session of that many rows, folded and cut; its texts."""
    luck = Random(7)
    texts = [text(luck) for _ in range(rows)]
    for start in range(0, rows, BATCH):
        entries = [
            {
                "role": "user" if number % 4 == 0 else "assistant",
                "content": said,
                "entry_id": f"r{start + number}",
            }
            for number, said in enumerate(texts[start : start + BATCH])
        ]
        await service.append("main", entries)
    return texts


def copied_and_indexed(path: Path, texts: list[str]) -> None:
    """What a fork that shares nothing would do: store every text, and index it for search."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.execute("CREATE TABLE text(id INTEGER PRIMARY KEY, body TEXT)")
    db.execute(
        """CREATE VIRTUAL TABLE gram USING fts5(x, content='', detail=none, columnsize=0,
            tokenize='trigram case_sensitive 1')"""
    )
    with db:
        db.executemany("INSERT INTO text(body) VALUES(?)", [(said,) for said in texts])
        folded = [(number, said.casefold()) for number, said in enumerate(texts, 1)]
        db.executemany("INSERT INTO gram(rowid, x) VALUES(?, ?)", folded)
    db.close()


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


async def measure(rows: int, times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service.open(load_settings({"db": str(Path(folder) / "lcm.sqlite"), "strategy": "lcm"}, {}))
        try:
            texts = await filled(service, rows)
            forks: list[float] = []
            for number in range(times):
                started = time.perf_counter()
                await service.fork("main", None, f"fork {number}")
                forks.append(time.perf_counter() - started)
            copies = [
                seconds(lambda n=number: copied_and_indexed(Path(folder) / f"copy{n}", texts))
                for number in range(times)
            ]
        finally:
            await service.close()
    fork, copy = median(forks), median(copies)
    size = sum(len(said.encode()) for said in texts)
    print(f"{rows:,} rows, {size:,} bytes of text")
    print(
        f"fork {fork * 1000:.0f} ms, copying and indexing the texts {copy * 1000:.0f} ms: 1/{copy / fork:.0f}"
    )


if __name__ == "__main__":
    anyio.run(measure, int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, 3)
