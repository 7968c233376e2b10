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
from lcm_mcp.transcript import pins
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
from lcm_mcp.transcript.sealing import encode, stored_digest, unseal
from lcm_mcp.transcript.sessions import Session


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of each entry, in order; duplicates and conflicts are among refs too."""

    refs: tuple[Seq, ...]
    duplicates: tuple[Seq, ...]
    conflicts: tuple[Seq, ...]
    leaf: Seq

    @property
    def added(self) -> int:
        return len(self.refs) - len(self.duplicates) - len(self.conflicts)


@dataclass(frozen=True, slots=True)
class _Head:
    """Where the path ends: what the next row's place and totals are made from."""

    leaf: Seq
    unit: Seq
    round: Seq
    message_id: str | None
    total: Size


def append(db: apsw.Connection, session: Session, entries: Sequence[Sealed], now: int) -> Appended:
    """Append entries after the session's leaf, whole or (if the transaction fails) not at all."""
    head = _head(db, session)
    next_seq = session.next_seq
    refs: list[Seq] = []
    duplicates: list[Seq] = []
    conflicts: list[Seq] = []
    for entry in entries:
        # The write lock is held, so what is not found here cannot appear before the INSERT.
        found = _find_entry(db, session.id, entry)
        if found is None:
            head = _insert(db, session.id, next_seq, head, entry, now)
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
    return Appended(tuple(refs), tuple(duplicates), tuple(conflicts), head.leaf)


def find_entry(db: apsw.Connection, session: SessionId, entry_id: str) -> Seq | None:
    """The row that an entry_id names."""
    seq: int | None = db.execute(
        "SELECT seq FROM row WHERE session = ? AND entry_id = ?", (session, entry_id)
    ).get
    return None if seq is None else Seq(seq)


def _head(db: apsw.Connection, session: Session) -> _Head:
    if session.leaf == 0:
        return _Head(Seq(0), Seq(0), Seq(0), None, Size())
    unit, round_, cum_bytes, cum_inputs, cum_fixed = next(
        db.execute(
            "SELECT unit, round, cum_bytes, cum_inputs, cum_fixed FROM row WHERE session = ? AND seq = ?",
            (session.id, session.leaf),
        )
    )
    message_id = _message_id(db, session.id, round_)
    return _Head(session.leaf, unit, round_, message_id, Size(cum_bytes, cum_inputs, cum_fixed))


def _message_id(db: apsw.Connection, session: SessionId, seq: Seq) -> str | None:
    found: str | None = db.execute(
        "SELECT message_id FROM row WHERE session = ? AND seq = ?", (session, seq)
    ).get
    return found


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


def _insert(db: apsw.Connection, session: SessionId, seq: Seq, head: _Head, entry: Sealed, now: int) -> _Head:
    """Store one row after head and return the head it makes; an inactive row leaves the head where it is."""
    draft = entry.draft
    # Off the path a row neither calls nor answers: an active result must find its call still open.
    paired = draft.parts if draft.active else ()
    answered = _answered(db, session, paired)
    unit, round_, message_id = _place(db, session, seq, head, entry, answered)
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
    db.executemany(
        "INSERT INTO answer(session, id, call_seq, call_n, seq) VALUES(?, ?, ?, ?, ?)",
        [(session, call.id, call.seq, call.n, seq) for call in answered],
    )
    if not draft.active:
        return head
    return _Head(seq, unit, round_, message_id, total)


def _place(
    db: apsw.Connection,
    session: SessionId,
    seq: Seq,
    head: _Head,
    entry: Sealed,
    answered: Sequence[_Call],
) -> tuple[Seq, Seq, str | None]:
    """The unit and round of a new row, and the message_id of the row that opens that round."""
    draft = entry.draft
    has_result = any(isinstance(part, ToolResult) for part in draft.parts)
    if head.leaf == 0 or (draft.role == "user" and not has_result and draft.active):
        return seq, seq, draft.message_id
    unit = min([head.unit, *(call.unit for call in answered)])
    same_message = draft.message_id is not None and draft.message_id == head.message_id
    if draft.role == "assistant" and not has_result and not same_message:
        return unit, seq, draft.message_id
    round_ = min([head.round, *(call.round for call in answered)])
    message_id = head.message_id if round_ == head.round else _message_id(db, session, round_)
    return unit, round_, message_id


@dataclass(frozen=True, slots=True)
class _Call:
    """A stored call: its row, its place among that row's calls, and that row's unit and round."""

    id: str
    seq: Seq
    n: int
    unit: Seq
    round: Seq


_OPEN_CALL = """SELECT call.id, call.seq, call.n, row.unit, row.round
    FROM call JOIN row ON row.session = call.session AND row.seq = call.seq
    WHERE call.session = ?1 AND call.id = ?2 AND NOT EXISTS(
        SELECT 1 FROM answer WHERE answer.session = ?1 AND answer.id = ?2
        AND answer.call_seq = call.seq AND answer.call_n = call.n)
    ORDER BY call.seq DESC, call.n DESC LIMIT ?3"""


def _answered(db: apsw.Connection, session: SessionId, parts: Iterable[Part]) -> list[_Call]:
    """The calls that a row's results answer: for each id the nearest unanswered ones before it."""
    wanted: dict[str, int] = {}
    for part in parts:
        if isinstance(part, ToolResult):
            wanted[part.call_id] = wanted.get(part.call_id, 0) + 1
    return [
        _Call(*row)
        for call_id, times in wanted.items()
        for row in db.execute(_OPEN_CALL, (session, _bindable(call_id), times))
    ]


def _insert_calls(db: apsw.Connection, session: SessionId, seq: Seq, parts: Iterable[Part]) -> None:
    calls = [part for part in parts if isinstance(part, ToolCall)]
    db.executemany(
        "INSERT INTO call(session, id, seq, n) VALUES(?, ?, ?, ?)",
        [(session, _bindable(call.call_id), seq, n) for n, call in enumerate(calls)],
    )


def _bindable(call_id: str) -> str:
    """A call id that SQLite can hold; ids that differ only in lone surrogates are one."""
    return call_id.encode("utf-8", "replace").decode("utf-8")


def _insert_text(db: apsw.Connection, entry: Sealed) -> TextId:
    db.execute("INSERT INTO text(body) VALUES(?)", (entry.text,))
    text = TextId(db.last_insert_rowid())
    if entry.payload is not None:
        db.execute("INSERT INTO payload(text, parts) VALUES(?, ?)", (text, entry.payload))
    _insert_images(db, entry.images)
    return text


def _insert_images(db: apsw.Connection, images: Iterable[Image]) -> None:
    db.executemany(
        """INSERT INTO image(sha256, media_type, width, height, data) VALUES(?, ?, ?, ?, ?)
            ON CONFLICT(sha256) DO NOTHING""",
        [
            (image.sha256, image.media_type, image.width, image.height, image.data)
            for image in images
            if image.data is not None
        ],
    )


def _keep_variant(db: apsw.Connection, session: SessionId, seq: Seq, entry: Sealed) -> None:
    content = encode([part_to_json(part) for part in entry.draft.parts])
    db.execute(
        """INSERT INTO variant(session, seq, digest, role, at, content) VALUES(?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING""",
        (session, seq, entry.digest, entry.draft.role, entry.draft.at, content),
    )


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
        (session, _bindable(call_id), first, before),
    ).get
    return found is not None


_ROWS = """SELECT row.seq, row.role, row.at, row.entry_id, row.message_id, row.text, text.body, payload.parts
    FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
    WHERE row.session = ? AND row.seq BETWEEN ? AND ? ORDER BY row.seq"""


def read_rows(
    db: apsw.Connection, session: SessionId, segments: Iterable[Segment], *, images: bool = False
) -> Iterator[Row]:
    """Whole rows of the given segments, in their order; with image bytes where asked for."""
    for segment in segments:
        for seq, role, at, entry_id, message_id, text_id, body, payload in db.execute(
            _ROWS, (session, segment.low, segment.high)
        ):
            parts = unseal(body, payload)
            if images:
                parts = tuple(_with_image(db, part) for part in parts)
            yield Row(Seq(seq), role, at, entry_id, message_id, TextId(text_id), body, parts)


def read_row(db: apsw.Connection, session: SessionId, seq: Seq) -> Row | None:
    """One whole row, on the path or off it."""
    return next(read_rows(db, session, [Segment(seq, seq)]), None)


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


def _with_image(db: apsw.Connection, part: Part) -> Part:
    match part:
        case Image():
            return _load(db, part)
        case ToolResult(content=content):
            return replace(part, content=tuple(_with_result_image(db, piece) for piece in content))
        case _:
            return part


def _with_result_image(db: apsw.Connection, piece: ResultPart) -> ResultPart:
    return _load(db, piece) if isinstance(piece, Image) else piece


def _load(db: apsw.Connection, image: Image) -> Image:
    data: bytes | None = db.execute("SELECT data FROM image WHERE sha256 = ?", (image.sha256,)).get
    return replace(image, data=data)
