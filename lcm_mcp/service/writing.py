"""lcm_append and imports: entries on their way into a session.

Entries are read and sealed before the transaction; an append is whole or nothing, and acknowledged only
once it is durable. Importing streams: a batch at a time is sealed and committed, so a file larger than
memory and an import that is stopped half-way both leave a transcript that the next import completes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice, takewhile
from pathlib import Path

import anyio.to_thread
import apsw

from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Measured
from lcm_mcp.errors import AppendConflict, ImportRefused, InvalidArgument, MalformedAddress
from lcm_mcp.ids import RowAddress, Seq, SessionId, parse_address
from lcm_mcp.service.answers import Imported, ImportOutcome, Receipt
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.service.requests import Usage
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.importers import FORMATS, Entry, Event, SessionFound, Tally, check_file, detect
from lcm_mcp.transcript.model import Sealed
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.transcript.sessions import MAX_KEY_CHARACTERS, NewSession, Session
from lcm_mcp.transcript.store import Appended

MAX_ENTRIES = 5000
BATCH_EVENTS = 200
"""Lines read, sealed and committed together at an import; one fsync each."""


NOT_MEASURED = (
    "usage was not kept: no preparation of this session is remembered under that name "
    "(the last 1,000 are); give `prepared` as it was answered."
)


@dataclass(frozen=True, slots=True)
class Guard:
    """What the client believes about the session's end; nothing is appended where it is wrong."""

    after: str | None = None
    expect_last_seq: int | None = None


def checked_key(key: str) -> str:
    """A session key fit to be stored. Raises InvalidArgument."""
    key = readable(key)
    if not key.strip() or len(key) > MAX_KEY_CHARACTERS:
        raise InvalidArgument(
            "session", "it is empty or too long", f"Give a key of 1 to {MAX_KEY_CHARACTERS} characters."
        )
    return key


async def sealed(entries: Sequence[object]) -> list[Sealed]:
    """Entries read and sealed in a worker thread. Raises MalformedEntry and InvalidArgument."""
    if len(entries) > MAX_ENTRIES:
        # Refused before it is stored: a receipt too large to be answered would read as a failure.
        raise InvalidArgument(
            "entries",
            f"there are {len(entries)}",
            f"Append at most {MAX_ENTRIES} in one call; nothing was stored.",
        )
    return await anyio.to_thread.run_sync(
        lambda: [seal(parse_entry(entry, index)) for index, entry in enumerate(entries)]
    )


async def append(
    work: Workplace,
    key: str,
    entries: Sequence[object],
    guard: Guard = Guard(),
    title: str | None = None,
    project: str | None = None,
    usage: Usage | None = None,
) -> Receipt:
    """Append entries to a session, creating it where there is none; usage is what the request that they
    answer was counted as."""
    wanted = checked_key(key)
    ready = await sealed(entries)
    return await work.store.write(_append, work, wanted, ready, guard, title, project, usage)


def keep_usage(db: apsw.Connection, session: SessionId, usage: Usage) -> bool:
    """Put a provider's figures beside the preparation they are of; False where none is remembered."""
    counted = Measured(usage.input_tokens, usage.cached_tokens)
    return observations.measure(db, session, usage.prepared, counted)


def _append(
    db: apsw.Connection,
    work: Workplace,
    key: str,
    entries: Sequence[Sealed],
    guard: Guard,
    title: str | None,
    project: str | None,
    usage: Usage | None,
) -> Receipt:
    now = now_ms()
    found = sessions.find_by_key(db, key)
    session = found or sessions.create(db, NewSession(key, project=work.project), now)
    if found is None or title is not None or project is not None:
        sessions.describe(
            db,
            session.id,
            readable(title) if title is not None else _title(entries),
            None if project is None else readable(project),
        )
    done = store.append(db, session, entries, now)
    if done.added:
        _check(db, session, guard, done)  # a refusal undoes the whole transaction
    return Receipt(
        session=session.key,
        created=found is None,
        refs=tuple(f"e{seq}" for seq in done.refs),
        duplicates=tuple(f"e{seq}" for seq in done.duplicates),
        conflicts=tuple(f"e{seq}" for seq in done.conflicts),
        last_seq=session.next_seq - 1 + done.added,
        notes=() if usage is None or keep_usage(db, session.id, usage) else (NOT_MEASURED,),
    )


def _check(db: apsw.Connection, session: Session, guard: Guard, done: Appended) -> None:
    """Compare what the client believed with how the session ended before this append.

    Entries of this call that stood there already, right after the row it names, are the client's own.
    """
    last = session.next_seq - 1
    if guard.expect_last_seq is not None and guard.expect_last_seq != last:
        raise AppendConflict(f"e{guard.expect_last_seq}", f"e{last}")
    if guard.after is None:
        return
    believed = _seq_of(db, session, guard.after)
    for seq in takewhile(set(done.duplicates).__contains__, done.refs):
        if believed is not None and RowPath(db, session.id, seq).before(seq) == believed:
            believed = seq
    if believed != session.leaf:
        raise AppendConflict(guard.after, f"e{session.leaf}")


def _seq_of(db: apsw.Connection, session: Session, name: str) -> Seq | None:
    """The row that a ref or an entry_id names."""
    found = store.find_entry(db, session.id, readable(name))
    if found is not None:
        return found
    try:
        address = parse_address(name)
    except MalformedAddress:
        raise InvalidArgument(
            "after",
            f"{name[:80]!r} is neither a row nor an entry_id of this session",
            "Use a ref such as e104.",
        ) from None
    return address.seq if isinstance(address, RowAddress) else None


def _title(entries: Sequence[Sealed]) -> str | None:
    """A name for a session nobody named: how its first user row begins."""
    for entry in entries:
        if entry.draft.role == "user" and entry.text.strip():
            return " ".join(entry.text[:400].split())[:80]
    return None


async def import_file(
    work: Workplace,
    path: Path,
    format: str,
    session: str | None,
    fold: bool,
    on_rows: Callable[[int], None] | None,
) -> ImportOutcome:
    """Read a transcript file into its sessions. Raises ImportRefused where the file is none."""
    name = format if format != "auto" else await anyio.to_thread.run_sync(detect, path)
    await anyio.to_thread.run_sync(check_file, path)
    if name not in FORMATS:
        raise InvalidArgument(
            "format", f"{name[:40]!r} is unknown", f"Use auto or one of {', '.join(FORMATS)}."
        )
    key = None if session is None else checked_key(session)
    reading = _Reading(Tally(str(path), name), FORMATS[name].read(path, key), name)
    while batch := await anyio.to_thread.run_sync(reading.next_batch):
        await work.store.write(_store_batch, reading, batch)
        if on_rows is not None:
            on_rows(sum(fed.added for fed in reading.fed.values()))
    folded = {
        key: await fold_memory(work, fed.session.id) if fold else None for key, fed in reading.fed.items()
    }
    imported = tuple(
        Imported(
            session=fed.session.key,
            created=fed.created,
            rows_added=fed.added,
            duplicates=fed.duplicates,
            conflicts=tuple(fed.conflicts),
            late=fed.late,
            folded=folded[key],
        )
        for key, fed in reading.fed.items()
    )
    report = replace(
        reading.tally.report(),
        rows_added=sum(one.rows_added for one in imported),
        duplicates=sum(one.duplicates for one in imported),
        conflicts=tuple(ref for one in imported for ref in one.conflicts),
        late=sum(one.late for one in imported),
    )
    return ImportOutcome(report, imported)


@dataclass(slots=True)
class _Fed:
    """A session that the file feeds; ended_at is when its last row was written before this import."""

    session: Session
    created: bool
    ended_at: int | None
    added: int = 0
    duplicates: int = 0
    conflicts: list[str] = field(default_factory=list[str])
    late: int = 0


Sealable = tuple[Event, Sealed | None]


@dataclass(slots=True)
class _Reading:
    """A file being read: what it told so far, and the sessions it feeds by their keys at the source."""

    tally: Tally
    events: Iterator[Event]
    source: str
    fed: dict[str, _Fed] = field(default_factory=dict[str, _Fed])

    @property
    def origin(self) -> str:
        """The source that sessions of this format are known under."""
        return f"import:{self.source}"

    def next_batch(self) -> list[Sealable]:
        """The next events, entries sealed; empty at the file's end. Raises ImportRefused."""
        try:
            batch = list(islice(self.events, BATCH_EVENTS))
        except OSError as error:
            raise ImportRefused(
                self.tally.path, error.strerror or str(error), "Check the file and import it again"
            ) from error
        for event in batch:
            self.tally.add(event)
        return [(event, seal(event.draft) if isinstance(event, Entry) else None) for event in batch]


def _store_batch(db: apsw.Connection, reading: _Reading, batch: Sequence[Sealable]) -> None:
    """Store a batch, runs of one session's entries together; repeats change nothing."""
    run: list[Sealed] = []
    key = ""
    for event, entry in [*batch, (None, None)]:
        if run and (entry is None or not isinstance(event, Entry) or event.session_key != key):
            _store_run(db, reading.fed[key], run)
            run = []
        if isinstance(event, SessionFound):
            _open(db, reading, event)
        elif isinstance(event, Entry) and entry is not None:
            key = event.session_key
            run.append(entry)


def _open(db: apsw.Connection, reading: _Reading, found: SessionFound) -> None:
    """Find or make a session that the file tells of; what was made for a child's sake gets its title now."""
    if found.key in reading.fed:
        return
    title = None if found.title is None else readable(found.title)
    project = None if found.project is None else readable(found.project)
    session = _known(db, reading, found.key, found.native_id)
    if session is None:
        parent = _parent(db, reading, found.parent_key, project)
        key = found.key if found.native_id is None else _free_key(db, reading, found.key)
        new = NewSession(
            key=_key(reading, key),
            title=title,
            project=project,
            source=reading.origin,
            native_id=readable(found.native_id or key),
            parent=None if parent is None else parent.id,
            link=None if parent is None else "child",
            opener=_opener(db, found, parent),
        )
        session, created = sessions.create(db, new, now_ms()), True
    else:
        sessions.complete(db, session.id, title, project)
        created = False
    ended = None if session.leaf == 0 else store.read_row(db, session.id, session.leaf)
    reading.fed[found.key] = _Fed(session, created, None if ended is None else ended.at)


def _key(reading: _Reading, key: str) -> str:
    """A file's own key, checked. Raises ImportRefused, which names the file and lets the others go on."""
    try:
        return checked_key(key)
    except InvalidArgument as error:
        raise ImportRefused(
            reading.tally.path, f"the session's key in it cannot be used ({error})", "Give one with --session"
        ) from error


def _known(db: apsw.Connection, reading: _Reading, key: str, native_id: str | None = None) -> Session | None:
    """The stored session that a file's own identity means; a mere name means none."""
    if native_id is not None:
        return sessions.find_by_native(db, reading.origin, readable(native_id))
    key = _key(reading, key)
    return sessions.find_by_native(db, reading.origin, key) or sessions.find_by_key(db, key)


def _free_key(db: apsw.Connection, reading: _Reading, name: str) -> str:
    """A name as a key, with a number behind it where other sessions bear it."""
    name = _key(reading, name)
    keys = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(key for key in keys if sessions.find_by_key(db, key) is None)


def _parent(db: apsw.Connection, reading: _Reading, key: str | None, project: str | None) -> Session | None:
    """A child's parent, made empty where its own file was not read yet (or is this one, further down)."""
    if key is None:
        return None
    known = _known(db, reading, key)
    if known is not None:
        return known
    key = _key(reading, key)
    return sessions.create(
        db, NewSession(key, project=project, source=reading.origin, native_id=key), now_ms()
    )


def _opener(db: apsw.Connection, found: SessionFound, parent: Session | None) -> Seq | None:
    if parent is None or found.opener_entry_id is None:
        return None
    return store.find_entry(db, parent.id, readable(found.opener_entry_id))


def _store_run(db: apsw.Connection, fed: _Fed, entries: Sequence[Sealed]) -> None:
    session = sessions.find_by_id(db, fed.session.id)
    assert session is not None
    done = store.append(db, session, entries, now_ms())
    known = {*done.duplicates, *done.conflicts}
    fed.added += done.added
    fed.duplicates += len(done.duplicates)
    fed.conflicts.extend(f"e{seq}" for seq in done.conflicts)
    if fed.ended_at is not None:
        fed.late += sum(
            1
            for seq, entry in zip(done.refs, entries, strict=True)
            if seq not in known and entry.draft.at is not None and entry.draft.at < fed.ended_at
        )
