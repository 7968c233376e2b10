"""A session as people read it: its conversation a page at a time, from any row on, either way.

A page costs what it shows: what a part has beyond PART_CHARACTERS is left to lcm_expand, and images are
named, not given. Branches that leave a row are named by their first and last row, at most PARTS_SHOWN of
them; lcm-mcp tree names them all. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import RowAddress, Seq, parse_address
from lcm_mcp.service.times import iso
from lcm_mcp.service.workplace import Cover, Workplace, existing_row, wanted_session
from lcm_mcp.transcript import files, pictures, pins, sessions, store
from lcm_mcp.transcript.model import (
    File,
    Image,
    Opaque,
    Part,
    Reasoning,
    Role,
    Row,
    Text,
    ToolCall,
    ToolResult,
)
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.path import Path, Segment, followers, run_from
from lcm_mcp.transcript.sealing import derive_text, readable
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

PART_CHARACTERS: Final = 4_000
PAGE_CHARACTERS: Final = 100_000
"""A page ends with the row that reaches this."""
PARTS_SHOWN: Final = 50


@frozen
class ShownImage:
    """number is what its bytes are asked for by; null where they were never stored."""

    number: int | None
    media_type: str
    bytes: int
    width: int | None
    height: int | None


@frozen
class ShownPart:
    """A part as words: name is the tool's, or the type of a block that is none of these; more counts the
    characters left out. call ties a result to its call, file names a large result's handle."""

    kind: str
    name: str | None
    text: str
    more: int
    call: str | None
    is_error: bool
    file: str | None
    images: tuple[ShownImage, ...]


@frozen
class Leaving:
    """Rows that follow a row instead of the next one shown: first to last, and whether they are active."""

    first: str
    last: str
    active: bool


@frozen
class Starting:
    """A fork or child that starts from a row."""

    session: str
    link: str
    title: str | None


@frozen
class ShownRow:
    """opens: a unit begins here. parts, branches (the active one before others) and starts are the first
    PARTS_SHOWN, more_… counts the others."""

    ref: str
    role: Role
    at: str
    tokens: int
    opens: bool
    node: str | None
    removed: bool
    pinned: bool
    parts: tuple[ShownPart, ...]
    more_parts: int
    branches: tuple[Leaving, ...]
    more_branches: int
    starts: tuple[Starting, ...]
    more_starts: int


@frozen
class Conversation:
    """Rows of the path from `first` to `line`, oldest first; leaf is where the active path ends.

    nodes is how many summaries the session has.
    older and newer are the rows to go on from, null at an end.
    """

    session: str
    id: str
    first: str | None
    line: str | None
    leaf: str | None
    nodes: int
    rows: tuple[ShownRow, ...]
    older: str | None
    newer: str | None
    behind: str | None = None


def converse(
    db: apsw.Connection,
    work: Workplace,
    key: str | None,
    at: str | None,
    line: str | None,
    newer: bool,
    limit: int,
) -> Conversation:
    """A page that ends with row `at`, or (newer) begins with it; by default it ends with the last row.

    line is the last row of the branch to be read: by default the active path, or where `at` was removed the
    rows that follow each other there.
    """
    session = wanted_session(db, work, key)
    start = None if at is None else existing_row(db, session, _seq("at", at)).seq
    leaf = _line(db, session, start, line)
    path = Path(db, session.id, leaf)
    start = leaf if start is None else start
    if start and start not in path:
        raise InvalidArgument("at", f"e{start} does not lie on the way to e{leaf}", "Leave line out.")
    wanted = _onward(path, start, limit) if newer else _back(path, start, limit)
    shown = _Shown(db, session, path)
    rows = shown.newer(wanted) if newer else shown.older(wanted)
    before = path.before(_seq("", rows[0].ref)) if rows else 0
    after = path.after(_seq("", rows[-1].ref)) if rows else None
    first = path.after(Seq(0))
    return Conversation(
        session=session.key,
        id=f"s{session.id}",
        first=f"e{first}" if first else None,
        line=f"e{leaf}" if leaf else None,
        leaf=f"e{session.leaf}" if session.leaf else None,
        nodes=dag.count(db, session.id),
        rows=tuple(rows),
        older=f"e{before}" if before else None,
        newer=f"e{after}" if after else None,
    )


def _seq(name: str, text: str) -> Seq:
    address = parse_address(text)
    if not isinstance(address, RowAddress) or address.session is not None:
        raise InvalidArgument(name, f"{text[:80]!r} is not a row of this session", "Use one such as e104.")
    return address.seq


def _line(db: apsw.Connection, session: Session, at: Seq | None, line: str | None) -> Seq:
    """The last row of what is read."""
    if line is not None:
        return existing_row(db, session, _seq("line", line)).seq
    if at is None or at in Path(db, session.id, session.leaf):
        return session.leaf
    return run_from(db, session.id, at).high


def _onward(path: Path, first: Seq, limit: int) -> list[Segment]:
    """So many rows from `first` on, oldest first."""
    found: list[Segment] = []
    for part in path.between(first, path.leaf):
        if limit <= 0:
            break
        found.append(Segment(part.low, Seq(min(part.high, part.low + limit - 1))))
        limit -= part.high - part.low + 1
    return found


def _back(path: Path, last: Seq, limit: int) -> list[Segment]:
    """So many rows up to `last`, oldest first."""
    found: list[Segment] = []
    for segment in path.segments():
        if limit <= 0:
            break
        if segment.low <= last:
            high = min(segment.high, last)
            found.append(Segment(Seq(max(segment.low, high - limit + 1)), Seq(high)))
            limit -= high - found[-1].low + 1
    return found[::-1]


class _Shown:
    """Makes rows ready to be shown, until they fill a page."""

    def __init__(self, db: apsw.Connection, session: Session, path: Path) -> None:
        self._db = db
        self._session = session
        self._path = path
        self._cover = Cover(db, session)
        self._begun = sessions.begun_by(db, session.id)

    def newer(self, parts: Sequence[Segment]) -> list[ShownRow]:
        return self._fill(seq for part in parts for seq in range(part.low, part.high + 1))

    def older(self, parts: Sequence[Segment]) -> list[ShownRow]:
        back = (seq for part in reversed(parts) for seq in range(part.high, part.low - 1, -1))
        return self._fill(back)[::-1]

    def _fill(self, rows: Iterable[int]) -> list[ShownRow]:
        found: list[ShownRow] = []
        wanted, room = [Seq(seq) for seq in rows], PAGE_CHARACTERS
        runs = followers(self._db, self._session.id, wanted)
        for seq in wanted:
            row = self._row(existing_row(self._db, self._session, seq), runs[seq])
            found.append(row)
            room -= sum(len(part.text) for part in row.parts)
            if room <= 0:
                break
        return found

    def _row(self, row: Row, runs: Sequence[Segment]) -> ShownRow:
        db, session = self._db, self._session.id
        mark = store.read_mark(db, session, row.seq)
        assert mark is not None
        handles = {file.part: file for file in files.of_row(db, session, row.seq)}
        few = row.parts[:PARTS_SHOWN]
        begun = [one for one in self._begun if one.opener == row.seq]
        leaving = sorted(self._branches(row.seq, runs), key=lambda branch: not branch.active)
        return ShownRow(
            ref=f"e{row.seq}",
            role=row.role,
            at=iso(row.at),
            tokens=mark.size.tokens,
            opens=mark.unit == row.seq,
            node=self._cover.node_of(row.seq),
            removed=row.seq not in self._cover.path,
            pinned=pins.is_pinned(db, session, row.seq),
            parts=tuple(self._part(part, handles.get(place)) for place, part in enumerate(few)),
            more_parts=len(row.parts) - len(few),
            branches=tuple(leaving[:PARTS_SHOWN]),
            more_branches=max(0, len(leaving) - PARTS_SHOWN),
            starts=tuple(Starting(one.key, one.link or "child", one.title) for one in begun[:PARTS_SHOWN]),
            more_starts=max(0, len(begun) - PARTS_SHOWN),
        )

    def _branches(self, seq: Seq, runs: Sequence[Segment]) -> Iterator[Leaving]:
        following = self._path.after(seq)
        for run in runs:
            if run.low != following:
                yield Leaving(f"e{run.low}", f"e{run.high}", run.low in self._cover.path)

    def _part(self, part: Part, file: File | None) -> ShownPart:
        match part:
            case Text(text):
                return _said("text", readable(text))
            case Reasoning(text):
                return _said("reasoning", readable(text))
            case ToolCall(call_id, name):
                words = derive_text([part]).partition("\n")[2]
                return _said("tool_call", words, readable(name), readable(call_id))
            case ToolResult(call_id, content, is_error):
                words = derive_text([piece for piece in content if not isinstance(piece, Image)])
                images = tuple(self._image(piece) for piece in content if isinstance(piece, Image))
                name = None if file is None else file.path
                handle = None if file is None else f"f{file.id}"
                return _said("tool_result", words, name, readable(call_id), images, is_error, handle)
            case Image():
                return _said("image", "", images=(self._image(part),))
            case Opaque(raw):
                return _said("other", encode(raw).decode("utf-8", "replace"), readable(part.kind))
            case _:
                assert_never(part)

    def _image(self, image: Image) -> ShownImage:
        number = pictures.number_of(self._db, image.sha256)
        return ShownImage(number, readable(image.media_type), image.size_bytes, image.width, image.height)


def _said(
    kind: str,
    text: str,
    name: str | None = None,
    call: str | None = None,
    images: tuple[ShownImage, ...] = (),
    is_error: bool = False,
    file: str | None = None,
) -> ShownPart:
    more = max(0, len(text) - PART_CHARACTERS)
    return ShownPart(kind, name, text[:PART_CHARACTERS], more, call, is_error, file, images)
