"""One hot path, run again and again in a process of its own: `benchmarks.hot` starts this, of any checkout.

Told are the CPU microseconds of one unit of the path, the least of some turns. What a turn needs is made
before it and not measured. A checkout without this module is run by ours.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

import lcm_mcp
from benchmarks.generating import IDENTIFIER, PUNCTUATION, Author, write_sessions
from lcm_mcp.server import build_server
from lcm_mcp.service import Service
from lcm_mcp.service.intake import Intake, store_batch
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.settings import Settings
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.batches import Source, whole_file

ROWS: Final = 4_000
TURNS: Final = 5
WINDOW: Final = 16_000
_DEMO: Final = Path(lcm_mcp.__file__).parent / "demo"

Run = Callable[[], Awaitable[object]]
Turn = Callable[[Service, Path], Awaitable[tuple[Run, int]]]
"""Makes ready in a store and a folder; what is to be measured, and how many units it does."""


async def _generated(service: Service, folder: Path) -> tuple[Run, int]:
    return _taking_in(service, next(iter(write_sessions(folder, ROWS))), "neutral"), ROWS


async def _real(service: Service, folder: Path) -> tuple[Run, int]:
    (packed,) = _DEMO.glob("*.jsonl.gz")
    lines, file = gzip.decompress(packed.read_bytes()), folder / "real.jsonl"
    file.write_bytes(lines)
    return _taking_in(service, file, "claude-code"), lines.count(b"\n")


def _taking_in(service: Service, file: Path, form: str) -> Run:
    async def take_in() -> None:
        source = Source(file, form, None, False)
        with closing(whole_file(source)) as reading:
            intake = Intake(reading, source)
            while (batch := reading.next_batch()) is not None:
                await service.work.store.write(store_batch, intake, batch)

    return take_in


async def _indexed(service: Service, folder: Path) -> tuple[Run, int]:
    await (await _generated(service, folder))[0]()
    return service.index, ROWS


async def _folded(service: Service, folder: Path) -> tuple[Run, int]:
    await (await _generated(service, folder))[0]()
    (only,) = await service.work.store.read(lambda db: list(sessions.every(db)))
    return lambda: fold_memory(service.work, only.id), ROWS


def _searched(pattern: str, mode: Any = "literal", times: int = 100) -> Turn:
    async def ready(service: Service, folder: Path) -> tuple[Run, int]:
        async def search() -> None:
            for _ in range(times):
                await service.grep(GrepQuery(pattern, mode, "*"))

        return search, times

    return ready


async def _appended(service: Service, folder: Path) -> tuple[Run, int]:
    """By a client in this very process: what the protocol costs is in it, on both sides."""
    from mcp import Client

    turns = Author(3).session(4 * 100, 1, planted=False)
    given: list[list[dict[str, object]]] = [[next(turns) for _ in range(4)] for _ in range(100)]

    async def append() -> None:
        async with Client(build_server(service)) as client:
            for entries in given:
                await client.call_tool("lcm_append", {"session": "appended", "entries": entries})

    return append, len(given)


async def _prepared(service: Service, folder: Path) -> tuple[Run, int]:
    """Requests of an agent: what is new is appended, and only that is answered."""
    turns = Author(5).session(4 * 500, 1, planted=False)
    said = [[next(turns) for _ in range(4)] for _ in range(100)]
    await service.append("prepared", [entry for turn in said[:60] for entry in turn])
    first = await service.prepare(PrepareQuery("prepared", window_tokens=WINDOW, compact="force"))

    async def prepare() -> None:
        have = first.prepared
        for number in range(20):
            query = PrepareQuery("prepared", append=said[60 + number], window_tokens=64_000, have=have)
            have = (await service.prepare(query)).prepared

    return prepare, 20


PATHS: Final[dict[str, tuple[Turn, bool]]] = {
    "import: a generated row": (_generated, False),
    "import: a line of Claude Code": (_real, False),
    "index: a row": (_indexed, False),
    "fold: a row": (_folded, False),
    "search: rare punctuation": (_searched(PUNCTUATION), True),
    "search: an identifier": (_searched(IDENTIFIER), True),
    "search: absent": (_searched("zyxquokkavw"), True),
    "search: common": (_searched("the "), True),
    "search: ranked, common words": (_searched("what about the ledger?", "words", 10), True),
    "append: a turn of four rows": (_appended, False),
    "prepare: a turn, spliced": (_prepared, False),
}
"""By name, and whether they need the store that is given."""


@asynccontextmanager
async def _opened(db: Path) -> AsyncGenerator[Service]:
    service = Service.open(Settings(db=db))
    try:
        yield service
    finally:
        await service.close()


async def _measure(name: str, stored: Path) -> float:
    ready, in_store = PATHS[name]
    least = float("inf")
    for _ in range(TURNS):
        with TemporaryDirectory(prefix="lcm-hot-") as temporary:
            folder = Path(temporary)
            async with _opened(stored if in_store else folder / "made.sqlite") as service:
                run, units = await ready(service, folder)
                began = time.process_time()
                await run()
                least = min(least, (time.process_time() - began) / units)
    return least * 1e6


if __name__ == "__main__":
    _name, _stored = sys.argv[1:]
    sys.stdout.write(json.dumps(anyio.run(_measure, _name, Path(_stored))))
