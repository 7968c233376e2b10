"""Leases: one process at a time compacts a session.

A lease saves work, not truth: commits check for themselves. It names its process, so that the lease of a
dead one is lost at once; where that cannot be asked, it runs out. Whoever takes one takes away those that
nobody will give back. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final

import apsw

from lcm_mcp.ids import SessionId

LEASE_MS: Final = 660_000
"""A little longer than the longest pass, so that no living one has to renew it."""


def take_lease(db: apsw.Connection, session: SessionId, token: str, now: int) -> bool:
    """Take the session's lease under a token of the caller's own, if no living process holds it."""
    if is_leased(db, session, now):
        return False
    reap_leases(db, now)
    db.execute(
        "INSERT INTO lease(session, token, holder, expires_at) VALUES(?, ?, ?, ?)",
        (session, token, _me(), now + LEASE_MS),
    )
    return True


def release_lease(db: apsw.Connection, session: SessionId, token: str) -> None:
    """Give a lease back; nothing happens if it was never had, or lost in the meantime."""
    db.execute("DELETE FROM lease WHERE session = ? AND token = ?", (session, token))


def is_leased(db: apsw.Connection, session: SessionId, now: int) -> bool:
    """Whether a living process holds the session's lease."""
    row = next(db.execute("SELECT holder, expires_at FROM lease WHERE session = ?", (session,)), None)
    return row is not None and not is_left(row[0], row[1], now)


def left_leases(db: apsw.Connection, now: int) -> tuple[list[SessionId], list[SessionId]]:
    """Sessions with a lease whose process is gone before its time, and those whose lease has run out."""
    dead: list[SessionId] = []
    over: list[SessionId] = []
    for session, holder, expires_at in db.execute("SELECT session, holder, expires_at FROM lease"):
        if expires_at <= now:
            over.append(SessionId(session))
        elif not _lives(holder):
            dead.append(SessionId(session))
    return dead, over


def reap_leases(db: apsw.Connection, now: int) -> int:
    """Take away the leases that nobody will give back; how many there were."""
    dead, over = left_leases(db, now)
    db.executemany("DELETE FROM lease WHERE session = ?", [(session,) for session in (*dead, *over)])
    return len(dead) + len(over)


def is_left(holder: str, expires_at: int, now: int) -> bool:
    """Whether nobody will give a lease back: its time is over, or its process is gone."""
    return expires_at <= now or not _lives(holder)


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
