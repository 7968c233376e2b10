"""What may have happened to a store before it is searched, and all that is in it, told without a search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import apsw
import pytest
from stores import NOW

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Summary, Tier
from lcm_mcp.search import index, segments
from lcm_mcp.service import Service
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.units import Span

START = datetime(2026, 1, 1, tzinfo=UTC)
ROLES = ("user", "assistant")


class Thing(NamedTuple):
    """A row or a summary, in the order of its place; texts are looked at one after the other."""

    anchor: int
    node: int
    session: int
    ref: str
    text: int
    texts: Sequence[str]
    speaker: str | None
    at: int
    removed: bool
    seq: int
    project: str | None
    key: str


class History:
    """A store with what was done to it; `services` are two processes' views of one file."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = services
        self.keys: list[str] = []
        self.minute = 0
        self.done = 0

    @property
    def service(self) -> Service:
        return self.services[self.done % 2]

    async def begin(self, projects: Sequence[str | None]) -> None:
        for number, project in enumerate(projects):
            self.keys.append(f"k{number}")
            await self.say(self.keys[-1], ["a first row"], project or "nowhere")
        await self.service.work.store.write(
            lambda db: db.execute("UPDATE session SET project = NULL WHERE project = 'nowhere'")
        )

    async def say(self, key: str, texts: Sequence[str], project: str | None = None) -> None:
        entries: list[dict[str, str]] = []
        for number, text in enumerate(texts):
            self.minute += 1
            at = (START + timedelta(minutes=self.minute % 50)).isoformat()
            entries.append({"role": ROLES[number % 2], "content": text, "at": at})
        await self.service.append(key, entries, project=project)

    def _key(self, which: int) -> str:
        return self.keys[which % len(self.keys)]

    async def do(self, deed: tuple[str, Any, Any]) -> None:
        """What cannot be done yet is left out."""
        kind, which, what = deed
        self.done += 1
        store = self.service.work.store
        key = self._key(which) if kind in ("say", "fold", "over", "rewind", "fork") else ""
        path = await store.read(on_path, key) if key else []
        match kind:
            case "say":
                await self.say(key, what)
            case "fold":
                await store.write(fold, key, *what)
            case "over":
                await store.write(fold_over, key, what)
            case "rewind":
                await self.service.rewind(f"e{path[what % len(path)]}", key)
            case "fork":
                self.keys.append(f"f{self.done}")
                await self.service.fork(key, f"e{path[what % len(path)]}", self.keys[-1])
            case "join":
                await store.write_derived(segments.put_together, "gram")
            case _:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(index, "SLICE_BYTES", which)
                    await store.write_derived(index.feed)


def summary_of(text: str, thorough: str = "") -> Summary:
    rich = Tier("rich", thorough, TokenCount(20), 1, "test") if thorough else None
    return Summary(Tier("primary", text, TokenCount(10), 1, "test"), rich)


def fold(db: apsw.Connection, key: str, text: str, thorough: str) -> None:
    """A leaf over all rows of the session that none covers yet."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    path = RowPath(db, session.id, session.leaf)
    end = dag.covered_end(db, session.id, path, path.leaf)
    first = path.after(end)
    if first is None:
        return
    span = Span(first, path.leaf, end, len(on_path(db, key)), Size(bytes=400))
    summary = summary_of(readable(text), readable(thorough))
    assert isinstance(dag.commit_leaves(db, session.id, [(span, summary)], NOW), list)


def fold_over(db: apsw.Connection, key: str, text: str) -> None:
    """A parent over the newest nodes of one depth."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    path = RowPath(db, session.id, session.leaf)
    standing = dag.frontier(db, session.id, path, path.leaf)
    if len(standing) >= 2 and standing[-1].depth == standing[-2].depth < 3:
        dag.commit_parent(db, session.id, standing[-2:], TokenCount(100), summary_of(readable(text)), NOW)


def on_path(db: apsw.Connection, key: str) -> list[int]:
    """The numbers of a session's rows from its leaf back."""
    number, leaf = next(db.execute("SELECT id, leaf FROM session WHERE key = ?", (key,)))
    return back_from(db, number, leaf)


def back_from(db: apsw.Connection, session: int, seq: int) -> list[int]:
    path: list[int] = []
    while seq:
        path.append(seq)
        seq = db.execute("SELECT prev FROM row WHERE session = ? AND seq = ?", (session, seq)).get
    return path


def everything(db: apsw.Connection) -> list[Thing]:
    paths = {key: set(on_path(db, key)) for (key,) in list(db.execute("SELECT key FROM session"))}
    things: list[Thing] = []
    for text, session, key, project, seq, role, at, body in db.execute(
        """SELECT text.id, session.id, key, project, seq, role, at, body FROM row
            JOIN session ON session.id = row.session JOIN text ON text.id = row.text"""
    ):
        gone = seq not in paths[key]
        things.append(Thing(text, 0, session, f"e{seq}", text, (body,), role, at, gone, seq, project, key))
    rows = {(thing.session, thing.seq): thing for thing in things}
    for session, node, last, key, project in db.execute(
        "SELECT session, node.id, last, key, project FROM node JOIN session ON session.id = node.session"
    ):
        under = rows[session, last]
        tiers = list(
            db.execute(
                """SELECT text.id, body FROM tier JOIN text ON text.id = tier.text
                    WHERE session = ? AND node = ? ORDER BY kind = 'primary'""",
                (session, node),
            )
        )
        bodies = [body for _, body in tiers]
        gone = last not in paths[key]
        things.append(
            Thing(
                under.text,
                node,
                session,
                f"#{node}",
                tiers[0][0],
                bodies,
                None,
                under.at,
                gone,
                last,
                project,
                key,
            )
        )
    return sorted(things)


def inside_node(db: apsw.Connection, session: int, node: int) -> set[str]:
    """A node's rows, itself and every node below it."""
    first, last = next(
        db.execute("SELECT first, last FROM node WHERE session = ? AND id = ?", (session, node))
    )
    found = {f"e{seq}" for seq in back_from(db, session, last) if seq >= first}
    below = [node]
    while below:
        found.add(f"#{below[0]}")
        below += [
            child
            for (child,) in db.execute(
                "SELECT child FROM edge WHERE session = ? AND node = ?", (session, below.pop(0))
            )
        ]
    return found
