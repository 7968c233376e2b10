"""Catching up: before a read answers, what followed files have grown by is taken in, without a daemon.

An unchanged file costs one look at its size and time, a folder another. All of it together takes at most
CATCH_UP_S, waiting for another writer included; what is left then is said in the answer, and a server reads
it beside the requests. It is a write of its own, over before the read's own snapshot begins, and whatever
goes wrong in it, the read answers. New rows are folded where passes live beside the requests, else not here.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import apsw

from lcm_mcp.errors import ImportRefused, MalformedAddress, StoreClosed, StoreError, UnknownSession
from lcm_mcp.ids import SessionId, parse_address
from lcm_mcp.service import rereading
from lcm_mcp.service.folders import Seen, looked_into, new_files
from lcm_mcp.service.importing import register
from lcm_mcp.service.intake import Intake, Moved, facts_at, masking_of, read_on, source_of, store_batch
from lcm_mcp.service.memory import fold_beside
from lcm_mcp.service.workplace import EVERYWHERE, Workplace, named_session
from lcm_mcp.storage.connections import translated
from lcm_mcp.storage.hurrying import hurry
from lcm_mcp.transcript import followed, sessions
from lcm_mcp.transcript.batches import NO_LIMIT, SHORTLY, whole_file
from lcm_mcp.transcript.followed import MORE_TO_READ, UNKNOWN_FORMAT, UNREAD, Folder, Followed, Glance, Wish
from lcm_mcp.transcript.importers import detect
from lcm_mcp.transcript.importers.databases import patience_ms

P = ParamSpec("P")
T = TypeVar("T")

CATCH_UP_S = 0.2
LOOKING_S = 0.1
"""Of CATCH_UP_S: the longest that looking at files and at folders may take, each, and waiting for a database
that another program keeps locked."""
LONGEST_LINE_BYTES = 8 * 1024 * 1024
"""A read has no time for a longer line, or file that is read whole."""
MAX_MOVES = 5


@dataclass(slots=True)
class _Round:
    """One catching up: the files that are behind, those sessions that grew and may be folded, and the rows
    that were added, by session."""

    deadline: float
    listed: bool = False
    behind: set[int] = field(default_factory=set[int])
    grown: set[SessionId] = field(default_factory=set[SessionId])
    added: Counter[str] = field(default_factory=Counter[str])

    def note(self, *, beside: bool) -> str | None:
        """What is to be said of what is left, which a server reads beside the requests."""
        if not self.listed:
            return "Followed files could not be looked at in time: call again."
        if not self.behind:
            return None
        number = len(self.behind)
        files = "1 followed file has" if number == 1 else f"{number} followed files have"
        if beside:
            return f"{files} more to read: read beside the requests now, call again."
        return f"{files} more to read: call again, or run `lcm-mcp import`."


def session_in(id: str, session: str | None) -> str | None:
    """The session that an address or else the call names."""
    try:
        named = parse_address(id).session
    except MalformedAddress:
        return session
    return session if named is None else f"s{named}"


async def catch_up(work: Workplace, session: str | None, project: str | None = None) -> str | None:
    """Take in what the files of a session, else of a project (this folder's), have grown by; with EVERYWHERE
    those of all. What is to be said of it, if anything."""
    now = _Round(time.monotonic() + CATCH_UP_S)
    patience = patience_ms.set(int(LOOKING_S * 1000))
    try:
        with anyio.move_on_after(CATCH_UP_S):
            await _catch_up(work, now, session, project)
    except StoreClosed:
        raise
    except StoreError as error:
        return f"Followed files were not read on: {error}"
    finally:
        patience_ms.reset(patience)
    _fold_beside(work, now)
    work.left.add(now.behind)
    return now.note(beside=work.left.hosted)


async def read_fresh(
    work: Workplace,
    session: str | None,
    project: str | None,
    job: Callable[Concatenate[apsw.Connection, Workplace, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> tuple[T, str | None]:
    """What a read gives once followed files were caught up with, and what is to be said of that.

    Mostly nothing is new, and then looking and reading are one step, of one snapshot.
    """

    def look_and_read(db: apsw.Connection) -> tuple[T] | None:
        try:
            with translated(work.store.path):
                found = _look(db, work, session, project)
        except StoreError:
            return None  # who looks again says so
        return None if any(found) else (job(db, work, *args, **kwargs),)

    if (found := await work.store.read_soon(look_and_read)) is not None:
        return found[0], None
    behind = await catch_up(work, session, project)
    return await work.store.read(job, work, *args, **kwargs), behind


async def read_left(work: Workplace) -> None:
    """Read to their end, beside the requests, the files that reads had no time for."""

    async def read(number: int) -> bool:
        now = _Round(0.0)
        try:
            await _take_in(work, now, number)
        except StoreClosed:
            return False
        except StoreError:
            pass  # the next read meets it too, and says so
        _fold_beside(work, now)
        return True

    await work.left.read(read)


async def catch_up_all(work: Workplace) -> Mapping[str, int]:
    """Take in what all followed files have grown by, however long it takes; the rows added, by session."""
    now = _Round(0.0)
    await _catch_up(work, now, None, EVERYWHERE)
    _fold_beside(work, now)
    return now.added


def _fold_beside(work: Workplace, now: _Round) -> None:
    """Fold what has grown, where passes still live beside the requests: they may have ended meanwhile."""
    for grown in now.grown if work.background.hosts else ():
        work.background.start(grown, partial(fold_beside, work, grown))


async def keep_up(work: Workplace, path: Path) -> SessionId | None:
    """Take in what one file has grown by, however long it takes; an unknown one is followed from now on.

    The session that it feeds, None where there is none. Raises ImportRefused where there is no such file.
    """
    place = Path(os.path.abspath(path))
    if not followed.can_be_written(place) or facts_at(str(place)) is None:
        raise ImportRefused(str(path), "there is no such file", "Check the path and its permissions.")
    files = await work.store.read(followed.of_path, place)
    if not files:
        files = [await register(work, place, Wish(UNKNOWN_FORMAT, "", work.settings.fold_imports))]
    now = _Round(0.0)
    for file in files:
        await _take_in(work, now, file.id)
    return await work.store.read(followed.main_session, files[0])


async def _catch_up(work: Workplace, now: _Round, session: str | None, project: str | None) -> None:
    changed, behind, seen = await work.store.read(_look, work, session, project)
    if seen and (found := await new_files(work, seen)):
        new, more_behind = await anyio.to_thread.run_sync(_changed, found, time.monotonic() + LOOKING_S)
        changed, behind = [*changed, *new], [*behind, *more_behind]
    now.behind = {file.id for file in (*changed, *behind)}
    now.listed = True
    for file in changed:
        if file.id not in work.left and await _take_in(work, now, file.id):
            now.behind.discard(file.id)


def _look(
    db: apsw.Connection, work: Workplace, session: str | None, project: str | None
) -> tuple[list[Glance], list[Glance], Seen | None]:
    """The files in scope that have changed and those behind, see _changed, and what is new in folders.

    In one go: a read mostly finds nothing new, and should have cost nothing then.
    """
    files, folders = _in_scope(db, work, session, project)
    changed, behind = _changed(files, time.monotonic() + LOOKING_S)
    seen = looked_into(folders, time.monotonic() + LOOKING_S)
    return changed, behind, seen if seen.files or seen.folders else None


def _in_scope(
    db: apsw.Connection, work: Workplace, session: str | None, project: str | None
) -> tuple[list[Glance], list[Folder]]:
    """The files to look at, and the folders; a session that has files of its own needs no other ones."""
    folders = followed.folders(db)
    if EVERYWHERE in (session, project):
        return followed.every(db), folders
    if session is not None and (found := _known(db, session)) is not None:
        files = followed.of_session(db, found)
        if files:
            return files, folders
    wanted = project or work.project
    if sessions.count(db, sessions.Filter(wanted)):
        return followed.of_project(db, wanted), folders
    return followed.every(db), folders


def _known(db: apsw.Connection, name: str) -> SessionId | None:
    try:
        return named_session(db, name).id
    except UnknownSession:
        return None


def _changed(files: Sequence[Glance], deadline: float) -> tuple[list[Glance], list[Glance]]:
    """Files to be read on, those with the least to read first, and those that are behind all the same.

    A file that is gone, or cannot be looked at, has nothing to read.
    """
    changed: list[tuple[int, Glance]] = []
    behind: list[Glance] = []
    for place, file in enumerate(files):
        if time.monotonic() > deadline:
            behind += files[place:]
            break
        hurry()
        facts = facts_at(file.path)
        if facts is None:
            continue
        left = facts.size - file.offset
        if (facts.size, facts.mtime, facts.identity) != (file.size, file.mtime, file.identity):
            changed.append((abs(left), file))
        elif left > LONGEST_LINE_BYTES:
            behind.append(file)
    return [file for _, file in sorted(changed)], behind


async def _take_in(work: Workplace, now: _Round, number: int) -> bool:
    """Read a file on to its end; False where something is left to read.

    Another process may read the same file: its record then has moved, and is looked at anew.
    """
    for _ in range(MAX_MOVES):
        file = await work.store.read(followed.find_by_id, number)
        if file is None:
            return True
        try:
            step = await _step(work, now, await _in_its_format(work, file))
        except (OSError, ImportRefused) as error:
            return await _note(work, file, error)
        if step is not None:
            return step
    return False


async def _in_its_format(work: Workplace, file: Followed) -> Followed:
    """A file that was found in a folder is of no known format until something is in it."""
    if file.wish.format != UNKNOWN_FORMAT:
        return file
    name = await anyio.to_thread.run_sync(detect, file.path)
    return await register(work, file.path, replace(file.wish, format=name))


async def _step(work: Workplace, now: _Round, file: Followed) -> bool | None:
    """Read on from where the record stands: True at the file's end, False where more is left, None where the
    record has to be looked at anew."""
    if await rereading.is_reread(file):
        return await _read_again(work, now, file)
    resume = await work.store.read(followed.resume_of, file)
    if resume is None:
        return None
    longest = LONGEST_LINE_BYTES if now.deadline else NO_LIMIT
    found = await anyio.to_thread.run_sync(read_on, file, resume, longest)
    if isinstance(found, str):
        await work.store.write(followed.start_over, file, anew=found == "anew")
        return None
    found.masking = masking_of(work)
    with closing(found):
        try:
            await _take(work, now, Intake(found, source_of(file), file))
        except Moved:
            return None
    return found.facts.size - found.lines.prefix.length <= longest


async def _read_again(work: Workplace, now: _Round, file: Followed) -> bool:
    """Read a file whole that cannot be read on; a large one not where a read waits."""
    if now.deadline and os.path.getsize(file.path) > LONGEST_LINE_BYTES:
        return False
    record = await rereading.begin(work, file)
    source = source_of(record, marked=False)
    with closing(await anyio.to_thread.run_sync(whole_file, source, masking_of(work))) as found:
        found.most = SHORTLY
        await _take(work, now, Intake(found, source, record, alone=True))
    await rereading.finish(work, record)
    return True


async def _take(work: Workplace, now: _Round, intake: Intake) -> None:
    reading, record = intake.batches, intake.record
    intake.large_chars = work.settings.large_file_chars
    while (batch := await anyio.to_thread.run_sync(reading.next_batch)) is not None:
        intake.record = await work.store.write(store_batch, intake, batch)
        if record is not None and record.wish.fold and work.background.hosts:
            now.grown |= {fed.session.id for fed in intake.fed.values() if fed.added}
    now.added += Counter({fed.session.key: fed.added for fed in intake.fed.values()})


async def _note(work: Workplace, file: Followed, error: OSError | ImportRefused) -> bool:
    """Note why a file was not read. False where the system kept it from us, be it by permission or by a lock:
    it may be read later though it does not change. What is wrong with its content changes with it."""
    facts, trouble = facts_at(str(file.path)), str(error)
    if facts is None:
        return True
    cause = error if isinstance(error, OSError) else error.__cause__
    kept = isinstance(cause, OSError) and cause.errno is not None
    if isinstance(cause, OSError):
        trouble = f"{UNREAD}{cause.strerror or cause}"
    if kept:
        facts = replace(facts, size=MORE_TO_READ)
    if (facts, trouble) != (file.facts, file.trouble):
        await work.store.write(followed.note_trouble, file, trouble, facts)
    return not kept


async def follow_file(work: Workplace, path: Path, fold: bool) -> None:
    """Follow a file from now on, whatever is in it; one that is followed keeps its place."""
    place = Path(os.path.abspath(path))
    if followed.can_be_written(place) and not await work.store.read(followed.of_path, place):
        await register(work, place, Wish(UNKNOWN_FORMAT, "", fold))
