"""Images on the way out: as they are in a page of parts where they fit, else by their resource, in ranges.

A page of parts takes so much base64 and no more; what goes beyond is given as metadata and the URI under
which its bytes are read. Nothing is decoded or made smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import apsw

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.workplace import Workplace, named_session
from lcm_mcp.transcript import pictures
from lcm_mcp.transcript.blocks import Block, part_to_json
from lcm_mcp.transcript.model import Image, Json, Part, Row, ToolResult
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

RANGE_BYTES: Final = 240_000
"""Of an image in one answer; as base64 a third more."""
LARGEST_BYTES: Final = 375_000
"""Images of one page together; as base64 500,000, so that an answer stays below the 1 MiB of clients."""


@frozen
class ImageRange:
    """Bytes of an image from `offset` on; following is where the next range starts, null at the end."""

    media_type: str
    total: int
    offset: int
    following: int | None
    data: bytes


def read_image(
    db: apsw.Connection, work: Workplace, session: str, number: str, offset: str | None, length: str | None
) -> ImageRange:
    """A range of an image that the session holds, or all of one that fits. Raises InvalidArgument."""
    owner = named_session(db, session)
    start = _number("offset", offset, 0)
    wanted = min(_number("length", length, RANGE_BYTES), RANGE_BYTES)
    image = _number("n", number, 0)
    found = pictures.read(db, image, start, wanted) if _is_held(db, work, owner, image) else None
    if found is None:
        raise InvalidArgument(
            "n",
            f"session {owner.key!r} has no image {number[:20]!r}",
            "lcm_expand with include_payload names images.",
        )
    if offset is None and length is None and found.total > RANGE_BYTES:
        uri = f"{_uri(owner, int(number))}?offset=0&length={RANGE_BYTES}"
        raise InvalidArgument("uri", f"the image has {found.total} bytes", f"Read it in ranges: {uri}")
    end = start + len(found.data)
    return ImageRange(found.media_type, found.total, start, end if end < found.total else None, found.data)


def _is_held(db: apsw.Connection, work: Workplace, session: Session, image: int) -> bool:
    """Whether the session holds it, looked for once: rows stay, and numbers are never given again."""
    if (session.id, image) not in work.held_images:
        if not pictures.is_held(db, session.id, image):
            return False
        work.held_images.add((session.id, image))
    return True


def _number(name: str, given: str | None, otherwise: int) -> int:
    if given is None:
        return otherwise
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise InvalidArgument(name, f"{given[:20]!r} is no whole number of 1 to 18 digits", "Give one.")
    return int(given)


def _uri(session: Session, number: int) -> str:
    return f"lcm://session/s{session.id}/image/{number}"


def blocks_of(db: apsw.Connection, session: Session, row: Row) -> tuple[list[Block], int]:
    """A row's parts as neutral JSON, and how many bytes of images are in it.

    Of its images the first that fit a page together have their bytes, the others the URI of a resource.
    """
    taken = 0
    kept: list[Image] = []
    for image in (image for part in row.parts for image in _images(part)):
        if image.data is not None and taken + len(image.data) <= LARGEST_BYTES:
            taken += len(image.data)
            kept.append(image)
    return [_block(db, session, part, kept) for part in row.parts], taken


def base64_length(size: int) -> int:
    """About how many characters so many bytes of images take as base64, never more than they do."""
    return size * 4 // 3


def bare_blocks(db: apsw.Connection, session: Session, row: Row) -> list[Block]:
    """A row's parts as neutral JSON, each image by its resource."""
    return [_block(db, session, part, ()) for part in row.parts]


def _images(part: Part) -> Iterator[Image]:
    pieces = part.content if isinstance(part, ToolResult) else (part,)
    yield from (piece for piece in pieces if isinstance(piece, Image))


def _block(db: apsw.Connection, session: Session, part: Part, kept: Sequence[Image]) -> Block:
    match part:
        case Image():
            return _image(db, session, part, kept)
        case ToolResult(content=content):
            block = part_to_json(replace(part, content=()))
            inside: list[Json] = [
                _image(db, session, piece, kept) if isinstance(piece, Image) else part_to_json(piece)
                for piece in content
            ]
            return {**block, "content": inside}
        case _:
            return part_to_json(part)


def _image(db: apsw.Connection, session: Session, image: Image, kept: Sequence[Image]) -> Block:
    if any(image is one for one in kept):
        return part_to_json(image)
    number = pictures.number_of(db, image.sha256)
    block = part_to_json(replace(image, data=None))
    return block if number is None else {**block, "resource": _uri(session, number)}
