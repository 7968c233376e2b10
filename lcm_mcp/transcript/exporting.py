"""A session written out: as neutral JSON lines that import as the same conversation, or as Markdown to read.

JSON lines hold every row in the order of their numbers, with all their parts, image bytes included, so that
an import numbers them alike; a row that does not follow the one before it names its parent, a line before it
says its number where a fork left some out, and a last line where the path ends that ends elsewhere. Not in
them: other contents that came under an entry_id, summaries and cuts. Markdown holds the active path.
Functions take a connection and never begin or commit; a page costs its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

import apsw

from lcm_mcp.ids import Seq
from lcm_mcp.transcript import pins
from lcm_mcp.transcript.blocks import Block, part_to_json
from lcm_mcp.transcript.model import (
    BEGINNING,
    Json,
    Part,
    Reasoning,
    Row,
    RowMark,
    Text,
    ToolCall,
    ToolResult,
)
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.path import FIRST, Path, Segment, marks_between
from lcm_mcp.transcript.placing import find_entry
from lcm_mcp.transcript.redacting import Masking
from lcm_mcp.transcript.sealing import derive_text
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.store import read_rows

PAGE_ROWS = 100
ExportFormat = Literal["jsonl", "markdown"]

_JUMPS = "SELECT seq, prev FROM row WHERE session = ? AND prev <> seq - 1"
_FENCE = re.compile(r"^`{3,}", re.MULTILINE)


@dataclass(slots=True)
class Export:
    """A session on its way out; rows appended after it began are left out. Read it page by page.

    prevs are the rows before rows that do not follow their neighbour; head is where an import that has read
    so far would go on, number what it would call the next one. masking masks the keys in what leaves.
    """

    session: Session
    prevs: Mapping[Seq, Seq]
    pinned: frozenset[Seq]
    next: Seq
    head: Seq
    masking: Masking | None = None
    number: Seq = FIRST
    parents: frozenset[Seq] = field(init=False)

    def __post_init__(self) -> None:
        self.parents = frozenset(self.prevs.values())

    def parts(self, row: Row) -> tuple[Part, ...]:
        """A row's parts as they leave."""
        return row.parts if self.masking is None else self.masking.parts(row.parts)

    def before(self, seq: Seq) -> Seq:
        return self.prevs.get(seq, Seq(seq - 1))

    def is_left(self, seq: Seq, after: Seq | None) -> bool:
        """Whether the conversation goes on as if a row had not been there; after is the next row."""
        before = self.before(seq)
        goes_on = self.session.leaf if after is None else self.before(after)
        return seq not in self.parents and goes_on == before


def begin(db: apsw.Connection, session: Session, *, redacting: bool = False) -> Export:
    """What has to be known of a session before its first page; redacting masks the keys in it."""
    masking = Masking() if redacting else None
    prevs = {Seq(seq): Seq(prev) for seq, prev in db.execute(_JUMPS, (session.id,))}
    return Export(session, prevs, frozenset(pins.pinned(db, session.id)), FIRST, Seq(0), masking)


def jsonl_page(db: apsw.Connection, export: Export) -> bytes | None:
    """The next lines, the header first; None after the last."""
    session = export.session
    if export.next >= session.next_seq:
        return None
    header = [encode(_header(session))] if export.next == 1 else []
    last = Seq(min(export.next + PAGE_ROWS, session.next_seq) - 1)
    lines = [encode(entry) for entry in _entries(db, export, last)]
    export.next = Seq(last + 1)
    ended = export.next >= session.next_seq and export.head != session.leaf
    end = [encode(_end(db, export))] if ended else []
    return b"".join(line + b"\n" for line in (*header, *lines, *end))


def _header(session: Session) -> Json:
    known = {"session": session.key, "title": session.title, "project": session.project}
    return {name: value for name, value in known.items() if value is not None}


def _end(db: apsw.Connection, export: Export) -> Json:
    """Where the path ends, if an import that has read all rows is at the row `after`."""
    return {"ends_at": _name_of(db, export, export.session.leaf), "after": _name_of(db, export, export.head)}


def _entries(db: apsw.Connection, export: Export, last: Seq) -> Iterator[Json]:
    number = export.session.id
    # One more, since whether a row was left shows in the one after it.
    marks = marks_between(db, number, export.next, Seq(min(last + 1, export.session.next_seq - 1)))
    following = {mark.seq: after.seq for mark, after in pairwise(marks)}
    rows = read_rows(db, number, [Segment(export.next, last)], images=True)
    for mark, row in zip(marks, rows, strict=False):
        if row.seq != export.number:
            yield {"next_number": row.seq}
        export.number = Seq(row.seq + 1)
        left = _was_never_active(mark, row) and export.is_left(row.seq, following.get(row.seq))
        yield _entry(db, export, row, left=left)
        if not left:
            export.head = row.seq


def _was_never_active(mark: RowMark, row: Row) -> bool:
    """Whether a row stands as one that came off the path does: it opened nothing and paired nothing."""
    paired = any(isinstance(part, ToolCall | ToolResult) for part in row.parts)
    return not paired and (row.role != "user" or mark.unit != mark.seq)


def _entry(db: apsw.Connection, export: Export, row: Row, *, left: bool) -> Json:
    entry: Block = {"role": row.role, "content": _content(export.parts(row))}
    entry["entry_id"] = _name(db, export, row.seq, row.entry_id)
    entry["at"] = row.at
    if row.message_id is not None:
        entry["message_id"] = row.message_id
    if row.seq in export.pinned:
        entry["pin"] = True
    if left:
        entry["active"] = False
    before = export.before(row.seq)
    if before != export.head:
        entry |= {"parent": _name_of(db, export, before), "branch": True}
    return entry


def _content(parts: tuple[Part, ...]) -> Json:
    match parts:
        case (Text(text, extra),) if not extra:
            return text
        case _:
            return [part_to_json(part) for part in parts]


def _name_of(db: apsw.Connection, export: Export, seq: Seq) -> str:
    """What an entry calls a row that it names; 0 is before the first."""
    if seq == 0:
        return BEGINNING
    known: str | None = db.execute(
        "SELECT entry_id FROM row WHERE session = ? AND seq = ?", (export.session.id, seq)
    ).get
    return _name(db, export, seq, known)


def _name(db: apsw.Connection, export: Export, seq: Seq, entry_id: str | None) -> str:
    """A row's entry_id; one that has none is called by its number, as an import would."""
    if entry_id is not None:
        return entry_id
    name = f"@{seq}"
    while find_entry(db, export.session.id, name) is not None:
        name += "/row"
    return name


def markdown_page(db: apsw.Connection, export: Export) -> bytes | None:
    """The next rows of the active path, under a title at first; None after the last."""
    session = export.session
    path = Path(db, session.id, session.leaf)
    parts = path.between(export.next, session.leaf)
    pieces = [_title(session)] if export.next == 1 and session.leaf else []
    left = PAGE_ROWS
    for part in parts:
        if left <= 0:
            break
        segment = Segment(part.low, Seq(min(part.high, part.low + left - 1)))
        pieces += [_section(row, export.parts(row)) for row in read_rows(db, session.id, [segment])]
        left -= segment.high - segment.low + 1
        export.next = Seq(segment.high + 1)
    return "".join(pieces).encode("utf-8") if pieces else None


def _title(session: Session) -> str:
    name = " ".join((session.title or session.key).split())
    where = "" if session.project is None else f", of {session.project}"
    return f"# {name}\n\nSession {session.key}{where}.\n"


def _section(row: Row, parts: tuple[Part, ...]) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=row.at)
    shown = (_block(part) for part in parts)
    body = "\n\n".join(block for block in shown if block)
    return f"\n## e{row.seq} {row.role}, {at:%Y-%m-%d %H:%M}\n\n{body}\n"


def _block(part: Part) -> str:
    """A part as Markdown: what was said as it is, all else fenced, so that nothing in it is markup."""
    match part:
        case Text():
            return derive_text((part,))
        case Reasoning(text):
            return _fenced("reasoning", derive_text((Text(text),)))
        case _:
            return _fenced("", derive_text((part,)))


def _fenced(kind: str, text: str) -> str:
    if not text:
        return ""
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"
