"""Cuts, the leases that let one process at a time make them, and what was last observed.

A cut fixes what a request shows: which nodes in which tier, and where the tail starts. It is written
once and never changed; the last one of a session counts. A lease saves work, not truth: commits check
for themselves. Observations are a bounded trail for people. Functions take a connection and never begin
or commit.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import uuid4

import apsw
import orjson

from lcm_mcp.ids import CutId, NodeId, Seq, SessionId

OBSERVATIONS_KEPT: Final = 1000
LEASE_MS: Final = 60_000

ShownTier = Literal["rich", "primary", "stub"]


@dataclass(frozen=True, slots=True)
class ShownNode:
    node: NodeId
    tier: ShownTier


@dataclass(frozen=True, slots=True)
class Cut:
    """tail_from is the first row shown verbatim; window in tokens; prefix_sha256 of all before the tail."""

    id: CutId
    strategy: str
    tail_from: Seq
    shown: tuple[ShownNode, ...]
    stalled: bool
    grown: bool
    window: int
    prefix_sha256: str
    made_at: int


def last_cut(db: apsw.Connection, session: SessionId, strategy: str) -> Cut | None:
    """The cut in force for a strategy."""
    return _cut(
        db,
        "SELECT * FROM cut WHERE session = ? AND strategy = ? ORDER BY n DESC LIMIT 1",
        (session, strategy),
    )


def find_cut(db: apsw.Connection, session: SessionId, cut: CutId) -> Cut | None:
    return _cut(db, "SELECT * FROM cut WHERE session = ? AND n = ?", (session, cut))


def commit_cut(db: apsw.Connection, session: SessionId, cut: Cut) -> CutId:
    """Store a cut under the session's next number, which is returned; cut.id is not looked at."""
    number = CutId(
        db.execute(
            "UPDATE session SET next_cut = next_cut + 1 WHERE id = ? RETURNING next_cut - 1", (session,)
        ).get
    )
    shape = orjson.dumps(
        {
            "nodes": [[shown.node, shown.tier] for shown in cut.shown],
            "stalled": cut.stalled,
            "grown": cut.grown,
        }
    )
    db.execute(
        """INSERT INTO cut(session, n, strategy, tail_from, shape, prefix_sha256, window, made_at)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
        (session, number, cut.strategy, cut.tail_from, shape, cut.prefix_sha256, cut.window, cut.made_at),
    )
    return number


def take_lease(db: apsw.Connection, session: SessionId, now: int) -> str | None:
    """A token if no living process holds the session's lease, else None; renewing is taking it again."""
    row = next(db.execute("SELECT holder, expires_at FROM lease WHERE session = ?", (session,)), None)
    if row is not None and row[1] > now and _lives(row[0]):
        return None
    token = uuid4().hex
    db.execute(
        """INSERT INTO lease(session, token, holder, expires_at) VALUES(?, ?, ?, ?)
            ON CONFLICT(session) DO UPDATE SET token = excluded.token, holder = excluded.holder,
            expires_at = excluded.expires_at""",
        (session, token, _me(), now + LEASE_MS),
    )
    return token


def release_lease(db: apsw.Connection, session: SessionId, token: str) -> None:
    """Give a lease back; nothing happens if it was lost in the meantime."""
    db.execute("DELETE FROM lease WHERE session = ? AND token = ?", (session, token))


def keep_observation(db: apsw.Connection, session: SessionId, prepared: str, body: bytes, now: int) -> None:
    """Add to the session's trail of observations and forget those beyond OBSERVATIONS_KEPT."""
    number: int = db.execute(
        "SELECT coalesce(max(n), 0) + 1 FROM observation WHERE session = ?", (session,)
    ).get
    db.execute(
        "INSERT INTO observation(session, n, prepared, made_at, body) VALUES(?, ?, ?, ?, ?)",
        (session, number, prepared, now, body),
    )
    db.execute("DELETE FROM observation WHERE session = ? AND n <= ?", (session, number - OBSERVATIONS_KEPT))


def _cut(db: apsw.Connection, query: str, bindings: Sequence[int | str]) -> Cut | None:
    row = next(db.execute(query, tuple(bindings)), None)
    if row is None:
        return None
    _, number, strategy, tail_from, shape, prefix_sha256, window, made_at = row
    stored = orjson.loads(shape)
    return Cut(
        id=CutId(number),
        strategy=strategy,
        tail_from=Seq(tail_from),
        shown=tuple(ShownNode(NodeId(node), tier) for node, tier in stored["nodes"]),
        stalled=stored["stalled"],
        grown=stored["grown"],
        window=window,
        prefix_sha256=prefix_sha256,
        made_at=made_at,
    )


def _me() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"


def _lives(holder: str) -> bool:
    """Whether a holder may still be at work; one on another host is believed until its time is over."""
    host, _, pid = holder.rpartition("/")
    if host != socket.gethostname() or sys.platform == "win32":
        return True  # Windows has no harmless way to ask; there the lease runs out by itself
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
