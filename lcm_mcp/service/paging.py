"""Pages of what a client is given: whole messages, as many as fit, or pieces of one that fits none.

Pages joined in order are the projection, or what a splice inserts into the one held. A later page names the
cut and the leaf of the first (and of the held one), so it shows the same whatever came in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from lcm_mcp.errors import BadCursor
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import Format, Receipt, Status
from lcm_mcp.service.prepared import Fragment, Inserted, Observation, Prepared, PreparedMessage
from lcm_mcp.service.splicing import Change, Piece
from lcm_mcp.service.viewing import View
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

PAGE_BYTES = 150_000
"""JSON of messages in one page; text and structured answer together then stay below 400 KB."""


@frozen
class Facts:
    """What every page of one projection says alike, and what only the first one does."""

    format: Format
    status: Status
    notes: tuple[str, ...]
    estimate: int
    calibrated: int | None = None
    receipt: Receipt | None = None
    observation: Observation | None = None
    recalled: str = ""


@frozen
class Start:
    """Where a page starts: a place among the messages given, and characters of its JSON given already."""

    index: int = 0
    offset: int = 0


@frozen
class HeldMark:
    """The projection that a splice starts from, as a cursor holds it."""

    cut: int
    leaf: int
    messages: int
    renamed: bool
    recalled: bool


@frozen
class Bookmark:
    """What a cursor holds: the projection by its cut and leaf, where to go on in it, and since when; recalled
    are the rows recalled in it."""

    cut: int
    leaf: int
    start: Start
    status: Status
    estimate: int
    calibrated: int | None
    held: HeldMark | None
    recalled: str


def read_cursor(cursor: str, session: Session, form: Format) -> Bookmark:
    """The bookmark in a cursor of this session and format. Raises BadCursor."""
    *read, status, recalled = cursors.read(cursor, _asked(session, form), *[int] * 11, str, str)
    numbers = [int(number) for number in read]
    if status not in get_args(Status) or any(number < 0 for number in numbers):
        raise BadCursor
    cut, leaf, index, offset, estimate, calibrated, *held = numbers
    return Bookmark(
        cut,
        leaf,
        Start(index, offset),
        cast("Status", status),
        estimate,
        calibrated or None,
        HeldMark(held[0], held[1], held[2], bool(held[3]), bool(held[4])) if held[1] else None,
        str(recalled),
    )


def page(view: View, change: Change, start: Start, facts: Facts) -> Prepared:
    """As many of the messages given as fit into a page; one that fits none comes in fragments of its JSON."""
    shown, fragment, following = _fill(change.pieces, start)
    receipt, given = facts.receipt, change.pieces[start.index :]
    full = change.kind == "full"
    return Prepared(
        session=view.session.key,
        created=receipt is not None and receipt.created,
        refs=() if receipt is None else receipt.refs,
        duplicates=() if receipt is None else receipt.duplicates,
        conflicts=() if receipt is None else receipt.conflicts,
        prepared=view.name,
        status=facts.status,
        notes=facts.notes,
        estimated_input_tokens=facts.estimate,
        calibrated_input_tokens=facts.calibrated,
        change=change.kind,
        omit=change.omit,
        keep=change.keep,
        keep_from=change.keep_from,
        format=facts.format,
        first_message=given[0].index if given else change.wire.messages,
        total_messages=change.wire.messages,
        messages=tuple(PreparedMessage(_body(piece), piece.message.sources) for piece in shown if full),
        insert=tuple(
            Inserted(piece.index, _body(piece), piece.message.sources) for piece in shown if not full
        ),
        fragment=fragment,
        next_cursor=None if following is None else _cursor(view, change, following, facts),
        cache_breakpoints=change.wire.cache_breakpoints if start == Start() else (),
        observation=facts.observation,
    )


def _fill(pieces: Sequence[Piece], start: Start) -> tuple[Sequence[Piece], Fragment | None, Start | None]:
    """The messages of a page, or a fragment of one after them, and where the next page starts."""
    shown: list[Piece] = []
    room = PAGE_BYTES
    for place in range(start.index, len(pieces)):
        body = encode(_body(pieces[place]))
        if start.offset == 0 or place > start.index:
            if len(body) <= room:
                room -= len(body)
                shown.append(pieces[place])
                continue
            if shown or len(body) <= PAGE_BYTES:
                return shown, None, Start(place, 0)
        fragment, following = _fragment(pieces[place], body, place, start)
        return shown, fragment, None if following.index == len(pieces) else following
    return shown, None, None


def _body(piece: Piece) -> dict[str, Json]:
    return dict(piece.message.body)


def _fragment(piece: Piece, body: bytes, place: int, start: Start) -> tuple[Fragment, Start]:
    text = body.decode()
    offset = start.offset if place == start.index else 0
    part = text[offset : offset + PAGE_BYTES].encode()[:PAGE_BYTES].decode(errors="ignore")
    end = offset + len(part)
    following = Start(place + 1, 0) if end >= len(text) else Start(place, end)
    return Fragment(piece.index, offset, len(text), part, piece.message.sources), following


def _cursor(view: View, change: Change, following: Start, facts: Facts) -> str:
    held = change.held
    return cursors.make(
        _asked(view.session, facts.format),
        (
            view.cut_number,
            view.leaf,
            following.index,
            following.offset,
            facts.estimate,
            facts.calibrated or 0,
            *(
                (0, 0, 0, 0, 0)
                if held is None
                else (
                    held.view.cut_number,
                    held.view.leaf,
                    held.wire.messages,
                    int(held.wire.renamed),
                    int(held.wire.recalled),
                )
            ),
            facts.status,
            facts.recalled,
        ),
    )


def _asked(session: Session, form: Format) -> tuple[object, ...]:
    return ("prepare", session.id, form)
