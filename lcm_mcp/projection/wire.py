"""From rows to messages, in no provider's form: pairing of calls with results, and assembly.

One pass from left to right decides what is shown as a native call and result: a group of assistant
rows that holds calls waits for the result rows directly after it, and whatever else comes first closes
it. So a closed group never changes when rows are added, which is what keeps a provider's cached prefix
valid. Calls and results that found no partner become labelled text in their place. A format is a
Dialect, plain data and two functions; no format is named here, no row is invented, dropped or moved
past a turn of the other side.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from typing import Literal, cast

from lcm_mcp.projection.labels import (
    BEGINS_HERE,
    NOTHING_TO_SHOW,
    arguments_text,
    call_label,
    result_label,
    sendable,
    tool_text_label,
)
from lcm_mcp.projection.model import Message, Notes, Projection, Rendered, TailRow
from lcm_mcp.transcript.model import Image, Json, Part, Role, Row, Text, ToolCall, ToolResult
from lcm_mcp.values import frozen

Block = dict[str, Json]
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

_Key = tuple[int, int]
"""A part by its place: row in the tail, part in the row, both from 0."""


@frozen
class IdRule:
    """How call ids are written: where each must be unique, and in which characters."""

    scope: Literal["as stored", "group", "request"]
    spell: Callable[[str], str] = str


@frozen
class Line:
    """What one row says as one speaker; place is the row's index in the tail.

    Every ToolCall and ToolResult left in a line is native: its partner stands in the same group, or it
    is still awaited at the end. A tool line holds results only.
    """

    speaker: Role
    parts: tuple[Part, ...]
    place: int


@frozen
class Shown:
    """A part in a format's form (None: left out), and what that form had to give up."""

    block: Block | None
    notes: Notes = field(default_factory=Notes)


@frozen
class Dialect:
    """A message format: who speaks in which role, how a part is shown, how a message is written.

    apart are the roles whose blocks each make a message; in any other, blocks in a row are joined.
    """

    roles: Mapping[Role, str]
    ids: IdRule
    show: Callable[[Part, Role], Shown]
    write: Callable[[str, Sequence[Block]], Block]
    apart: frozenset[str] = frozenset()


def pair(tail: Sequence[TailRow], rule: IdRule) -> tuple[tuple[Line, ...], Notes]:
    """Decide what is native, label the rest, and put each group's results right after its calls."""
    pairing = _Pairing(rule)
    for place, shown in enumerate(tail):
        pairing.take(place, shown.row)
    pairing.close(pending=True)
    return tuple(pairing.lines), pairing.notes


def assemble(projection: Projection, dialect: Dialect) -> Rendered:
    """Render a projection in a dialect; the turn order is valid by construction."""
    lines, notes = pair(projection.tail, dialect.ids)
    blocks: list[_Placed] = []
    for line in lines:
        for part in line.parts:
            shown = dialect.show(part, line.speaker)
            notes += shown.notes
            if shown.block is not None:
                blocks.append(_Placed(dialect.roles[line.speaker], shown.block, line.place))
    messages = _messages(_opened(blocks, projection, dialect), projection.tail, dialect)
    return Rendered(tuple(messages), notes)


def begins_message(before: Row, row: Row) -> bool:
    """Whether a message begins at `row`, which follows `before`, whatever stands around the two.

    All that came before is settled then, and what follows is rendered without it; only the ids of calls
    may depend on it, where they have to be unique in the request. False may only mean that it is not sure.
    """
    asks = before.role in ("user", "tool") and any(
        isinstance(part, ToolResult | Image) or _is_said(part) for part in before.parts
    )
    return (
        asks
        and row.role == "assistant"
        and any(isinstance(part, ToolCall) or _is_said(part) for part in row.parts)
    )


def base64_of(image: Image) -> str | None:
    """The image in base64 where its bytes are loaded and of a type that every provider takes."""
    if image.data is None or image.media_type not in IMAGE_TYPES:
        return None
    return base64.b64encode(image.data).decode("ascii")


def _is_said(part: Part) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


def _shows_something(part: Part) -> bool:
    return not isinstance(part, Text) or bool(part.text.strip())


# --- assembly


@frozen
class _Placed:
    """A block on its way into a message; place None: no row's own (history, invented)."""

    role: str
    block: Block
    place: int | None


def _opened(blocks: Sequence[_Placed], projection: Projection, dialect: Dialect) -> list[_Placed]:
    """Put before the tail what must come first: history, and a user's word before an assistant's."""

    def said(text: str, place: int | None) -> _Placed:
        shown = dialect.show(Text(text), "user")
        assert shown.block is not None
        return _Placed(dialect.roles["user"], shown.block, place)

    opened = [*blocks]
    if projection.continues:
        return opened
    if not opened and projection.tail:
        opened.append(said(NOTHING_TO_SHOW, len(projection.tail) - 1))
    if projection.history is not None and projection.history.strip():
        return [said(projection.history, None), *opened]
    before_answer = list(takewhile(lambda placed: placed.role != dialect.roles["assistant"], opened))
    if len(before_answer) < len(opened) and all(p.role != dialect.roles["user"] for p in before_answer):
        opened.insert(len(before_answer), said(BEGINS_HERE, None))
    return opened


def _messages(blocks: Sequence[_Placed], tail: Sequence[TailRow], dialect: Dialect) -> Iterator[Message]:
    """Join blocks into messages and deal out the tail's refs, in order, each to one message."""

    def joins(indexed: tuple[int, _Placed]) -> tuple[str, int]:
        index, placed = indexed
        return placed.role, index if placed.role in dialect.apart else -1

    runs = [[placed for _, placed in run] for _, run in groupby(enumerate(blocks), key=joins)]
    accounted = 0
    for index, run in enumerate(runs):
        body = cast("Block", sendable(dialect.write(run[0].role, [placed.block for placed in run])))
        reached = max((placed.place + 1 for placed in run if placed.place is not None), default=0)
        # Rows that show nothing after the last message would else be in no message's sources.
        end = max(accounted, len(tail) if index == len(runs) - 1 else reached)
        yield Message(run[0].role, body, tuple(shown.ref for shown in tail[accounted:end]))
        accounted = end


# --- pairing


class _Ids:
    """Gives native pairs the ids they have on the wire, from left to right."""

    def __init__(self, rule: IdRule) -> None:
        self._rule = rule
        self._taken: set[str] = set()

    def open_group(self) -> None:
        if self._rule.scope == "group":
            self._taken.clear()

    def give(self, call_id: str) -> str:
        if self._rule.scope == "as stored":
            return call_id
        plain = self._rule.spell(call_id) or "call"
        candidate, use = plain, 1
        while candidate in self._taken:
            use += 1
            candidate = f"{plain}_{use}"
        self._taken.add(candidate)
        return candidate


@dataclass(slots=True)
class _Group:
    """Assistant rows that hold calls, and the rows after them that may still answer.

    asides (system rows, blank rows of the user) neither answer nor close: clients write their own
    progress between a call and its result. They are shown after the group's results.
    """

    said: list[tuple[int, Row]] = field(default_factory=list["tuple[int, Row]"])
    after: list[tuple[int, Row]] = field(default_factory=list["tuple[int, Row]"])
    waiting: dict[_Key, ToolCall] = field(default_factory=dict["_Key", "ToolCall"])
    calls: dict[_Key, ToolCall] = field(default_factory=dict["_Key", "ToolCall"])
    answers: dict[_Key, _Key] = field(default_factory=dict["_Key", "_Key"])
    answering: bool = False

    def say(self, place: int, row: Row) -> None:
        self.said.append((place, row))
        calls = {(place, at): part for at, part in enumerate(row.parts) if isinstance(part, ToolCall)}
        self.calls |= calls
        self.waiting |= calls

    def answer(self, place: int, row: Row) -> None:
        """Match each result with the nearest preceding call of its id that still waits."""
        self.answering = True
        self.after.append((place, row))
        for at, part in enumerate(row.parts):
            if isinstance(part, ToolResult):
                waits = [key for key, call in self.waiting.items() if call.call_id == part.call_id]
                if waits:
                    self.answers[place, at] = waits[-1]
                    del self.waiting[waits[-1]]


class _Pairing:
    """The pass itself: at most one group is open, everything before it is final."""

    def __init__(self, rule: IdRule) -> None:
        self.lines: list[Line] = []
        self.notes = Notes()
        self._ids = _Ids(rule)
        self._group: _Group | None = None

    def take(self, place: int, row: Row) -> None:
        match _kind(row):
            case "aside" if self._group is not None:
                self._group.after.append((place, row))
            case "assistant":
                self._take_assistant(place, row)
            case "results" if self._group is not None:
                self._group.answer(place, row)
                if not self._group.waiting:
                    self.close(pending=False)
            case _:
                self.close(pending=False)
                self._emit(self._split(place, row, {}))

    def close(self, *, pending: bool) -> None:
        """Emit the open group: calls, then results, then all else; pending: unanswered stay native."""
        group, self._group = self._group, None
        if group is None:
            return
        self._ids.open_group()
        native = {key: call for key, call in group.calls.items() if pending or key not in group.waiting}
        names = {key: self._ids.give(call.call_id) for key, call in native.items()}
        renamed = sum(name != native[key].call_id for key, name in names.items())
        self.notes += Notes(renamed_calls=renamed)
        names |= {result: names[call] for result, call in group.answers.items()}
        for place, row in group.said:
            self._emit(self._split(place, row, names))
        after = [line for place, row in group.after for line in self._split(place, row, names)]
        self._emit(line for line in after if line.speaker == "tool")
        self._emit(line for line in after if line.speaker != "tool")

    def _take_assistant(self, place: int, row: Row) -> None:
        if self._group is None or self._group.answering:
            self.close(pending=False)
            self._group = _Group()
        self._group.say(place, row)
        if not self._group.calls:
            self.close(pending=False)

    def _emit(self, lines: Iterator[Line] | Sequence[Line]) -> None:
        self.lines.extend(line for line in lines if line.parts)

    def _split(self, place: int, row: Row, names: Mapping[_Key, str]) -> tuple[Line, Line]:
        """A row as its native results and the rest of it, calls and results without a name labelled."""
        results: list[Part] = []
        rest: list[Part] = []
        for at, part in enumerate(row.parts):
            match part, names.get((place, at)):
                case ToolResult(), str(name):
                    results.append(replace(part, call_id=name))
                case ToolCall(), str(name):
                    rest.append(replace(part, call_id=name))
                case _:
                    rest.extend(self._labelled(part, row.role))
        speaker: Role = "user" if row.role == "tool" else row.role
        return Line("tool", tuple(results), place), Line(speaker, tuple(rest), place)

    def _labelled(self, part: Part, role: Role) -> tuple[Part, ...]:
        match part:
            case ToolCall(arguments=arguments):
                self.notes += Notes(labelled_calls=1)
                return (Text(f"{call_label(part)} {arguments_text(arguments)}"),)
            case ToolResult(content=(Text(text), *others)):
                self.notes += Notes(labelled_results=1)
                return Text(f"{result_label(part)} {text}"), *others
            case ToolResult(content=content):
                self.notes += Notes(labelled_results=1)
                return Text(result_label(part)), *content
            case Text(text) if role == "tool" and text.strip():
                return (Text(tool_text_label(text)),)
            case _:
                return (part,)


def _kind(row: Row) -> Literal["aside", "assistant", "results", "other"]:
    if row.role == "assistant":
        return "assistant"
    if row.role == "system" or not any(_shows_something(part) for part in row.parts):
        return "aside"
    return "results" if any(isinstance(part, ToolResult) for part in row.parts) else "other"
