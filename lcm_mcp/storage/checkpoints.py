"""Keeps the write-ahead log short, however many read at once.

SQLite begins the log anew once all of it is in the database and no reader needs it. Where readers of several
processes overlap, there is no such moment: left alone, the log grows as long as they do. So from LONG_PAGES
on the one who has just committed keeps others from writing and waits for the readers that are left; new ones
need the log no more. A reader that stays longer than WAIT_S, such as a backup, is not waited for again until
the log has grown further.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

import apsw

SHORT_PAGES: Final = 1000
"""Up to so many, all of it stays in the log; SQLite's own default."""
LONG_PAGES: Final = 2000
FURTHER_PAGES: Final = 250
"""The log grows by so many between two tries."""
WAIT_S: Final = 0.5
POLL_S: Final = 0.002


class Log:
    """The log as seen by the connection that writes; takes the place of SQLite's automatic checkpoints."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._pages = 0
        self._next = SHORT_PAGES
        db.set_wal_hook(self._grown)

    def _grown(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:
            self._next = SHORT_PAGES
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def due(self) -> bool:
        """Whether it should be written back, now that a transaction has ended."""
        return self._pages >= self._next

    def write_back(self) -> None:
        """Copy it into the database, and see to it that it can begin anew once it is long.

        What was committed stands either way: a failure leaves the work to a later commit.
        """
        long = self._pages >= LONG_PAGES
        self._db.set_busy_handler(_Wait() if long else None)
        with suppress(apsw.Error):
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if long else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._db.wal_checkpoint(mode=mode)
        self._next = self._pages + FURTHER_PAGES


class _Wait:
    """A busy handler for the readers that are left; it does not ask whether the caller was cancelled, since
    what the caller wanted is done."""

    def __init__(self) -> None:
        self._until = time.monotonic() + WAIT_S

    def __call__(self, _attempt: int) -> bool:
        time.sleep(POLL_S)
        return time.monotonic() < self._until
