"""Payloads of stores that wrote them longer than they need be are written anew, slice by slice.

What they say stays the same, so nobody waits for it. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from typing import Final

import apsw

from lcm_mcp.transcript.packing import shortest

SLICE_PAYLOADS: Final = 256
"""Looked at in one transaction, which takes some 15 ms."""

_STATE = "SELECT next, upto FROM payload_state"
_SLICE = "SELECT text, parts FROM payload WHERE text BETWEEN ? AND ? ORDER BY text LIMIT ?"


def behind(db: apsw.Connection) -> bool:
    """Whether payloads of an earlier build are still to be looked at."""
    first, last = next(db.execute(_STATE))
    return first <= last


def catch_up(db: apsw.Connection) -> None:
    """Look at the next slice of them."""
    first, last = next(db.execute(_STATE))
    found: list[tuple[int, bytes]] = list(db.execute(_SLICE, (first, last, SLICE_PAYLOADS)))
    shorter = [(packed, text) for text, parts in found if (packed := shortest(parts)) != parts]
    db.executemany("UPDATE payload SET parts = ? WHERE text = ?", shorter)
    done = found[-1][0] if len(found) == SLICE_PAYLOADS else last
    db.execute("UPDATE payload_state SET next = ?", (done + 1,))
