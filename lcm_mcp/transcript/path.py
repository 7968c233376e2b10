"""Walks along a session's path: the chain of prev from a row back to the first.

A path is almost always a run of neighbouring numbers, so it is handled as segments [low, high] in which
each row's prev is the number before it; only the rows where the path jumps are looked up. Walking costs
the rows walked plus the jumps, never the session. Whether a row is removed is derived here, not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.model import Role, RowMark
from lcm_mcp.values import frozen

FIRST = Seq(1)

_LAST_JUMP = """SELECT seq, prev FROM row WHERE session = ? AND prev <> seq - 1 AND seq <= ?
    ORDER BY seq DESC LIMIT 1"""

_FOLLOWS = "SELECT seq FROM row WHERE session = ?1 AND seq = ?2 + 1 AND prev = ?2"
_JUMPS = "SELECT seq, prev FROM row WHERE session = ? AND seq > ? AND prev <> seq - 1 ORDER BY seq"
# Numbers may name no row before a jump: a fork leaves out what was removed.
_RUN_END = """SELECT max(seq) FROM row WHERE session = ?1 AND seq < coalesce(
    (SELECT min(seq) FROM row WHERE session = ?1 AND seq > ?2 AND prev <> seq - 1), 9223372036854775807)"""

_MARKS = """SELECT seq, prev, unit, round, role, bytes, fixed, cum_bytes, cum_inputs, cum_fixed
    FROM row WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq"""


@frozen
class Segment:
    """Rows low to high, both included, that follow each other on the path."""

    low: Seq
    high: Seq


def segments_back(db: apsw.Connection, session: SessionId, leaf: Seq) -> Iterator[Segment]:
    """The path from `leaf` back to the first row, newest segment first; lazily, one look-up each."""
    high = leaf
    while high > 0:
        jump: tuple[int, int] | None = db.execute(_LAST_JUMP, (session, high)).get
        low, before = jump or (1, 0)
        yield Segment(Seq(low), high)
        high = Seq(before)


def all_marks(db: apsw.Connection, session: SessionId) -> list[RowMark]:
    """Places and weights of every row of a session, on its path or off it, in the order they came."""
    return marks_between(db, session, Seq(0), Seq(2**62))


def marks_between(db: apsw.Connection, session: SessionId, first: Seq, last: Seq) -> list[RowMark]:
    """The same of the rows from `first` to `last`, both included."""
    return [_mark(*row) for row in db.execute(_MARKS, (session, first, last))]


def common(db: apsw.Connection, session: SessionId, one: Seq, other: Seq) -> Seq:
    """The newest row that stands on the paths to both leaves; 0 where there is none."""
    ours, theirs = segments_back(db, session, one), segments_back(db, session, other)
    a, b = next(ours, None), next(theirs, None)
    while a is not None and b is not None:
        if a.low > b.high:
            a = next(ours, None)
        elif b.low > a.high:
            b = next(theirs, None)
        else:
            return min(a.high, b.high)
    return Seq(0)


def run_from(db: apsw.Connection, session: SessionId, first: Seq) -> Segment:
    """Row `first` and those that follow each other from it, number by number."""
    return Segment(first, Seq(db.execute(_RUN_END, (session, first)).get))


def followers(db: apsw.Connection, session: SessionId, rows: Sequence[Seq]) -> dict[Seq, list[Segment]]:
    """What follows each of some rows, on the path or off it, as runs; costs the rows and later jumps."""
    found: dict[Seq, list[Segment]] = {}
    for row in rows:
        following: int | None = db.execute(_FOLLOWS, (session, row)).get
        found[row] = [] if following is None else [run_from(db, session, Seq(following))]
    for seq, prev in db.execute(_JUMPS, (session, min(rows, default=Seq(0)))):
        if prev in found:
            found[prev].append(run_from(db, session, Seq(seq)))
    return found


class Path:
    """The path to one leaf, read segment by segment as far as anyone asks; valid inside one transaction."""

    def __init__(self, db: apsw.Connection, session: SessionId, leaf: Seq) -> None:
        self._db = db
        self._session = session
        self.leaf = leaf
        self._more = segments_back(db, session, leaf)
        self._known: list[Segment] = []

    def __contains__(self, seq: Seq) -> bool:
        for known in self._known:  # asked row by row: nearly always the newest segment tells
            if known.low <= seq:
                return seq <= known.high
        return any(segment.low <= seq <= segment.high for segment in self.segments(down_to=seq))

    def segments(self, *, down_to: Seq = FIRST) -> Iterator[Segment]:
        """Segments newest first, until one that starts at or before `down_to` is given."""
        index = 0
        while True:
            if index == len(self._known):
                following = next(self._more, None)
                if following is None:
                    return
                self._known.append(following)
            segment = self._known[index]
            if segment.high < down_to:
                return
            yield segment
            index += 1

    def between(self, first: Seq, last: Seq) -> Sequence[Segment]:
        """The part of the path from `first` to `last`, both included, oldest segment first."""
        found = [
            Segment(max(segment.low, first), min(segment.high, last))
            for segment in self.segments(down_to=first)
            if segment.low <= last
        ]
        found.reverse()
        return found

    def before(self, seq: Seq) -> Seq:
        """The row before `seq` on the path, 0 before the first."""
        previous: int = self._db.execute(
            "SELECT prev FROM row WHERE session = ? AND seq = ?", (self._session, seq)
        ).get
        return Seq(previous)

    def after(self, seq: Seq) -> Seq | None:
        """The row after `seq` on the path, None after the leaf; `seq` 0 gives the first row."""
        following: Seq | None = None
        for segment in self.segments(down_to=seq):
            if segment.low <= seq < segment.high:
                return Seq(seq + 1)
            if segment.low > seq:
                following = segment.low
        return following

    def marks(self, first: Seq, last: Seq) -> list[RowMark]:
        """Places and weights of the rows from `first` to `last` on the path, oldest first."""
        return [mark for part in self.between(first, last) for mark in self._marks_of(part)]

    def marks_back(self, batch: int = 8) -> Iterator[RowMark]:
        """Places and weights from the leaf backwards; reads little more than is consumed, twice as much at a
        time as before."""
        for segment in self.segments():
            high = segment.high
            while high >= segment.low:
                low = Seq(max(segment.low, high - batch + 1))
                yield from reversed(self._marks_of(Segment(low, high)))
                high, batch = Seq(low - 1), min(2 * batch, 256)

    def _marks_of(self, part: Segment) -> list[RowMark]:
        rows: Iterable[tuple[int, int, int, int, Role, int, int, int, int, int]] = self._db.execute(
            _MARKS, (self._session, part.low, part.high)
        )
        return [_mark(*row) for row in rows]


def _mark(
    seq: int,
    prev: int,
    unit: int,
    round_: int,
    role: Role,
    own_bytes: int,
    own_fixed: int,
    cum_bytes: int,
    cum_inputs: int,
    cum_fixed: int,
) -> RowMark:
    upto = Size(cum_bytes, cum_inputs, cum_fixed)
    before = upto - Size(own_bytes, 1, own_fixed)
    return RowMark(Seq(seq), Seq(prev), Seq(unit), Seq(round_), role, before, upto)
