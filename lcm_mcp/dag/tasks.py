"""Summaries that agents were asked for: which, until when, and texts that wait for the rest of their unit.

A task is a node that is wanted: a depth and a span. The tasks of a batch are leaves of one unit, which are
stored together or not at all. A task's id is the lease of the agent that has it; who takes it over after its
time gives it another. A lease saves work, not truth: what is stored is checked when it is. Functions take a
connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.values import frozen

BY_RULE: Final = ("extractive", "truncation")
"""Who wrote a node that no model and no agent wrote."""
LEASE_MS: Final = 600_000
"""A page of the source and a refusal begin it anew."""


@frozen
class Place:
    """A node that is wanted, by its depth and its first and last row."""

    depth: int
    first: Seq
    last: Seq


@frozen
class Task:
    """A place that is given away until expires_at (milliseconds), or whose text waits for its batch."""

    id: str
    session: SessionId
    batch: str
    place: Place
    expires_at: int
    text: str | None
    model: str | None

    def is_taken(self, now: int) -> bool:
        return self.text is not None or self.expires_at > now


_TASK = "SELECT id, session, batch, depth, first, last, expires_at, text, model FROM task "


def find(db: apsw.Connection, id: str) -> Task | None:
    return next(_tasks(db, _TASK + "WHERE id = ?", (id,)), None)


def of_session(db: apsw.Connection, session: SessionId) -> Sequence[Task]:
    """A session's tasks in the order of their rows."""
    return list(_tasks(db, _TASK + "WHERE session = ? ORDER BY first, depth", (session,)))


def of_batch(db: apsw.Connection, task: Task) -> Sequence[Task]:
    """The tasks of a task's batch, itself among them, in the order of their rows."""
    return list(
        _tasks(db, _TASK + "WHERE session = ? AND batch = ? ORDER BY first", (task.session, task.batch))
    )


def take(db: apsw.Connection, session: SessionId, batch: Sequence[Place], now: int) -> Task | None:
    """Lease the first free place of a batch; None where all are taken. What nobody has is dropped."""
    db.execute(
        """DELETE FROM task WHERE session = ?1 AND batch NOT IN (
            SELECT batch FROM task WHERE session = ?1 AND (text IS NOT NULL OR expires_at > ?2))""",
        (session, now),
    )
    name = uuid4().hex
    for place in batch:
        db.execute(
            "INSERT INTO task VALUES(?, ?, ?, ?, ?, ?, 0, NULL, NULL) ON CONFLICT DO NOTHING",
            (uuid4().hex, session, name, place.depth, place.first, place.last),
        )
    for place in batch:
        given = db.execute(
            """UPDATE task SET id = ?, expires_at = ?
                WHERE session = ? AND depth = ? AND first = ? AND last = ? AND text IS NULL
                AND expires_at <= ? RETURNING id""",
            (uuid4().hex[:12], now + LEASE_MS, session, place.depth, place.first, place.last, now),
        ).get
        if given is not None:
            return find(db, given)
    return None


def renew(db: apsw.Connection, id: str, now: int) -> bool:
    """Begin a lease anew, also one whose time is over while nobody else took the task."""
    db.execute("UPDATE task SET expires_at = ? WHERE id = ? AND text IS NULL", (now + LEASE_MS, id))
    return db.changes() > 0


def keep(db: apsw.Connection, id: str, text: str, model: str) -> None:
    """Let a task's text wait for the others of its batch."""
    db.execute("UPDATE task SET text = ?, model = ? WHERE id = ?", (text, model, id))


def drop(db: apsw.Connection, id: str) -> None:
    db.execute("DELETE FROM task WHERE id = ?", (id,))


def drop_batch(db: apsw.Connection, task: Task) -> None:
    db.execute("DELETE FROM task WHERE session = ? AND batch = ?", (task.session, task.batch))


def _tasks(db: apsw.Connection, query: str, of: tuple[str | int, ...]) -> Iterator[Task]:
    for id, session, batch, depth, first, last, *rest in db.execute(query, of):
        yield Task(id, SessionId(session), batch, Place(depth, Seq(first), Seq(last)), *rest)
