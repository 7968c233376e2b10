"""Backups: what a store holds at one instant, as a file of its own, while others go on writing.

The copy is made under a private name, looked through, and only then given the name that was asked for; so
what bears that name is whole. A file that is there already is never replaced.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import apsw

from lcm_mcp.errors import StoreDamaged, StoreUnavailable
from lcm_mcp.storage import files

SLICE_PAGES: Final = 1024
OTHER_PLACE: Final = "Name another file; nothing was written there."


def back_up(db: apsw.Connection, to: Path) -> int:
    """Copy what the connection's open transaction sees to a new file, and return its bytes.

    Raises StoreUnavailable where the file cannot be made, StoreDamaged where the copy is not sound.
    """
    if not to.name:
        raise StoreUnavailable(str(to), "it names no file", OTHER_PLACE)
    private = to.with_name(f"{to.name}.new-{os.getpid()}-{uuid4().hex[:8]}")
    try:
        if os.path.lexists(to):
            raise FileExistsError
        os.close(os.open(private, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(db, private)
        if not files.is_sound(private):
            raise StoreDamaged(str(to), "the copy is not sound, so it was not kept")
        _put(private, to)
    except FileExistsError as error:
        raise StoreUnavailable(str(to), "there is something already", OTHER_PLACE) from error
    except OSError as error:
        raise StoreUnavailable(str(to), error.strerror or str(error), OTHER_PLACE) from error
    finally:
        for side in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                private.with_name(private.name + side).unlink()
    return to.stat().st_size


def _copy(db: apsw.Connection, to: Path) -> None:
    with (
        closing(files.connect(to, apsw.SQLITE_OPEN_READWRITE)) as copy,
        copy.backup("main", db, "main") as backup,
    ):
        while not backup.done:
            backup.step(SLICE_PAGES)


def _put(private: Path, to: Path) -> None:
    try:
        os.link(private, to)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(to):
            raise FileExistsError from None
        os.rename(private, to)
