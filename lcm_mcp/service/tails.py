"""Where the verbatim tail should start: at the most newest whole units that fit its share.

The tail never starts before that of the cut in force, not even where a late result has joined the newest
unit with one that was covered. A unit is divided only where the owner allows it and it leaves a request no
room otherwise; then the tail starts at one of its rounds, at the latest at the newest, which may be open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import apsw

from lcm_mcp.dag.plan import MIN_TARGET_TOKENS
from lcm_mcp.ids import Seq
from lcm_mcp.service.windows import FENCE_TOKENS, Window
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import Span, rounds, units_back


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the tail should start, at the latest at `newest`, from where on the path weighs `least`.

    unit is where the newest unit starts, or the tail in force if that is later; divided: at a round of it.
    rounds counts those the newest unit could be divided at.
    """

    first: Seq
    newest: Seq
    least: Size
    unit: Seq
    divided: bool
    rounds: int


def wanted_tail(
    db: apsw.Connection, session: Session, window: Window, floor: Seq | None, *, split: bool
) -> Tail:
    """The tail that this window asks for; reads no further back than that. floor is the tail in force."""
    path = Path(db, session.id, session.leaf)
    marks = path.marks_back()
    if floor is not None and floor in path:
        marks = takewhile(lambda mark: mark.seq >= floor, marks)
    spans = take_newest(units_back(marks), window.tail, window.weigh)
    newest = spans[0]
    whole = Tail(spans[-1].first, newest.first, newest.size, newest.first, divided=False, rounds=1)
    room = window.trigger - window.preamble - FENCE_TOKENS - MIN_TARGET_TOKENS
    if window.weigh(newest.size) < room:
        return whole
    parts = rounds(path.marks(newest.first, session.leaf))
    if not split or len(parts) == 1:
        return Tail(whole.first, whole.newest, whole.least, whole.unit, divided=False, rounds=len(parts))
    taken = take_newest(reversed(parts), window.tail, window.weigh)
    return Tail(taken[-1].first, taken[0].first, taken[0].size, newest.first, divided=True, rounds=len(parts))


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
