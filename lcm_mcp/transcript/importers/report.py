"""What a reader of a foreign file says, event by event, and what the events add up to.

A format's reader yields a closed union of events: sessions, their entries, lines that are no
entries, and trouble. The tally counts them into an ImportReport that can be compared with any other
count of the file; it reads no file and knows no store, whose own figures start at zero and are
filled in by whoever stores the entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from lcm_mcp.transcript.importers.jsonl import START, Place
from lcm_mcp.transcript.model import (
    Draft,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from lcm_mcp.values import frozen

KEPT_BAD_LINES = 50
_FIGURES: dict[type[Part], str] = {
    ToolCall: "tool_calls",
    ToolResult: "tool_results",
    Reasoning: "reasoning",
    Image: "images",
    Opaque: "opaque",
}
"""What parts are counted as; texts are not."""


@frozen
class SessionFound:
    """A session of the file, before the first of its entries.

    key is its identity at the source. Where the source gives none, key is only a name for it, which
    another session may bear too, and native_id is what it is known by. A child (subagent) names its
    parent's key and, where it can be told, the entry_id of the parent's row that started it.
    A fork names its parent too, and begins with rows that it replays; which they are, the rows tell.
    """

    key: str
    title: str | None
    project: str | None
    parent_key: str | None = None
    opener_entry_id: str | None = None
    native_id: str | None = None
    link: Literal["fork", "child"] = "child"


@frozen
class Entry:
    """An entry of a session already found; line counts from 1.

    Where the source gives no id, ordinal is the entry's place in the file that its entry_id was made of.
    more: it is of an object that another event told of already. In a document line is the place in it.
    queued: a prompt that only notes of objects told of already tell.
    """

    session_key: str
    draft: Draft
    line: int
    ordinal: int | None = None
    more: bool = False
    queued: bool = False


@frozen
class Tip:
    """The entry at which a session of the file ends, where that is not the last one that was given."""

    session_key: str
    entry_id: str


@frozen
class Other:
    """An object that is no entry: counted under its own word for its kind, not stored."""

    kind: str
    line: int


@frozen
class Trouble:
    """Something wrong with a line.

    bad: what it held is lost; unfinished: it is the file's half-written end, and may be complete at
    the next reading; repaired: its entry was kept, with bytes replaced that were no UTF-8.
    """

    line: int
    problem: str
    kind: Literal["bad", "unfinished", "repaired"] = "bad"


@frozen
class TakenBack:
    """The source took rows back: its path, if it ends at the row `was`, ends at the row `to` (entry_ids, or
    the beginning)."""

    session_key: str
    was: str
    to: str


@frozen
class Numbered:
    """The session's next row has this number where it would have a lower one; those in between name none."""

    session_key: str
    number: int


Event = SessionFound | Entry | Tip | Other | Trouble | TakenBack | Numbered


@frozen
class Resume:
    """Where to read on in a file: the place of a line, and what a reader remembers of all before it."""

    place: Place
    memory: JsonObject


FROM_START = Resume(START, {})


@frozen
class Mark:
    """The events of all lines before a place were given; memory is asked for before reading on."""

    place: Place
    memory: Callable[[], dict[str, Json]]


@frozen
class ImportReport:
    """The figures of one file.

    lines: the number of the last line that held anything. unanswered and orphans: call ids without a result
    in the file, result ids without a call. images: those in tool results included. queued: prompts that no
    message tells, beside those of user. bad: (line, problem) of the first 50 of bad_lines. The last five
    are the store's: late counts rows that arrived before the end of their session, conflicts are entry_ids
    whose content differed.
    """

    path: str
    format: str
    lines: int = 0
    objects: int = 0
    user: int = 0
    assistant: int = 0
    tool: int = 0
    system: int = 0
    other: Mapping[str, int] = field(default_factory=dict[str, int])
    tool_calls: int = 0
    tool_results: int = 0
    unanswered: int = 0
    orphans: int = 0
    reasoning: int = 0
    images: int = 0
    opaque: int = 0
    sidechain: int = 0
    compact_summaries: int = 0
    sessions: int = 0
    glued: int = 0
    repaired: int = 0
    bad_lines: int = 0
    bad: tuple[tuple[int, str], ...] = ()
    unfinished_last_line: bool = False
    queued: int = 0
    rows_added: int = 0
    duplicates: int = 0
    conflicts: tuple[str, ...] = ()
    late: int = 0


@dataclass(slots=True)
class Tally:
    """Counts events as they pass; `report` gives the figures so far."""

    path: str
    format: str
    _figures: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    _other: Counter[str] = field(default_factory=Counter[str])
    _bad: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _children: set[str] = field(default_factory=set[str])
    _called: set[str] = field(default_factory=set[str])
    _answered: set[str] = field(default_factory=set[str])
    _last_line: int = 0
    _last_object_line: int = 0
    _unfinished: bool = False

    def add(self, event: Event) -> None:
        match event:
            case Entry():
                self._add_entry(event)
            case Other(kind, line):
                self._add_object(line)
                self._other[kind] += 1
            case SessionFound(key=key, parent_key=parent_key, link=link):
                self._figures["sessions"] += 1
                if parent_key is not None and link == "child":
                    self._children.add(key)
            case Trouble():
                self._add_trouble(event)
            case Tip() | TakenBack() | Numbered():
                pass
            case _:
                assert_never(event)

    def report(self) -> ImportReport:
        counted = self._figures
        return ImportReport(
            path=self.path,
            format=self.format,
            lines=self._last_line,
            objects=counted["objects"],
            user=counted["user"],
            assistant=counted["assistant"],
            tool=counted["tool"],
            system=counted["system"],
            other=dict(sorted(self._other.items())),
            tool_calls=counted["tool_calls"],
            tool_results=counted["tool_results"],
            unanswered=len(self._called - self._answered),
            orphans=len(self._answered - self._called),
            reasoning=counted["reasoning"],
            images=counted["images"],
            opaque=counted["opaque"],
            sidechain=counted["sidechain"],
            compact_summaries=counted["compact_summaries"],
            sessions=counted["sessions"],
            glued=counted["glued"],
            repaired=counted["repaired"],
            bad_lines=counted["bad_lines"],
            bad=tuple(self._bad),
            unfinished_last_line=self._unfinished,
            queued=counted["queued"],
        )

    def _add_object(self, line: int) -> None:
        self._figures["objects"] += 1
        if line == self._last_object_line:
            self._figures["glued"] += 1
        self._last_object_line = line
        self._last_line = max(self._last_line, line)

    def _add_entry(self, entry: Entry) -> None:
        draft, figures = entry.draft, self._figures
        if entry.queued:
            figures["queued"] += 1
            return
        if not entry.more:
            self._add_object(entry.line)
        figures[draft.role] += 1
        if not draft.active:
            figures["compact_summaries"] += 1
        if entry.session_key in self._children:
            figures["sidechain"] += 1
        self._add_parts(draft.parts)

    def _add_parts(self, parts: Iterable[Part]) -> None:
        for part in parts:
            match part:
                case Text():
                    continue
                case ToolCall():
                    self._called.add(part.call_id)
                case ToolResult():
                    self._answered.add(part.call_id)
                    self._add_parts(part.content)
                case _:
                    pass
            self._figures[_FIGURES[type(part)]] += 1

    def _add_trouble(self, trouble: Trouble) -> None:
        self._last_line = max(self._last_line, trouble.line)
        match trouble.kind:
            case "bad":
                self._figures["bad_lines"] += 1
                if len(self._bad) < KEPT_BAD_LINES:
                    self._bad.append((trouble.line, trouble.problem))
            case "unfinished":
                self._unfinished = True
            case "repaired":
                self._figures["repaired"] += 1
            case _:
                assert_never(trouble.kind)


def without_marks(events: Iterable[Event | Mark]) -> Iterator[Event]:
    """The events alone."""
    return (event for event in events if not isinstance(event, Mark))


def tally(path: str, format: str, events: Iterable[Event]) -> ImportReport:
    """Count all events of a file that nobody stores."""
    counting = Tally(path, format)
    for event in events:
        counting.add(event)
    return counting.report()
