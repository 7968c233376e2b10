"""Units and rounds: where a history may be cut.

A unit opens at a user row that carries no tool result, and runs to the next such row; a border before
which a call was made that is answered after it is none, and joins its neighbours. A round is one model
message and all results that answer its calls. Rows know the unit and round they belong to as far as was
known when they came; a later answer points back further. So a border holds exactly where no later row
points before it, which one pass from the newest row shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lcm_mcp.ids import Seq
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript.model import RowMark
from lcm_mcp.values import frozen


@frozen
class Span:
    """A run of rows on a path, both ends included, that may not be divided; with its weight."""

    first: Seq
    last: Seq
    before: Seq
    rows: int
    size: Size

    @property
    def tokens(self) -> TokenCount:
        return self.size.tokens


def units_back(marks: Iterable[RowMark]) -> Iterator[Span]:
    """Units from the newest backwards, given marks from the path's leaf backwards; reads no further
    than the border it yields. The oldest unit ends where the marks end."""
    return _spans_back(marks, _unit_of)


def units(marks: Sequence[RowMark]) -> list[Span]:
    """Units oldest first, given marks up to the path's leaf, oldest first."""
    return list(_spans_back(reversed(marks), _unit_of))[::-1]


def rounds(marks: Sequence[RowMark]) -> list[Span]:
    """Rounds oldest first, given the marks of one unit (or more), oldest first."""
    return list(_spans_back(reversed(marks), _round_of))[::-1]


def join(spans: Sequence[Span]) -> Span:
    """Adjacent spans, oldest first and at least one, as one."""
    size, rows = Size(), 0
    for span in spans:
        size, rows = size + span.size, rows + span.rows
    return Span(spans[0].first, spans[-1].last, spans[0].before, rows, size)


def _unit_of(mark: RowMark) -> Seq:
    return mark.unit


def _round_of(mark: RowMark) -> Seq:
    return mark.round


def _spans_back(marks: Iterable[RowMark], group_of: Callable[[RowMark], Seq]) -> Iterator[Span]:
    newest: RowMark | None = None
    oldest: RowMark | None = None
    rows, reaches_back_to = 0, None
    for mark in marks:
        newest = newest or mark
        oldest, rows = mark, rows + 1
        group = group_of(mark)
        reaches_back_to = group if reaches_back_to is None else min(reaches_back_to, group)
        if reaches_back_to == mark.seq:
            yield _span(mark, newest, rows)
            newest, oldest, rows = None, None, 0
            reaches_back_to = None
    if newest is not None and oldest is not None:
        yield _span(oldest, newest, rows)


def _span(first: RowMark, last: RowMark, rows: int) -> Span:
    return Span(first.seq, last.seq, first.prev, rows, last.upto - first.before)
