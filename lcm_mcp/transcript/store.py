"""Appending rows and reading them back.

Rows are numbered inside the append's transaction and never edited. An entry_id names one row of its
session for ever: the same content again changes nothing, other content is kept beside the row as a
variant and reported. Functions take a connection and never begin or commit; an append costs the rows
appended, a read the rows read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import apsw

from lcm_mcp.ids import Seq, SessionId, TextId
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import files, pins
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import (
    Image,
    Part,
    ResultPart,
    Role,
    Row,
    RowMark,
    Sealed,
    ToolCall,
    ToolResult,
)
from lcm_mcp.transcript.path import Path, Segment
from lcm_mcp.transcript.placing import Head, answered_calls, bindable, followed, head_at, place
from lcm_mcp.transcript.sealing import encode, parts_of, stored_digest, unseal
from lcm_mcp.transcript.sessions import Session


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of each entry, in order; duplicates and conflicts are among refs too.

    lost are places of entries that named a parent which is not there; they followed the row before.
    """

    refs: tuple[Seq, ...]
    duplicates: tuple[Seq, ...]
    conflicts: tuple[Seq, ...]
    leaf: Seq
    lost: tuple[int, ...]

    @property
    def added(self) -> int:
        return len(self.refs) - len(self.duplicates) - len(self.conflicts)


def append(
    db: apsw.Connection,
    session: Session,
    entries: Sequence[Sealed],
    now: int,
    large_chars: int = files.LARGE_CHARACTERS,
) -> Appended:
    """Append entries after the session's leaf, or where they say, whole or (if the transaction fails) not at
    all. The last active one is the leaf from then on. A tool result of more than large_chars is kept as a
    file where its call named a path."""
    head = head_at(db, session.id, session.leaf)
    next_seq = session.next_seq
    refs: list[Seq] = []
    duplicates: list[Seq] = []
    conflicts: list[Seq] = []
    lost: list[int] = []
    for index, entry in enumerate(entries):
        # The write lock is held, so what is not found here cannot appear before the INSERT.
        found = _find_entry(db, session.id, entry)
        if found is None:
            followed_head = followed(db, session.id, head, entry.draft)
            if followed_head is None:
                lost.append(index)
            head = _insert(db, session.id, next_seq, followed_head or head, entry, now)
            files.keep(db, session.id, next_seq, parts_of(entry), entry.text, large_chars)
            if entry.draft.pin:
                pins.pin(db, session.id, next_seq, now)
            refs.append(next_seq)
            next_seq = Seq(next_seq + 1)
            continue
        seq, digest = found
        refs.append(seq)
        if digest == entry.digest:
            duplicates.append(seq)
        else:
            conflicts.append(seq)
            _keep_variant(db, session.id, seq, entry)
    if next_seq > session.next_seq:
        newest = max(now if entry.draft.at is None else entry.draft.at for entry in entries)
        db.execute(
            "UPDATE session SET leaf = ?, next_seq = ?, active_at = max(active_at, ?) WHERE id = ?",
            (head.leaf, next_seq, newest, session.id),
        )
    return Appended(tuple(refs), tuple(duplicates), tuple(conflicts), head.leaf, tuple(lost))


def _find_entry(db: apsw.Connection, session: SessionId, entry: Sealed) -> tuple[Seq, bytes] | None:
    if entry.draft.entry_id is None:
        return None
    return next(
        db.execute(
            "SELECT seq, digest FROM row WHERE session = ? AND entry_id = ?",
            (session, entry.draft.entry_id),
        ),
        None,
    )


def _insert(db: apsw.Connection, session: SessionId, seq: Seq, head: Head, entry: Sealed, now: int) -> Head:
    """Store one row after head and return the head it makes; an inactive row leaves the head where it is."""
    draft = entry.draft
    # Off the path a row neither calls nor answers: an active result must find its call still open.
    paired = draft.parts if draft.active else ()
    answered = answered_calls(db, session, head.leaf, paired)
    unit, round_, message_id = place(db, session, seq, head, entry, answered)
    total = head.total + entry.size
    db.execute(
        """INSERT INTO row(session, seq, prev, unit, round, role, entry_id, message_id, at, results, digest,
            bytes, fixed, cum_bytes, cum_inputs, cum_fixed, text)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            session,
            seq,
            head.leaf,
            unit,
            round_,
            draft.role,
            draft.entry_id,
            draft.message_id,
            now if draft.at is None else draft.at,
            sum(isinstance(part, ToolResult) for part in draft.parts),
            entry.digest,
            entry.size.bytes,
            entry.size.fixed,
            total.bytes,
            total.inputs,
            total.fixed,
            _insert_text(db, entry),
        ),
    )
    _insert_calls(db, session, seq, paired)
    for call in answered:
        db.execute(
            "INSERT INTO answer(session, id, call_seq, call_n, seq) VALUES(?, ?, ?, ?, ?)",
            (session, call.id, call.seq, call.n, seq),
        )
    if not draft.active:
        return head
    return Head(seq, unit, round_, message_id, total)


def _insert_calls(db: apsw.Connection, session: SessionId, seq: Seq, parts: Iterable[Part]) -> None:
    calls = (part for part in parts if isinstance(part, ToolCall))
    for n, call in enumerate(calls):
        db.execute(
            "INSERT INTO call(session, id, seq, n) VALUES(?, ?, ?, ?)",
            (session, bindable(call.call_id), seq, n),
        )


def _insert_text(db: apsw.Connection, entry: Sealed) -> TextId:
    db.execute("INSERT INTO text(body) VALUES(?)", (entry.text,))
    text = TextId(db.last_insert_rowid())
    if entry.payload is not None:
        db.execute("INSERT INTO payload(text, parts) VALUES(?, ?)", (text, entry.payload))
    _insert_images(db, entry.images)
    return text


def _insert_images(db: apsw.Connection, images: Iterable[Image]) -> None:
    for image in images:
        if image.data is not None:
            db.execute(
                """INSERT INTO image(sha256, media_type, width, height, data) VALUES(?, ?, ?, ?, ?)
                    ON CONFLICT(sha256) DO NOTHING""",
                (image.sha256, image.media_type, image.width, image.height, image.data),
            )


def _keep_variant(db: apsw.Connection, session: SessionId, seq: Seq, entry: Sealed) -> None:
    content = encode([part_to_json(part) for part in parts_of(entry)])
    db.execute(
        """INSERT INTO variant(session, seq, digest, role, at, content) VALUES(?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING""",
        (session, seq, entry.digest, entry.draft.role, entry.draft.at, content),
    )


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


def other_holders(db: apsw.Connection, text: TextId, session: SessionId) -> list[str]:
    """Keys of the other sessions with a row of this very text."""
    rows = db.execute(
        """SELECT DISTINCT session.key FROM row JOIN session ON session.id = row.session
            WHERE row.text = ? AND row.session <> ? ORDER BY session.id""",
        (text, session),
    )
    return [key for (key,) in rows]


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
