"""One table of memory libraries, in Markdown: ours, theirs, and ours by theirs.

`python -m benchmarks.peers [--rows N] [--budget S] [--long] [--only NAME …] [--environments F] [--json
FILE]`. A library that cannot be installed is left out, and a line says why. With --only no other is
installed or measured; ours always is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.conversations import demo_conversations, read_conversations
from benchmarks.peers import planting
from benchmarks.peers.asking import Library
from benchmarks.peers.cells import OURS, Column, markdown, write
from benchmarks.peers.environments import PEERS, Skipped, interpreter_of
from benchmarks.peers.measuring import ROWS, Plan, column

ROWS_FED: Final = 20_000
LONG_ROWS: Final = 100_000
BUDGET_S: Final = 30.0
REAL_SESSIONS: Final = 5
LEAST_REQUESTS: Final = 30
_DATA = Path(os.environ.get("LCM_BENCH_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
_LEGEND: Final = """\
ratio: ours by theirs; a ! stands where ours is worse by more than 1.2. None: there is nothing that does it.
Tokens of a request are its bytes / 4, for all alike. Broken: results without call, calls without result.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure other memory libraries beside ours.")
    parser.add_argument("--rows", type=int, default=ROWS_FED, help="of the generated conversation")
    parser.add_argument("--long", action="store_true", help=f"{LONG_ROWS:,} rows, and five times the time")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for each long cell")
    parser.add_argument("--only", action="append", help="of the others; may be given several times")
    parser.add_argument("--environments", type=Path, default=Path(sys.prefix) / "peers")
    parser.add_argument("--json", type=Path, help="where the figures are written too")
    asked = parser.parse_args(arguments)
    rows, budget = (LONG_ROWS, 5 * asked.budget) if asked.long else (asked.rows, asked.budget)
    began = time.perf_counter()
    libraries = [Library(OURS, "benchmarks.peers.ours", Path(sys.executable))]
    for peer in PEERS:
        if asked.only is None or peer.name in asked.only:
            try:
                python = interpreter_of(peer, asked.environments)
                libraries.append(Library(f"{peer.name} {peer.version}", peer.module, python))
            except Skipped as why:
                print(f"{peer.name} {peer.version} is left out: {why}.")
    plan = _plan(rows, budget)
    columns: dict[str, Column] = {}
    for library in libraries:
        with TemporaryDirectory(prefix="lcm-bench-") as folder:
            columns[library.name] = column(library, plan, Path(folder))
        print(f"{library.name}: measured after {time.perf_counter() - began:,.0f} s", flush=True)
    print(f"\n{sum(map(len, plan.turns)):,} generated rows, {_real_rows(plan):,} real ones\n")
    print(*markdown(ROWS, columns), sep="\n")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{_LEGEND}\n{time.perf_counter() - began:,.0f} s; {os.cpu_count()} cores, load {load}")
    if asked.json is not None:
        write(asked.json, ROWS, columns, rows)


def _plan(rows: int, budget: float) -> Plan:
    turns, needles = planting.conversation(rows)
    found = read_conversations([_DATA], LEAST_REQUESTS)[:REAL_SESSIONS] or demo_conversations()
    return Plan(turns, needles, [planting.real(each) for each in found], budget)


def _real_rows(plan: Plan) -> int:
    return sum(len(turn) for turns in plan.real for turn in turns)


if __name__ == "__main__":
    main()
