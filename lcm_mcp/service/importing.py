"""Importing a transcript file: all of it is read, and an account is given of what it held.

What is known already changes nothing. From then on the file is followed, if its format allows it: reads take
in what it grows by (see following.py), from where this reading left it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import apsw

from lcm_mcp.errors import ImportRefused, InvalidArgument
from lcm_mcp.service import rereading
from lcm_mcp.service.answers import Imported, ImportOutcome
from lcm_mcp.service.intake import Fed, Intake, look, masking_of, store_batch
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.service.writing import checked_key
from lcm_mcp.transcript import apart, followed
from lcm_mcp.transcript.batches import Source
from lcm_mcp.transcript.followed import Followed, Wish
from lcm_mcp.transcript.importers import FORMATS, ImportReport, can_follow, check_file, detect

SELDOM_OBJECTS = 100_000


async def import_file(
    work: Workplace,
    path: Path,
    format: str,
    session: str | None,
    fold: bool,
    on_rows: Callable[[int], None] | None,
    follow: bool,
) -> ImportOutcome:
    """Read a transcript file into its sessions. Raises ImportRefused where the file is none, or of another
    format than was said."""
    name = format if format != "auto" else await anyio.to_thread.run_sync(detect, path)
    if name not in FORMATS:
        raise InvalidArgument(
            "format", f"{name[:40]!r} is unknown", f"Use auto or one of {', '.join(FORMATS)}."
        )
    await anyio.to_thread.run_sync(check_file, path, name)
    key = None if session is None else checked_key(session)
    live = await anyio.to_thread.run_sync(can_follow, path, name)
    wish, before, record = Wish(name, key or "", fold), None, None
    place = Path(os.path.abspath(path))
    if follow and followed.can_be_written(place):
        before = await work.store.read(_feeding, place, wish)
        record = await _from_the_start(work, place, wish, live)
    source = Source(path, name, key, live and record is not None)
    batches = await anyio.to_thread.run_sync(apart.open_file, source, masking_of(work))
    intake = Intake(batches, source, record, alone=True, large_chars=work.settings.large_file_chars)
    with closing(batches), _collecting_seldom():
        while (batch := await anyio.to_thread.run_sync(batches.next_batch)) is not None:
            intake.record = await work.store.write(store_batch, intake, batch)
            del batch  # before the next one is read: either may hold very long lines
            if on_rows is not None:
                on_rows(sum(fed.added for fed in intake.fed.values()))
    if record is not None and not live:
        await rereading.finish(work, record)
    if not intake.fed:
        await _found_nothing(work, path, name, record, before)
    imported = tuple([await _imported(work, fed, fold) for fed in intake.fed.values()])
    return ImportOutcome(_account(batches.report(), imported), imported, batches.masked)


async def _found_nothing(
    work: Workplace, path: Path, name: str, record: Followed | None, before: Wish | None
) -> None:
    """Follow a file as before in which nothing of a format was. Raises ImportRefused where it has another."""
    if record is not None and before is not None:
        await work.store.write(followed.follow, record.path, before)
    try:
        other = await anyio.to_thread.run_sync(detect, path)
    except ImportRefused:
        return
    if other == name:
        return
    if record is not None and before is None:
        await work.store.write(followed.leave, record)
    problem, remedy = f"nothing in it is of the format {name}", f"It looks like {other}: import it as that."
    raise ImportRefused(str(path), problem, remedy)


@contextmanager
def _collecting_seldom() -> Generator[None]:
    """What a batch is made of goes once it is stored; looking for cycles in it takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(SELDOM_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _imported(work: Workplace, fed: Fed, fold: bool) -> Imported:
    return Imported(
        session=fed.session.key,
        created=fed.created,
        rows_added=fed.added,
        duplicates=fed.duplicates,
        conflicts=tuple(fed.conflicts),
        late=fed.late,
        folded=await fold_memory(work, fed.session.id) if fold else None,
    )


def _account(report: ImportReport, imported: Sequence[Imported]) -> ImportReport:
    return replace(
        report,
        rows_added=sum(one.rows_added for one in imported),
        duplicates=sum(one.duplicates for one in imported),
        conflicts=tuple(ref for one in imported for ref in one.conflicts),
        late=sum(one.late for one in imported),
    )


def _feeding(db: apsw.Connection, place: Path, wish: Wish) -> Wish | None:
    """How a file is followed that feeds a session in another format than is wished now: where nothing is
    found in it in this one, it stays as it was."""
    record = followed.find(db, place, wish.session)
    if record is None or record.wish.format == wish.format or followed.main_session(db, record) is None:
        return None
    return record.wish


async def _from_the_start(work: Workplace, place: Path, wish: Wish, live: bool) -> Followed | None:
    """The record of a file that is about to be read whole."""
    record = await register(work, place, wish)
    if not live:
        return await rereading.begin(work, record)
    if record.offset == 0:
        return record
    found = await anyio.to_thread.run_sync(_looked_at, record)
    await work.store.write(followed.start_over, record, anew=found)
    return await work.store.read(followed.find_by_id, record.id)


def _looked_at(record: Followed) -> bool:
    """Whether the file says something else now than when it was read."""
    with record.path.open("rb") as file:
        return look(file, record) == "anew"


async def register(work: Workplace, path: Path, wish: Wish) -> Followed:
    """Follow a file; one of several that were put into one session has entries of its own."""
    others = await work.store.read(followed.beside, wish) if wish.session else []
    like = await anyio.to_thread.run_sync(_copied, path, wish, others)
    return await work.store.write(_register, path, wish, like)


def _copied(path: Path, wish: Wish, others: Sequence[Followed]) -> Followed | None:
    """The file that this one begins as, where there is one: a copy of it, or itself under another name or for
    another session."""
    with path.open("rb") as file:
        for other in others:
            if (other.path, other.wish.session) == (path, wish.session) or not other.offset:
                continue
            if look(file, other) != "anew":
                return other
    return None


def _register(db: apsw.Connection, path: Path, wish: Wish, like: Followed | None) -> Followed:
    record = followed.follow(db, path, wish)
    # One that begins anew, after a reader that died there, is known by what it fed.
    untouched = record.offset == 0 and record.source == 0 and record.version == 1
    if not (untouched and wish.session) or followed.main_session(db, record) is not None:
        return record
    others = any(other.id != record.id for other in followed.beside(db, wish))
    apart = others or followed.has_lines(db, wish.session)
    return followed.name_apart(db, record, like) if apart else record
