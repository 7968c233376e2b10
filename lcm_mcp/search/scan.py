"""Searching by reading: rows and summaries of the given sessions, one after the other.

There is one order, that in which texts were stored, so one cursor serves rows and summaries alike. The
scan is exact in every language and stays as the oracle of any index. It reads until it has its page or
its time is over, and says truthfully which. Functions take a connection and never write.
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


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: sessions with their leaves; in a single one also only some rows, or some summaries."""

    sessions: Mapping[SessionId, Seq]
    rows: Sequence[Segment] | None = None
    nodes: frozenset[NodeId] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as a hit; since and until are milliseconds since 1970 UTC, both included."""

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
    count what was read, last is the last text read.
    """

    found: tuple[Found, ...]
    more: bool
    finished: bool
    rows: int
    summaries: int
    last: TextId | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    text_id: int
    session: SessionId
    seq: Seq | None
    node: NodeId | None
    role: Role | None
    at: int
    last: Seq
    texts: tuple[str, ...]


# {before} and {direction} are < DESC or > ASC; each is a walk along one index that is in order already. The
# plus signs keep SQLite from going session by session instead and sorting all there is.
_ROWS_OF_SESSION = """SELECT row.text, row.session, row.seq, row.role, row.at, text.body
    FROM row JOIN text ON text.id = row.text
    WHERE row.session = ?1 AND row.seq BETWEEN ?2 AND ?3 AND row.text {before} ?4
    ORDER BY row.seq {direction}"""

_ROWS_OF_STORE = """SELECT row.text, row.session, row.seq, row.role, row.at, text.body
    FROM row JOIN text ON text.id = row.text
    WHERE row.text {before} ?1 AND +row.session IN (SELECT value FROM json_each(?2))
    ORDER BY row.text {direction}"""

_SUMMARIES = """SELECT tier.text, node.session, node.id, node.last, node.made_at, text.body, rich_text.body
    FROM tier JOIN node ON node.session = tier.session AND node.id = tier.node
    JOIN text ON text.id = tier.text
    LEFT JOIN tier AS rich ON rich.session = node.session AND rich.node = node.id AND rich.kind = 'rich'
    LEFT JOIN text AS rich_text ON rich_text.id = rich.text
    WHERE tier.kind = 'primary' AND tier.text {before} ?1 AND {of}
    ORDER BY tier.text {direction}"""

_BEYOND = 2**62


def scan(
    db: apsw.Connection, scope: Scope, wanted: Wanted, limit: int, after: TextId | None, seconds: float
) -> Scanned:
    """At most `limit` hits beyond text `after`, in stored order; gives up after `seconds`."""
    deadline = time.monotonic() + seconds
    paths = {session: Path(db, session, leaf) for session, leaf in scope.sessions.items()}
    found: list[Found] = []
    rows = summaries = 0
    last: TextId | None = None
    for candidate in _candidates(db, scope, wanted, after):
        read = rows + summaries
        if read and read % CLOCK_EVERY == 0 and time.monotonic() > deadline:
            return Scanned(tuple(found), True, False, rows, summaries, last)
        rows, summaries = rows + (candidate.node is None), summaries + (candidate.node is not None)
        last = TextId(candidate.text_id)
        hit = _match(candidate, wanted, paths)
        if hit is None:
            continue
        if len(found) == limit:
            return Scanned(tuple(found), True, True, rows, summaries, last)
        found.append(hit)
    return Scanned(tuple(found), False, True, rows, summaries, last)


def _match(candidate: _Candidate, wanted: Wanted, paths: Mapping[SessionId, Path]) -> Found | None:
    if not _in_time(candidate.at, wanted) or (wanted.role is not None and candidate.role != wanted.role):
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
    db: apsw.Connection, scope: Scope, wanted: Wanted, after: TextId | None
) -> Iterator[_Candidate]:
    """Everything in scope in stored order: rows and summaries, merged lazily."""
    bound = after if after is not None else (_BEYOND if wanted.newest_first else 0)
    streams: list[Iterable[_Candidate]] = []
    if wanted.rows:
        streams.append(_rows(db, scope, wanted, bound))
    if wanted.summaries and wanted.role is None:
        streams.append(_summaries(db, scope, wanted, bound))
    return iter(heapq.merge(*streams, key=_text_id, reverse=wanted.newest_first))


def _text_id(candidate: _Candidate) -> int:
    return candidate.text_id


def _rows(db: apsw.Connection, scope: Scope, wanted: Wanted, bound: int) -> Iterator[_Candidate]:
    for text_id, session, seq, role, at, body in _row_tuples(db, scope, wanted, bound):
        yield _Candidate(text_id, SessionId(session), Seq(seq), None, role, at, Seq(seq), (body,))


def _row_tuples(
    db: apsw.Connection, scope: Scope, wanted: Wanted, bound: int
) -> Iterator[tuple[int, int, int, Role, int, str]]:
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
    # One session by equality: only so its own index gives the order without a sort.
    one = len(scope.sessions) == 1
    query = _SUMMARIES.replace(
        "{of}", "tier.session = ?2" if one else "+tier.session IN (SELECT value FROM json_each(?2))"
    )
    sessions = next(iter(scope.sessions)) if one else _numbers(scope)
    for text_id, session, node, last, made_at, body, rich in db.execute(
        _ordered(query, wanted), (bound, sessions)
    ):
        if scope.nodes is None or node in scope.nodes:
            texts = (body,) if rich is None else (rich, body)
            yield _Candidate(text_id, SessionId(session), None, NodeId(node), None, made_at, Seq(last), texts)


def _numbers(scope: Scope) -> str:
    """The sessions as a JSON list: a set of any size in one binding."""
    return json.dumps(list(scope.sessions))


def _ordered(query: str, wanted: Wanted) -> str:
    before, direction = ("<", "DESC") if wanted.newest_first else (">", "ASC")
    return query.replace("{before}", before).replace("{direction}", direction)
