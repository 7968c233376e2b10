"""A transcript file on its way into its sessions: read, sealed and stored a batch at a time.

Batches end where lines end, and each commits its rows together with how far the file was taken in. So a
file larger than memory, a reader that is stopped half-way and two that read the same file all leave a
transcript that the next one completes, without a row twice. No file is ever written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

import apsw

from lcm_mcp.errors import ImportRefused
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.opening import NO_ROW, note_replay, open_session
from lcm_mcp.service.times import now_ms
from lcm_mcp.transcript import followed, placing, sessions, store
from lcm_mcp.transcript.appending import append
from lcm_mcp.transcript.files import LARGE_CHARACTERS
from lcm_mcp.transcript.followed import MORE_TO_READ, Cursor, Facts, Followed
from lcm_mcp.transcript.importers import (
    FORMATS,
    Entry,
    Event,
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
from lcm_mcp.transcript.importers.prefix import EndedLines, Prefix, prefix_of
from lcm_mcp.transcript.importers.report import FROM_START
from lcm_mcp.transcript.model import Draft, Sealed
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.redacting import Masking
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.transcript.sessions import Session


@dataclass(frozen=True, slots=True)
class Most:
    """What is read, sealed and committed together: at most so many events, or so many bytes of text."""

    events: int
    bytes: int


SHORTLY = Most(200, 1024 * 1024)
"""While a read waits, for little time."""
WHOLE = Most(1_000, 2 * 1024 * 1024)
"""Of a file that is read whole: fewer commits, each of which writes the same pages of indexes again."""
NO_LIMIT = 2**62
_DATABASES = (".db", ".vscdb", ".sqlite")

Found = Literal["grown", "again", "anew"]
"""What became of a followed file: it goes on from where it was left, is to be read again from its start, or
says something else now."""


def facts_of(status: os.stat_result) -> Facts:
    return Facts(status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}")


def facts_at(path: str) -> Facts | None:
    """What the file system says of an ordinary file at a path; None where there is none to be seen.

    What was written to a database stands in its log at first, so that counts as part of it.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    facts = facts_of(status)
    log = facts_at(f"{path}-wal") if path.endswith(_DATABASES) else None
    if log is None:
        return facts
    return replace(facts, size=facts.size + log.size, mtime=max(facts.mtime, log.mtime))


def look(file: BinaryIO, record: Followed) -> Found:
    """Compare an open file with what is known of it, at a cost that does not grow with it. Raises OSError."""
    facts = facts_of(os.fstat(file.fileno()))
    if record.offset == 0:
        return "grown"
    if facts.size < record.offset or prefix_of(file, record.offset).digest != record.prefix:
        return "anew"
    touched = facts.size == record.facts.size and facts.mtime != record.facts.mtime
    return "again" if touched or facts.identity != record.facts.identity else "grown"


@dataclass(slots=True)
class Fed:
    """A session that the file feeds; ended_at is when its last row was written before this reading.

    replayed is the row up to which it is known to say what its parent says, None once that is settled.
    """

    session: Session
    created: bool
    ended_at: int | None
    added: int = 0
    duplicates: int = 0
    conflicts: list[str] = field(default_factory=list[str])
    late: int = 0
    replayed: Seq | None = NO_ROW


@dataclass(frozen=True, slots=True)
class Batch:
    """Events with their entries sealed, and where the file was read up to; None where no line ended."""

    items: Sequence[tuple[Event, Sealed | None]]
    cursor: Cursor | None


class Moved(Exception):
    """Another process took the file in from the same place on; nothing of the batch was stored."""


@dataclass(slots=True)
class Intake:
    """A file being read: what it told so far, and the sessions it feeds by their keys at the source.

    record is None where the file is not followed. alone: the reader goes on if another one moved the record,
    for an account of the whole file; without it such a batch is not stored. marked: it is told where lines
    end. renamed are the entries of this reading that are known by another id than the one their place makes.
    """

    tally: Tally
    source: str
    file: BinaryIO
    events: Iterator[Event | Mark]
    lines: EndedLines
    facts: Facts
    resume: Resume
    after: Iterator[Event | Mark] | None = field(default_factory=lambda: iter(()))
    record: Followed | None = None
    alone: bool = False
    marked: bool = True
    most: Most = SHORTLY
    large_chars: int = LARGE_CHARACTERS
    masking: Masking | None = None
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    fed: dict[str, Fed] = field(default_factory=dict[str, Fed])
    mark: Mark | None = None
    trouble: str | None = None

    def close(self) -> None:
        self.file.close()

    def _sealed(self, draft: Draft) -> Sealed:
        return seal(draft if self.masking is None else self.masking.draft(draft))

    def masked(self, text: str) -> str:
        return text if self.masking is None else self.masking.text(text)

    @property
    def origin(self) -> str:
        """The source that sessions of this format are known under."""
        return f"import:{self.source}"

    def next_batch(self) -> Batch | None:
        """The next events, entries sealed; None at the file's end. Raises ImportRefused."""
        items: list[tuple[Event, Sealed | None]] = []
        size = 0
        try:
            for event in self.events:
                if isinstance(event, Mark):
                    self.mark = event
                    if len(items) >= self.most.events or size >= self.most.bytes:
                        return Batch(items, self._cursor(ended=False))
                    continue
                self.tally.add(event)
                if isinstance(event, Entry):
                    entry = self._sealed(event.draft)
                    size += len(entry.text) + len(entry.payload or b"")
                    items.append((event, entry))
                else:
                    self._note(event)
                    items.append((event, None))
                if not self.marked and (len(items) >= self.most.events or size >= self.most.bytes):
                    return Batch(items, None)  # nobody asks where it ended
        except OSError as error:
            raise ImportRefused(
                self.tally.path, error.strerror or str(error), "Check the file and import it again"
            ) from error
        return self._last_batch(items)

    def _last_batch(self, items: Sequence[tuple[Event, Sealed | None]]) -> Batch | None:
        """What is left when the lines have ended: once with the cursor, then what an unended line holds."""
        if self.after is None:
            return Batch(items, None) if items else None
        cursor = self._cursor(ended=True)
        self.events, self.after = self.after, None
        return Batch(items, cursor)

    def _cursor(self, *, ended: bool) -> Cursor | None:
        place = self.resume.place if self.mark is None else self.mark.place
        if self.lines.prefix.length != place.offset:  # an unended line so long that it was read in pieces
            return None
        memory = dict(self.resume.memory) if self.mark is None else self.mark.memory()
        facts = self.facts if ended else replace(self.facts, size=MORE_TO_READ)
        return Cursor(place, memory, self.lines.prefix.digest, facts)

    def _note(self, event: Event) -> None:
        if isinstance(event, Trouble) and event.kind == "bad":
            self.trouble = f"line {event.line} was not understood: {event.problem}"


def whole_file(
    path: Path, name: str, key: str | None, record: Followed | None, *, marked: bool = True
) -> Intake:
    """Read all of a file, its unended last line too; one without marks cannot be read on. Raises
    ImportRefused."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ImportRefused(
            str(path), error.strerror or str(error), "Check the file and import it again"
        ) from error
    if record is None or not marked:
        lines, events = EndedLines(file, Prefix(), NO_LIMIT), FORMATS[name].read(path, key)
        tally = Tally(str(path), name)
        made = Intake(tally, name, file, events, lines, _facts(file), FROM_START, None, record, alone=True)
        made.marked, made.most = False, WHOLE
        return made
    made = _intake(file, path, name, key, Prefix(), FROM_START, NO_LIMIT)
    made.record, made.alone, made.most = record, True, WHOLE
    made.after = _unended(made, path, key)
    return made


def _unended(intake: Intake, path: Path, key: str | None) -> Iterator[Event | Mark]:
    """The rest of a file whose ended lines were read."""
    mark = intake.mark
    resume = FROM_START if mark is None else Resume(mark.place, mark.memory())
    intake.file.seek(resume.place.offset)
    yield from _follow(intake.source, path, intake.file, key, resume)


def read_on(record: Followed, resume: Resume, longest: int) -> Intake | Found:
    """Read a followed file on from where it was left, or say why it cannot be. Raises OSError."""
    with ExitStack() as opened:
        file = opened.enter_context(record.path.open("rb"))
        found = look(file, record)
        if found != "grown":
            return found
        wish, prefix = record.wish, prefix_of(file, record.offset)
        made = _intake(file, record.path, wish.format, wish.session or None, prefix, resume, longest)
        made.record = record
        opened.pop_all()  # whoever takes it in closes the file
        return made


def _intake(
    file: BinaryIO, path: Path, name: str, key: str | None, prefix: Prefix, resume: Resume, longest: int
) -> Intake:
    lines = EndedLines(file, prefix, longest)
    events = _follow(name, path, lines, key, resume)
    return Intake(Tally(str(path), name), name, file, events, lines, _facts(file), resume)


def _follow(name: str, path: Path, file: Readable, key: str | None, resume: Resume) -> Iterator[Event | Mark]:
    follow = FORMATS[name].follow
    if follow is None:
        raise ImportRefused(str(path), f"a file in the format {name} is only read whole", "Import it again.")
    return follow(path, file, key, resume)


def _facts(file: BinaryIO) -> Facts:
    return facts_of(os.fstat(file.fileno()))


def store_batch(db: apsw.Connection, intake: Intake, batch: Batch) -> Followed | None:
    """Store a batch, runs of one session's entries together; repeats change nothing.

    Gives the record as it then is. Raises Moved.
    """
    run: list[Sealed] = []
    key = ""
    for event, entry in [*batch.items, (None, None)]:
        if isinstance(event, (Other, Trouble)):
            continue
        if run and (not isinstance(event, Entry) or event.session_key != key):
            _store_run(db, intake, intake.fed[key], run)
            run = []
        if isinstance(event, Entry) and entry is not None:
            key = event.session_key
            run.append(_identified(db, intake, event, entry))
        elif event is not None:
            _heed(db, intake, event)
    for fed in intake.fed.values():
        fed.replayed = note_replay(db, fed.session.id, fed.replayed)
    return _advanced(db, intake, batch.cursor)


def _heed(db: apsw.Connection, intake: Intake, event: Event) -> None:
    """Do what an event says that is no entry."""
    match event:
        case SessionFound():
            _open(db, intake, event)
        case Tip():
            _end_at(db, intake.fed[event.session_key].session.id, event.entry_id)
        case TakenBack():
            _take_back(db, intake, event)
        case Numbered():
            sessions.number_from(db, intake.fed[event.session_key].session.id, Seq(event.number))
        case _:
            pass


def _end_at(db: apsw.Connection, session: SessionId, entry_id: str) -> None:
    """Let the path end where the file's does, unless what follows it came from elsewhere."""
    tip, now = placing.find_entry(db, session, readable(entry_id)), sessions.find_by_id(db, session)
    if tip is not None and now is not None and tip not in RowPath(db, session, now.leaf):
        sessions.move_leaf(db, session, tip)


def _identified(db: apsw.Connection, intake: Intake, event: Entry, entry: Sealed) -> Sealed:
    """An entry under the id it is known by, where its source gives none."""
    if intake.record is None or event.ordinal is None:
        return entry
    session = intake.fed[event.session_key].session.id
    plain = entry.draft.entry_id or ""
    known = followed.entry_id_of(db, intake.record, session, entry.digest, event.ordinal, plain)
    if known != plain:
        intake.renamed[plain] = known
    if not intake.renamed:
        return entry
    parent = entry.parent and intake.renamed.get(entry.parent, entry.parent)
    return replace(entry, entry_id=known, parent=parent)


def _take_back(db: apsw.Connection, intake: Intake, event: TakenBack) -> None:
    """Let a path end earlier that ends where the source took rows back; what follows there stays."""
    session = sessions.find_by_id(db, intake.fed[event.session_key].session.id)
    assert session is not None
    was, to = (
        placing.find_end(db, session.id, intake.renamed.get(name, name))
        for name in map(readable, (event.was, event.to))
    )
    if was == session.leaf and to is not None:
        sessions.move_leaf(db, session.id, to)


def _advanced(db: apsw.Connection, intake: Intake, cursor: Cursor | None) -> Followed | None:
    record = intake.record
    if record is None or cursor is None:
        return record
    if followed.advance(db, record, cursor, None if intake.alone else intake.trouble):
        return replace(record, offset=cursor.place.offset, prefix=cursor.prefix, facts=cursor.facts)
    if not intake.alone:
        raise Moved
    return record


def _open(db: apsw.Connection, intake: Intake, found: SessionFound) -> None:
    """Find or make a session that the file tells of."""
    if found.key in intake.fed:
        return
    title = None if found.title is None else intake.masked(readable(found.title))
    session, created = open_session(db, intake.origin, intake.tally.path, replace(found, title=title))
    if intake.record is not None:
        followed.feed(db, intake.record, session.id)
    ended = None if session.leaf == 0 else store.read_row(db, session.id, session.leaf)
    intake.fed[found.key] = Fed(session, created, None if ended is None else ended.at)


def _store_run(db: apsw.Connection, intake: Intake, fed: Fed, entries: Sequence[Sealed]) -> None:
    session = sessions.find_by_id(db, fed.session.id)
    assert session is not None
    # What has no time of its own was there when its file was last written.
    written = min(now_ms(), intake.facts.mtime // 1_000_000)
    done = append(db, session, entries, written, intake.large_chars)
    known = {*done.duplicates, *done.conflicts}
    fed.added += done.added
    fed.duplicates += len(done.duplicates)
    fed.conflicts.extend(f"e{seq}" for seq in done.conflicts)
    if fed.ended_at is not None:
        fed.late += sum(
            seq not in known and entry.at is not None and entry.at < fed.ended_at
            for seq, entry in zip(done.refs, entries, strict=True)
        )
