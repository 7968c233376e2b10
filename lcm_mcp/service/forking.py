"""lcm_fork and lcm_rewind: another way on from an earlier row, in a session of its own or in the same one.

A fork copies places and numbers, never texts: nothing is summarized, stored or indexed again. A rewind
writes where the path ends, and nothing else; what is off the path then is removed until it comes back. Both
are one transaction, and both repeated change nothing.
"""

from __future__ import annotations

from itertools import count

import apsw

from lcm_mcp.dag.copying import copied, copy_nodes
from lcm_mcp.errors import InvalidArgument, SessionExists
from lcm_mcp.ids import Seq
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace, wanted_session
from lcm_mcp.service.writing import checked_key
from lcm_mcp.transcript import placing, sessions, store
from lcm_mcp.transcript.appending import append
from lcm_mcp.transcript.copying import copy_rows
from lcm_mcp.transcript.model import BEGINNING, Draft, Text
from lcm_mcp.transcript.path import Path, common
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.transcript.sessions import MAX_KEY_CHARACTERS, Session
from lcm_mcp.values import frozen


@frozen
class Forked:
    """A fork: created is false where this very fork was there already.

    rows were copied, up to row `at` of parent; nodes_omitted of its nodes were not. marker is the row that
    says where the fork came from, null where there is none. last_seq as a receipt of lcm_append tells it.
    """

    session: str
    id: str
    created: bool
    parent: str
    at: str
    rows: int
    nodes_copied: int
    nodes_omitted: int
    marker: str | None
    last_seq: int


@frozen
class Rewound:
    """How many rows are off the path now that were on it, how many are on it again, and where it ends."""

    session: str
    removed: int
    restored: int
    leaf: str


async def fork(work: Workplace, key: str | None, at: str | None, new: str | None, marker: bool) -> Forked:
    """Make a session of the path up to row `at` (None: its end). Raises SessionExists."""
    new = None if new is None else checked_key(new, "new_session")
    return await work.store.write(_fork, work, key, at, new, marker)


async def rewind(work: Workplace, key: str | None, to: str) -> Rewound:
    """Let a session's path end at row `to`, back or sideways; e0 is before the first."""
    return await work.store.write(_rewind, work, key, to)


def _fork(
    db: apsw.Connection, work: Workplace, key: str | None, at: str | None, new: str | None, marker: bool
) -> Forked:
    source = wanted_session(db, work, key)
    checkpoint = source.leaf if at is None else _row(db, source, "at", at)
    if checkpoint == 0:
        raise InvalidArgument("session", f"{source.key!r} ends before its first row", "Give a row as `at`.")
    name = _free_key(db, source, checkpoint) if new is None else new
    found = sessions.find_by_key(db, name)
    if found is not None:
        if (found.link, found.parent, found.opener) != ("fork", source.id, checkpoint):
            raise SessionExists(name)
        return _told(db, source, found, created=False)
    made = _make(db, source, name, checkpoint)
    if marker:
        append(db, made, [seal(_marker(source, made, checkpoint))], now_ms())
    return _told(db, source, made, created=True)


def _make(db: apsw.Connection, source: Session, key: str, at: Seq) -> Session:
    path = Path(db, source.id, at)
    row = store.read_row(db, source.id, at)
    assert row is not None
    rows = store.path_totals(db, source.id, at).inputs
    made = sessions.create_fork(db, source, key, at, rows, row.at, now_ms())
    copy_rows(db, source.id, path, made.id)
    copy_nodes(db, source.id, path, made.id)
    return made


def _free_key(db: apsw.Connection, source: Session, at: Seq) -> str:
    """A key for a fork that nobody named."""
    stem = source.key[: MAX_KEY_CHARACTERS - 30]
    keys = (f"{stem}/fork-e{at}{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(key for key in keys if sessions.find_by_key(db, key) is None)


def _marker(source: Session, made: Session, at: Seq) -> Draft:
    """The row that says where a fork came from; it opens no unit and asks for nothing."""
    said = f"[lcm:fork] This conversation was forked from session {source.key!r} at s{source.id}/e{at}."
    return Draft("system", (Text(said),), entry_id=_marker_id(made))


def _marker_id(made: Session) -> str:
    return f"lcm:fork s{made.id}"


def _told(db: apsw.Connection, source: Session, fork: Session, *, created: bool) -> Forked:
    nodes = copied(db, source.id, fork.id)
    assert fork.opener is not None
    now = sessions.existing(db, fork.id)
    marker = placing.find_entry(db, fork.id, _marker_id(fork))
    return Forked(
        session=fork.key,
        id=f"s{fork.id}",
        created=created,
        parent=source.key,
        at=f"e{fork.opener}",
        rows=store.path_totals(db, fork.id, fork.opener).inputs,
        nodes_copied=nodes.nodes,
        nodes_omitted=nodes.omitted,
        marker=None if marker is None else f"e{marker}",
        last_seq=now.next_seq - 1,
    )


def _rewind(db: apsw.Connection, work: Workplace, key: str | None, to: str) -> Rewound:
    session = wanted_session(db, work, key)
    leaf = Seq(0) if _is_beginning(session, to) else _row(db, session, "to", to)
    if leaf != session.leaf:
        sessions.move_leaf(db, session.id, leaf)
    shared = store.path_totals(db, session.id, common(db, session.id, session.leaf, leaf)).inputs
    return Rewound(
        session=session.key,
        removed=store.path_totals(db, session.id, session.leaf).inputs - shared,
        restored=store.path_totals(db, session.id, leaf).inputs - shared,
        leaf=f"e{leaf}",
    )


def _is_beginning(session: Session, name: str) -> bool:
    return name.strip() in (BEGINNING, f"s{session.id}/{BEGINNING}")


def _row(db: apsw.Connection, session: Session, argument: str, name: str) -> Seq:
    """The row of the session that a ref or an entry_id names."""
    found = placing.find_row(db, session.id, readable(name))
    if found is None:
        raise InvalidArgument(
            argument,
            f"{name[:80]!r} is neither a row nor an entry_id of session {session.key!r}",
            "Give a ref such as e104; lcm_grep finds rows.",
        )
    return found
