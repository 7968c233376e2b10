"""A store of many conversations, imported and indexed as a user would, beside a plain file of the same texts.

What importing costs is counted in CPU, its floors between the files they came in: plain INSERTs, and FTS5
indexes with our options that are fed casefolded texts. A folder keeps its stores: what is there is
taken again, with the figures of its making. The newest session is folded, so that there are nodes to search
in and to list.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import apsw

from benchmarks.filling import serving
from benchmarks.generating import write_sessions
from benchmarks.table import Figure, Floor, Table
from lcm_mcp.search.index import SLICE_BYTES
from lcm_mcp.search.segments import INDEXES, Index
from lcm_mcp.service import Service
from lcm_mcp.service.intake import Intake, store_batch
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.batches import Source, whole_file

LEAF_TOKENS: Final = 6_000
PLAIN_BATCH: Final = 500
_TEXTS = """SELECT row.role, text.body FROM row JOIN text ON text.id = row.text
    WHERE row.session = (SELECT id FROM session WHERE key = ?) ORDER BY row.seq"""
_BYTES = "SELECT sum(octet_length(body)) FROM text"


@dataclass(frozen=True, slots=True)
class Costs:
    """What making a store took: CPU seconds, and bytes in the end."""

    read_s: float = 0.0
    stored_s: float = 0.0
    indexed_s: float = 0.0
    plain_s: float = 0.0
    bare_s: float = 0.0
    text_bytes: int = 0
    file_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Corpus:
    """A store of so many rows; newest is the key of the session last imported, which is folded."""

    rows: int
    db: Path
    newest: str
    costs: Costs


async def build(folder: Path, rows: int) -> Corpus:
    """The store of so many rows in this folder, made where it is not there yet."""
    record = folder / f"{rows}.json"
    db = folder / f"{rows}.sqlite"
    if record.exists():
        kept = json.loads(record.read_text(encoding="utf-8"))
        return Corpus(rows, db, kept["newest"], Costs(**kept["costs"]))
    async with serving(db, LEAF_TOKENS) as service:
        newest, costs = await _import(service, folder / f"{rows}-plain.sqlite", rows)
        found = await service.work.store.read(sessions.find_by_key, newest)
        assert found is not None
        await fold_memory(service.work, found.id)
        await service.index()
    record.write_text(json.dumps({"newest": newest, "costs": asdict(costs)}), encoding="utf-8")
    return Corpus(rows, db, newest, costs)


def import_figures(table: Table, corpus: Corpus) -> None:
    """What making the store took beside the plain file, and what it takes on disk."""
    costs, size = corpus.costs, corpus.rows
    micro = 1e6 / size
    read, kept = costs.read_s * micro, (costs.stored_s + costs.indexed_s) * micro
    table.add(
        Figure("import: a row read from its file, CPU", size, read, "us", _plain(costs, size)),
        Figure("import: a row stored and indexed, CPU", size, kept, "us", _plain(costs, size, 30)),
        Figure("  of it indexed", size, costs.indexed_s * micro, "us", _plain(costs, size)),
        Figure(
            "  of it indexed", size, costs.indexed_s * micro, "us", Floor("bare FTS5", costs.bare_s * micro)
        ),
        Figure(
            "database", size, costs.file_bytes / 1e6, "MB", Floor("its texts", costs.text_bytes / 1e6, None)
        ),
    )


def _plain(costs: Costs, rows: int, limit: float | None = None) -> Floor:
    return Floor("plain INSERT", costs.plain_s * 1e6 / rows, limit)


async def _import(service: Service, plain_file: Path, rows: int) -> tuple[str, Costs]:
    store = service.work.store
    read = stored = indexed = plainly = barely = 0.0
    newest, numbers = "", itertools.count(1)
    plain = Store.open(plain_file)
    try:
        await plain.write(make_plain)
        with TemporaryDirectory(prefix="lcm-bench-") as folder:
            for file in write_sessions(Path(folder), rows):
                newest = file.stem
                reading, storing = await _take_in(store, file)
                read, stored = read + reading, stored + storing
                indexed += await _cpu(service.index())
                texts = await store.read(_texts, newest)
                for start in range(0, len(texts), PLAIN_BATCH):
                    plainly += await _cpu(plain.write(insert_plain, texts[start : start + PLAIN_BATCH]))
                for piece in _slices((next(numbers), body.casefold()) for _, body in texts):
                    for of in INDEXES:
                        barely += await _cpu(plain.write_derived(_feed, of, piece))
                file.unlink()
    finally:
        await plain.close()
    for each in plain_file.parent.glob(f"{plain_file.name}*"):
        each.unlink()
    text_bytes: int = await store.read(lambda db: db.execute(_BYTES).get)
    return newest, Costs(read, stored, indexed, plainly, barely, text_bytes, await store.read(_file_bytes))


async def _take_in(store: Store, file: Path) -> tuple[float, float]:
    """Import a file as the service does; CPU seconds of reading it, and of storing what it says."""
    read = stored = 0.0
    source = Source(file, "neutral", None, False)
    with closing(whole_file(source)) as reading:
        intake = Intake(reading, source)
        while True:
            began = time.process_time()
            batch = reading.next_batch()
            read += time.process_time() - began
            if batch is None:
                return read, stored
            stored += await _cpu(store.write(store_batch, intake, batch))


def make_plain(db: apsw.Connection) -> None:
    db.execute("CREATE TABLE plain(id INTEGER PRIMARY KEY, role TEXT, at INTEGER, body TEXT)")


def insert_plain(db: apsw.Connection, rows: Sequence[tuple[str, str]]) -> None:
    db.executemany("INSERT INTO plain(role, at, body) VALUES(?, 0, ?)", rows)


def _feed(db: apsw.Connection, of: Index, texts: Sequence[tuple[int, str]]) -> None:
    """Feed an index of a store directly."""
    column = "folded" if of == "gram" else "words"
    db.executemany(f"INSERT INTO {of}(rowid, {column}) VALUES(?, ?)", texts)


def _slices(texts: Iterable[tuple[int, str]]) -> Iterator[Sequence[tuple[int, str]]]:
    """Texts of so many bytes at a time as our index takes, so that both commit as often."""
    piece: list[tuple[int, str]] = []
    left = SLICE_BYTES
    for number, text in texts:
        piece.append((number, text))
        left -= len(text.encode())
        if left <= 0:
            yield piece
            piece, left = [], SLICE_BYTES
    yield piece


def _texts(db: apsw.Connection, key: str) -> list[tuple[str, str]]:
    return list(db.execute(_TEXTS, (key,)))


def _file_bytes(db: apsw.Connection) -> int:
    return int(db.pragma("page_count")) * int(db.pragma("page_size"))


async def _cpu(call: Awaitable[object]) -> float:
    """CPU seconds of this whole process: the work is done in threads."""
    began = time.process_time()
    await call
    return time.process_time() - began
