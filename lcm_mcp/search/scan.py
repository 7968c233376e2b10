"""A page of hits: what may match is read in order, and what does match is kept.

One cursor serves rows and summaries alike. A text that several sessions hold is one hit. The search goes on
until it has its page or its time is over, and says truthfully which. Functions take a connection and never
write.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Literal, NamedTuple

import apsw

from lcm_mcp.ids import NodeId, Seq, SessionId, TextId
from lcm_mcp.search import streams
from lcm_mcp.search.index import Sought
from lcm_mcp.search.match import Matcher, Place
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.streams import Candidate, Position, Span
from lcm_mcp.transcript.model import Role
from lcm_mcp.values import frozen

CLOCK_EVERY = 64
"""Candidates read between two looks at the clock."""


@frozen
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


class Found(NamedTuple):
    """A hit: a row has seq and role, a summary has node; text is where the match stands.

    last is the row's number or that of the last row under the node. Where several sessions hold the text, one
    that has it on its active path is shown, the first made first.
    """

    position: Position
    session: SessionId
    last: Seq
    role: Role | None
    at: int
    removed: bool
    text: str
    place: Place

    @property
    def text_id(self) -> TextId:
        return TextId(self.position.text)

    @property
    def kind(self) -> Literal["row", "summary"]:
        return "summary" if self.position.node else "row"

    @property
    def seq(self) -> Seq | None:
        return None if self.position.node else self.last

    @property
    def node(self) -> NodeId | None:
        return NodeId(self.position.node) if self.position.node else None


@frozen
class Scanned:
    """A page of hits.

    more: there are further hits, or may be; finished: time was enough for this page. rows and summaries
    count what was read, removed the texts among them that match and were left out for being removed; last is
    the position of the last one read.
    """

    found: tuple[Found, ...]
    more: bool
    finished: bool
    rows: int
    summaries: int
    last: Position | None
    removed: int = 0


def scan(
    db: apsw.Connection, scope: Scope, wanted: Wanted, limit: int, after: Position | None, seconds: float
) -> Scanned:
    """At most `limit` hits beyond position `after`, in order; gives up after `seconds`."""
    deadline = time.monotonic() + seconds
    found: list[Found] = []
    removed: set[TextId] = set()
    rows = summaries = 0
    last: Position | None = None
    look_at = CLOCK_EVERY
    for candidate in _candidates(db, scope, wanted, after):
        # Never among those who hold one text: the next page would not know that it was a hit.
        if rows + summaries >= look_at and candidate.position != last:
            if time.monotonic() > deadline:
                return Scanned(tuple(found), True, False, rows, summaries, last)
            look_at = rows + summaries + CLOCK_EVERY
        last = candidate.position
        rows, summaries = rows + (last.node == 0), summaries + (last.node > 0)
        hit = _match(candidate, wanted, scope)
        if hit is None:
            continue
        if hit.removed and not wanted.include_removed:
            removed.add(hit.text_id)
            continue
        if found and found[-1].text_id == hit.text_id:
            found[-1] = min(found[-1], hit, key=lambda holder: (holder.removed, holder.session))
            continue
        if len(found) == limit:
            return Scanned(tuple(found), True, True, rows, summaries, last)
        found.append(hit)
    return Scanned(tuple(found), False, True, rows, summaries, last, len(removed))


def _match(candidate: Candidate, wanted: Wanted, scope: Scope) -> Found | None:
    if wanted.role is not None and candidate.speaker != wanted.role:
        return None
    if not _in_time(candidate.at, wanted):
        return None
    for text in candidate.texts:
        place = wanted.matcher.find(text)
        if place is not None:
            position, session, role, _, at, last, _ = candidate
            removed = last not in scope.path(session)  # only asked of what matches
            return Found(position, SessionId(session), last, role, at, removed, text, place)
    return None


def _in_time(at: int, wanted: Wanted) -> bool:
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at <= wanted.until)


def _candidates(
    db: apsw.Connection, scope: Scope, wanted: Wanted, after: Position | None
) -> Iterator[Candidate]:
    """Everything in scope beyond a position that may match, in order: rows and summaries, merged lazily."""
    newest = wanted.newest_first
    span = Span(newest_first=newest)
    if after is not None:
        span = replace(span, high=after.anchor) if newest else replace(span, low=after.anchor)
    sought = Sought(db, wanted.matcher.required)
    parts: list[Iterator[Candidate]] = []
    if wanted.rows:
        parts.append(streams.rows(db, scope, sought, span))
    if wanted.summaries and wanted.role is None:
        parts.append(streams.summaries(db, scope, sought, span))
    merged = heapq.merge(*parts, key=itemgetter(0), reverse=newest)  # by position
    if after is None:
        return merged
    # The span takes in the text that the last page ended at, and a row shares it with its summaries. What
    # came to hold that very text since is no further hit.
    return (candidate for candidate in merged if _beyond(candidate.position, after, newest))


def _beyond(position: Position, after: Position, newest_first: bool) -> bool:
    return position < after if newest_first else position > after
