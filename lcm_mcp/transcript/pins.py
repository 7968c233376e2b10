"""Pins: rows that a request goes on quoting once it no longer shows them verbatim.

A pin is a mark beside a row, never a part of it: setting or taking one changes neither the row nor its
digest, and a row off the active path may bear one. How and from when on pins are quoted is decided at
the cut, not here. Functions take a connection and never begin or commit; they cost pins, not rows.
"""

from __future__ import annotations

import apsw

from lcm_mcp.ids import Seq, SessionId


def pin(db: apsw.Connection, session: SessionId, seq: Seq, now: int) -> bool:
    """Pin a stored row; False where it was pinned already, and then since when stays as it was."""
    db.execute(
        "INSERT INTO pin(session, seq, pinned_at) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", (session, seq, now)
    )
    return db.changes() > 0


def unpin(db: apsw.Connection, session: SessionId, seq: Seq) -> bool:
    """Take a row's pin; False where it had none."""
    db.execute("DELETE FROM pin WHERE session = ? AND seq = ?", (session, seq))
    return db.changes() > 0


def pinned(db: apsw.Connection, session: SessionId) -> list[Seq]:
    """The pinned rows of a session in rising order, removed ones among them."""
    rows = db.execute("SELECT seq FROM pin WHERE session = ? ORDER BY seq", (session,))
    return [Seq(seq) for (seq,) in rows]


def is_pinned(db: apsw.Connection, session: SessionId, seq: Seq) -> bool:
    found: int = db.execute(
        "SELECT EXISTS(SELECT 1 FROM pin WHERE session = ? AND seq = ?)", (session, seq)
    ).get
    return found == 1
