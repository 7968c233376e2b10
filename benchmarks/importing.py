"""What importing a large file costs beside the least it could: parsing its lines, inserting the same rows.

`python -m benchmarks.importing [FILE …] [--megabytes N] [--rounds N] [--json FILE]` repeats sessions of
Claude Code (else the one that the package ships) under fresh ids until the file has so many megabytes, and
imports it without index and summaries. The floor parses each line with orjson, keeps nothing of it, and
inserts the very rows that the import made, of every table, as many a transaction, into a new store. A second
floor puts their texts alone into a bare table. All are done in turns, each into a store of its own.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import resource
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import anyio
import apsw
import orjson

from benchmarks.table import Figure, Floor, Table
from lcm_mcp.service import Service
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript.batches import WHOLE

MEGABYTES: Final = 100
MOST: Final = 3.0
_ID = re.compile(rb"\b(?:[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-)|(?:toolu|msg|req)_01\w{8})")
_SESSION = re.compile(rb'"sessionId":"[^"]*"')
_FILLED: Final = {
    "text": "SELECT id, * FROM text ORDER BY id",
    "payload": "SELECT text, * FROM payload ORDER BY text",
    "row": "SELECT text, * FROM row ORDER BY text",
    "call": "SELECT text, call.* FROM call JOIN row USING (session, seq) ORDER BY text",
    "answer": "SELECT text, answer.* FROM answer JOIN row USING (session, seq) ORDER BY text",
}
"""The rows of the tables that an import fills, in the order in which they may be inserted, each behind the
text that it came with."""
_IMAGES = "SELECT NULL, * FROM image ORDER BY id"
_SESSIONS = "SELECT NULL, * FROM session ORDER BY id"
_BARE = "CREATE TABLE bare(id INTEGER PRIMARY KEY, body TEXT, parts BLOB)"
_TEXTS = "SELECT id, NULL, body, parts FROM text LEFT JOIN payload ON text = id ORDER BY id"

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Transaction = Sequence[tuple[str, Rows]]
"""Statements, each with the rows that it is done for."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, of the processors and of the clock."""

    cpu: float
    clock: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure an import beside its floor.")
    parser.add_argument("files", nargs="*", type=Path, help="sessions of Claude Code to repeat")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where the figures are written too")
    asked = parser.parse_args(arguments)
    table = Table()
    with TemporaryDirectory(prefix="lcm-bench-") as folder:
        file = Path(folder) / "repeated.jsonl"
        write_repeated(file, asked.files, int(asked.megabytes * 1e6))
        anyio.run(_measure, table, file, asked.rounds)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(*table.lines(), f"\n{os.cpu_count()} cores, load {load}", sep="\n")
    if asked.json is not None:
        table.write(asked.json)


def write_repeated(file: Path, sessions: Sequence[Path], size: int) -> None:
    """A session of at least so many bytes: these again and again, every id another one each time."""
    bodies = [each.read_bytes() for each in sessions] or [_shipped()]
    with file.open("wb") as out:
        number = 0
        while out.tell() < size:
            out.write(_renamed(bodies[number % len(bodies)], number))
            number += 1


def _renamed(body: bytes, number: int) -> bytes:
    """The lines under other ids, as lines of one session."""

    def other(found: re.Match[bytes]) -> bytes:
        kept, old = found[0][:-8], found[0][-4:]
        return b"%s%08x" % (kept, (int.from_bytes(old, "big") * 7919 + number) % 2**32)

    return _SESSION.sub(b'"sessionId":"repeated"', _ID.sub(other, body.rstrip(b"\n"))) + b"\n"


def _shipped() -> bytes:
    demo = resources.files("lcm_mcp") / "demo"
    packed = next(each for each in demo.iterdir() if each.name.endswith(".jsonl.gz"))
    return gzip.decompress(packed.read_bytes())


async def _measure(table: Table, file: Path, rounds: int) -> None:
    imports: list[Cost] = []
    same: list[Cost] = []
    bare: list[Cost] = []
    count = 0
    for number in range(rounds):
        db = file.with_name(f"{number}.sqlite")
        imports.append(await _imported(db, file))
        count = await _count(db)
        same.append(await _floor(db.with_name(f"{number}-same.sqlite"), file, await _read(db, _same_rows)))
        bare.append(await _floor(db.with_name(f"{number}-bare.sqlite"), file, await _read(db, _bare_rows)))
        for each in file.parent.glob(f"{number}*"):
            each.unlink()
    for kind in ("cpu", "clock"):
        took, least, barely = (
            median(getattr(cost, kind) for cost in costs) for costs in (imports, same, bare)
        )
        floors = (
            Floor("orjson and the same rows", least, MOST),
            Floor("orjson and texts, bare", barely),
        )
        name = f"import of {file.stat().st_size / 1e6:,.0f} MB, {kind}"
        table.add(*(Figure(name, count, took, "s", floor) for floor in floors))


async def _imported(db: Path, file: Path) -> Cost:
    """Import the file as the command does, but for index and summaries."""
    service = Service(Workplace(Store.open(db), Settings(db=db), ()))
    try:
        return await _cost(service.import_file(file, "claude-code", None, False, None, True))
    finally:
        await service.close()


async def _floor(db: Path, file: Path, rows: Sequence[Transaction]) -> Cost:
    """Parse the file, and insert these rows into a new store, whose other tables are filled before."""
    store = Store.open(db)
    try:
        await store.write(_insert, rows[0])
        return await _cost(_plainly(store, file, rows[1:]))
    finally:
        await store.close()


async def _plainly(store: Store, file: Path, rows: Sequence[Transaction]) -> None:
    with file.open("rb") as lines:
        for line in lines:
            orjson.loads(line)
    for transaction in rows:
        await store.write(_insert, transaction)


def _insert(db: apsw.Connection, rows: Transaction) -> None:
    for statement, each in rows:
        db.executemany(statement, each)


def _same_rows(db: apsw.Connection) -> list[Transaction]:
    found = {table: list(db.execute(query)) for table, query in _FILLED.items()}
    first: list[tuple[str, Rows]] = [
        _statement("session", list(db.execute(_SESSIONS))),
        _statement("image", list(db.execute(_IMAGES))),
    ]
    return [first, *_batches(found)]


def _bare_rows(db: apsw.Connection) -> list[Transaction]:
    return [[(_BARE, [()])], *_batches({"bare": list(db.execute(_TEXTS))})]


def _batches(found: dict[str, Rows]) -> Iterator[Transaction]:
    """The rows as an import of lines commits them: what came with so many texts together."""
    batches: defaultdict[int, dict[str, Rows]] = defaultdict(lambda: {table: [] for table in found})
    for table, rows in found.items():
        for text, *row in rows:
            batches[text // WHOLE.events][table].append((text, *row))
    for _, batch in sorted(batches.items()):
        yield [_statement(table, rows) for table, rows in batch.items() if rows]


def _statement(table: str, rows: Rows) -> tuple[str, Rows]:
    """How rows are inserted, each without what stands before it."""
    places = ", ".join("?" * (len(rows[0]) - 1)) if rows else ""
    return (f"INSERT INTO {table} VALUES({places})" if rows else "SELECT 1"), [row[1:] for row in rows]


async def _read(db: Path, what: Callable[[apsw.Connection], T]) -> T:
    store = Store.open(db)
    try:
        return await store.read(what)
    finally:
        await store.close()


async def _count(db: Path) -> int:
    return await _read(db, _rows_in)


def _rows_in(db: apsw.Connection) -> int:
    return db.execute("SELECT count(*) FROM row").get


async def _cost(call: Awaitable[object]) -> Cost:
    """What a call takes of this whole process and of those that it starts."""
    cpu, clock = _cpu(), time.perf_counter()
    await call
    return Cost(_cpu() - cpu, time.perf_counter() - clock)


def _cpu() -> float:
    """Seconds that this process took so far, its threads and its ended children included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
