"""A transcript file taken into its sessions: its batches are stored as they come (see transcript/batches.py).

Each batch commits its rows together with how far the file was taken in. So a file larger than memory, a
reader that is stopped half-way and two that read the same file all leave a transcript that the next one
completes, without a row twice.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.opening import NO_ROW, note_replay, open_session
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import followed, placing, sessions, store
from lcm_mcp.transcript.appending import append
from lcm_mcp.transcript.batches import Batch, Batches, Reading, Source, Taken, facts_of, lines_of
from lcm_mcp.transcript.files import LARGE_CHARACTERS
from lcm_mcp.transcript.followed import Facts, Followed
from lcm_mcp.transcript.importers import Numbered, Resume, SessionFound, TakenBack, Tip
from lcm_mcp.transcript.importers.prefix import prefix_of
from lcm_mcp.transcript.model import Sealed
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.redacting import Masking
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import Session

_DATABASES = (".db", ".vscdb", ".sqlite")

Found = Literal["grown", "again", "anew"]
"""What became of a followed file: it goes on from where it was left, is to be read again from its start, or
says something else now."""


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
    """A session that the file feeds; ended_at is when its last row was written before this reading, told_at
    the time that this reading told last.

    replayed is the row up to which it is known to say what its parent says, None once that is settled.
    """

    session: Session
    created: bool
    ended_at: int | None
    told_at: int | None = None
    added: int = 0
    duplicates: int = 0
    conflicts: list[str] = field(default_factory=list[str])
    late: int = 0
    replayed: Seq | None = NO_ROW


class Moved(Exception):
    """Another process took the file in from the same place on; nothing of the batch was stored."""


@dataclass(slots=True)
class Intake:
    """A file being taken in, and the sessions it feeds by their keys at the source.

    record is None where the file is not followed. alone: the reader goes on if another one moved the record,
    for an account of the whole file; without it such a batch is not stored. renamed are the entries of this
    reading that are known by another id than the one their place makes.
    """

    batches: Batches
    source: Source
    record: Followed | None = None
    alone: bool = False
    large_chars: int = LARGE_CHARACTERS
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    fed: dict[str, Fed] = field(default_factory=dict[str, Fed])

    @property
    def origin(self) -> str:
        """The source that sessions of this format are known under."""
        return f"import:{self.source.format}"


def read_on(record: Followed, resume: Resume, longest: int) -> Reading | Found:
    """Read a followed file on from where it was left, or say why it cannot be. Raises OSError."""
    with ExitStack() as opened:
        file = opened.enter_context(record.path.open("rb"))
        found = look(file, record)
        if found != "grown":
            return found
        made = lines_of(file, source_of(record), prefix_of(file, record.offset), resume, longest)
        opened.pop_all()  # whoever takes it in closes the file
        return made


def masking_of(work: Workplace) -> Masking | None:
    """What masks the keys in what is read, where that is wanted."""
    return Masking(sized=True) if work.settings.redact_stored else None


def source_of(record: Followed, *, marked: bool = True) -> Source:
    """A followed file as its record has it."""
    return Source(record.path, record.wish.format, record.wish.session or None, marked)


def store_batch(db: apsw.Connection, intake: Intake, batch: Batch) -> Followed | None:
    """Store a batch, runs of one session's entries together; repeats change nothing.

    Gives the record as it then is. Raises Moved.
    """
    run: list[Sealed] = []
    key = ""
    for item in batch.items:
        taken = isinstance(item, Taken)
        if run and (not taken or item.session_key != key):
            _store_run(db, intake, intake.fed[key], run)
            run = []
        if taken:
            key = item.session_key
            run.append(_identified(db, intake, item))
        else:
            _heed(db, intake, item)
    if run:
        _store_run(db, intake, intake.fed[key], run)
    for fed in intake.fed.values():
        fed.replayed = note_replay(db, fed.session.id, fed.replayed)
    return _advanced(db, intake, batch)


def _heed(db: apsw.Connection, intake: Intake, event: SessionFound | Tip | TakenBack | Numbered) -> None:
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


def _end_at(db: apsw.Connection, session: SessionId, entry_id: str) -> None:
    """Let the path end where the file's does, unless what follows it came from elsewhere."""
    tip, now = placing.find_entry(db, session, readable(entry_id)), sessions.find_by_id(db, session)
    if tip is not None and now is not None and tip not in RowPath(db, session, now.leaf):
        sessions.move_leaf(db, session, tip)


def _identified(db: apsw.Connection, intake: Intake, taken: Taken) -> Sealed:
    """An entry under the id it is known by, where its source gives none."""
    entry = taken.entry
    if intake.record is None or taken.ordinal is None:
        return entry
    session, plain = intake.fed[taken.session_key].session.id, entry.entry_id or ""
    known = followed.entry_id_of(db, intake.record, session, entry.digest, taken.ordinal, plain)
    if known != plain:
        intake.renamed[plain] = known
    if not intake.renamed:
        return entry
    parent = entry.parent and intake.renamed.get(entry.parent, entry.parent)
    return replace(entry, entry_id=known, parent=parent)


def _take_back(db: apsw.Connection, intake: Intake, event: TakenBack) -> None:
    """Let a path end earlier that ends where the source took rows back; what follows there stays."""
    session = sessions.existing(db, intake.fed[event.session_key].session.id)
    was, to = (
        placing.find_end(db, session.id, intake.renamed.get(name, name))
        for name in map(readable, (event.was, event.to))
    )
    if was == session.leaf and to is not None:
        sessions.move_leaf(db, session.id, to)


def _advanced(db: apsw.Connection, intake: Intake, batch: Batch) -> Followed | None:
    record, cursor = intake.record, batch.cursor
    if record is None or cursor is None:
        return record
    if followed.advance(db, record, cursor, None if intake.alone else batch.trouble):
        return replace(record, offset=cursor.place.offset, prefix=cursor.prefix, facts=cursor.facts)
    if not intake.alone:
        raise Moved
    return record


def _open(db: apsw.Connection, intake: Intake, found: SessionFound) -> None:
    """Find or make a session that the file tells of."""
    if found.key in intake.fed:
        return
    session, created = open_session(db, intake.origin, str(intake.source.path), found)
    if intake.record is not None:
        followed.feed(db, intake.record, session.id)
    ended = None if session.leaf == 0 else store.read_row(db, session.id, session.leaf)
    intake.fed[found.key] = Fed(session, created, None if ended is None else ended.at)


def _store_run(db: apsw.Connection, intake: Intake, fed: Fed, entries: Sequence[Sealed]) -> None:
    session = sessions.existing(db, fed.session.id)
    done = append(db, session, _timed(intake, fed, entries), now_ms(), intake.large_chars)
    known = {*done.duplicates, *done.conflicts}
    fed.added += done.added
    fed.duplicates += len(done.duplicates)
    fed.conflicts.extend(f"e{seq}" for seq in done.conflicts)
    if fed.ended_at is not None:
        fed.late += sum(
            seq not in known and entry.at is not None and entry.at < fed.ended_at
            for seq, entry in zip(done.refs, entries, strict=True)
        )


def _timed(intake: Intake, fed: Fed, entries: Sequence[Sealed]) -> Sequence[Sealed]:
    """The entries, each with a time: its own, else that of the one before, else of the one after it; where
    the file tells none, the time at which that was last written."""
    told = [entry.at for entry in entries if entry.at is not None]
    at, fed.told_at = fed.told_at, told[-1] if told else fed.told_at
    if len(told) == len(entries):
        return entries
    if at is None:
        at = told[0] if told else _written_at(intake.source.path)
    timed: list[Sealed] = []
    for entry in entries:
        at = at if entry.at is None else entry.at
        timed.append(entry if entry.at is not None else replace(entry, at=at))
    return timed


def _written_at(path: Path) -> int:
    """When a file was last written, never in the future."""
    facts, now = facts_at(str(path)), now_ms()
    return now if facts is None else min(now, facts.mtime // 1_000_000)
