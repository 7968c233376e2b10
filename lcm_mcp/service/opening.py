"""Sessions that a file tells of: found, or made, and linked to the one they start from.

A subagent's parent is made empty where its own file was not read yet. A fork is linked where its parent is
known, at the latest when it is read again: a session that was forked and deleted since would stand empty for
ever. Where a fork begins is read from the rows: it is the last of those that say what its parent's say under
the same numbers.
"""

from __future__ import annotations

from itertools import chain, count

import apsw

from lcm_mcp.errors import ImportRefused, InvalidArgument
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.writing import checked_key
from lcm_mcp.transcript import placing, sessions, store
from lcm_mcp.transcript.importers import SessionFound
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import NewSession, Session
from lcm_mcp.values import frozen

NO_ROW = Seq(0)


@frozen
class _File:
    """What is said of a file: the source that its sessions are known under, and its path."""

    origin: str
    path: str


def open_session(db: apsw.Connection, origin: str, path: str, found: SessionFound) -> tuple[Session, bool]:
    """The session, and whether it was made; one made for a child's sake gets its title now.

    Raises ImportRefused.
    """
    file = _File(origin, path)
    project = None if found.project is None else readable(found.project)
    session = _known(db, file, found.key, found.native_id)
    if session is not None:
        sessions.complete(db, session.id, found.title, project)
        _link_late(db, file, session, found)
        return session, False
    parent = _parent(db, file, found, project)
    key = found.key if found.native_id is None else _free_key(db, file, found.key)
    new = NewSession(
        key=_key(file, key),
        title=found.title,
        project=project,
        source=origin,
        native_id=readable(found.native_id or key),
        parent=None if parent is None else parent.id,
        link=None if parent is None else found.link,
        opener=_opener(db, found, parent),
    )
    return sessions.create(db, new, now_ms()), True


def note_replay(db: apsw.Connection, session: SessionId, upto: Seq | None) -> Seq | None:
    """Note where a fork leaves what it replays of its parent, looking on from row `upto`; None once that is
    settled, or there is nothing to note."""
    found = None if upto is None else sessions.find_by_id(db, session)
    if upto is None or found is None or found.link != "fork" or found.parent is None:
        return None
    if found.opener is not None:
        return None
    same = store.same_rows(db, session, found.parent, upto)
    if same == found.next_seq - 1:
        return same
    sessions.note_opener(db, session, same or None)
    return None


def _link_late(db: apsw.Connection, file: _File, session: Session, found: SessionFound) -> None:
    if session.link == "child" and session.opener is None and found.opener_entry_id is not None:
        opener = _opener(db, found, sessions.find_by_id(db, session.parent or session.id))
        sessions.note_opener(db, session.id, opener)
    if found.link == "fork" and session.parent is None:
        parent = _parent(db, file, found, None)
        if parent is not None and parent.id != session.id:
            sessions.link_fork(db, session.id, parent.id)


def _key(file: _File, key: str) -> str:
    """A file's own key, checked. Raises ImportRefused, which names the file and lets the others go on."""
    try:
        return checked_key(key)
    except InvalidArgument as error:
        raise ImportRefused(
            file.path, f"the session's key in it cannot be used ({error})", "Give one with --session"
        ) from error


def _known(db: apsw.Connection, file: _File, key: str, native_id: str | None = None) -> Session | None:
    """The stored session that a file's own identity means; a mere name means none."""
    if native_id is not None:
        return sessions.find_by_native(db, file.origin, readable(native_id))
    key = _key(file, key)
    return sessions.find_by_native(db, file.origin, key) or sessions.find_by_key(db, key)


def _free_key(db: apsw.Connection, file: _File, name: str) -> str:
    """A name as a key, with a number behind it where other sessions bear it."""
    name = _key(file, name)
    keys = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(key for key in keys if sessions.find_by_key(db, key) is None)


def _parent(db: apsw.Connection, file: _File, found: SessionFound, project: str | None) -> Session | None:
    """The session that this one starts from; a child's is made where it is not known (or told of later)."""
    if found.parent_key is None:
        return None
    known = _known(db, file, found.parent_key)
    if known is not None or found.link == "fork":
        return known
    key = _key(file, found.parent_key)
    return sessions.create(db, NewSession(key, project=project, source=file.origin, native_id=key), now_ms())


def _opener(db: apsw.Connection, found: SessionFound, parent: Session | None) -> Seq | None:
    if parent is None or found.opener_entry_id is None:
        return None
    return placing.find_entry(db, parent.id, readable(found.opener_entry_id))
