"""A file system that fails at a chosen call, and what a power cut would have left of its files.

It stands over the one the store uses, and counts what reaches it. SQLite lets a program's own file system
have a write-ahead log only where one connection has the file for itself, so a store on it reads and writes
through its one connection.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from unittest.mock import patch

import apsw

from lcm_mcp.errors import StoreClosed
from lcm_mcp.storage import connections, files
from lcm_mcp.storage.connections import Store, translated

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

SECTOR = 512
_NAME = "faulting"


@dataclass(slots=True)
class Trouble:
    """Fail at the call of that number, and at all after it if it lasts; 0 never fails.

    synced holds each file as it was when its last sync returned: what a power cut cannot take.
    """

    call: int = 0
    error: type[apsw.Error] = apsw.IOError
    lasts: bool = False
    calls: int = 0
    failed: bool = False
    keeps_synced: bool = False
    synced: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def count(self) -> None:
        self.calls += 1
        if self.call and (self.calls == self.call or (self.lasts and self.calls > self.call)):
            self.failed = True
            raise self.error


class _File(apsw.VFSFile):
    def __init__(self, trouble: Trouble, base: str, name: str | apsw.URIFilename | None, flags: list[int]):
        super().__init__(base, name, flags)
        self._trouble = trouble
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name

    def xWrite(self, data: Buffer, offset: int) -> None:
        self._trouble.count()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._trouble.count()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._trouble.count()
        super().xSync(flags)
        if self._trouble.keeps_synced and self._name:
            self._trouble.synced[self._name] = Path(self._name).read_bytes()


class _FileSystem(apsw.VFS):
    def __init__(self, trouble: Trouble, base: str) -> None:
        self._trouble, self._base = trouble, base
        super().__init__(_NAME, base, makedefault=False)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        self._trouble.count()
        return _File(self._trouble, self._base, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._trouble.count()
        super().xDelete(filename, syncdir)


class LoneStore(Store):
    """A store that reads through its writer."""

    def _read_now(self, job: Callable[[apsw.Connection], T]) -> T:
        with self._writer_lock, translated(self.path):
            if self._closed:
                raise StoreClosed
            return connections._in_transaction(self._writer, "BEGIN", job)  # pyright: ignore[reportPrivateUsage]

    def _read_at_once(self, job: Callable[[apsw.Connection], T]) -> tuple[T]:
        return (self._read_now(job),)

    def close_now(self) -> None:
        # SQLite passes over what fails as it closes a file; apsw tells what our file system raised.
        with suppress(apsw.Error):
            super().close_now()

    def _purge_now(self) -> bool:
        with self._writer_lock, translated(self.path):
            self._writer.execute("VACUUM")
            self._writer.pragma("wal_checkpoint", "truncate")
        return True


@contextmanager
def faulting(trouble: Trouble) -> Generator[None]:
    """Stores that are opened meanwhile stand on that file system."""
    connect, base = files.connect, files.vfs_name()

    def alone(path: Path, flags: int) -> apsw.Connection:
        db = connect(path, flags)
        db.pragma("locking_mode", "exclusive")
        return db

    system = _FileSystem(trouble, base or "")
    try:
        with patch.object(files, "vfs_name", lambda: _NAME), patch.object(files, "connect", alone):
            yield
    finally:
        system.unregister()


def power_cut(trouble: Trouble, database: Path, grave: Path, chance: random.Random) -> Path:
    """The database as a power cut may leave it, in the folder `grave`.

    Of what was written after a file's last sync each sector is there or not, and so is its new length.
    """
    grave.mkdir()
    for path in (database, database.with_name(f"{database.name}-wal")):
        now = path.read_bytes() if path.exists() else b""
        kept = trouble.synced.get(str(path))
        if kept is None:
            continue
        length = chance.choice([len(kept), len(now)])
        left = bytearray(kept[:length].ljust(length, b"\0"))
        for at in range(0, length, SECTOR):
            if chance.random() < 0.5:
                left[at : at + SECTOR] = now[at : at + SECTOR].ljust(len(left[at : at + SECTOR]), b"\0")
        (grave / path.name).write_bytes(left)
        (grave / path.name).chmod(0o600)
    return grave / database.name
