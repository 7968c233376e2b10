"""Our own JSON lines: an entry a line, as lcm_append takes them, after an optional header.

The header is a first object {"session": key, "title"?, "project"?}. An entry that names no entry_id
gets "@<n>", its place among the file's records, so that importing a grown file again adds only what
is new. Lines that cannot be read count as records too: mending one must not rename those after it. A line
{"ends_at": id, "after": id} says that the conversation, if it ends at the one row, ends at the other, and
{"next_number": n} that its next row is number n, which leaves out the numbers that a fork has no rows of.
A line that is no entry is reported and passed over; nothing else of the file is refused for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.entries import Problem, read_entry
from lcm_mcp.transcript.importers.jsonl import BadLine, LineEnd, Object, Readable, read_lines
from lcm_mcp.transcript.importers.report import (
    FROM_START,
    Entry,
    Event,
    Mark,
    Numbered,
    Resume,
    SessionFound,
    TakenBack,
    Trouble,
    without_marks,
)
from lcm_mcp.transcript.model import Json, JsonObject

MOST_ROWS = 2**40
"""A higher number is no line of an export: it would leave no room for others."""
_HEADER_KEYS = frozenset(("session", "title", "project"))


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a neutral file as events, one session a file.

    Its key is the header's, else `session_key`. A file with neither is known by its path, since files of
    one name in two folders are two conversations, and named by its stem. Raises OSError.
    """
    with path.open("rb") as file:
        yield from without_marks(follow(path, file, session_key))


def follow(
    path: Path, file: Readable, session_key: str | None = None, resume: Resume = FROM_START
) -> Iterator[Event | Mark]:
    """The same of an open file from where it was left, with a Mark after each line."""
    reading = _Reading(path, session_key, *_remembered(resume))
    for found in read_lines(file, resume.place):
        if isinstance(found, LineEnd):
            yield Mark(found.place, reading.memory)
        else:
            yield from reading.events(found)


@dataclass(slots=True)
class _Reading:
    """What has to be remembered of earlier lines: how many records there were, and the session's key.

    found is what was said of the session in this reading.
    """

    path: Path
    wanted_key: str | None
    ordinal: int = 0
    named: bool = False
    key: str | None = None
    native_id: str | None = None
    found: SessionFound | None = None

    def memory(self) -> dict[str, Json]:
        return {"ordinal": self.ordinal, "named": self.named, "key": self.key, "native_id": self.native_id}

    def events(self, found: Object | BadLine) -> Iterator[Event]:
        header = isinstance(found, Object) and not self.named and self.ordinal == 0 and is_header(found.value)
        if isinstance(found, Object) and header:
            yield self._open(found.value)
            yield from _header_troubles(found)
            return
        if isinstance(found, Object) and (said := _said_of_rows(found.value)) is not None:
            if self.found is None:
                yield self._open({})
            assert self.found is not None
            yield said(self.found.key)
            return
        self.ordinal += 1
        if isinstance(found, BadLine):
            yield Trouble(found.line, found.problem, "unfinished" if found.unfinished else "bad")
            return
        session = self.found
        if session is None:
            yield (session := self._open({}))
        yield from _entry_events(found, session.key, self.ordinal)

    def _open(self, header: Block) -> SessionFound:
        """The file's session; one that was found in an earlier reading is only named again."""
        if self.key is not None:
            self.found = SessionFound(self.key, None, None, native_id=self.native_id)
        else:
            self.found = _session(header, self.path, self.wanted_key)
            self.named, self.key, self.native_id = True, self.found.key, self.found.native_id
        return self.found


def _remembered(resume: Resume) -> tuple[int, bool, str | None, str | None]:
    ordinal, memory = resume.memory.get("ordinal"), resume.memory
    return (
        ordinal if isinstance(ordinal, int) else 0,
        memory.get("named") is True,
        _text(memory, "key"),
        _text(memory, "native_id"),
    )


def is_header(value: Block) -> bool:
    return "session" in value and "role" not in value and "type" not in value


def _said_of_rows(value: Block) -> Callable[[str], Event] | None:
    """What a line that is no entry says of a session (by its key): at which row it is to end, if it ends at
    another one, or which number its next row has."""
    after, ends_at, number = _text(value, "after"), _text(value, "ends_at"), value.get("next_number")
    if "role" in value:
        return None
    if after is not None and ends_at is not None:
        return lambda key: TakenBack(key, after, ends_at)
    if isinstance(number, int) and 0 < number <= MOST_ROWS:
        return lambda key: Numbered(key, number)
    return None


def is_line(value: Block) -> bool:
    """Whether an object looks like an entry or a header, right in its details or not."""
    return is_header(value) or ("role" in value and ("content" in value or "tool_calls" in value))


def _entry_events(found: Object, session_key: str, ordinal: int) -> Iterator[Event]:
    if found.repaired:
        yield Trouble(found.line, "bytes that are no UTF-8 were replaced", "repaired")
    draft = read_entry(found.value)
    if isinstance(draft, Problem):
        yield Trouble(found.line, draft.text)
        return
    if draft.entry_id is not None:
        yield Entry(session_key, draft, found.line)
    else:
        yield Entry(session_key, replace(draft, entry_id=f"@{ordinal}"), found.line, ordinal)


def _session(header: Block, path: Path, session_key: str | None) -> SessionFound:
    key = _text(header, "session") or session_key
    title, project = _text(header, "title"), _text(header, "project")
    if key is not None:
        return SessionFound(key, title, project)
    return SessionFound(path.stem, title, project, native_id=str(path.resolve()))


def _header_troubles(found: Object) -> Iterator[Trouble]:
    unknown = sorted(key[:60] for key in found.value if key not in _HEADER_KEYS)
    if unknown:
        yield Trouble(found.line, f"the header has unknown keys: {', '.join(unknown[:8])}")
    for key in sorted(_HEADER_KEYS & found.value.keys()):
        if found.value[key] is not None and _text(found.value, key) is None:
            yield Trouble(found.line, f"the header's {key} is not a text, so it is not used")


def _text(value: JsonObject, key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) and text else None
