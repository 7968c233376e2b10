"""What SQLite itself can say about the file: integrity, references, and whether a write goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import apsw

from lcm_mcp.storage.schema import VERSION, migrate
from lcm_mcp.values import frozen

__all__ = [
    "VERSION",
    "broken_references",
    "faults",
    "index_faults",
    "make_parts",
    "missing_parts",
    "write_and_find",
]

CANARY = "a trial text of the doctor, rolled back at once"


_PARTS = """SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
    ORDER BY type = 'trigger', name"""
_OF_INDEX = "fts5"
"""Stands in what SQLite says of a full-text index, which can be made anew; all else is in the file itself."""


@frozen
class Part:
    """A table, index or trigger of the schema; a derived one can be made again, for it holds nothing of its
    own."""

    name: str
    derived: bool
    sql: str


def missing_parts(db: apsw.Connection) -> list[Part]:
    """What a store of this version has and this one has not; indexes that SQLite makes are left out."""
    fresh = apsw.Connection(":memory:")
    try:
        migrate(fresh)
        wanted = list(fresh.execute(_PARTS))
    finally:
        fresh.close()
    there = {name for name, *_ in db.execute(_PARTS)}
    return [Part(name, kind != "table", sql) for name, kind, sql in wanted if name not in there]


def make_parts(db: apsw.Connection, parts: Sequence[Part]) -> None:
    """Make derived parts again."""
    for part in parts:
        if part.derived:
            db.execute(part.sql)


def faults(db: apsw.Connection) -> list[str]:
    """SQLite's own integrity check, which reads every page; empty where all but search indexes is sound."""
    return [said for said in _said(db) if _OF_INDEX not in said.lower()]


def index_faults(db: apsw.Connection) -> list[str]:
    """What SQLite finds wrong with the structure of the search indexes."""
    return [said for said in _said(db) if _OF_INDEX in said.lower()]


def _said(db: apsw.Connection) -> list[str]:
    with suppress(apsw.Error):
        # A connection that looked before goes on from what it then knew of a search index, unless asked.
        list(db.execute("SELECT rowid FROM gram WHERE gram MATCH 'zzz' LIMIT 1"))
        list(db.execute("SELECT rowid FROM word WHERE word MATCH 'zzz' LIMIT 1"))
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(10)")]
    return [] if found == ["ok"] else found


def broken_references(db: apsw.Connection) -> Counter[str]:
    """How many foreign keys lead nowhere, by the table that has them."""
    return Counter(str(table) for table, *_ in db.execute("PRAGMA foreign_key_check"))


def write_and_find(db: apsw.Connection) -> None:
    """Write a text and read it back, in the caller's transaction. Raises AssertionError if it is gone."""
    db.execute("INSERT INTO text(body) VALUES(?)", (CANARY,))
    found = db.execute("SELECT body FROM text WHERE id = ?", (db.last_insert_rowid(),)).get
    assert found == CANARY
