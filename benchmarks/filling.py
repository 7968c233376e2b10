"""Long sessions made fast: rows appended a few thousand at a time and folded as an import folds them.

The rows are an agent's, small and alike, so that sessions of any length end in the same tail. The nodes
are real ones; only the summarizer's words are not, since they do not matter here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Literal

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.service import Service
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.service.prepared import Prepared
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import LcmSettings, Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.model import Answer, Request
from lcm_mcp.tokens import BYTES_PER_TOKEN
from lcm_mcp.transcript import appending, sessions
from lcm_mcp.transcript.model import Draft, Sealed, Text, ToolCall, ToolResult
from lcm_mcp.transcript.sealing import seal

KEY: Final = "filled"
ROWS_A_UNIT: Final = 4
ROWS_A_BATCH: Final = 4_000
TAIL_ROWS: Final = 1_000
_KINDS = 50


class Filler:
    """A summarizer that answers at once, as long as it is asked to."""

    name = "filler"

    async def summarize(self, request: Request) -> Answer:
        wanted = request.target_tokens * BYTES_PER_TOKEN
        return Answer(("Work went on as before. " * wanted)[:wanted], self.name)


@asynccontextmanager
async def serving(db: Path, leaf_tokens: int = 6_000) -> AsyncGenerator[Service]:
    """The use cases over a store at that path, whose leaves cover about so many tokens each."""
    settings = Settings(db=db, lcm=LcmSettings(leaf_chunk_tokens=leaf_tokens))
    service = Service(Workplace(Store.open(db), settings, (Filler(),)))
    try:
        yield service
    finally:
        await service.close()


async def fill(service: Service, rows: int, tail: int = TAIL_ROWS) -> None:
    """A session KEY of so many rows, of which all but about the newest `tail` are folded into nodes."""
    session = await service.work.store.write(_create)
    units = cycle([_unit(number) for number in range(_KINDS)])
    stored = 0
    while stored < rows:
        size = min(ROWS_A_BATCH, rows - tail - stored) if stored < rows - tail else rows - stored
        batch = [row for unit in islice(units, -(-size // ROWS_A_UNIT)) for row in unit]
        await service.work.store.write(append, session, batch)
        stored += len(batch)
        if stored <= rows - tail:
            await fold_memory(service.work, session)


async def cut(service: Service, strategy: Literal["rolling", "lcm"], window_tokens: int) -> Prepared:
    """Make the strategy cut the session for a window, whether it is time or not."""
    query = PrepareQuery(KEY, strategy=strategy, window_tokens=window_tokens, compact="force", detail=True)
    return await service.prepare(query)


def append(db: apsw.Connection, session: SessionId, rows: Sequence[Sealed]) -> None:
    found = sessions.find_by_id(db, session)
    assert found is not None
    appending.append(db, found, rows, 0)


def _create(db: apsw.Connection) -> SessionId:
    return sessions.create(db, sessions.NewSession(KEY), 0).id


def _unit(number: int) -> list[Sealed]:
    """A request, a call, its result and an answer."""
    call, path = f"call{number}", f"src/module_{number}.py"
    drafts = (
        Draft("user", (Text(f"Please look at {path} and say why its test fails."),)),
        Draft("assistant", (ToolCall(call, "Read", {"file_path": path}),)),
        Draft("tool", (ToolResult(call, (Text(f"def run_{number}():\n    return {number}\n"),)),)),
        Draft("assistant", (Text(f"It returns {number}, and the test expects {number + 1}."),)),
    )
    return [seal(draft) for draft in drafts]
