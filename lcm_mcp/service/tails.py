"""Where the verbatim tail should start: at the most newest whole units that fit its share.

The tail never starts before that of the cut in force, not even where a late result has joined the newest
unit with one that was covered. A unit is divided only where the owner allows it and it leaves a request no
room otherwise; then the tail starts at one of its rounds, at the latest at the newest, which may be open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

import apsw

from lcm_mcp.dag.plan import MIN_TARGET_TOKENS
from lcm_mcp.ids import Seq
from lcm_mcp.service.windows import FENCE, Window
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import Span, join, rounds, units_back
from lcm_mcp.values import frozen


@frozen
class Tail:
    """Where the tail should start, what it weighs from there on, and where it may start at the latest.

    unit is where the newest unit starts, or the tail in force if that is later; divided: at a round of it.
    """

    first: Seq
    size: Size
    newest: Seq
    unit: Seq
    divided: bool


def wanted_tail(
    db: apsw.Connection, session: Session, window: Window, floor: Seq | None, *, split: bool
) -> Tail:
    """The tail that this window asks for; reads no further back than that. floor is the tail in force."""
    path = Path(db, session.id, session.leaf)
    marks = path.marks_back()
    if floor is not None and floor in path:
        marks = takewhile(lambda mark: mark.seq >= floor, marks)
    units = take_newest(units_back(marks), window.tail, window.weigh)
    newest = units[0]
    if split:
        own = path.marks(newest.first, session.leaf)
        parts = rounds(own)
        # What is left of a unit once divided is divided again: a pass repeated has to see the same tail.
        if len(parts) > 1 and (own[0].unit != own[0].seq or not _leaves_room(newest, window)):
            return _tail(take_newest(reversed(parts), window.tail, window.weigh), newest.first, divided=True)
    return _tail(units, newest.first, divided=False)


def _leaves_room(newest: Span, window: Window) -> bool:
    """Whether a request that shows the newest unit whole can be below its trigger."""
    room = window.trigger - window.preamble - window.weigh(FENCE) - MIN_TARGET_TOKENS
    return window.weigh(newest.size) < room


def _tail(spans: Sequence[Span], unit: Seq, *, divided: bool) -> Tail:
    return Tail(spans[-1].first, join(spans[::-1]).size, spans[0].first, unit, divided)


def take_newest(spans: Iterable[Span], budget: int, weigh: Callable[[Size], int]) -> Sequence[Span]:
    """As many spans, given from the newest backwards, as fit into `budget` tokens together; always one."""
    taken: list[Span] = []
    total = Size()
    for span in spans:
        total += span.size
        if taken and weigh(total) > budget:
            break
        taken.append(span)
    return taken
