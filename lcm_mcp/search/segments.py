"""The pieces that a full-text index consists of: a search asks all of them, so few are faster, and smaller.

Feeding adds a piece at a time and puts together only what it must. When nobody waits and there are many, they
are put together until each is about twice as large as the next smaller one. Functions take a connection and
never begin or commit.
"""

from __future__ import annotations

from typing import Final, Literal

import apsw

Index = Literal["gram", "word"]
INDEXES: Final[tuple[Index, ...]] = ("gram", "word")

MANY: Final = 8
"""More pieces than this are worth the work."""
_PAGES: Final = 64
"""Written at a time; the write lock is held for some 10 ms."""
_ALIKE: Final = 2
"""So many pieces of about one size are made one."""


def put_together(db: apsw.Connection, index: Index) -> bool:
    """Go on putting together; whether there is more."""
    known: int | None = db.execute(f"SELECT v FROM {index}_config WHERE k = 'usermerge'").get
    if known != _ALIKE:
        db.execute(f"INSERT INTO {index}({index}, rank) VALUES('usermerge', ?)", (_ALIKE,))
    before = db.total_changes()
    db.execute(f"INSERT INTO {index}({index}, rank) VALUES('merge', ?)", (_PAGES,))
    return db.total_changes() - before > 1  # the command itself is one


def count(db: apsw.Connection, index: Index) -> int:
    """How many pieces there are; reads a row for each page of the index."""
    found: int = db.execute(f"SELECT count(DISTINCT segid) FROM {index}_idx").get
    return found
