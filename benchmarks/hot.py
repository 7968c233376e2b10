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

from benchmarks.paths import PATHS

_HERE: Final = Path(__file__).resolve().parents[1]
_PATHS: Final = Path("benchmarks") / "paths.py"
_BUILD: Final = """import sys
from pathlib import Path
import anyio
from benchmarks.building import build
anyio.run(build, Path(sys.argv[1]), int(sys.argv[2]))"""


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
        stores = [_built(each, Path(folder) / str(place), asked.rows) for place, each in enumerate(checkouts)]
        figures = {name: _in_turns(name, checkouts, stores, asked.rounds) for name in asked.path or PATHS}
    print("| path | CPU before, µs | CPU now, µs | of before |" if asked.against else "| path | CPU, µs |")
    print("|---|---:|---:|---:|" if asked.against else "|---|---:|")
    for name, least in figures.items():
        ratio = [f"{least[-1] / least[0]:.2f}"] if asked.against else []
        print(f"| {' | '.join([name, *(f'{each:,.1f}' for each in least), *ratio])} |")
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _built(checkout: Path, folder: Path, rows: int) -> Path:
    """A store to be searched, as this checkout writes it."""
    folder.mkdir()
    _run(checkout, "-c", _BUILD, folder, rows)
    return next(folder.glob("*.sqlite"))


def _in_turns(name: str, checkouts: list[Path], stores: list[Path], rounds: int) -> list[float]:
    """The least CPU microseconds of a unit in each checkout."""
    least = [float("inf")] * len(checkouts)
    for _ in range(rounds):
        for place, checkout in enumerate(checkouts):
            least[place] = min(least[place], _once(name, checkout, stores[place]))
    return least


def _once(name: str, checkout: Path, stored: Path) -> float:
    """By the checkout's own way of running its paths, where it has one."""
    paths = checkout / _PATHS if (checkout / _PATHS).exists() else _HERE / _PATHS
    return float(json.loads(_run(checkout, paths, name, stored)))


def _run(checkout: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    main()
