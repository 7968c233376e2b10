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
from lcm_mcp.transcript.path import common
from lcm_mcp.transcript.sessions import Session


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
    """What left the path when it came to end at `leaf`, in words; session is as it was before."""
    shared = common(db, session.id, session.leaf, leaf)
    before = store.path_totals(db, session.id, session.leaf).inputs
    removed = before - store.path_totals(db, session.id, shared).inputs
    if removed == 0:
        return ()
    return (
        f"{removed} rows after e{shared} are off the path now: a branch starts there. "
        f"lcm_rewind to e{session.leaf} brings them back.",
    )
