"""What SQLite does, counted: no clock decides whether something costs what it holds."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw


@dataclass(slots=True)
class Counted:
    """Steps of SQLite's virtual machine, and those that went on to a next row of a whole table."""

    steps: int = 0
    scanned: int = 0

    def add(self, event: dict[str, Any]) -> None:
        if "data_version" in event["sql"]:
            return  # FTS5 counts all there were since it was opened
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        self.scanned += event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]


@contextmanager
def counting() -> Generator[Counted]:
    """Count what every connection opened meanwhile does."""
    counted = Counted()

    def watch(db: apsw.Connection) -> None:
        db.trace_v2(  # pyright: ignore[reportUnknownMemberType]  # apsw says only "a dict"
            apsw.SQLITE_TRACE_PROFILE, counted.add
        )

    apsw.connection_hooks.append(watch)
    try:
        yield counted
    finally:
        apsw.connection_hooks.remove(watch)
