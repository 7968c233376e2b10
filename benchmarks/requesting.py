"""Appending, preparing and forking in a large store, beside plain INSERTs of the same rows.

These write, so they are timed by the clock and wait for the disk; plain INSERTs go to a file of their own
under the same pragmas. A request appends an answer and what is asked next, and prepares; what it puts on the
wire is the answer of the tool.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Final

import apsw
import mcp_types as types

from benchmarks.building import LEAF_TOKENS, Corpus, insert_plain, make_plain
from benchmarks.filling import append, serving
from benchmarks.generating import Author
from benchmarks.table import Figure, Floor, Table
from lcm_mcp.service import Service
from lcm_mcp.storage.connections import Store
from lcm_mcp.tools.toolsets import TOOLS
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.model import Draft, Text
from lcm_mcp.transcript.sealing import seal

WINDOW_TOKENS: Final = 200_000
MOST_APPEND_MS: Final = 20.0
MOST_SPLICED_KB: Final = 20.0


async def append_figures(table: Table, corpus: Corpus, service: Service, rounds: int) -> None:
    """Rows one by one while they are indexed, in turns with plain INSERTs."""
    store, luck = service.work.store, Random(3)
    found = await store.read(sessions.find_by_key, corpus.newest)
    assert found is not None
    plain = Store.open(corpus.db.with_suffix(".plain"))
    entries = Author(11).session(4 * rounds, 0, planted=False)
    texts = [str(entry["content"]) for entry in entries if entry["role"] == "user"][:rounds]
    stored: list[float] = []
    inserted: list[float] = []
    try:
        await plain.write(make_plain)
        async with service.running():
            for text in texts:
                row = seal(Draft("user", (Text(f"{text} {luck.random()}"),)))
                stored.append(await _ms(store.write(append, found.id, [row])))
                inserted.append(await _ms(plain.write(insert_plain, [(row.role, row.text)])))
    finally:
        await plain.close()
        _unlink(plain.path)
    floor = Floor("plain INSERT", median(inserted), 1.5)
    table.add(Figure("append of a row, median", corpus.rows, median(stored), "ms", floor))
    high, least = (quantiles(times, n=100)[98] for times in (stored, inserted))
    table.add(
        Figure("append, 99th of 100", corpus.rows, high, "ms", Floor("plain INSERT", least), MOST_APPEND_MS)
    )


async def prepare_figures(table: Table, corpus: Corpus, rounds: int) -> None:
    """Requests of a session of more than 200,000 tokens: in full, spliced, and the one after a cut."""
    tool = next(tool for tool in TOOLS if tool.name == "prepare_context")
    async with serving(corpus.db, LEAF_TOKENS) as service:

        async def request(number: int, **more: object) -> tuple[float, int, str]:
            asked = {"role": "user", "content": f"And now step {number}, please."}
            said = [{"role": "assistant", "content": f"Step {number - 1} is done."}, asked]
            given = {"session": corpus.newest, "window_tokens": WINDOW_TOKENS, "append": said, **more}
            began = time.perf_counter()
            answered = await tool.call(service, given)
            taken = (time.perf_counter() - began) * 1000
            return (
                taken,
                _wire_bytes(answered.text, answered.structured),
                str(answered.structured["prepared"]),
            )

        _, _, held = await request(0, compact="force", strategy="lcm")
        plain: list[float] = []
        spliced: list[float] = []
        sent: list[int] = []
        for number in range(rounds):
            plain.append((await request(number))[0])
            taken, size, _ = await request(number, have=held)
            spliced.append(taken)
            sent.append(size)
            _, _, held = await request(number, have=held)
        cut, cut_size, _ = await request(rounds, have=held, compact="force", strategy="rolling")
    rows = corpus.rows
    table.add(
        Figure("prepare: the first page in full", rows, median(plain), "ms"),
        Figure("prepare: spliced", rows, median(spliced), "ms", Floor("in full", median(plain))),
        Figure("prepare: spliced, on the wire", rows, median(sent) / 1000, "KB", None, MOST_SPLICED_KB),
        Figure("prepare: with a cut, and spliced", rows, cut, "ms"),
        Figure("prepare: that, on the wire", rows, cut_size / 1000, "KB"),
    )


async def fork_figures(table: Table, corpus: Corpus, service: Service) -> None:
    """A fork of the newest session beside copying its texts and indexing them."""
    found = await service.work.store.read(sessions.find_by_key, corpus.newest)
    assert found is not None
    copied = await service.work.store.read(_copied, corpus.db.with_suffix(".copy"), found)
    forked = await _ms(service.fork(corpus.newest, None, f"{corpus.newest} again {time.time_ns()}"))
    name = f"fork of {found.rows:,} rows"
    table.add(Figure(name, corpus.rows, forked, "ms", Floor("copying and indexing", copied, 0.1)))


def _copied(db: apsw.Connection, file: Path, session: sessions.Session) -> float:
    """Milliseconds to store the session's texts again, and to index them in one go."""
    texts = list(
        db.execute(
            "SELECT body FROM row JOIN text ON text.id = row.text WHERE row.session = ?", (session.id,)
        )
    )
    copy = apsw.Connection(str(file))
    copy.pragma("journal_mode", "wal")
    copy.execute("CREATE TABLE text(id INTEGER PRIMARY KEY, body TEXT)")
    copy.execute(
        """CREATE VIRTUAL TABLE gram USING fts5(folded, content='', detail=none, columnsize=0,
            tokenize='trigram case_sensitive 1')"""
    )
    began = time.perf_counter()
    with copy:
        copy.executemany("INSERT INTO text(body) VALUES(?)", texts)
        folded = ((number, body.casefold()) for number, (body,) in enumerate(texts, 1))
        copy.executemany("INSERT INTO gram(rowid, folded) VALUES(?, ?)", folded)
    taken = (time.perf_counter() - began) * 1000
    copy.close()
    _unlink(file)
    return taken


def _wire_bytes(text: str, structured: dict[str, object]) -> int:
    result = types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


def _unlink(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


async def _ms(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return (time.perf_counter() - began) * 1000
