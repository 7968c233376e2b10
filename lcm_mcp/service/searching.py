"""lcm_grep: from a query in words to a page of hits, with the truth about what was searched.

Without a session the whole project is searched. A literal search that finds nothing offers up to three
rows that hold all its words, labelled as near hits, and any search how many removed rows hold it; nothing is
ever rewritten or guessed silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.errors import InvalidArgument, NoSession
from lcm_mcp.ids import NodeAddress
from lcm_mcp.search.match import Matcher, literal, snippet, words
from lcm_mcp.search.regex import expression
from lcm_mcp.search.scan import Found, Scanned, Wanted, scan
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.streams import Position
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import Hit, HitPage
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.service.times import iso, parse_time
from lcm_mcp.service.workplace import (
    EVERYWHERE,
    Cover,
    Workplace,
    addressed,
    default_session,
    existing_node,
    named_session,
    parse_node,
)
from lcm_mcp.transcript import store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen
from lcm_mcp.wording import count

_ASKED = attrgetter(*(name for name in GrepQuery.__dataclass_fields__ if name not in ("limit", "cursor")))
MAX_PATTERN_CHARACTERS = 500
SCAN_S = 5.0
NEAR_HITS = 3


@frozen
class Place:
    """Where a query looks: in words, under a name that stays the same as sessions come and grow."""

    name: str
    words: str
    scope: Scope
    full_addresses: bool


def grep(db: apsw.Connection, work: Workplace, query: GrepQuery) -> HitPage:
    """One page of the rows and summaries that hold the pattern."""
    check_length("pattern", query.pattern)
    place = place_of(db, work, query)
    asked = (*same_query(query), place.name)
    after, seen = None, 0
    if query.cursor is not None:
        *place_after, seen = (int(value) for value in cursors.read(query.cursor, asked, int, int, int, int))
        after = Position(*place_after)
    wanted = wanted_by(query)
    scanned = scan(db, place.scope, wanted, query.limit, after, SCAN_S)
    count = seen + len(scanned.found)
    near = _near(db, place, query, wanted) if count == 0 and scanned.finished else ()
    ended = scanned.finished and not scanned.more
    return HitPage(
        scope=place.words,
        hits=hits_of(db, place, scanned.found),
        near=near,
        total=count if ended else None,
        at_least=count + (scanned.finished and scanned.more),
        complete=scanned.finished,
        reason=None if scanned.finished else f"stopped after {SCAN_S:g} s; next_cursor goes on from there",
        searched=_searched(query, place, scanned),
        next_cursor=None if ended else _next(asked, scanned, count),
    )


def check_length(name: str, text: str) -> None:
    """Refuses what is too long to look for, or empty."""
    if not 1 <= len(text) <= MAX_PATTERN_CHARACTERS:
        raise InvalidArgument(
            name, f"it has {len(text)} characters", f"Give 1 to {MAX_PATTERN_CHARACTERS} characters."
        )


def same_query(query: GrepQuery) -> tuple[object, ...]:
    """What makes two queries one search: all but how much of it is wanted at a time."""
    return *_ASKED(query), 0, None


def _next(asked: Sequence[object], scanned: Scanned, count: int) -> str:
    """Goes on behind the last hit; a search that ran out of time behind the last text it read."""
    behind = scanned.found[-1].position if scanned.finished and scanned.found else scanned.last
    assert behind is not None  # time is only looked at when something was read
    return cursors.make(asked, (*behind, count))


def wanted_by(query: GrepQuery) -> Wanted:
    return Wanted(
        matcher=_matcher(readable(query.pattern), query),
        rows=query.scope in ("all", "rows"),
        summaries=query.scope in ("all", "summaries"),
        role=query.role,
        since=None if query.since is None else parse_time("since", query.since),
        until=None if query.until is None else parse_time("until", query.until),
        include_removed=query.include_removed,
        newest_first=query.order != "oldest",
    )


def _matcher(pattern: str, query: GrepQuery) -> Matcher:
    match query.mode:
        case "literal":
            return literal(pattern, case_sensitive=query.case_sensitive)
        case "words":
            return words(pattern, case_sensitive=query.case_sensitive)
        case "regex":
            return expression(pattern, case_sensitive=query.case_sensitive)


def place_of(db: apsw.Connection, work: Workplace, query: GrepQuery) -> Place:
    if query.node is not None:
        return _inside_node(db, work, query, query.node)
    key = query.session
    if key not in (None, EVERYWHERE):
        return _one_session(db, named_session(db, key))
    everything = Scope(db)
    if not everything.count:
        raise NoSession
    if key == EVERYWHERE:
        return _many_sessions(db, work, "the whole store", everything)
    ours = Scope(db, work.project)
    if not ours.count:
        return _many_sessions(db, work, "the whole store", everything, "; none belongs to this folder")
    others = everything.count - ours.count
    remark = f'; {others} elsewhere, searched with session "{EVERYWHERE}"' if others else ""
    return _many_sessions(db, work, f"project {work.project}", ours, remark)


def _one_session(db: apsw.Connection, session: Session) -> Place:
    return Place(f"s{session.id}", f"session {session.key}", Scope(db, session=session), False)


def _many_sessions(db: apsw.Connection, work: Workplace, name: str, scope: Scope, remark: str = "") -> Place:
    where, full = f"{name} (sessions: {scope.count}{remark})", True
    if scope.count == 1:
        (only,) = scope.numbers
        scope = Scope(db, session=scope.session(only))
        # An address may be short only where a read without a session means the very one that was searched.
        full = default_session(db, work) != only
    return Place(name, where, scope, full)


def _inside_node(db: apsw.Connection, work: Workplace, query: GrepQuery, node: str) -> Place:
    """A node's rows, its own summary and every summary below it."""
    named = parse_node(node, "node")
    session, address = addressed(db, work, named, query.session)
    assert isinstance(address, NodeAddress)
    found = existing_node(db, session, address.node)
    rows = Path(db, session.id, found.last).between(found.first, found.last)
    below = dag.with_descendants(db, session.id, found.id)
    where = f"node #{found.id} of session {session.key}"
    scope = Scope(db, session=session, rows=rows, nodes=below)
    full = named.session is not None
    return Place(f"s{session.id}/#{found.id}", where, scope, full)


def hits_of(db: apsw.Connection, place: Place, found: Sequence[Found]) -> tuple[Hit, ...]:
    scope = place.scope
    covers = {
        session: Cover(db, scope.session(session), scope.path(session))
        for session in {hit.session for hit in found}
    }
    rows = {hit.text_id: hit.session for hit in found if hit.node is None}
    nodes = {hit.text_id: hit.session for hit in found if hit.node is not None}
    others = {**(store.others(db, rows) if rows else {}), **(dag.others(db, nodes) if nodes else {})}

    def shown(hit: Found) -> Hit:
        session = scope.session(hit.session)
        prefix = f"s{session.id}/" if place.full_addresses else ""
        own = f"e{hit.seq}" if hit.seq is not None else f"#{hit.node}"
        covering = None if hit.seq is None else covers[hit.session].node_of(hit.seq)
        return Hit(
            ref=prefix + own,
            kind=hit.kind,
            session=session.key,
            role=hit.role,
            at=iso(hit.at),
            snippet=snippet(hit.text, hit.place),
            offset=hit.place.start,
            node=None if covering is None else prefix + covering,
            removed=hit.removed,
            also=tuple(others[hit.text_id].values()) if hit.text_id in others else (),
        )

    return tuple(map(shown, found))


def _near(db: apsw.Connection, place: Place, query: GrepQuery, wanted: Wanted) -> tuple[Hit, ...]:
    """Rows that hold every word of a literal pattern which itself was not found."""
    if query.mode != "literal" or query.cursor is not None or len(query.pattern.split()) < 2:
        return ()
    loose = words(readable(query.pattern), case_sensitive=query.case_sensitive)
    scanned = scan(db, place.scope, replace(wanted, matcher=loose), NEAR_HITS, None, SCAN_S)
    return hits_of(db, place, scanned.found)


def _searched(query: GrepQuery, place: Place, scanned: Scanned) -> str:
    """In words: what was looked through and how it was compared; what the index rules out is not read.

    Of a search that found nothing also how many removed rows and summaries it would have found.
    """
    rows, summaries = count(scanned.rows, "row"), count(scanned.summaries, "summary", "summaries")
    what, read = {
        "all": ("rows and summaries", f"{rows} and {summaries}"),
        "rows": ("rows", rows),
        "summaries": ("summaries", summaries),
    }[query.scope]
    case = "with case" if query.case_sensitive else "without case"
    removed = "removed rows included" if query.include_removed else "removed rows left out"
    if scanned.removed and not scanned.found:
        removed += f", of which {scanned.removed} match (include_removed)"
    return f"{what} in {place.words}, {query.mode} {case}, {removed}; {read} had to be read"
