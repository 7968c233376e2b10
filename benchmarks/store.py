"""All figures of a store, beside floors and limits, at ten thousand, a hundred thousand and a million rows.

`python -m benchmarks.store [--rows N …] [--part P …] [--folder F] [--json FILE]` makes the stores in a
folder that is removed in the end, or takes those kept in F, and prints one table. A figure that misses its
limit has a !.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from benchmarks import protocol
from benchmarks.building import LEAF_TOKENS, build, import_figures
from benchmarks.filling import serving
from benchmarks.requesting import append_figures, fork_figures, prepare_figures
from benchmarks.searching import search_figures
from benchmarks.table import Table

SIZES: Final = (10_000, 100_000, 1_000_000)
ROUNDS: Final = 21
PARTS: Final = ("search", "protocol", "requests")
_LEGEND = """\
ratio    the value by its floor, both medians of this run, taken in turns
limit    the most that the ratio is meant to be, or where no ratio is limited the value; ! misses it
exponent how the value grows with the rows: 0 not at all, 1 as they do
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a store beside its floors.")
    parser.add_argument("--rows", type=int, action="append", help="of a store; may be given several times")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="only this; may be given several times"
    )
    parser.add_argument("--folder", type=Path, help="where stores are kept, and taken again")
    parser.add_argument("--json", type=Path, help="where the figures are written too")
    asked = parser.parse_args(arguments)
    table, began = Table(), time.perf_counter()
    with TemporaryDirectory(prefix="lcm-bench-") as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for rows in sorted(asked.rows or SIZES):
            anyio.run(_measure, table, folder, rows, asked.rounds, asked.part or PARTS)
    print(_LEGEND, *table.lines(), sep="\n")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{time.perf_counter() - began:,.0f} s; {os.cpu_count()} cores, load {load}")
    if asked.json is not None:
        table.write(asked.json)


async def _measure(table: Table, folder: Path, rows: int, rounds: int, parts: Sequence[str]) -> None:
    corpus = await build(folder, rows)
    import_figures(table, corpus)
    if "search" in parts:
        async with serving(corpus.db, LEAF_TOKENS) as service:
            await search_figures(table, corpus, service, rounds)
    if "protocol" in parts:
        await protocol.round_trips(table, corpus, rounds)
        protocol.cold_start(table, corpus, max(1, rounds // 7))
        await protocol.memory(table, corpus, rounds)
    if "requests" in parts:
        async with serving(corpus.db, LEAF_TOKENS) as service:
            await append_figures(table, corpus, service, 10 * rounds)
            await fork_figures(table, corpus, service)
        await prepare_figures(table, corpus, rounds)


if __name__ == "__main__":
    main()
