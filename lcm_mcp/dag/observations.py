"""What was last observed of a session, and what providers counted: a bounded trail for people.

The trail keeps the newest OBSERVATIONS_KEPT of a session. A provider's figures stand beside the estimate
they belong to and never replace it. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.values import frozen

OBSERVATIONS_KEPT: Final = 1000


@frozen
class Observed:
    """One preparation: its name, the model it was for, and what it weighed.

    bytes are UTF-8 of all inputs, fixed the tokens that no ratio of bytes changes; body is its JSON.
    """

    prepared: str
    model: str | None
    bytes: int
    fixed: int
    body: bytes


@frozen
class Measured:
    """What a provider counted for a request, in tokens; cached is None where it did not say."""

    input_tokens: int
    cached_tokens: int | None


@frozen
class Pair:
    """An estimate's ground and a provider's count of the same request."""

    bytes: int
    fixed: int
    input_tokens: int


@frozen
class Step:
    """One kept preparation in figures: what it weighed before and after, in tokens, times in milliseconds."""

    number: int
    prepared: str
    made_at: int
    status: str
    strategy: str
    estimated: int
    calibrated: int | None
    before: int
    after: int
    window: int | None
    trigger: int | None
    cut: str | None
    provider_input: int | None
    provider_cached: int | None


def keep(db: apsw.Connection, session: SessionId, seen: Observed, now: int) -> None:
    """Add to the session's trail and forget what is beyond OBSERVATIONS_KEPT."""
    number: int = db.execute(
        "SELECT coalesce(max(n), 0) + 1 FROM observation WHERE session = ?", (session,)
    ).get
    db.execute(
        """INSERT INTO observation(session, n, prepared, made_at, body, model, bytes, fixed)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
        (session, number, seen.prepared, now, seen.body, seen.model, seen.bytes, seen.fixed),
    )
    db.execute("DELETE FROM observation WHERE session = ? AND n <= ?", (session, number - OBSERVATIONS_KEPT))


def last(db: apsw.Connection, session: SessionId) -> tuple[bytes, Measured | None] | None:
    """The newest observation's JSON, and what its provider counted."""
    row = next(
        db.execute(
            """SELECT body, input_tokens, cached_tokens FROM observation WHERE session = ?
                ORDER BY n DESC LIMIT 1""",
            (session,),
        ),
        None,
    )
    return None if row is None else (row[0], _measured(row[1], row[2]))


def trail(db: apsw.Connection, session: SessionId, before: int | None, limit: int) -> list[Step]:
    """Kept preparations in figures, newest first, from those below number `before` on."""
    rows = db.execute(
        """SELECT n, prepared, made_at, body ->> '$.status', body ->> '$.strategy',
            body ->> '$.estimated_input_tokens', body ->> '$.calibrated_input_tokens',
            body ->> '$.before.tokens', body ->> '$.after.tokens', body ->> '$.window_tokens',
            body ->> '$.trigger_tokens', body ->> '$.cut', input_tokens, cached_tokens
            FROM (SELECT n, prepared, made_at, CAST(body AS TEXT) AS body, input_tokens, cached_tokens
                FROM observation WHERE session = ?1 AND n < ?2 ORDER BY n DESC LIMIT ?3)""",
        (session, 2**62 if before is None else before, limit),
    )
    return [Step(*row) for row in rows]


def kept_as(
    db: apsw.Connection, session: SessionId, prepared: str
) -> Sequence[tuple[str | None, str | None, str | None]]:
    """How the preparations of that name were given, each way once: wire (JSON), provider, model."""
    return list(
        db.execute(
            """SELECT DISTINCT body ->> '$.wire', body ->> '$.provider', body ->> '$.model'
                FROM (SELECT CAST(body AS TEXT) AS body FROM observation
                    WHERE session = ? AND prepared = ?)""",
            (session, prepared),
        )
    )


def measure(db: apsw.Connection, session: SessionId, prepared: str, measured: Measured) -> bool:
    """Put a provider's figures beside the newest preparation of that name; False where none is kept."""
    number: int | None = db.execute(
        "SELECT max(n) FROM observation WHERE session = ? AND prepared = ?", (session, prepared)
    ).get
    if number is None:
        return False
    db.execute(
        "UPDATE observation SET input_tokens = ?, cached_tokens = ? WHERE session = ? AND n = ?",
        (measured.input_tokens, measured.cached_tokens, session, number),
    )
    return True


def pairs(db: apsw.Connection, session: SessionId, model: str | None, most: int) -> Sequence[Pair]:
    """The newest measured preparations for a model, newest first."""
    rows = db.execute(
        """SELECT bytes, fixed, input_tokens FROM observation
            WHERE session = ? AND input_tokens IS NOT NULL AND model IS ? ORDER BY n DESC LIMIT ?""",
        (session, model, most),
    )
    return [Pair(*row) for row in rows]


def _measured(input_tokens: int | None, cached_tokens: int | None) -> Measured | None:
    return None if input_tokens is None else Measured(input_tokens, cached_tokens)
