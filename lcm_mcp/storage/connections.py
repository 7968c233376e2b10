"""One file, one writer, a few read-only readers, safe to cancel.

Every piece of work is a synchronous function of a connection, run in a worker thread: writes one at
a time in one IMMEDIATE transaction, reads in one deferred transaction each, so that a read sees one
state of the file. A call that returned has committed; a cancelled call has committed wholly or not at
all. Refused here: awaiting inside a transaction, sharing a connection between two running calls, and
SQLite's exceptions above this floor (they leave as StoreError).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import apsw

from lcm_mcp.errors import (
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from lcm_mcp.storage import backups, files
from lcm_mcp.storage.checkpoints import Log
from lcm_mcp.storage.hurrying import STEPS, TakesLonger, at_once

P = ParamSpec("P")
T = TypeVar("T")

READERS: Final = 4
BUSY_POLL_S: Final = 0.01
CANCEL_CHECK_STEPS: Final = 20_000
"""SQLite steps between two looks at whether the caller was cancelled; about a millisecond of work."""


@dataclass(slots=True)
class _Readers:
    idle: list[apsw.Connection] = field(default_factory=list[apsw.Connection])
    lock: threading.Lock = field(default_factory=threading.Lock)


class Store:
    """An open store. Make one per process with `Store.open`; every method may be called from any task."""

    def __init__(self, path: Path, writer: apsw.Connection) -> None:
        self.path: Final = path
        self.checksummed: Final = files.is_checksummed(writer)
        """Whether every page of the file carries a checksum that is verified when it is read."""
        self._writer = writer
        self._log = Log(writer)
        self._writer_lock = threading.Lock()
        self._readers = _Readers()
        self._closed = False
        self._committed: anyio.Event | None = None
        self._write_limit: anyio.CapacityLimiter | None = None
        self._read_limit: anyio.CapacityLimiter | None = None

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open the file at `path`, creating it and its folder for the owner only, and migrate it.

        Raises NotAStore, StoreTooNew, StoreDamaged, StoreBusy or StoreUnavailable and leaves the file alone.
        """
        with translated(path):
            writer = files.open_writer(path)
        writer.set_busy_handler(_BusyWait())
        return cls(path, writer)

    @staticmethod
    def is_missing(path: Path) -> bool:
        """Whether opening would make a new store there."""
        return files.is_missing(path)

    @staticmethod
    def is_sound(path: Path) -> bool:
        """Whether every page passes its checksum and the structure holds. Raises StoreError."""
        with translated(path):
            return files.is_sound(path)

    @staticmethod
    def rewrite_checksums(path: Path) -> None:
        """See files.rewrite_checksums. Raises StoreError."""
        with translated(path):
            files.rewrite_checksums(path)

    async def write(
        self, job: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `job(connection, …)` in one IMMEDIATE transaction and return what it returned, committed."""
        result = await anyio.to_thread.run_sync(
            lambda: self._write_now(lambda db: job(db, *args, **kwargs)), limiter=self._one_writer()
        )
        if self._committed is not None:
            self._committed.set()
            self._committed = None
        return result

    async def write_derived(
        self, job: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same for what can be derived again, and nobody waits for: it is not synced, so that a power cut
        may undo it, but nothing that `write` committed."""
        return await anyio.to_thread.run_sync(
            lambda: self._write_now(lambda db: job(db, *args, **kwargs), synced=False),
            limiter=self._one_writer(),
        )

    @property
    def committed(self) -> anyio.Event:
        """Is set when this process next commits a write."""
        if self._committed is None:
            self._committed = anyio.Event()
        return self._committed

    async def read(
        self, job: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `job(connection, …)` on a read-only connection in one consistent snapshot."""
        if self._read_limit is None:
            self._read_limit = anyio.CapacityLimiter(READERS)
        return await anyio.to_thread.run_sync(
            lambda: self._read_now(lambda db: job(db, *args, **kwargs)), limiter=self._read_limit
        )

    async def read_soon(
        self, job: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same of what mostly takes no longer than the way to a thread and back does: it is done here and
        now, while nobody else is served, and begun anew in a thread once it has taken its time, see hurrying.
        Others have their turn before each."""
        await anyio.lowlevel.checkpoint()
        done = self._read_at_once(lambda db: job(db, *args, **kwargs))
        return await self.read(job, *args, **kwargs) if done is None else done[0]

    async def back_up(self, to: Path) -> int:
        """See backups.back_up; nobody's writes are kept waiting. Raises StoreError."""
        return await self.read(backups.back_up, to)

    async def purge(self) -> bool:
        """See files.purge; false where another process kept it from being whole. Raises StoreError."""
        return await anyio.to_thread.run_sync(self._purge_now, limiter=self._one_writer())

    def _purge_now(self) -> bool:
        with self._writer_lock, translated(self.path):
            if self._closed:
                raise StoreClosed
            return files.purge(self.path)

    def _one_writer(self) -> anyio.CapacityLimiter:
        if self._write_limit is None:
            self._write_limit = anyio.CapacityLimiter(1)
        return self._write_limit

    async def close(self) -> None:
        """Close every connection; calls after this raise StoreClosed. Bounded, and not cancelled itself."""
        with anyio.move_on_after(5, shield=True):
            await anyio.to_thread.run_sync(self.close_now)

    def close_now(self) -> None:
        """The same from synchronous code, once no call is running."""
        with self._writer_lock:
            if self._closed:
                return
            self._closed = True
            with self._readers.lock:
                for reader in self._readers.idle:
                    reader.close()
                self._readers.idle.clear()
            with suppress(apsw.Error):  # statistics are a courtesy: closing must not wait or fail for them
                self._writer.set_busy_timeout(0)
                self._writer.pragma("optimize")
            self._writer.close()

    def _write_now(self, job: Callable[[apsw.Connection], T], *, synced: bool = True) -> T:
        with self._writer_lock, translated(self.path):
            if self._closed:
                raise StoreClosed
            if not synced:
                self._writer.pragma("synchronous", "normal")
            try:
                result = _in_transaction(self._writer, "BEGIN IMMEDIATE", _cancellable(job))
            finally:
                if not synced:
                    self._writer.pragma("synchronous", "full")
            if self._log.due:
                try:
                    self._log.write_back()
                finally:
                    self._writer.set_busy_handler(_BusyWait())
            return result

    def _read_now(self, job: Callable[[apsw.Connection], T]) -> T:
        with translated(self.path):
            reader = self._take_reader()
            try:
                return _in_transaction(reader, "BEGIN", _cancellable(job))
            finally:
                self._give_back(reader)

    def _read_at_once(self, job: Callable[[apsw.Connection], T]) -> tuple[T] | None:
        """None where it would take too long, or failed: who does it again in a thread says why."""
        try:
            reader = self._take_reader()
        except apsw.Error:
            return None
        reader.set_busy_timeout(0)
        try:
            with at_once(reader) as next_steps:
                done = _in_transaction(reader, "BEGIN", _watched(job, next_steps, STEPS))
        except (apsw.Error, TakesLonger):
            return None
        finally:
            reader.set_busy_handler(_BusyWait())
            self._give_back(reader)
        return (done,)

    def _take_reader(self) -> apsw.Connection:
        with self._readers.lock:
            if self._closed:
                raise StoreClosed
            if self._readers.idle:
                return self._readers.idle.pop()
        reader = files.open_reader(self.path)
        reader.set_busy_handler(_BusyWait())
        return reader

    def _give_back(self, reader: apsw.Connection) -> None:
        with self._readers.lock:
            if not self._closed:
                self._readers.idle.append(reader)
                return
        reader.close()


class _BusyWait:
    """SQLite's busy handler: short sleeps that notice a cancelled caller, up to files.BUSY_S seconds."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, attempt: int) -> bool:
        if attempt == 0:
            self._since = time.monotonic()
        _raise_if_cancelled()
        time.sleep(BUSY_POLL_S)
        return time.monotonic() - self._since < files.BUSY_S


def _in_transaction(db: apsw.Connection, begin: str, job: Callable[[apsw.Connection], T]) -> T:
    """Run a job between BEGIN and COMMIT; whatever it raises leaves no transaction open.

    What nobody would find is not committed, and what is there no more not read, see files.check_in_place.
    Some errors (a full disk, a bad page) make SQLite roll back by itself, so ours must ask first.
    """
    db.execute(begin)
    try:
        result = job(db)
        files.check_in_place(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return result


def _watched(
    job: Callable[[apsw.Connection], T], handler: Callable[[], bool], steps: int
) -> Callable[[apsw.Connection], T]:
    """A job whose statements the handler may stop, but never the BEGIN before or the COMMIT after them: these
    would leave the transaction open."""

    def watched(db: apsw.Connection) -> T:
        db.set_progress_handler(handler, steps)
        try:
            return job(db)
        finally:
            db.set_progress_handler(None)

    return watched


def _cancellable(job: Callable[[apsw.Connection], T]) -> Callable[[apsw.Connection], T]:
    """A job whose statements end when the caller is cancelled."""

    def cancellable(db: apsw.Connection) -> T:
        try:
            return _watched(job, _progress, CANCEL_CHECK_STEPS)(db)
        except apsw.Error:
            _raise_if_cancelled()  # SQLite reports our own cancellation as an interrupt or as busy
            raise

    return cancellable


def _progress() -> bool:
    _raise_if_cancelled()
    return False


def _raise_if_cancelled() -> None:
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:
        return  # not in a worker thread: opening and closing are synchronous


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn SQLite's exceptions into ours, with the next step in the message."""
    try:
        yield
    except apsw.Error as error:
        _raise_if_cancelled()
        raise _as_store_error(path, error) from error


_REASONS: Final[tuple[tuple[type[apsw.Error], str, str], ...]] = (
    (apsw.FullError, "the disk is full", "Free some space and repeat the call; nothing was lost."),
    (apsw.ReadOnlyError, "the file or its folder is read-only", "Make it writable or use --db."),
    (apsw.CantOpenError, "the file cannot be opened", "Check its folder and permissions, or use --db."),
    (
        apsw.IOError,
        "the system failed to read or write the file",
        "Look for a failing disk, a quota or a limit on the size of files (ulimit -f), and repeat the call; "
        "nothing was lost.",
    ),
)


def _as_store_error(path: Path, error: apsw.Error) -> StoreError:
    name = str(path)
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return StoreDamaged(
            name, "a page fails its checksum: the disk changed it, or another program wrote the file"
        )
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(name, files.BUSY_S)
        case apsw.NotADBError():
            return NotAStore(name)
        case apsw.CorruptError():
            return StoreDamaged(name, str(error))
        case apsw.ConnectionClosedError():
            return StoreClosed()
        case _:
            for kind, reason, remedy in _REASONS:
                if isinstance(error, kind):
                    return StoreUnavailable(name, reason, remedy)
            return StoreUnavailable(name, str(error), "Run `lcm-mcp doctor`.")
