"""Pages of a projection: whole messages, as many as fit, or pieces of one that fits none.

Pages joined in order are the projection. A later page names the cut and the leaf of the first, so it
shows the same projection whatever came in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

from lcm_mcp.errors import BadCursor
from lcm_mcp.projection.model import Message
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import Format, Receipt, Status
from lcm_mcp.service.prepared import Fragment, Observation, Prepared, PreparedMessage
from lcm_mcp.service.viewing import View
from lcm_mcp.transcript.sealing import encode
from lcm_mcp.transcript.sessions import Session

PAGE_BYTES = 150_000
"""JSON of messages in one page; text and structured answer together then stay below 400 KB."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What every page of one projection says alike, and what only the first one does."""

    format: Format
    status: Status
    notes: tuple[str, ...]
    estimate: int
    calibrated: int | None = None
    receipt: Receipt | None = None
    observation: Observation | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Where a page starts: a message, and characters of its JSON that were given already."""

    index: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Bookmark:
    """What a cursor holds: the projection by its cut and leaf, and where to go on in it."""

    cut: int
    leaf: int
    start: Start
    status: Status
    estimate: int
    calibrated: int | None


def read_cursor(cursor: str, session: Session, form: Format) -> Bookmark:
    """The bookmark in a cursor of this session and format. Raises BadCursor."""
    cut, leaf, index, offset, status, estimate, calibrated = cursors.read(
        cursor, _asked(session, form), int, int, int, int, str, int, int
    )
    numbers = (cut, leaf, index, offset, estimate, calibrated)
    if status not in get_args(Status) or any(int(number) < 0 for number in numbers):
        raise BadCursor
    start = Start(int(index), int(offset))
    return Bookmark(
        int(cut), int(leaf), start, cast("Status", status), int(estimate), int(calibrated) or None
    )


def page(view: View, messages: Sequence[Message], start: Start, facts: Facts) -> Prepared:
    """As many messages as fit into a page; one that fits none comes in fragments of its JSON."""
    shown: list[PreparedMessage] = []
    room = PAGE_BYTES
    fragment: Fragment | None = None
    following: Start | None = None
    for index in range(start.index, len(messages)):
        message = messages[index]
        body = encode(dict(message.body))
        if start.offset == 0 or index > start.index:
            if len(body) <= room:
                room -= len(body)
                shown.append(PreparedMessage(dict(message.body), message.sources))
                continue
            if shown or len(body) <= PAGE_BYTES:
                following = Start(index, 0)
                break
        fragment, following = _fragment(message, body, index, start)
        break
    if following is not None and following.index == len(messages):
        following = None
    receipt = facts.receipt
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
        change="full",
        format=facts.format,
        first_message=start.index,
        total_messages=len(messages),
        messages=tuple(shown),
        fragment=fragment,
        next_cursor=None if following is None else _cursor(view, following, facts),
        observation=facts.observation,
    )


def _fragment(message: Message, body: bytes, index: int, start: Start) -> tuple[Fragment, Start]:
    text = body.decode()
    offset = start.offset if index == start.index else 0
    piece = text[offset : offset + PAGE_BYTES].encode()[:PAGE_BYTES].decode(errors="ignore")
    end = offset + len(piece)
    following = Start(index + 1, 0) if end >= len(text) else Start(index, end)
    return Fragment(index, offset, len(text), piece, message.sources), following


def _cursor(view: View, following: Start, facts: Facts) -> str:
    cut = 0 if view.cut is None else view.cut.id
    return cursors.make(
        _asked(view.session, facts.format),
        (
            cut,
            view.leaf,
            following.index,
            following.offset,
            facts.status,
            facts.estimate,
            facts.calibrated or 0,
        ),
    )


def _asked(session: Session, form: Format) -> tuple[object, ...]:
    return ("prepare", session.id, form)
