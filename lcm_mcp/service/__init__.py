"""The use cases, over one open store.

Everything a tool or a command does is a method here; wiring happens only here. Wrong input is refused
with an LcmError before anything is written, and a read writes nothing (a preparation keeps its
observation). Before a read followed files are read on; `behind` says if that did not come to its end.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
import apsw

from lcm_mcp.errors import NoStore
from lcm_mcp.service import (
    agents,
    branching,
    browsing,
    discovering,
    doctoring,
    expanding,
    folders,
    following,
    forgetting,
    forking,
    hooking,
    importing,
    indexing,
    keeping,
    mending,
    pictures,
    pinning,
    preparing,
    querying,
    ranking,
    reading,
    redoing,
    selecting,
    statistics,
    trailing,
    upgrading,
    writing,
)
from lcm_mcp.service.agents import Submitted, WantedSummary
from lcm_mcp.service.answers import (
    Description,
    Diagnosis,
    Expansion,
    HitPage,
    ImportOutcome,
    NodePage,
    Receipt,
    SessionPage,
    Strategy,
)
from lcm_mcp.service.background import Background, Report
from lcm_mcp.service.branching import Tree
from lcm_mcp.service.browsing import Conversation
from lcm_mcp.service.discovering import Discovery
from lcm_mcp.service.forgetting import Forgotten
from lcm_mcp.service.forking import Forked, Rewound
from lcm_mcp.service.hooking import HookEvent
from lcm_mcp.service.keeping import BackedUp
from lcm_mcp.service.pictures import ImageRange
from lcm_mcp.service.pinning import Pins
from lcm_mcp.service.prepared import Observation, Prepared
from lcm_mcp.service.querying import QueryAnswer
from lcm_mcp.service.redoing import Redone
from lcm_mcp.service.requests import GrepQuery, PrepareQuery, Usage
from lcm_mcp.service.selecting import Selection
from lcm_mcp.service.spending import models_of
from lcm_mcp.service.statistics import Stats
from lcm_mcp.service.trailing import Trail
from lcm_mcp.service.upgrading import Upgraded
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.extractive import Extractive
from lcm_mcp.transcript.exporting import ExportFormat
from lcm_mcp.transcript.followed import Wish
from lcm_mcp.values import frozen

P = ParamSpec("P")
T = TypeVar("T")


@frozen
class Service:
    """The use cases. Open one per process with `Service.open`, and close it."""

    work: Workplace

    @classmethod
    def open(cls, settings: Settings, *, make: bool = True) -> Service:
        """Open the store that the settings name, made there if need be. Raises StoreError (NoStore where none
        is to be made), and SettingsError where they want what is not installed."""
        if not make and Store.is_missing(settings.db):
            raise NoStore(str(settings.db), settings.source("db"))
        meaning, models = indexing.meaning_of(settings), models_of(settings)
        return cls(Workplace(Store.open(settings.db), settings, (Extractive(),), models, meaning=meaning))

    async def close(self) -> None:
        """Close the store; what is called after this raises StoreClosed."""
        await self.work.store.close()

    @property
    def background(self) -> Background:
        """The passes under way; enter its `running` to let them go on after their calls."""
        return self.work.background

    @asynccontextmanager
    async def running(self, *, finish: bool = False) -> AsyncGenerator[None]:
        """Host passes, keep the index fed and read what reads left; on leaving passes and index end, or are
        waited for with `finish`."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(indexing.keep_fed, self.work)
            tasks.start_soon(following.read_left, self.work)
            async with self.background.running(finish=finish):
                yield
            tasks.cancel_scope.cancel()
        if finish:
            await self.index()

    async def index(self, on_left: Callable[[int], None] | None = None) -> None:
        """Feed the search index all there is; on_left is told how many texts are left."""
        await indexing.feed_all(self.work, on_left)
        await indexing.tidy(self.work, anyio.Event())

    def reporting(self, report: Report) -> Service:
        """The same service for one call that wants to be told how far it is."""
        return Service(replace(self.work, report=report))

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
        page, behind = await following.read_fresh(
            self.work, None, project, reading.list_sessions, query, project, limit, cursor
        )
        return replace(page, behind=behind)

    async def list_nodes(
        self,
        session: str | None = None,
        depth: int | None = None,
        frontier_only: bool = False,
        limit: int = 20,
        cursor: str | None = None,
    ) -> NodePage:
        """Every stored summary of a session, oldest first."""
        page, behind = await self._fresh(
            session, reading.list_nodes, session, depth, frontier_only, limit, cursor
        )
        return replace(page, behind=behind)

    async def grep(self, query: GrepQuery) -> HitPage:
        """Rows and summaries that hold a pattern."""
        named = query.session if query.node is None else following.session_in(query.node, query.session)
        page, behind = await following.read_fresh(self.work, named, None, ranking.grep, query)
        return replace(page, behind=behind)

    async def describe(self, id: str, session: str | None = None) -> Description:
        """What a node or a row is."""
        named = following.session_in(id, session)
        described, behind = await self._fresh(named, reading.describe, id, session)
        return replace(described, behind=behind)

    async def expand(
        self,
        id: str,
        session: str | None = None,
        max_bytes: int = 6000,
        include_payload: bool = False,
        cursor: str | None = None,
    ) -> Expansion:
        """The original rows of a node, a row or a range, a page of max_bytes at a time."""
        named = following.session_in(id, session)
        page, behind = await self._fresh(
            named, expanding.expand, id, session, max_bytes, include_payload, cursor
        )
        return replace(page, behind=behind)

    async def converse(
        self,
        session: str | None = None,
        at: str | None = None,
        line: str | None = None,
        newer: bool = False,
        limit: int = 30,
    ) -> Conversation:
        """A page of a session's conversation as people read it, up to row `at` or (newer) from it on."""
        page, behind = await self._fresh(session, browsing.converse, session, at, line, newer, limit)
        return replace(page, behind=behind)

    async def trail(self, session: str | None = None, cursor: str | None = None) -> Trail:
        """How full a session's requests were, newest first, and how its conversation grew."""
        page, behind = await self._fresh(session, trailing.trail, session, cursor)
        return replace(page, behind=behind)

    async def image(
        self, session: str, number: str, offset: str | None = None, length: str | None = None
    ) -> ImageRange:
        """A range of a stored image's bytes."""
        return await self.work.store.read(pictures.read_image, self.work, session, number, offset, length)

    async def append(
        self,
        session: str,
        entries: Sequence[object],
        after: str | None = None,
        expect_last_seq: int | None = None,
        title: str | None = None,
        project: str | None = None,
        usage: Usage | None = None,
    ) -> Receipt:
        """Append entries durably; an unknown session is created."""
        guard = writing.Guard(after, expect_last_seq)
        return await writing.append(self.work, session, entries, guard, title, project, usage)

    async def fork(
        self,
        session: str | None = None,
        at: str | None = None,
        new_session: str | None = None,
        marker: bool = False,
    ) -> Forked:
        """A new session of a session's rows up to one of them (None: the last), summaries included."""
        return await forking.fork(self.work, session, at, new_session, marker)

    async def rewind(self, to: str, session: str | None = None) -> Rewound:
        """Let a session's path end at an earlier row, or at one of another branch."""
        return await forking.rewind(self.work, session, to)

    async def tree(self, session: str | None = None) -> Tree:
        """A session's conversation with its branches, and the sessions that start from it."""
        return await self.work.store.read(branching.tree, self.work, session)

    async def pin(self, refs: Sequence[str], session: str | None = None, off: bool = False) -> Pins:
        """Pin rows of one session, or (off) take their pins, then list what is pinned there."""
        return await pinning.pin(self.work, refs, session, off)

    async def prepare(self, query: PrepareQuery) -> Prepared:
        """The request view of a session, compacted if it is time."""
        if query.cursor is not None:  # a further page is of the projection that the first one named
            return await preparing.prepare(self.work, query)
        behind = await self._catch_up(query.session)
        prepared = await preparing.prepare(self.work, query)
        return prepared if behind is None else replace(prepared, notes=(*prepared.notes, behind))

    async def glance(self, session: str | None = None, window_tokens: int | None = None) -> Observation:
        """What a request would show now, for people to look at: none is made."""
        await self._catch_up(session)
        return await preparing.glance(self.work, session, window_tokens)

    async def compact(self, session: str | None = None, strategy: Strategy | None = None) -> Observation:
        """Compact a session now, and say what was done; strategy selects it for the session."""
        return await preparing.force(self.work, session, strategy)

    async def select(self, session: str | None = None, strategy: Strategy | None = None) -> Selection:
        """Which strategy prepares a session and who chose it; one that is named is chosen for it first."""
        return await selecting.select(self.work, session, strategy)

    async def last_observation(self, session: str | None = None) -> Observation | None:
        """What the session's last preparation showed, with what its provider counted since."""
        observed, _ = await self._fresh(session, reading.last_observation, session)
        return observed

    async def import_file(
        self,
        path: Path,
        format: str = "auto",
        session: str | None = None,
        fold: bool = True,
        on_rows: Callable[[int], None] | None = None,
        follow: bool = True,
    ) -> ImportOutcome:
        """Read a transcript file, and follow it from then on; on_rows is told the rows stored so far."""
        return await importing.import_file(self.work, path, format, session, fold, on_rows, follow)

    async def follow_folder(self, path: Path, format: str, session: str | None, fold: bool) -> None:
        """Follow the transcripts that appear in a folder, imported as its files were."""
        await folders.follow_folder(self.work, path, Wish(format, session or "", fold))

    async def follow_file(self, path: Path, fold: bool) -> None:
        """Follow a file, whatever is in it."""
        await following.follow_file(self.work, path, fold)

    async def discover(self) -> Discovery:
        """Which session files the agents of this machine have left, and which are not stored yet."""
        return await discovering.discover(self.work, Path.home(), os.environ)

    async def catch_up(self) -> Mapping[str, int]:
        """Take in what all followed files have grown by; the rows added, by session."""
        return await following.catch_up_all(self.work)

    async def hook(self, event: HookEvent) -> str | None:
        """Take in what is new in a client's transcript; what the client is to show, if anything."""
        return await hooking.on_event(self.work, event)

    async def stats(self, session: str | None = None) -> Stats:
        """The figures of a session, or with "*" of the whole store."""
        await self._catch_up(session)
        return await statistics.measure(self.work, session)

    async def back_up(self, to: Path) -> BackedUp:
        """Copy the store as it is now to a new file."""
        return await keeping.back_up(self.work, to)

    def export(
        self,
        session: str | None = None,
        form: ExportFormat = "jsonl",
        redacting: bool = False,
        on_masked: Callable[[int], None] = lambda _keys: None,
    ) -> AsyncGenerator[bytes]:
        """A session written out, page by page; on_masked is told how many keys were masked."""
        return keeping.export(self.work, session, form, redacting, on_masked)

    async def redo(self, id: str, session: str | None = None) -> Redone:
        """Make a node's summary again from its sources."""
        return await redoing.redo(self.work, id, session)

    async def upgrade(self, session: str | None = None) -> Upgraded:
        """Let the models write the nodes that were made by rule, of a session or (with "*") of all."""
        return await upgrading.upgrade(self.work, session)

    async def next_summary(
        self, session: str | None = None, max_bytes: int = 5000, cursor: str | None = None
    ) -> WantedSummary:
        """The next summary that an agent may write, and its source a page at a time."""
        await self._catch_up(session)
        return await agents.next_summary(self.work, session, max_bytes, cursor)

    async def submit_summary(self, task: str, text: str, author: str | None = None) -> Submitted:
        """Store a summary that an agent wrote, or say why not."""
        return await agents.submit(self.work, task, text, author)

    async def expand_query(
        self,
        question: str,
        ids: Sequence[str] | None = None,
        query: str | None = None,
        session: str | None = None,
        max_tokens: int = 2000,
    ) -> QueryAnswer:
        """An answer from the rows that bear on a question, or those rows."""
        behind = await self._catch_up(following.session_in(ids[0], session) if ids else session)
        found = await querying.expand_query(self.work, question, ids, query, session, max_tokens)
        return replace(found, behind=behind)

    async def forget(self, session: str) -> Forgotten:
        """Take a session out of the store for good."""
        return await forgetting.forget(self.work, session)

    async def doctor(self) -> Diagnosis:
        """Whether the store is sound, and the settings in force."""
        return await doctoring.diagnose(self.work)

    async def mend(self) -> Sequence[str]:
        """Mend what the doctor finds and can be mended, after a copy of the store was made; what was done."""
        return await mending.mend(self.work, await doctoring.diagnose(self.work))

    async def _fresh(
        self,
        session: str | None,
        job: Callable[Concatenate[apsw.Connection, Workplace, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> tuple[T, str | None]:
        """A read after such a catch-up, and what is to be said of that."""
        named = session or self.work.settings.session
        return await following.read_fresh(self.work, named, None, job, *args, **kwargs)

    async def _catch_up(self, session: str | None) -> str | None:
        """Take in what followed files have grown by before a read of that session, or of the one it means."""
        return await following.catch_up(self.work, session or self.work.settings.session)
