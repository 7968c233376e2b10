"""The hot paths beside those of another checkout: the CPU that a unit of each takes, before and after.

`python -m benchmarks.hot [--against CHECKOUT] [--rounds N] [--path NAME …] [--json FILE]` runs each path in
processes of its own, of this checkout and of the other in turns, and takes the least of all: CPU time is
stretched by a busy machine, never shortened. It prints a table in Markdown and refuses nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from benchmarks.building import build
from benchmarks.paths import PATHS

_HERE: Final = Path(__file__).resolve().parents[1]
_RUN: Final = Path(__file__).with_name("paths.py")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the hot paths, beside another checkout.")
    parser.add_argument("--against", type=Path, help="a checkout of the version before")
    parser.add_argument("--rounds", type=int, default=3, help="of both, in turns")
    parser.add_argument("--rows", type=int, default=60_000, help="of the store that is searched")
    parser.add_argument(
        "--path", choices=PATHS, action="append", help="only this; may be given several times"
    )
    parser.add_argument("--json", type=Path, help="where the figures are written too")
    asked = parser.parse_args(arguments)
    checkouts = [_HERE] if asked.against is None else [asked.against.resolve(), _HERE]
    with TemporaryDirectory(prefix="lcm-hot-") as folder:
        stored = anyio.run(build, Path(folder), asked.rows).db
        figures = {name: _in_turns(name, checkouts, stored, asked.rounds) for name in asked.path or PATHS}
    print("| path | CPU before, µs | CPU now, µs | of before |" if asked.against else "| path | CPU, µs |")
    print("|---|---:|---:|---:|" if asked.against else "|---|---:|")
    for name, least in figures.items():
        ratio = [f"{least[-1] / least[0]:.2f}"] if asked.against else []
        print(f"| {' | '.join([name, *(f'{each:,.1f}' for each in least), *ratio])} |")
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _in_turns(name: str, checkouts: list[Path], stored: Path, rounds: int) -> list[float]:
    """The least CPU microseconds of a unit in each checkout."""
    least = [float("inf")] * len(checkouts)
    for _ in range(rounds):
        for place, checkout in enumerate(checkouts):
            least[place] = min(least[place], _once(name, checkout, stored))
    return least


def _once(name: str, checkout: Path, stored: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-P", str(_RUN), name, str(stored)],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout))


if __name__ == "__main__":
    main()
