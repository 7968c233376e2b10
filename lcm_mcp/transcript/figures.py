"""Figures of what transcripts hold: rows, texts, payloads and images, each content counted once.

A figure is over sessions by their numbers, from low to high, both included. It costs what it counts, up to
the whole store: for people who ask, not for a request. Functions take a connection and never begin or
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apsw

from lcm_mcp.transcript.model import Image, Part, ToolResult
from lcm_mcp.transcript.sealing import unseal
from lcm_mcp.values import frozen

Numbers = tuple[int, int]
"""Sessions from low to high."""

_TEXTS = "SELECT text FROM row WHERE session BETWEEN ? AND ?"
_WITH_IMAGES = f"""SELECT text.body, payload.parts FROM payload JOIN text ON text.id = payload.text
    WHERE payload.text IN ({_TEXTS}) AND instr(payload.parts, CAST('"image"' AS BLOB)) > 0"""


@frozen
class Bulk:
    """Bytes of derived texts (UTF-8), payloads and images, and how many images there are."""

    text_bytes: int
    payload_bytes: int
    images: int
    image_bytes: int


def rows_by_role(db: apsw.Connection, of: Numbers) -> dict[str, int]:
    """How many rows each role has, removed ones among them."""
    return dict(
        db.execute(
            "SELECT role, count(*) FROM row WHERE session BETWEEN ? AND ? GROUP BY role ORDER BY 2 DESC, 1",
            of,
        )
    )


def pins(db: apsw.Connection, of: Numbers) -> int:
    found: int = db.execute("SELECT count(*) FROM pin WHERE session BETWEEN ? AND ?", of).get
    return found


def bulk(db: apsw.Connection, of: Numbers) -> Bulk:
    """What the rows take; a text or an image that several rows share is counted once."""
    text_bytes: int = db.execute(
        f"SELECT coalesce(sum(octet_length(body)), 0) FROM text WHERE id IN ({_TEXTS})", of
    ).get
    payload_bytes: int = db.execute(
        f"SELECT coalesce(sum(length(parts)), 0) FROM payload WHERE text IN ({_TEXTS})", of
    ).get
    sizes = [size for sha256 in image_digests(db, of) if (size := _size(db, sha256)) is not None]
    return Bulk(text_bytes, payload_bytes, len(sizes), sum(sizes))


def image_digests(db: apsw.Connection, of: Numbers) -> set[str]:
    """The images that rows name, by their SHA-256."""
    return {sha256 for body, parts in db.execute(_WITH_IMAGES, of) for sha256 in _images(unseal(body, parts))}


def _images(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Image):
            yield part.sha256
        elif isinstance(part, ToolResult):
            yield from _images(part.content)


def _size(db: apsw.Connection, sha256: str) -> int | None:
    size: int | None = db.execute("SELECT length(data) FROM image WHERE sha256 = ?", (sha256,)).get
    return size
