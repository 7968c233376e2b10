"""A transcript file on its way into the store: read, told and sealed a batch at a time.

Batches end where lines end, and each says how far the file was read, so that it can be read on from there.
Nothing is stored here, and no file is ever written to. What a batch holds can be sent to another process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.followed import MORE_TO_READ, Cursor, Facts
from lcm_mcp.transcript.importers import (
    FORMATS,
    Entry,
    Event,
    ImportReport,
    Mark,
    Numbered,
    Other,
    Resume,
    SessionFound,
    TakenBack,
    Tally,
    Tip,
    Trouble,
)
from lcm_mcp.transcript.importers.jsonl import Readable
from lcm_mcp.transcript.importers.prefix import EndedLines, Prefix
from lcm_mcp.transcript.importers.report import FROM_START
from lcm_mcp.transcript.model import Draft, Sealed
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.redacting import Masking
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.values import frozen


@frozen
class Most:
    """What is read, sealed and committed together: at most so many events, or so many bytes of text."""

    events: int
    bytes: int


SHORTLY = Most(200, 1024 * 1024)
"""While a read waits, for little time."""
WHOLE = Most(500, 1024 * 1024)
"""Of a file that is read whole: fewer commits, each of which writes the same pages of indexes again."""
NO_LIMIT = 2**62
BUFFER_BYTES = 128 * 1024
"""Read at once of a file that is read whole; its lines are often longer than what Python reads by itself."""


@frozen
class Taken:
    """An entry of a session, sealed; ordinal as in Entry."""

    session_key: str
    ordinal: int | None
    entry: Sealed


Item = Taken | SessionFound | Tip | TakenBack | Numbered


@frozen
class Batch:
    """What is to be stored, where the file was read up to (None where no line ended), and the last thing that
    was not understood of all that was read."""

    items: list[Item]
    cursor: Cursor | None
    trouble: str | None


class Batches(Protocol):
    """A file that gives its batches; report and masked tell of all that was read so far."""

    def next_batch(self) -> Batch | None:
        """What comes next; None at the file's end. Raises ImportRefused."""
        ...

    def report(self) -> ImportReport: ...

    @property
    def masked(self) -> Mapping[str, int]:
        """How many keys were masked, by kind."""
        ...

    def close(self) -> None: ...


def facts_of(status: os.stat_result) -> Facts:
    return Facts(status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}")


@dataclass(slots=True)
class Reading:
    """A file being read, and what it told so far. marked: it is told where lines end. deflated: see seal."""

    tally: Tally
    file: BinaryIO
    events: Iterator[Event | Mark]
    lines: EndedLines
    facts: Facts
    resume: Resume
    after: Iterator[Event | Mark] | None = field(default_factory=lambda: iter(()))
    marked: bool = True
    most: Most = SHORTLY
    masking: Masking | None = None
    deflated: bool = True
    mark: Mark | None = None
    trouble: str | None = None
    found: set[str] = field(default_factory=set[str])

    def close(self) -> None:
        self.file.close()

    def report(self) -> ImportReport:
        return self.tally.report()

    @property
    def masked(self) -> Mapping[str, int]:
        return {} if self.masking is None else dict(self.masking.masked)

    def next_batch(self) -> Batch | None:
        items: list[Item] = []
        count = size = 0
        most, add = self.most, self.tally.add
        try:
            for event in self.events:
                if isinstance(event, Mark):
                    self.mark = event
                    if count >= most.events or size >= most.bytes:
                        return Batch(items, self._cursor(ended=False), self.trouble)
                    continue
                add(event)
                count += 1
                if isinstance(event, Entry):
                    entry = self._sealed(event.draft)
                    size += len(entry.text) + len(entry.payload or b"")
                    items.append(Taken(event.session_key, event.ordinal, entry))
                else:
                    self._heed(event, items)
                if not self.marked and (count >= most.events or size >= most.bytes):
                    return Batch(items, None, self.trouble)  # nobody asks where it ended
        except OSError as error:
            raise _refused(self.tally.path, error) from error
        return self._last_batch(items)

    def _sealed(self, draft: Draft) -> Sealed:
        masked = draft if self.masking is None else self.masking.draft(draft)
        return seal(masked, deflated=self.deflated)

    def _heed(self, event: Event, items: list[Item]) -> None:
        match event:
            case SessionFound(key, title):
                if key not in self.found:
                    self.found.add(key)
                    items.append(event if title is None else replace(event, title=self._title(title)))
            case Trouble(line, problem, kind):
                if kind == "bad":
                    self.trouble = f"line {line} was not understood: {problem}"
            case Tip() | TakenBack() | Numbered():
                items.append(event)
            case Entry() | Other():
                pass

    def _title(self, title: str) -> str:
        return readable(title) if self.masking is None else self.masking.text(readable(title))

    def _last_batch(self, items: list[Item]) -> Batch | None:
        """What is left when the lines have ended: once with the cursor, then what an unended line holds."""
        if self.after is None:
            return Batch(items, None, self.trouble) if items else None
        cursor = self._cursor(ended=True)
        self.events, self.after = self.after, None
        return Batch(items, cursor, self.trouble)

    def _cursor(self, *, ended: bool) -> Cursor | None:
        place = self.resume.place if self.mark is None else self.mark.place
        if self.lines.prefix.length != place.offset:  # an unended line so long that it was read in pieces
            return None
        memory = encode(dict(self.resume.memory) if self.mark is None else self.mark.memory())
        facts = self.facts if ended else replace(self.facts, size=MORE_TO_READ)
        return Cursor(place, memory, self.lines.prefix.digest, facts)


def _refused(path: str, error: OSError) -> ImportRefused:
    return ImportRefused(path, error.strerror or str(error), "Check the file and import it again")


@frozen
class Source:
    """A file to be read as a format, into the session of a key (None: its own).

    marked: it is told where lines end; without that it is read whole and cannot be read on.
    """

    path: Path
    format: str
    key: str | None
    marked: bool


def whole_file(source: Source, masking: Masking | None = None) -> Reading:
    """Read all of a file, its unended last line too; masking masks the keys in it. Raises ImportRefused."""
    path, name = source.path, source.format
    try:
        file = path.open("rb", buffering=BUFFER_BYTES)
    except OSError as error:
        raise _refused(str(path), error) from error
    if not source.marked:
        lines, events = EndedLines(file, Prefix(), NO_LIMIT), FORMATS[name].read(path, source.key)
        made = Reading(Tally(str(path), name), file, events, lines, _facts(file), FROM_START)
        made.marked = False
    else:
        made = lines_of(file, source, Prefix(), FROM_START, NO_LIMIT)
        made.after = _unended(made, source)
    made.most, made.masking = WHOLE, masking
    return made


def lines_of(file: BinaryIO, source: Source, prefix: Prefix, resume: Resume, longest: int) -> Reading:
    """Read an open file on from the prefix that was taken in; lines longer than that end it."""
    lines = EndedLines(file, prefix, longest)
    events = _follow(source, lines, resume)
    return Reading(Tally(str(source.path), source.format), file, events, lines, _facts(file), resume)


def _unended(reading: Reading, source: Source) -> Iterator[Event | Mark]:
    """The rest of a file whose ended lines were read."""
    mark = reading.mark
    resume = FROM_START if mark is None else Resume(mark.place, mark.memory())
    reading.file.seek(resume.place.offset)
    yield from _follow(source, reading.file, resume)


def _follow(source: Source, file: Readable, resume: Resume) -> Iterator[Event | Mark]:
    path, name = source.path, source.format
    follow = FORMATS[name].follow
    if follow is None:
        raise ImportRefused(str(path), f"a file in the format {name} is only read whole", "Import it again.")
    return follow(path, file, source.key, resume)


def _facts(file: BinaryIO) -> Facts:
    return facts_of(os.fstat(file.fileno()))
