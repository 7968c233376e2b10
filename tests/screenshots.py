"""The pictures of docs/inspector.md, taken of real sessions: `make screenshots` takes them anew.

They need a browser (`make browser`) and the sessions in ../shared/data, whose notice docs/inspector.md names.
One of them is replayed, a request every few rows, so that requests and cuts are there to be seen.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
import orjson
from browser import browser
from connecting import serving
from harbour import memory
from imported import SHARED
from reference import DOCS

from lcm_mcp.service.requests import PrepareQuery

FOLDED = ("three-compactions.jsonl", "6113e919-67d3-417b-b525-c63700228d19")
REPLAYED = ("image-twice-961kb-line.jsonl", "e8106766-ab6a-43ed-8849-77d5114eaff1")
WINDOW_TOKENS = 24_000
PREAMBLE_TOKENS = 1_500
STEP_ROWS = 3
_SIZE = {"width": 1000, "height": 620}
_PICTURES = (
    ("dag", f"dag?session={FOLDED[1]}&node=12", "ol.band", "light"),
    ("context", "context?session=replayed", ".bar", "dark"),
    ("occupancy", "occupancy?session=replayed", ".plot", "light"),
    ("conversation", f"conversation?session={REPLAYED[1]}&at=e10", "main img", "light"),
)
"""Each with its address, what has to be there, and the palette."""


async def _fill(db: Path) -> None:
    async with memory(db) as service:
        for file, _ in (FOLDED, REPLAYED):
            await service.import_file(SHARED / "claude-code" / file)
        lines = b"".join([page async for page in service.export(REPLAYED[1])]).splitlines()
        entries = [orjson.loads(line) for line in lines[1:]]
        for first in range(0, len(entries), STEP_ROWS):
            await service.prepare(
                PrepareQuery(
                    "replayed",
                    append=entries[first : first + STEP_ROWS],
                    window_tokens=WINDOW_TOKENS,
                    preamble_tokens=PREAMBLE_TOKENS,
                    strategy="lcm",
                )
            )


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        db = Path(scratch) / "lcm.sqlite"
        anyio.run(_fill, db)
        with serving(db) as (port, _), browser() as opened:
            for name, address, there, scheme in _PICTURES:
                page = opened.new_page(viewport=_SIZE, color_scheme=scheme)  # pyright: ignore[reportArgumentType]
                page.goto(f"http://127.0.0.1:{port}/#/{address}")
                page.locator(there).first.wait_for()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"inspector-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "images")
