"""What preparing a request costs in a short session and in a very long one that end alike.

`python -m benchmarks.prepare [--rows N …]` makes a store for each length, has each strategy make a cut in
it, then prepares requests in turns: one here, one there. A request appends a row and prepares; a look
prepares and writes nothing, so that no disk hides what reading costs. Last, appending a row is compared
with a plain INSERT of the same row into a file of its own. Ratios are of medians in this one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, Literal

import anyio
import apsw

from benchmarks.filling import KEY, append, cut, fill, serving
from lcm_mcp.ids import SessionId
from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.model import Draft, Sealed, Text
from lcm_mcp.transcript.sealing import seal

LENGTHS: Final = (10_000, 100_000, 1_000_000)
ROUNDS: Final = 200
WINDOW_TOKENS: Final = 64_000
SAID: Final = "And now the next one, please."
_HEAD = (
    f"{'strategy':<8}  {'rows':>9}  {'request ms':>10}  {'ratio':>5}  {'look ms':>7}  {'ratio':>5}"
    f"  {'tail rows':>9}  {'summaries':>9}"
)

Strategy = Literal["rolling", "lcm"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("rolling", "lcm")


@dataclass(frozen=True, slots=True)
class Length:
    """A session of so many rows."""

    rows: int
    service: Service


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare requests of short sessions and of long ones.")
    parser.add_argument("--rows", type=int, action="append", help="of a session; may be given several times")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args(arguments)
    anyio.run(_measure, sorted(asked.rows or LENGTHS), asked.rounds)


async def _measure(lengths: Sequence[int], rounds: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lcm-bench-")))
        made: list[Length] = []
        for rows in lengths:
            service = await stack.enter_async_context(serving(folder / f"{rows}.sqlite"))
            seconds = await _timed(fill(service, rows))
            made.append(Length(rows, service))
            print(f"{rows:,} rows appended and folded in {seconds:,.0f} s", flush=True)
        print(f"\n{_HEAD}")
        for strategy in STRATEGIES:
            await _compare(made, strategy, rounds)
        await _compare_append(made[-1], folder / "plain.sqlite", rounds)


async def _compare(lengths: Sequence[Length], strategy: Strategy, rounds: int) -> None:
    """Requests and looks after a cut, at each length in turn."""
    shown = [(await cut(each.service, strategy, WINDOW_TOKENS)).observation for each in lengths]
    said = [{"role": "user", "content": SAID}]
    request = PrepareQuery(KEY, append=said, window_tokens=WINDOW_TOKENS)
    look = PrepareQuery(KEY, window_tokens=WINDOW_TOKENS, keep=False)
    requests: list[list[float]] = [[] for _ in lengths]
    looks: list[list[float]] = [[] for _ in lengths]
    for _ in range(rounds):
        for place, each in enumerate(lengths):
            requests[place].append(await _timed(each.service.prepare(request)))
            looks[place].append(await _timed(each.service.prepare(look)))
    for each, observed, asked, looked in zip(lengths, shown, requests, looks, strict=True):
        assert observed is not None
        print(
            f"{strategy:<8}  {each.rows:>9,}  {_ms(asked):>10.2f}  {_ms(asked) / _ms(requests[0]):>5.2f}"
            f"  {_ms(looked):>7.2f}  {_ms(looked) / _ms(looks[0]):>5.2f}"
            f"  {observed.after.tail_rows:>9}  {observed.after.summaries:>9}",
            flush=True,
        )


async def _compare_append(length: Length, file: Path, rounds: int) -> None:
    """Appending a row, and a plain INSERT of its text under the same guarantee, in turns."""
    row = seal(Draft("user", (Text(SAID),)))
    plain = Store.open(file)
    try:
        await plain.write(_make_plain)
        appends: list[float] = []
        inserts: list[float] = []
        session = await length.service.work.store.read(_session)
        for _ in range(rounds):
            appends.append(await _timed(length.service.work.store.write(append, session, [row])))
            inserts.append(await _timed(plain.write(_insert, row)))
    finally:
        await plain.close()
    print(
        f"\nappend of a row {_ms(appends):.2f} ms, plain INSERT of it {_ms(inserts):.2f} ms, "
        f"ratio {_ms(appends) / _ms(inserts):.2f}"
    )


def _session(db: apsw.Connection) -> SessionId:
    found = sessions.find_by_key(db, KEY)
    assert found is not None
    return found.id


def _make_plain(db: apsw.Connection) -> None:
    db.execute("CREATE TABLE plain(id INTEGER PRIMARY KEY, role TEXT, at INTEGER, body TEXT)")


def _insert(db: apsw.Connection, row: Sealed) -> None:
    db.execute("INSERT INTO plain(role, at, body) VALUES(?, 0, ?)", (row.role, row.text))


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


def _ms(seconds: Sequence[float]) -> float:
    return median(seconds) * 1000


if __name__ == "__main__":
    main()
