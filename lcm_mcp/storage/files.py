"""The database file: made privately, opened carefully, mended where only its checksums are wrong.

A new store is made whole under a name of its own and then linked into place, so that no process ever
sees a half-made one. An existing file is only ever opened through SQLite: closing any other descriptor of
it would drop the locks that connections of this process hold on it. Where apsw brings the checksumming
VFS, every page carries a checksum that is verified when it is read.
"""

from __future__ import annotations

import ctypes
import os
import stat
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import apsw
import apsw.sqlite_extra

from lcm_mcp.errors import NotAStore, StoreTooNew, StoreUnavailable
from lcm_mcp.storage import integrity, schema

BUSY_S: Final = 10.0
"""How long we wait for another process's write to end."""
CHECKSUMS: Final = "cksumvfs"
CHECKSUM_VFS: Final = "cksmvfs"
OTHER_FILE: Final = "Name another file with --db or LCM_DB."

_WRITER_PRAGMAS: Final = (
    ("journal_mode", "wal"),
    ("synchronous", "full"),  # an acknowledged row survives power loss
    ("fullfsync", 1),  # the same promise on macOS; a no-op elsewhere
    ("foreign_keys", 1),
    ("journal_size_limit", 64 * 1024 * 1024),
)
_READER_KB: Final = 4_000
_SHARED_PRAGMAS: Final = (
    ("cache_size", -16_000),
    ("mmap_size", 0),
    ("temp_store", "memory"),
    ("trusted_schema", 0),
)


def open_writer(path: Path) -> apsw.Connection:
    """A connection that may write, to a file that is a store of this version, made or migrated if need be.

    Raises NotAStore, StoreTooNew, StoreUnavailable and apsw's errors; the file is then as it was.
    """
    _ensure(path)
    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        _check_ours(db, path)
        _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> apsw.Connection:
    """A connection that cannot write; its cache is small, since there are several and each fills its own."""
    db = connect(path, apsw.SQLITE_OPEN_READONLY)
    db.pragma("cache_size", -_READER_KB)
    return db


def connect(path: Path, flags: int) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=flags, vfs=vfs_name())
    db.set_busy_timeout(int(BUSY_S * 1000))
    # Else, for statistics or a partial index, a statement is planned anew for each value bound to it.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for name, value in _SHARED_PRAGMAS:
        db.pragma(name, value)
    return db


def is_checksummed(db: apsw.Connection) -> bool:
    """Whether every page of the file carries a checksum that is verified when it is read."""
    return vfs_name() is not None and db.reserve_bytes() == schema.CHECKSUM_BYTES


def check_in_place(db: apsw.Connection) -> None:
    """Raises StoreUnavailable where the connection's file is no longer under its name: whatever is written to
    it then, nobody would find again."""
    moved = ctypes.c_int(0)  # stays so where the system cannot tell: Windows lets nobody move an open file
    db.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    if moved.value:
        raise StoreUnavailable(
            db.filename,
            "the file was moved, deleted or replaced while it was open, and nothing was written",
            "Put it back; or end what uses it, move its -wal and -shm away as well, and start again.",
        )


def is_missing(path: Path) -> bool:
    """Whether opening would make a store there. Where that cannot be known it is false: opening says why."""
    try:
        found = path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def is_sound(path: Path, *, verified: bool = True) -> bool:
    """Whether SQLite finds nothing wrong with the file but for the search index, which can be made anew; with
    its checksums or leaving them aside."""
    try:
        with closing(open_reader(path)) if verified else _unverified(path) as db:
            return not integrity.faults(db)
    except (apsw.IOError, apsw.CorruptError):
        return False


def rewrite_checksums(path: Path) -> None:
    """Give every page its right checksum, where SQLite finds the structure sound without them.

    Needed after another SQLite program wrote pages of the file, which then carry none.
    Raises StoreUnavailable where more than checksums is wrong, NotAStore and StoreTooNew; the file is then
    as it was.
    """
    if not is_sound(path, verified=False):
        raise StoreUnavailable(
            str(path),
            "its structure is broken beyond its checksums",
            "Restore a backup, or import the transcripts into a new store with --db.",
        )
    with _unverified(path) as db:
        _check_ours(db, path)
        db.execute("VACUUM")
        db.pragma("wal_checkpoint", "truncate")


def purge(path: Path) -> bool:
    """Write the file anew without anything that was deleted, and empty its log.

    False where another connection reads on, so that its log could not be emptied.
    """
    with closing(connect(path, apsw.SQLITE_OPEN_READWRITE)) as db:
        db.pragma("temp_store", "default")  # in a file, not in memory: it is as large as the store
        db.execute("VACUUM")
        busy: int = next(db.execute("PRAGMA wal_checkpoint(TRUNCATE)"))[0]
        return not busy


_registering = threading.Lock()


def vfs_name() -> str | None:
    """The checksumming VFS, registered once per process; None where apsw came without it."""
    with _registering:
        if CHECKSUM_VFS in apsw.vfs_names():
            return CHECKSUM_VFS
        if apsw.sqlite_extra.has(CHECKSUMS) is None:
            return None
        with closing(apsw.Connection(":memory:")) as bootstrap:
            apsw.sqlite_extra.load(bootstrap, CHECKSUMS)
        return CHECKSUM_VFS


def _ensure(path: Path) -> None:
    """See to it that a file is there that may be read and written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists() or (path.is_file() and path.stat().st_size == 0):
            target = Path(os.path.realpath(path))  # a link may lead to where nothing is yet
            _check_no_log(target)
            _make(target)
    except OSError as error:
        raise StoreUnavailable(str(path), error.strerror or str(error), OTHER_FILE) from error
    if path.is_dir():
        raise StoreUnavailable(str(path), "it is a folder", OTHER_FILE)
    if not path.is_file():
        what = "it is no ordinary file" if path.exists() else "it is a link that leads nowhere"
        raise StoreUnavailable(str(path), what, OTHER_FILE)
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreUnavailable(str(path), "no permission to read and write it", OTHER_FILE)


def _check_no_log(path: Path) -> None:
    """Raises StoreUnavailable where the log of a store that was taken away would be read into a new one.

    A store that another process makes meanwhile is there before its log is.
    """
    log = path.with_name(f"{path.name}-wal")
    try:
        logged = log.stat().st_size
    except FileNotFoundError:
        return
    if logged and is_missing(path):
        raise StoreUnavailable(
            str(path),
            "the file is gone, and its log, with what was last written, is still there",
            f"Put the file back, or move {log.name} and {path.name}-shm away to begin a new store.",
        )


def _make(path: Path) -> None:
    """Make a new store, readable by its owner only, unless another process makes it first."""
    private = path.with_name(f"{path.name}.new-{os.getpid()}-{uuid4().hex[:8]}")
    os.close(os.open(private, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(connect(private, apsw.SQLITE_OPEN_READWRITE)) as db:
            db.pragma("page_size", schema.PAGE_BYTES)
            if vfs_name() is not None:
                db.reserve_bytes(reserve=schema.CHECKSUM_BYTES)
            _migrate(db)
        _put(private, path)
    finally:
        for side in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                private.with_name(private.name + side).unlink()


def _put(private: Path, path: Path) -> None:
    """Give the new file its name, unless a store has it by now; an empty file there makes way."""
    if path.is_file() and path.stat().st_size == 0:
        aside = private.with_name(f"{private.name}-empty")
        os.rename(path, aside)
        if aside.stat().st_size == 0:
            aside.unlink()
        else:  # it was a store by then: its name goes back to it
            private = aside
    try:
        os.link(private, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            os.rename(private, path)


def _check_ours(db: apsw.Connection, path: Path) -> None:
    if not schema.is_ours(db):
        raise NotAStore(str(path))
    found = schema.version_of(db)
    if found > schema.VERSION:
        raise StoreTooNew(str(path), found, schema.VERSION)


def _migrate(db: apsw.Connection) -> None:
    db.transaction_mode = "IMMEDIATE"
    for name, value in _WRITER_PRAGMAS:
        db.pragma(name, value)
    schema.migrate(db)


@contextmanager
def _unverified(path: Path) -> Generator[apsw.Connection]:
    """A connection that takes pages as they are; verification must be off before the first page is read."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs_name())) as db:
        db.pragma("checksum_verification", "off")
        yield db
