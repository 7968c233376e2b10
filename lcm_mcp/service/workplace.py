"""What every use case stands on, and the rules for which session and which thing a call means.

Reads without a session take the configured one, else the main one last active in this project, else in the
whole store (a search takes the whole project); every answer names what it used. Nothing here writes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import cast

import apsw

from lcm_mcp.dag.model import Node
from lcm_mcp.dag.store import find_node, spans_back
from lcm_mcp.errors import InvalidArgument, NoSession, UnknownAddress, UnknownSession
from lcm_mcp.ids import (
    Address,
    FileAddress,
    FileId,
    NodeAddress,
    NodeId,
    RangeAddress,
    RowAddress,
    Seq,
    SessionId,
    format_address,
    parse_address,
)
from lcm_mcp.search.meaning import Meaning
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.background import Background, Report, no_report
from lcm_mcp.service.left import Left
from lcm_mcp.service.splicing import Change
from lcm_mcp.service.viewing import View
from lcm_mcp.settings import Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.metered import Model
from lcm_mcp.summarizers.model import Summarizer
from lcm_mcp.transcript import files, sessions, store
from lcm_mcp.transcript.model import File, Row
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

EVERYWHERE = "*"
"""As a project, or as the session of a search: all of them."""


@frozen
class Workplace:
    """The open store, the settings in force and the summarizers in the order they are tried: models, each
    call of which is accounted for, then the chain's end, which costs nothing.

    meaning is the model of semantic search, where that is on. background holds the passes under way, left the
    followed files that reads had no time for; report is told how far the call at hand is; held_images are
    those that sessions were found to hold; unfinished is what the cursor of the page given last goes on with.
    """

    store: Store
    settings: Settings
    chain: Sequence[Summarizer]
    models: Sequence[Model] = ()
    background: Background = field(default_factory=Background)
    left: Left = field(default_factory=Left)
    meaning: Meaning | None = None
    report: Report = no_report
    held_images: set[tuple[SessionId, int]] = field(default_factory=set[tuple[SessionId, int]])
    unfinished: dict[str, tuple[View, Change]] = field(default_factory=dict[str, "tuple[View, Change]"])

    @property
    def project(self) -> str:
        """The client's folder: where this process was started."""
        return os.getcwd()


def strategy_of(work: Workplace, session: Session) -> Strategy:
    """The strategy that prepares a session: its own where one was selected, else the configured one."""
    return cast("Strategy", session.strategy or work.settings.strategy)


def wanted_session(db: apsw.Connection, work: Workplace, key: str | None) -> Session:
    """The session a read means. Raises UnknownSession or NoSession."""
    wanted = work.settings.session if key is None else key
    if wanted is not None:
        return named_session(db, wanted)
    found = sessions.last_active(db, work.project)
    if found is None:
        raise NoSession
    return found


def default_session(db: apsw.Connection, work: Workplace) -> SessionId | None:
    """The session that reads mean when they name none; None where there is none."""
    try:
        return wanted_session(db, work, None).id
    except (NoSession, UnknownSession):
        return None


def named_session(db: apsw.Connection, name: str) -> Session:
    """The session with this key, or with this number written s7. Raises UnknownSession."""
    name = readable(name)
    found = sessions.find_by_key(db, name)
    if found is None and name[:1] == "s" and name[1:].isascii() and name[1:].isdigit() and len(name) < 19:
        found = sessions.find_by_id(db, SessionId(int(name[1:])))
    if found is None:
        raise UnknownSession(name[:200], sessions.keys_from(db, name, 3))
    return found


def addressed(
    db: apsw.Connection, work: Workplace, address: Address, key: str | None
) -> tuple[Session, Address]:
    """The session an address lies in, which the address itself may name."""
    if address.session is None:
        return wanted_session(db, work, key), address
    found = sessions.find_by_id(db, address.session)
    if found is None:
        raise UnknownSession(f"s{address.session}")
    if key is not None and named_session(db, key).id != found.id:
        raise InvalidArgument(
            "session",
            f"{key[:80]!r} is not the session that {format_address(address)} lies in",
            "Give one of the two.",
        )
    return found, address


def existing_row(db: apsw.Connection, session: Session, seq: Seq) -> Row:
    row = store.read_row(db, session.id, seq)
    if row is None:
        raise UnknownAddress(f"e{seq}", session.key)
    return row


def existing_node(db: apsw.Connection, session: Session, node: NodeId) -> Node:
    found = find_node(db, session.id, node)
    if found is None:
        raise UnknownAddress(f"#{node}", session.key)
    return found


def existing_file(db: apsw.Connection, session: Session, number: FileId) -> File:
    found = files.find(db, session.id, number)
    if found is None:
        raise UnknownAddress(f"f{number}", session.key)
    return found


def parse_node(text: str, argument: str) -> NodeAddress:
    """An address that has to be a node's, given as this argument."""
    address = parse_address(text)
    if not isinstance(address, NodeAddress):
        raise InvalidArgument(argument, f"{text[:80]!r} is not a node", "Use a node's id such as #12.")
    return address


@frozen
class Chain:
    """The rows an address stands for: a path and the first and last row on it."""

    path: Path
    first: Seq
    last: Seq


def chain_of(db: apsw.Connection, session: Session, address: Address) -> Chain:
    """The rows of a row, a range or a node, or the row that holds a file, in order. Raises UnknownAddress.

    A node's rows are the chain back from its last row. A range is read along the active path where both
    ends lie on it, else back from its last row.
    """
    match address:
        case RowAddress(seq=seq):
            existing_row(db, session, seq)
            return Chain(Path(db, session.id, seq), seq, seq)
        case NodeAddress(node=number):
            node = existing_node(db, session, number)
            return Chain(Path(db, session.id, node.last), node.first, node.last)
        case FileAddress(file=number):
            seq = existing_file(db, session, number).seq
            return Chain(Path(db, session.id, seq), seq, seq)
        case RangeAddress(first=first, last=last):
            existing_row(db, session, first)
            existing_row(db, session, last)
            path = Path(db, session.id, session.leaf)
            return Chain(path if last in path else Path(db, session.id, last), first, last)


class Cover:
    """Which frontier node covers a row of a session, for labelling what is found; read as far as asked."""

    def __init__(self, db: apsw.Connection, session: Session, path: Path | None = None) -> None:
        """path: its active path, where that was read already."""
        self.path = path or Path(db, session.id, session.leaf)
        self._more = spans_back(db, session.id, self.path, session.leaf)
        self._known: list[tuple[NodeId, Seq, Seq]] = []

    def node_of(self, seq: Seq) -> str | None:
        """The node's id, or None where the row is removed or not summarized yet."""
        if seq not in self.path:
            return None
        while not self._known or self._known[-1][1] > seq:
            following = next(self._more, None)
            if following is None:
                break
            self._known.append(following)
        for node, first, last in reversed(self._known):
            if last >= seq:
                return f"#{node}" if first <= seq else None
        return None
