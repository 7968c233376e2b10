"""The conversation as a tree: units in branches, and the sessions that start from them. It writes nothing.

Branches and sessions are given flat, each with the unit it hangs under, so that no depth is too deep. A tree
costs all rows of its session, but of their texts only how each unit begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import apsw

from lcm_mcp.ids import Seq
from lcm_mcp.service.workplace import Workplace, wanted_session
from lcm_mcp.transcript import branches, sessions, store
from lcm_mcp.transcript.branches import Branch
from lcm_mcp.transcript.model import Role
from lcm_mcp.transcript.path import all_marks
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import Span, units
from lcm_mcp.values import frozen

SAID_CHARACTERS = 200


@frozen
class TreeUnit:
    """A unit of a branch by its first and last row; said is how the first one begins."""

    first: str
    last: str
    role: Role
    rows: int
    tokens: int
    said: str


@frozen
class TreeBranch:
    """Units oldest first. after is the row the branch leaves, unit the first row of that row's unit; both are
    null where it begins the conversation."""

    after: str | None
    unit: str | None
    active: bool
    rows: int
    tokens: int
    units: tuple[TreeUnit, ...]


@frozen
class Begun:
    """A session that starts from row `opener` of this one; unit is the first row of that row's unit.

    outcome is the row of this session that tells what came of it.
    """

    id: str
    session: str
    link: Literal["fork", "child"]
    title: str | None
    rows: int
    opener: str | None
    unit: str | None
    outcome: str | None


@frozen
class Tree:
    """The active path is the first branch, removed ones follow. parent and opener say what it starts from."""

    session: str
    id: str
    parent: str | None
    link: Literal["fork", "child"] | None
    opener: str | None
    leaf: str | None
    branches: tuple[TreeBranch, ...]
    begun: tuple[Begun, ...]


def tree(db: apsw.Connection, work: Workplace, key: str | None) -> Tree:
    """A session's branches, and what starts from it."""
    session = wanted_session(db, work, key)
    parent = None if session.parent is None else sessions.find_by_id(db, session.parent)
    found = branches.branches(all_marks(db, session.id), session.leaf)
    divided = [(branch, units(branch.marks)) for branch in found]
    unit_of: dict[Seq, Seq] = {}
    for branch, spans in divided:
        place = 0
        for span in spans:
            unit_of |= {mark.seq: span.first for mark in branch.marks[place : place + span.rows]}
            place += span.rows
    return Tree(
        session=session.key,
        id=f"s{session.id}",
        parent=None if parent is None else parent.key,
        link=session.link,
        opener=_ref(session.opener),
        leaf=_ref(session.leaf),
        branches=tuple(_branch(db, session, branch, spans, unit_of) for branch, spans in divided),
        begun=tuple(_begun(one, unit_of) for one in sessions.begun_by(db, session.id)),
    )


def _ref(seq: Seq | None) -> str | None:
    return f"e{seq}" if seq else None


def _branch(
    db: apsw.Connection, session: Session, branch: Branch, spans: list[Span], unit_of: Mapping[Seq, Seq]
) -> TreeBranch:
    first, last = branch.marks[0], branch.marks[-1]
    roles: dict[Seq, Role] = {mark.seq: mark.role for mark in branch.marks}
    return TreeBranch(
        after=_ref(branch.after),
        unit=_ref(unit_of.get(branch.after)),
        active=branch.active,
        rows=len(branch.marks),
        tokens=(last.upto - first.before).tokens,
        units=tuple(_unit(db, session, span, roles[span.first]) for span in spans),
    )


def _unit(db: apsw.Connection, session: Session, span: Span, role: Role) -> TreeUnit:
    text = store.beginning(db, session.id, span.first, 2 * SAID_CHARACTERS)
    said = " ".join(text.split())[:SAID_CHARACTERS]
    return TreeUnit(f"e{span.first}", f"e{span.last}", role, span.rows, span.tokens, said)


def _begun(session: Session, unit_of: Mapping[Seq, Seq]) -> Begun:
    return Begun(
        id=f"s{session.id}",
        session=session.key,
        link=session.link or "child",
        title=session.title,
        rows=session.rows,
        opener=_ref(session.opener),
        unit=_ref(None if session.opener is None else unit_of.get(session.opener)),
        outcome=_ref(session.outcome),
    )
