"""What has changed for a client since the projection that it holds: nothing, a splice, or all of it.

Nothing is remembered for a client. What it holds is rendered again from the stored cut and rows, and only
from the last message border that both projections share, so between cuts a turn reads its newest rows. A
list that cannot be proved to be that projection (another format, provider or model, a name never given, a
history moved back) is answered in full. Functions take a read-only connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import pairwise, takewhile
from typing import Literal

import apsw
import orjson

from lcm_mcp.dag import observations
from lcm_mcp.errors import BadCursor
from lcm_mcp.ids import Seq
from lcm_mcp.projection.formats import DIALECTS
from lcm_mcp.projection.model import Message, Notes, Rendered
from lcm_mcp.projection.wire import begins_message
from lcm_mcp.service.answers import Format
from lcm_mcp.service.prepared import Wire
from lcm_mcp.service.viewing import View, first_row, named_view, rendered
from lcm_mcp.transcript import store
from lcm_mcp.transcript.model import RowMark, ToolCall
from lcm_mcp.transcript.path import Path
from lcm_mcp.values import frozen

_NAME = re.compile(r"c(\d{1,18})\.e(\d{1,18})")


@frozen
class Held:
    """The projection that a client holds, and how it was given."""

    view: View
    wire: Wire


@frozen
class Piece:
    """A message that the client is given, at its index in the projection."""

    index: int
    message: Message


@frozen
class Change:
    """The projection as what is left of the held one: `keep` messages after the first `omit`, and pieces.

    held is None where all of it is given. notes are of what had to be rendered.
    """

    pieces: Sequence[Piece]
    wire: Wire
    notes: Notes = field(default_factory=Notes)
    held: Held | None = None
    omit: int = 0
    keep: int = 0
    keep_from: str | None = None

    @property
    def kind(self) -> Literal["none", "splice", "full"]:
        if self.held is None:
            return "full"
        return "splice" if self.pieces or self.keep < self.held.wire.messages else "none"


@frozen
class Asked:
    """For whom a projection is wanted, and in which format."""

    format: Format
    provider: str | None
    model: str | None


def find_held(db: apsw.Connection, view: View, have: str, asked: Asked) -> Held | str:
    """The projection of that name as this session's client was given it; else why it is not gone by."""
    named = _NAME.fullmatch(have)
    given = observations.kept_as(db, view.session.id, have) if named else ()
    ways = [way for way in given if way[0] is not None]
    if named is None or not ways:
        return f"have: no request of this session is remembered as {have[:40]!r}; the whole one is given."
    wire = _wire(ways[0][0])
    if any(_differs(way, wire, asked) for way in ways):
        return f"have: {have} was given in another format or for another model; the whole request is given."
    try:
        held = named_view(db, view.session.id, int(named[1]), int(named[2]))
    except BadCursor:
        return f"have: {have} is not stored any more; the whole request is given."
    if held.leaf not in Path(db, view.session.id, view.leaf):
        return f"have: rows that {have} shows were removed; the whole request is given."
    return Held(held, wire)


def _wire(stored: str | None) -> Wire:
    kept = orjson.loads(stored or "")
    return Wire(**(kept | {"cache_breakpoints": tuple(kept["cache_breakpoints"])}))


def _differs(way: tuple[str | None, str | None, str | None], wire: Wire, asked: Asked) -> bool:
    stored, provider, model = way
    return (
        _wire(stored) != wire
        or wire.format != asked.format
        or _other(provider, asked.provider)
        or _other(model, asked.model)
    )


def _other(then: str | None, now: str | None) -> bool:
    return then is not None and now is not None and then != now


def change_since(db: apsw.Connection, view: View, form: Format, held: Held | None) -> Change:
    """What a client that holds `held` needs to have `view`; all of it where that keeps nothing."""
    change: Change | None = None
    if held is not None and held.view.name == view.name:
        change = _kept(db, view, held, held.wire.messages, (), held.wire)
    elif held is not None and form in DIALECTS:  # a text is one message, and never the same
        change = _later(db, view, held)
    return change if change is not None and change.keep else _whole(db, view, form)


def _later(db: apsw.Connection, view: View, held: Held) -> Change | None:
    same_cut = view.cut_number == held.view.cut_number
    return _grown(db, view, held) if same_cut else _recut(db, view, held)


def _whole(db: apsw.Connection, view: View, form: Format) -> Change:
    made = rendered(db, view, form)
    pieces = [Piece(index, message) for index, message in enumerate(made.messages)]
    return Change(pieces, _wire_of(view, form, made, _unit(db, view)), made.notes)


def _wire_of(view: View, form: Format, made: Rendered, unit: Seq) -> Wire:
    return Wire(
        form,
        len(made.messages),
        bool(made.notes.renamed_calls),
        _marks(view, form, len(made.messages), _before(made.messages, unit)),
    )


# --- where a provider's cache marks go


def _marks(view: View, form: Format, total: int, earlier: set[int]) -> tuple[int, ...]:
    """The end of what stands before the tail, the last message before the newest unit, the last message."""
    if form not in DIALECTS or not total:
        return ()
    return tuple(sorted({*earlier, total - 1} | ({0} if view.cut is not None else set())))


def _before(messages: Sequence[Message], unit: Seq, index: int = 0) -> set[int]:
    """The index before that of the message in which a unit opens, the first message being at `index`."""
    ref = f"e{unit}"
    places = [place for place, message in enumerate(messages, index) if ref in message.sources]
    return {place - 1 for place in places if place}


def _unit(db: apsw.Connection, view: View) -> Seq:
    """Where the unit of the view's last row opens, as far as was known when it came."""
    mark = store.read_mark(db, view.session.id, view.leaf)
    return Seq(0) if mark is None else mark.unit


# --- under one cut: all before the last border stands


def _grown(db: apsw.Connection, view: View, held: Held) -> Change | None:
    """The held messages from the first on, and what follows them; None where they cannot be proved."""
    unit, form = _unit(db, view), held.wire.format
    opened = None if unit == _unit(db, held.view) else unit
    border = _last_border(db, held.view, min(held.view.leaf, opened or held.view.leaf))
    old, new = _end(db, held, held.view, border), _end(db, held, view, border)
    if old is None or new is None:
        border, old, new = None, rendered(db, held.view, form), rendered(db, view, form)
    before = held.wire.messages - len(old.messages)
    if before < 0 or (border is None and before):
        return None
    same = _alike(old.messages, new.messages)
    total = before + len(new.messages)
    # In the unit it was before, the mark before that unit stands where it stood.
    stood = {*held.wire.cache_breakpoints} - {held.wire.messages - 1}
    marks = stood if opened is None else _before(new.messages, opened, before)
    renamed = held.wire.renamed or bool(new.notes.renamed_calls)
    wire = Wire(form, total, renamed, _marks(view, form, total, marks))
    pieces = [Piece(before + place, message) for place, message in enumerate(new.messages) if place >= same]
    return replace(_kept(db, view, held, before + same, pieces, wire), notes=new.notes)


def _kept(
    db: apsw.Connection, view: View, held: Held, keep: int, pieces: Sequence[Piece], wire: Wire
) -> Change:
    first = first_row(Path(db, view.session.id, view.leaf), view) if view.tail_rows else None
    return Change(pieces, wire, held=held, keep=keep, keep_from=None if first is None else f"e{first}")


def _last_border(db: apsw.Connection, view: View, latest: Seq) -> Seq | None:
    """The last row, `latest` at most, at which a message begins for certain."""
    marks = Path(db, view.session.id, latest).marks_back()
    tail = takewhile(lambda mark: mark.seq >= view.floor, marks)
    return next((mark.seq for mark, before in pairwise(tail) if _is_border(db, view, before, mark)), None)


def _is_border(db: apsw.Connection, view: View, before: RowMark, mark: RowMark) -> bool:
    if mark.role != "assistant" or before.role not in ("user", "tool"):
        return False
    first, second = (store.read_row(db, view.session.id, row.seq) for row in (before, mark))
    return first is not None and second is not None and begins_message(first, second)


def _alike(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many messages both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


# --- the end of a projection alone


def _end(db: apsw.Connection, held: Held, view: View, border: Seq | None) -> Rendered | None:
    """The messages from the border on; None where there is none, or the ids in them need what is before."""
    if border is None:
        return None
    form = held.wire.format
    if DIALECTS[form].ids.scope != "request":
        return rendered(db, view, form, border)
    if held.wire.renamed or _calls_again(db, view, border):
        return None
    made = rendered(db, view, form, border)
    return None if made.notes.renamed_calls else made


def _calls_again(db: apsw.Connection, view: View, border: Seq) -> bool:
    """Whether a call from the border on has the id of one before it in the tail."""
    segments = Path(db, view.session.id, view.leaf).between(border, view.leaf)
    return any(
        isinstance(part, ToolCall) and store.is_called(db, view.session.id, part.call_id, view.floor, border)
        for row in store.read_rows(db, view.session.id, segments)
        for part in row.parts
    )


# --- over a cut: a run in the middle stands, between another beginning and what is new


def _recut(db: apsw.Connection, view: View, held: Held) -> Change | None:
    """The held messages that still stand, what comes before and after them; None where none does."""
    form, leaf = held.wire.format, held.view.leaf
    shared = max(view.floor, held.view.floor)
    if shared > leaf:
        return None
    border = _first_border(db, held.view, shared)
    old = _end(db, held, held.view, border)
    if old is None:
        border, old = None, rendered(db, held.view, form)
    before = held.wire.messages - len(old.messages)
    if before < 0 or (border is None and before):
        return None
    new = rendered(db, view, form)
    met = _meeting(old.messages, new.messages)
    if met is None:
        return None
    there, here = met
    same = _alike(old.messages[there:], new.messages[here:])
    return Change(
        [Piece(n, message) for n, message in enumerate(new.messages) if not here <= n < here + same],
        _wire_of(view, form, new, _unit(db, view)),
        new.notes,
        held,
        before + there,
        same,
        new.messages[here].sources[0],
    )


def _first_border(db: apsw.Connection, view: View, first: Seq) -> Seq | None:
    """The first row after `first` at which a message begins for certain."""
    marks = Path(db, view.session.id, view.leaf).marks(first, view.leaf)
    return next((mark.seq for before, mark in pairwise(marks) if _is_border(db, view, before, mark)), None)


def _meeting(old: Sequence[Message], new: Sequence[Message]) -> tuple[int, int] | None:
    """The places, in old and in new, of the first message of rows that both show alike."""
    places = {message.sources: place for place, message in enumerate(old) if message.sources}
    for here, message in enumerate(new):
        there = places.get(message.sources)
        if there is not None and old[there] == message:
            return there, here
    return None
