"""How long a read may take that is done at once, on the thread that serves everybody.

It is given up once it has worked for AT_ONCE_S, whatever it is busy with: at steps of SQLite, between two
rows, and where a job that looks at other things asks. Who gave it the connection does it again elsewhere.
Refused: counting as work that other threads have the interpreter; who waits for it waits in any case.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final, NamedTuple

import apsw

AT_ONCE_S: Final = 0.002
STANDING_S: Final = 0.05
"""By the clock so much longer, since it may wait for the disk."""
STEPS: Final = 200
"""SQLite steps between two looks at the clock; few, as a step of a full-text index may read many pages."""


class TakesLonger(Exception):
    """A read that is done at once is to be begun anew elsewhere."""


class _Until(NamedTuple):
    """When its time is over: by the clock, and by its thread's work."""

    clock: float
    worked: float


_NEVER: Final = _Until(inf, inf)
_until: Final = ContextVar[_Until]("_until")


@contextmanager
def at_once(reader: apsw.Connection) -> Generator[None]:
    """What is read meanwhile on this connection is done at once. Raises TakesLonger."""
    taken = _until.set(_Until(time.monotonic() + AT_ONCE_S, time.thread_time() + AT_ONCE_S))
    reader.row_trace = _next_row
    try:
        yield
    finally:
        reader.row_trace = None
        _until.reset(taken)


def hurry() -> None:
    """Give a read up that is done at once and has taken its time; for jobs that look at more than rows."""
    until = _until.get(_NEVER)
    if (now := time.monotonic()) > until.clock and (
        time.thread_time() > until.worked or now > until.clock + STANDING_S
    ):
        raise TakesLonger


def next_steps() -> bool:
    """The same between two steps of SQLite, as its progress handler."""
    hurry()
    return False


def _next_row(_cursor: apsw.Cursor, row: apsw.SQLiteValues) -> apsw.SQLiteValues:
    """Long texts take their readers far longer than they take SQLite."""
    hurry()
    return row
