"""The use cases, over one open store.

Everything a tool or a command does is a method here; wiring happens only here. Wrong input is refused
with an LcmError before anything is written, and a read writes nothing (a preparation keeps its
observation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lcm_mcp.service import doctoring, expanding, preparing, reading, searching, writing
from lcm_mcp.service.answers import (
    Description,
    Diagnosis,
    Expansion,
    HitPage,
    ImportOutcome,
    NodePage,
    Prepared,
    Receipt,
    SessionPage,
)
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.extractive import Extractive


@dataclass(frozen=True, slots=True)
class Service:
    """The use cases. Open one per process with `Service.open`, and close it."""

    work: Workplace

    @classmethod
    def open(cls, settings: Settings) -> Service:
        """Open (or create) the store that the settings name. Raises StoreError."""
        return cls(Workplace(Store.open(settings.db), settings, (Extractive(),)))

    async def close(self) -> None:
        """Close the store; what is called after this raises StoreClosed."""
        await self.work.store.close()

    async def sessions(
        self,
        query: str | None = None,
        project: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> SessionPage:
        """Stored sessions, last active first; query is part of a key or title.

        Without project those of this folder where it has any, with "*" those of the whole store.
        """
        return await self.work.store.read(reading.list_sessions, self.work, query, project, limit, cursor)

    async def list_nodes(
        self,
        session: str | None = None,
        depth: int | None = None,
        frontier_only: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> NodePage:
        """Every stored summary of a session, oldest first."""
        return await self.work.store.read(
            reading.list_nodes, self.work, session, depth, frontier_only, limit, cursor
        )

    async def grep(self, query: GrepQuery) -> HitPage:
        """Rows and summaries that hold a pattern."""
        return await self.work.store.read(searching.grep, self.work, query)

    async def describe(self, id: str, session: str | None = None) -> Description:
        """What a node or a row is."""
        return await self.work.store.read(reading.describe, self.work, id, session)

    async def expand(
        self,
        id: str,
        session: str | None = None,
        max_bytes: int = 6000,
        include_payload: bool = False,
        cursor: str | None = None,
    ) -> Expansion:
        """The original rows of a node, a row or a range, a page of max_bytes at a time."""
        return await self.work.store.read(
            expanding.expand, self.work, id, session, max_bytes, include_payload, cursor
        )

    async def append(
        self,
        session: str,
        entries: Sequence[object],
        after: str | None = None,
        expect_last_seq: int | None = None,
        title: str | None = None,
        project: str | None = None,
    ) -> Receipt:
        """Append entries durably; an unknown session is created."""
        guard = writing.Guard(after, expect_last_seq)
        return await writing.append(self.work, session, entries, guard, title, project)

    async def prepare(self, query: PrepareQuery) -> Prepared:
        """The request view of a session, compacted if it is time."""
        return await preparing.prepare(self.work, query)

    async def import_file(
        self,
        path: Path,
        format: str = "auto",
        session: str | None = None,
        fold: bool = True,
        on_rows: Callable[[int], None] | None = None,
    ) -> ImportOutcome:
        """Read a transcript file; on_rows is told the rows stored so far."""
        return await writing.import_file(self.work, path, format, session, fold, on_rows)

    async def doctor(self) -> Diagnosis:
        """Whether the store is sound, and the settings in force."""
        return await doctoring.diagnose(self.work)
