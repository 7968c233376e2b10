"""How long a read may take that is done at once, on the thread that serves everybody.

It is given up once it has worked for AT_ONCE_S, whatever it is busy with: at steps of SQLite, between two
rows, and where a job that looks at other things asks. Who gave it the connection does it again elsewhere.
Refused: counting as work that other threads have the interpreter; who waits for it waits in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic, thread_time
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


_until: Final = ContextVar[_Until | None]("_until", default=None)


@contextmanager
def at_once(reader: apsw.Connection) -> Generator[Callable[[], bool]]:
    """What is read meanwhile on this connection is done at once. Gives a progress handler for its statements,
    which are looked at between two rows too: long texts take their readers far longer than they take SQLite.
    Raises TakesLonger."""
    until = _Until(monotonic() + AT_ONCE_S, thread_time() + AT_ONCE_S)
    end = until.clock

    def next_row(_cursor: apsw.Cursor, row: apsw.SQLiteValues) -> apsw.SQLiteValues:
        if monotonic() > end:  # here and not in a function of its own, as there are many rows
            _give_up(until)
        return row

    def next_steps() -> bool:
        if monotonic() > end:
            _give_up(until)
        return False

    taken = _until.set(until)
    reader.row_trace = next_row
    try:
        yield next_steps
    finally:
        reader.row_trace = None
        _until.reset(taken)


def hurry() -> None:
    """Give a read up that is done at once and has taken its time; for jobs that look at more than rows."""
    until = _until.get()
    if until is not None and monotonic() > until.clock:
        _give_up(until)


def _give_up(until: _Until) -> None:
    """By its clock its time is over: but was it at work?"""
    if thread_time() > until.worked or monotonic() > until.clock + STANDING_S:
        raise TakesLonger
