"""What SQLite itself can say about the file: integrity, references, and whether a write goes through."""

from __future__ import annotations

import apsw

from lcm_mcp.storage.schema import VERSION

__all__ = ["VERSION", "broken_references", "faults", "write_and_find"]

CANARY = "a trial text of the doctor, rolled back at once"


def faults(db: apsw.Connection) -> list[str]:
    """SQLite's own integrity check, which reads every page; empty where the file is sound."""
    found = [str(row[0]) for row in db.execute("PRAGMA integrity_check(10)")]
    return [] if found == ["ok"] else found


def broken_references(db: apsw.Connection) -> int:
    """How many foreign keys lead nowhere."""
    return sum(1 for _ in db.execute("PRAGMA foreign_key_check"))


def write_and_find(db: apsw.Connection) -> None:
    """Write a text and read it back, in the caller's transaction. Raises AssertionError if it is gone."""
    db.execute("INSERT INTO text(body) VALUES(?)", (CANARY,))
    found = db.execute("SELECT body FROM text WHERE id = ?", (db.last_insert_rowid(),)).get
    assert found == CANARY
