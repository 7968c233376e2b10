"""Reading rows back as they were appended (see appending.py).

Functions take a connection and never begin or commit; a read costs the rows read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import apsw

from lcm_mcp.ids import Seq, SessionId, TextId
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.model import (
    Image,
    Part,
    ResultPart,
    Role,
    Row,
    RowMark,
    ToolResult,
)
from lcm_mcp.transcript.path import Path, Segment
from lcm_mcp.transcript.placing import bindable
from lcm_mcp.transcript.sealing import stored_digest, unseal

_OTHERS = """SELECT row.text, session.id, session.key FROM json_each(?) AS asked
    CROSS JOIN row ON row.text = CAST(asked.key AS INTEGER) AND row.session <> asked.value
    CROSS JOIN session ON session.id = row.session ORDER BY session.id"""


def same_rows(db: apsw.Connection, session: SessionId, other: SessionId, upto: Seq) -> Seq:
    """The last row up to which two sessions say the same under the same numbers, looking on from `upto`."""
    rows = db.execute(
        """SELECT row.seq, text.body = theirs.body AND row.role = b.role
            FROM row JOIN text ON text.id = row.text LEFT JOIN row AS b ON b.session = ? AND b.seq = row.seq
            LEFT JOIN text AS theirs ON theirs.id = b.text
            WHERE row.session = ? AND row.seq > ? ORDER BY row.seq""",
        (other, session, upto),
    )
    for seq, same in rows:
        if not same:
            break
        upto = Seq(seq)
    return upto


def others(db: apsw.Connection, texts: Mapping[TextId, SessionId]) -> dict[TextId, dict[SessionId, str]]:
    """The sessions with rows of these very texts, but the one given to each, oldest first, by their keys."""
    found: dict[TextId, dict[SessionId, str]] = {}
    for text, session, key in db.execute(_OTHERS, (json.dumps(texts),)):
        found.setdefault(text, {})[session] = key
    return found


def count_variants(db: apsw.Connection, session: SessionId, seq: Seq) -> int:
    """How many other contents came under the row's entry_id."""
    found: int = db.execute("SELECT count(*) FROM variant WHERE session = ? AND seq = ?", (session, seq)).get
    return found


def is_called(db: apsw.Connection, session: SessionId, call_id: str, first: Seq, before: Seq) -> bool:
    """Whether a row from `first` on and before `before` makes a call of that id, on the path or off it."""
    found: int | None = db.execute(
        "SELECT 1 FROM call WHERE session = ? AND id = ? AND seq >= ? AND seq < ? LIMIT 1",
        (session, bindable(call_id), first, before),
    ).get
    return found is not None


_ROWS = """SELECT row.seq, row.role, row.at, row.entry_id, row.message_id, row.text, text.body, payload.parts
    FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
    WHERE row.session = ? AND row.seq BETWEEN ? AND ? ORDER BY row.seq"""


def read_rows(
    db: apsw.Connection,
    session: SessionId,
    segments: Iterable[Segment],
    *,
    images: bool = False,
    largest: int | None = None,
) -> Iterator[Row]:
    """Whole rows of the given segments, in their order; with image bytes where asked for, but for images
    of more than `largest` bytes."""
    for segment in segments:
        for seq, role, at, entry_id, message_id, text_id, body, payload in db.execute(
            _ROWS, (session, segment.low, segment.high)
        ):
            parts = unseal(body, payload)
            if images:
                parts = tuple(_with_image(db, part, largest) for part in parts)
            yield Row(Seq(seq), role, at, entry_id, message_id, TextId(text_id), body, parts)


def read_row(db: apsw.Connection, session: SessionId, seq: Seq) -> Row | None:
    """One whole row, on the path or off it."""
    return next(read_rows(db, session, [Segment(seq, seq)]), None)


def beginning(db: apsw.Connection, session: SessionId, seq: Seq, characters: int) -> str:
    """How a row's text begins."""
    text: str = db.execute(
        """SELECT substr(text.body, 1, ?3) FROM row JOIN text ON text.id = row.text
            WHERE row.session = ?1 AND row.seq = ?2""",
        (session, seq, characters),
    ).get
    return text


def altered(db: apsw.Connection) -> Iterator[str]:
    """Addresses of rows, and digests of images, whose content is not what was stored; reads everything."""
    for session, seq, role, digest, text, payload in db.execute(
        """SELECT row.session, row.seq, row.role, row.digest, text.body, payload.parts
            FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text"""
    ):
        if not _is_intact(role, digest, text, payload):
            yield f"s{session}/e{seq}"
    for sha256, data in db.execute("SELECT sha256, data FROM image"):
        if hashlib.sha256(data).hexdigest() != sha256:
            yield f"image {sha256[:12]}"


def _is_intact(role: Role, digest: bytes, text: str, payload: bytes | None) -> bool:
    try:
        return stored_digest(role, text, payload) == digest
    except (ValueError, TypeError, AssertionError):  # not even readable any more
        return False


def read_mark(db: apsw.Connection, session: SessionId, seq: Seq) -> RowMark | None:
    """One row's place and weight."""
    marks = Path(db, session, seq).marks(seq, seq)
    return marks[0] if marks and marks[0].seq == seq else None


def path_totals(db: apsw.Connection, session: SessionId, seq: Seq) -> Size:
    """The weight of the path up to and with row `seq`; nothing for 0."""
    if seq == 0:
        return Size()
    row = next(
        db.execute(
            "SELECT cum_bytes, cum_inputs, cum_fixed FROM row WHERE session = ? AND seq = ?", (session, seq)
        )
    )
    return Size(*row)


def time_of(db: apsw.Connection, session: SessionId, seq: Seq) -> int:
    """When a stored row was written."""
    at: int = db.execute("SELECT at FROM row WHERE session = ? AND seq = ?", (session, seq)).get
    return at


def _with_image(db: apsw.Connection, part: Part, largest: int | None) -> Part:
    match part:
        case Image():
            return _load(db, part, largest)
        case ToolResult(content=content):
            return replace(part, content=tuple(_with_result_image(db, piece, largest) for piece in content))
        case _:
            return part


def _with_result_image(db: apsw.Connection, piece: ResultPart, largest: int | None) -> ResultPart:
    return _load(db, piece, largest) if isinstance(piece, Image) else piece


def _load(db: apsw.Connection, image: Image, largest: int | None) -> Image:
    if largest is not None and image.size_bytes > largest:
        return image
    data: bytes | None = db.execute("SELECT data FROM image WHERE sha256 = ?", (image.sha256,)).get
    return replace(image, data=data)
