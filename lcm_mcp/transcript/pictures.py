"""Stored images by their number in the store: which one has which, who holds it, and its bytes from place to
place."""

from __future__ import annotations

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.values import frozen


@frozen
class Bytes:
    """A piece of an image: total is how many bytes all of it has."""

    media_type: str
    total: int
    data: bytes


def number_of(db: apsw.Connection, sha256: str) -> int | None:
    """The number of the image with this content; None where its bytes were never there."""
    found: int | None = db.execute("SELECT id FROM image WHERE sha256 = ?", (sha256,)).get
    return found


def is_held(db: apsw.Connection, session: SessionId, number: int) -> bool:
    """Whether a row of the session, on its path or off it, shows the image; costs the session's payloads."""
    found: int = db.execute(
        """SELECT EXISTS(SELECT 1 FROM image
            CROSS JOIN row ON row.session = ?1 JOIN payload ON payload.text = row.text
            WHERE image.id = ?2 AND instr(payload.parts, CAST(image.sha256 AS BLOB)) > 0)""",
        (session, number),
    ).get
    return bool(found)


def read(db: apsw.Connection, number: int, offset: int, length: int) -> Bytes | None:
    """So many bytes of an image from `offset` on, fewer at its end; None where there is no such image."""
    found = next(
        db.execute(
            "SELECT media_type, length(data), substr(data, ?2, ?3) FROM image WHERE id = ?1",
            (number, offset + 1, length),
        ),
        None,
    )
    return None if found is None else Bytes(*found)
