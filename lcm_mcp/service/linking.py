"""What an append does beside its rows: sessions whose outcome they tell are linked, branches are told of.

Functions take a connection in the append's transaction; a refusal here undoes all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from lcm_mcp.errors import MalformedEntry
from lcm_mcp.ids import Seq
from lcm_mcp.service.workplace import named_session
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.appending import Appended
from lcm_mcp.transcript.model import Sealed
from lcm_mcp.transcript.path import common, segments_back
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.wording import count


def link_outcomes(db: apsw.Connection, session: Session, entries: Sequence[Sealed], done: Appended) -> None:
    """Link new rows to the sessions begun by this one whose outcome they tell.

    Raises UnknownSession and MalformedEntry.
    """
    known = {*done.duplicates, *done.conflicts}
    for index, (seq, entry) in enumerate(zip(done.refs, entries, strict=True)):
        name = entry.outcome_of
        if name is None or seq in known:
            continue
        begun = named_session(db, name)
        if begun.parent != session.id:
            raise MalformedEntry(index, f"outcome_of: {name[:80]!r} is no fork or child of this session")
        sessions.note_outcome(db, begun.id, seq)


def branch_notes(db: apsw.Connection, session: Session, leaf: Seq) -> tuple[str, ...]:
    """What left the path or came back to it when new rows let it end at `leaf`, in words; session is as it
    was before."""
    shared = common(db, session.id, session.leaf, leaf)
    last = Seq(session.next_seq - 1)
    back = (min(part.high, last) for part in segments_back(db, session.id, leaf) if part.low <= last)
    known = next(back, Seq(0))
    ended, there, kept = (
        store.path_totals(db, session.id, seq).inputs for seq in (session.leaf, known, shared)
    )
    notes: list[str] = []
    if removed := ended - kept:
        off = f"{count(removed, 'row')} after e{shared} {_agreed(removed, 'is', 'are')} off the path now"
        back_by = f"lcm_rewind to e{session.leaf} brings {_agreed(removed, 'it', 'them')} back."
        notes.append(f"{off}: a branch starts there. {back_by}")
    if restored := there - kept:
        on = f"{_agreed(restored, 'is', 'are')} on the path again."
        notes.append(f"{count(restored, 'removed row')} up to e{known} {on}")
    return tuple(notes)


def _agreed(number: int, one: str, several: str) -> str:
    return one if number == 1 else several
