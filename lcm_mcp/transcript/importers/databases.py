"""Databases of other programs, read in one snapshot and never written to.

A program may be writing to its own meanwhile: it is read as its other readers do. One that nobody has open is
read as a file that does not change, since opening it otherwise would leave files beside it. What is wrong
with a database is said by an OSError; only one that another program keeps locked (EBUSY) may be read later.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import quote

import apsw

SIGNATURE = b"SQLite format 3\0"
_WAL = b"\x02"

patience_ms: ContextVar[int] = ContextVar("patience_ms", default=2_000)
"""How long a locked database is waited for, in milliseconds."""


@contextmanager
def opened(path: Path) -> Generator[apsw.Connection]:
    """A database within one snapshot of it. Raises OSError, for whatever is asked of it too."""
    how = "immutable=1" if _is_at_rest(path) else "mode=ro"
    try:
        db = apsw.Connection(
            f"file:{quote(str(path.absolute()))}?{how}",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
    except apsw.Error as error:
        raise OSError(f"the database cannot be opened: {error}") from error
    try:
        db.set_busy_timeout(patience_ms.get())
        db.execute("BEGIN")
        yield db
    except (apsw.BusyError, apsw.LockedError) as error:
        raise OSError(errno.EBUSY, "another program keeps the database locked") from error
    except apsw.Error as error:
        raise OSError(f"the database cannot be read: {error}") from error
    finally:
        db.close()


def tables_of(path: Path) -> frozenset[str]:
    """The names of a database's tables. Raises OSError."""
    with opened(path) as db:
        return frozenset(str(name) for (name,) in db.execute("SELECT name FROM sqlite_master"))


def columns_of(db: apsw.Connection, table: str) -> frozenset[str]:
    """The names of a table's columns."""
    return frozenset(str(name) for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def _is_at_rest(path: Path) -> bool:
    """Whether a database is one with a log of its writes, and there is none."""
    with path.open("rb") as file:
        head = file.read(20)
    return head[18:19] == _WAL and not Path(f"{path}-wal").exists()
