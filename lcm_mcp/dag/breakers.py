"""Breakers: a summarizer that keeps failing is left alone for a while, by all processes on the store.

A breaker belongs to a mark of the summarizer's settings, so that other settings start afresh; an answer
removes it. While one is open a call is let through now and then, by one process, to see whether it is still
needed. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from typing import Final

import apsw

from lcm_mcp.values import frozen

FAULTS_TO_OPEN: Final = 3
PAUSE_MS: Final = 300_000
REFUSED_PAUSE_MS: Final = 3_600_000
"""After a refusal (a wrong key, an unknown model): it will rarely go away by itself."""


@frozen
class Breaker:
    """The last fault of a summarizer and how many there were in a row; open where opened_at is set.

    Times in milliseconds; an open one lets the next call through at again_at.
    """

    summarizer: str
    reason: str
    faults: int
    opened_at: int | None
    again_at: int


@frozen
class Fault:
    """Why a call failed; refused: the same call would fail again. quiet_ms is how long the other side
    asked to be left alone, where that is longer than a call can wait."""

    reason: str
    refused: bool = False
    quiet_ms: int | None = None


def find(db: apsw.Connection, mark: str) -> Breaker | None:
    row = next(
        db.execute(
            "SELECT summarizer, reason, faults, opened_at, again_at FROM breaker WHERE mark = ?", (mark,)
        ),
        None,
    )
    return None if row is None else Breaker(*row)


def admit(db: apsw.Connection, mark: str, now: int) -> Breaker | None:
    """None where a call may be made, else the breaker that is open. A call that is let through to see
    whether it still fails keeps the others out meanwhile."""
    found = find(db, mark)
    if found is None or found.opened_at is None:
        return None
    if now < found.again_at:
        return found
    db.execute("UPDATE breaker SET again_at = ? WHERE mark = ?", (now + PAUSE_MS, mark))
    return None


def note_fault(db: apsw.Connection, mark: str, summarizer: str, fault: Fault, now: int) -> None:
    """Count a fault; open the breaker where it is one too many, or one that comes again."""
    found = find(db, mark)
    faults = 1 if found is None else found.faults + 1
    opens = fault.refused or fault.quiet_ms is not None or faults >= FAULTS_TO_OPEN
    opened_at = None if found is None else found.opened_at
    if opens and opened_at is None:
        opened_at = now
    pause = fault.quiet_ms or (REFUSED_PAUSE_MS if fault.refused else PAUSE_MS)
    db.execute(
        """INSERT INTO breaker VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET reason = excluded.reason,
            faults = excluded.faults, opened_at = excluded.opened_at, again_at = excluded.again_at""",
        (mark, summarizer, fault.reason, faults, opened_at, now + pause),
    )


def clear(db: apsw.Connection, mark: str) -> None:
    """Forget a summarizer's faults: it has answered."""
    db.execute("DELETE FROM breaker WHERE mark = ?", (mark,))
