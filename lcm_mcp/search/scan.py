"""Searching by reading: rows and summaries of the given sessions, one after the other.

There is one order, that of the conversation: rows as they were stored, a summary right after the last row
it covers and at that row's time. So one cursor serves rows and summaries alike. The scan is exact in every
language and stays as the oracle of any index. It reads until it has its page or its time is over, and says
truthfully which. Functions take a connection and never write.
"""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import apsw

from lcm_mcp.ids import NodeId, Seq, SessionId, TextId
from lcm_mcp.search.match import Matcher, Place
from lcm_mcp.transcript.model import Role
from lcm_mcp.transcript.path import FIRST, Path, Segment

CLOCK_EVERY = 64
"""Candidates read between two looks at the clock."""


Position = tuple[int, int]
"""Where a row or a summary stands: the text of the (last) row, then 0 for the row, else the node's number."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: sessions with their leaves; in a single one also only some rows, or some summaries."""

    sessions: Mapping[SessionId, Seq]
    rows: Sequence[Segment] | None = None
    nodes: frozenset[NodeId] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as a hit; since and until are milliseconds since 1970 UTC, both included.

    A row with tool results counts as the tool's whatever its role: some providers send results as the
    user's, and who looks for what the user said does not mean them.
    """

    matcher: Matcher
    rows: bool = True
    summaries: bool = True
    role: Role | None = None
    since: int | None = None
    until: int | None = None
    include_removed: bool = False
    newest_first: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A hit: a row has seq and role, a summary has node; text is where the match stands."""

    position: Position
    text_id: TextId
    session: SessionId
    kind: Literal["row", "summary"]
    seq: Seq | None
    node: NodeId | None
    role: Role | None
    at: int
    removed: bool
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Scanned:
    """A page of hits.

    more: there are further hits, or may be; finished: time was enough for this page. rows and summaries
    count what was read, last is the position of the last one read.
    """

    found: tuple[Found, ...]
    more: bool
    finished: bool
    rows: int
    summaries: int
    last: Position | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    position: Position
    text_id: int
    session: SessionId
    seq: Seq | None
    node: NodeId | None
    role: Role | None
    speaker: Role | None
    at: int
    last: Seq
    texts: tuple[str, ...]


# {before} and {direction} are <= DESC or >= ASC; each is a walk along one index that is in order already. The
# plus sign keeps SQLite from going session by session instead and sorting all there is.
_ROWS_OF_SESSION = """SELECT row.text, row.session, row.seq, row.role, row.results, row.at, text.body
    FROM row JOIN text ON text.id = row.text
    WHERE row.session = ?1 AND row.seq BETWEEN ?2 AND ?3 AND row.text {before} ?4
    ORDER BY row.seq {direction}"""

_ROWS_OF_STORE = """SELECT row.text, row.session, row.seq, row.role, row.results, row.at, text.body
    FROM row JOIN text ON text.id = row.text
    WHERE row.text {before} ?1 AND +row.session IN (SELECT value FROM json_each(?2))
    ORDER BY row.text {direction}"""

# The order of all summaries in scope, without their texts: these are few, and are read one by one.
_SUMMARY_ORDER = """SELECT row.text, node.id, node.session, node.last, row.at
    FROM node JOIN row ON row.session = node.session AND row.seq = node.last
    WHERE node.session IN (SELECT value FROM json_each(?1)) AND row.text {before} ?2
    ORDER BY row.text {direction}, node.id {direction}"""

_SUMMARY_TEXTS = """SELECT text.id, text.body FROM tier JOIN text ON text.id = tier.text
    WHERE tier.session = ? AND tier.node = ? ORDER BY tier.kind DESC"""

_BEYOND = 2**62


def scan(
    db: apsw.Connection, scope: Scope, wanted: Wanted, limit: int, after: Position | None, seconds: float
) -> Scanned:
    """At most `limit` hits beyond position `after`, in order; gives up after `seconds`."""
    deadline = time.monotonic() + seconds
    paths = {session: Path(db, session, leaf) for session, leaf in scope.sessions.items()}
    found: list[Found] = []
    rows = summaries = 0
    last: Position | None = None
    for candidate in _candidates(db, scope, wanted, after):
        read = rows + summaries
        if read and read % CLOCK_EVERY == 0 and time.monotonic() > deadline:
            return Scanned(tuple(found), True, False, rows, summaries, last)
        rows, summaries = rows + (candidate.node is None), summaries + (candidate.node is not None)
        last = candidate.position
        hit = _match(candidate, wanted, paths)
        if hit is None:
            continue
        if len(found) == limit:
            return Scanned(tuple(found), True, True, rows, summaries, last)
        found.append(hit)
    return Scanned(tuple(found), False, True, rows, summaries, last)


def _match(candidate: _Candidate, wanted: Wanted, paths: Mapping[SessionId, Path]) -> Found | None:
    if not _in_time(candidate.at, wanted) or (wanted.role is not None and candidate.speaker != wanted.role):
        return None
    for text in candidate.texts:
        place = wanted.matcher.find(text)
        if place is None:
            continue
        # The path is only looked at for what matches: most texts do not.
        removed = candidate.last not in paths[candidate.session]
        if removed and not wanted.include_removed:
            return None
        return Found(
            position=candidate.position,
            text_id=TextId(candidate.text_id),
            session=candidate.session,
            kind="row" if candidate.node is None else "summary",
            seq=candidate.seq,
            node=candidate.node,
            role=candidate.role,
            at=candidate.at,
            removed=removed,
            text=text,
            place=place,
        )
    return None


def _in_time(at: int, wanted: Wanted) -> bool:
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at <= wanted.until)


def _candidates(
    db: apsw.Connection, scope: Scope, wanted: Wanted, after: Position | None
) -> Iterator[_Candidate]:
    """Everything in scope beyond a position, in order: rows and summaries, merged lazily."""
    bound = after[0] if after is not None else (_BEYOND if wanted.newest_first else 0)
    streams: list[Iterable[_Candidate]] = []
    if wanted.rows:
        streams.append(_rows(db, scope, wanted, bound))
    if wanted.summaries and wanted.role is None:
        streams.append(_summaries(db, scope, wanted, bound))
    for candidate in heapq.merge(*streams, key=_position, reverse=wanted.newest_first):
        # The bound takes in the text that the last page ended at, and a row shares it with its summaries.
        if after is None or _beyond(candidate.position, after, wanted):
            yield candidate


def _position(candidate: _Candidate) -> Position:
    return candidate.position


def _beyond(position: Position, after: Position, wanted: Wanted) -> bool:
    return position < after if wanted.newest_first else position > after


def _rows(db: apsw.Connection, scope: Scope, wanted: Wanted, bound: int) -> Iterator[_Candidate]:
    for text_id, session, seq, role, results, at, body in _row_tuples(db, scope, wanted, bound):
        yield _Candidate(
            position=(text_id, 0),
            text_id=text_id,
            session=SessionId(session),
            seq=Seq(seq),
            node=None,
            role=role,
            speaker="tool" if results else role,
            at=at,
            last=Seq(seq),
            texts=(body,),
        )


def _row_tuples(
    db: apsw.Connection, scope: Scope, wanted: Wanted, bound: int
) -> Iterator[tuple[int, int, int, Role, int, int, str]]:
    """Rows in stored order, which inside one session is that of their numbers."""
    if len(scope.sessions) != 1:
        yield from db.execute(_ordered(_ROWS_OF_STORE, wanted), (bound, _numbers(scope)))
        return
    parts = [Segment(FIRST, Seq(_BEYOND))] if scope.rows is None else list(scope.rows)
    if wanted.newest_first:
        parts.reverse()
    session = next(iter(scope.sessions))
    for part in parts:
        yield from db.execute(_ordered(_ROWS_OF_SESSION, wanted), (session, part.low, part.high, bound))


def _summaries(db: apsw.Connection, scope: Scope, wanted: Wanted, bound: int) -> Iterator[_Candidate]:
    """A summary is one candidate, its thorough text read before its terse one."""
    order = db.execute(_ordered(_SUMMARY_ORDER, wanted), (_numbers(scope), bound))
    for anchor, node, session, last, at in order:
        if scope.nodes is not None and node not in scope.nodes:
            continue
        texts = list(db.execute(_SUMMARY_TEXTS, (session, node)))
        yield _Candidate(
            position=(anchor, node),
            text_id=texts[0][0],
            session=SessionId(session),
            seq=None,
            node=NodeId(node),
            role=None,
            speaker=None,
            at=at,
            last=Seq(last),
            texts=tuple(body for _, body in texts),
        )


def _numbers(scope: Scope) -> str:
    """The sessions as a JSON list: a set of any size in one binding."""
    return json.dumps(list(scope.sessions))


def _ordered(query: str, wanted: Wanted) -> str:
    before, direction = ("<=", "DESC") if wanted.newest_first else (">=", "ASC")
    return query.replace("{before}", before).replace("{direction}", direction)
