"""Where a search looks: a session or a part of one, or all sessions of a project or of the store.

Of many sessions none is read before something is found in it, and how much they hold is told from the newest
few, so that a search costs no more in a store of thousands. Valid inside one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import apsw

from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path, Segment
from lcm_mcp.transcript.sessions import Session

_COUNTED: Final = 64
"""Sessions whose rows and nodes are counted; others are taken to have as many."""
SPARSE: Final = 16
"""Rows of a project that are fewer than one of so many in the store are got session by session and put in
order; of more, the store's are gone through in theirs."""

_MEASURED = f"""SELECT (SELECT count(*) FROM session {{whose}}),
    count(*), coalesce(sum(next_seq - 1), 0), coalesce(sum(next_node - 1), 0)
    FROM (SELECT next_seq, next_node FROM session {{whose}} ORDER BY {{newest}} DESC LIMIT {_COUNTED})"""
_OF_STORE = _MEASURED.format(whose="", newest="id")
_OF_PROJECT = _MEASURED.format(whose="WHERE project = ?1", newest="active_at")


class Scope:
    """All sessions of a project (None: of the store), or one session, and of that only some rows or summaries
    where these are given."""

    def __init__(
        self,
        db: apsw.Connection,
        project: str | None = None,
        *,
        session: Session | None = None,
        leaf: Seq | None = None,
        rows: Sequence[Segment] | None = None,
        nodes: frozenset[NodeId] | None = None,
    ) -> None:
        """leaf: the session's path is read from there, not from where it ends."""
        self._db = db
        self.project: Final = project
        self._wanted: Final = sessions.Filter(project)
        self.rows: Final = rows
        self.nodes: Final = nodes
        self.one: Final = session and session.id
        self._sessions: dict[int, Session] = {}
        self._paths: dict[int, Path] = {}
        if session is not None:
            self._sessions[session.id] = session
            self._paths[session.id] = Path(db, session.id, session.leaf if leaf is None else leaf)

    def __contains__(self, session: int) -> bool:
        if self.one is not None:
            return session == self.one
        return self.project is None or self.session(session).project == self.project

    def holds(self, seq: int) -> bool:
        """Whether the row of this number is not left out."""
        return self.rows is None or any(part.low <= seq <= part.high for part in self.rows)

    def session(self, number: int) -> Session:
        """The session of this number, which is there."""
        if number not in self._sessions:
            self._sessions[number] = sessions.existing(self._db, SessionId(number))
        return self._sessions[number]

    def path(self, session: int) -> Path:
        """Its active path."""
        if session not in self._paths:
            self._paths[session] = Path(self._db, SessionId(session), self.session(session).leaf)
        return self._paths[session]

    @property
    def count(self) -> int:
        """How many sessions there are."""
        return 1 if self.one is not None else self._measured[0]

    @cached_property
    def listed(self) -> str:
        """The numbers of all its sessions as a JSON array."""
        return json.dumps(self.numbers)

    @cached_property
    def numbers(self) -> Sequence[SessionId]:
        return [self.one] if self.one is not None else sessions.numbers(self._db, self._wanted)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many rows and nodes it has, about so many where the sessions are many."""
        if self.one is None:
            return self._measured[1:]
        only = self.session(self.one)
        rows = None if self.rows is None else sum(part.high - part.low + 1 for part in self.rows)
        return (
            only.next_seq - 1 if rows is None else rows,
            only.next_node - 1 if self.nodes is None else len(self.nodes),
        )

    def is_sparse(self, texts: int) -> bool:
        """Whether it is one project of many in a store of so many texts."""
        return self.project is not None and self.sizes[0] * SPARSE <= texts

    @cached_property
    def _measured(self) -> tuple[int, int, int]:
        """How many sessions there are, and how many rows and nodes these have as told from the newest."""
        query, given = (_OF_STORE, ()) if self.project is None else (_OF_PROJECT, (self.project,))
        count, looked, rows, nodes = next(self._db.execute(query, given))
        times = count / max(1, looked)
        return count, round(rows * times), round(nodes * times)
