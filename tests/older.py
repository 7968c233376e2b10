"""Stores as earlier versions of the program left them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import orjson
from stores import database

BACK_TO_ANY_FILE_FOR_EVERY_PROJECT: Final = (
    "DROP TRIGGER followed_is_fed",
    "DROP TRIGGER followed_is_fed_no_more",
    "DROP INDEX followed_unfed",
    "ALTER TABLE followed DROP COLUMN fed",
)
"""From the newest version to the fourteenth."""
BACK_TO_PLAIN_PAYLOADS: Final = (
    *BACK_TO_ANY_FILE_FOR_EVERY_PROJECT,
    *(f"DROP TABLE {name}" for name in ("vector", "vector_state", "payload_state")),
)
"""From the newest version to the twelfth."""
_BACK_TO_FIRST = (
    *BACK_TO_PLAIN_PAYLOADS,
    *(
        f"DROP TABLE {name}"
        for name in ("task", "forgotten", "superseded", "file", "large_inline", "file_state")
    ),
    *(f"DROP TABLE followed{what}" for what in ("_session", "", "_line", "_folder")),
    "DROP TABLE spend",
    "DROP TABLE breaker",
    *(f"ALTER TABLE tier DROP COLUMN {name}" for name in ("input_tokens", "output_tokens", "micro_usd")),
    *(f"DROP TABLE word{what}" for what in ("", "_instance", "_state")),
    "DROP TABLE gram",
    "DROP TABLE gram_instance",
    "DROP TABLE gram_state",
    "DROP INDEX node_by_anchor",
    "ALTER TABLE node DROP COLUMN anchor",
    "DROP INDEX observation_by_prepared",
    "DROP INDEX observation_measured",
    *(
        f"ALTER TABLE observation DROP COLUMN {name}"
        for name in ("model", "bytes", "fixed", "input_tokens", "cached_tokens")
    ),
    "DROP TABLE pin",
    *(
        f"ALTER TABLE session DROP COLUMN {name}"
        for name in ("provider", "model", "rolling_from", "outcome", "unused")
    ),
)


def as_the_first_version_wrote_it(path: Path) -> None:
    """Take a file back to version 1: its tables, and cuts that know only nodes."""
    with database(path) as db, db:
        for statement in _BACK_TO_FIRST:
            db.execute(statement)
        for session, n, shape in list(db.execute("SELECT session, n, shape FROM cut")):
            kept = orjson.loads(shape)
            first = {key: kept[key] for key in ("nodes", "stalled", "grown")}
            db.execute(
                "UPDATE cut SET shape = ? WHERE session = ? AND n = ?", (orjson.dumps(first), session, n)
            )
        db.pragma("user_version", 1)


def version_left(path: Path) -> int:
    """The version of a file as it stands, which is left as it is."""
    with closing(apsw.Connection(str(path))) as db:
        return int(db.pragma("user_version"))
