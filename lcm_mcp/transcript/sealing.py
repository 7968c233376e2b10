"""From a draft to what a row stores, and back.

A row stores its derived text (what search, summaries and people read) and, only where that text cannot
give every part back, a payload (packing.py), so that no long text is stored twice. Lone surrogates and NULs
live in the payload and are replaced in the text alone. Image bytes are in neither. Nothing here numbers a
row or opens a transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from lcm_mcp.tokens import Size, image_tokens, utf8_length
from lcm_mcp.transcript.blocks import parse_part, part_to_json
from lcm_mcp.transcript.model import (
    Draft,
    Image,
    Json,
    Opaque,
    Part,
    Reasoning,
    Role,
    Sealed,
    Text,
    ToolCall,
    ToolResult,
)
from lcm_mcp.transcript.packing import encode, pack, shortest, unpack
from lcm_mcp.values import frozen

_RESULT = {False: "[result]", True: "[failed result]"}


def content_digest(role: Role, blocks: Json) -> bytes:
    """What tells one content from another: 16 bytes over role and parts, images by their own digest."""
    return _digest(role, encode(blocks))


def _digest(role: Role, encoded: bytes) -> bytes:
    digest = hashlib.blake2b(b'["%s",' % role.encode(), digest_size=16)
    digest.update(encoded)  # and not joined: a very long one would stand there twice
    digest.update(b"]")
    return digest.digest()


def stored_digest(role: Role, text: str, payload: bytes | None) -> bytes:
    """The digest of a row as it stands in the store, to be compared with the one it was stored with."""
    blocks: Json = [part_to_json(Text(text))] if payload is None else unpack(payload, text)
    return content_digest(role, blocks)


def seal(draft: Draft, *, deflated: bool = True) -> Sealed:
    """Make a draft ready to be stored; pure, and linear in its size. deflated: so is its payload, where that
    is shorter; else somebody else will do that."""
    parts, size, images = draft.parts, weigh(draft.parts), tuple(_images(draft.parts))
    blocks: list[Json] = [part_to_json(part) for part in (map(_without_bytes, parts) if images else parts)]
    encoded = encode(blocks)  # late: while a very long entry is weighed, it is not held once more
    text = _derived(parts)
    if encoded.isascii() or "\x00" in text:  # beyond ASCII no lone surrogate was written
        text = readable(text)
    payload = None
    if not _is_complete(parts, text):
        payload = pack(blocks, encoded, text)
        payload = shortest(payload) if deflated else payload
    return Sealed(
        role=draft.role,
        text=text,
        payload=payload,
        images=images,
        size=size,
        digest=_digest(draft.role, encoded),
        calls=tuple([part.call_id for part in parts if isinstance(part, ToolCall)]),
        results=tuple([part.call_id for part in parts if isinstance(part, ToolResult)]),
        entry_id=_readable(draft.entry_id),
        message_id=_readable(draft.message_id),
        at=draft.at,
        active=draft.active,
        pin=draft.pin,
        parent=_readable(draft.parent),
        branch=draft.branch,
        prompt_under=_readable(draft.prompt_under),
        outcome_of=_readable(draft.outcome_of),
    )


def _readable(name: str | None) -> str | None:
    return None if name is None else readable(name)


def parts_of(sealed: Sealed) -> tuple[Part, ...]:
    """All of an entry's parts, as the draft had them."""
    loaded = {image.sha256: image.data for image in sealed.images if image.data is not None}

    def filled(part: Part) -> Part:
        match part:
            case Image():
                return replace(part, data=loaded.get(part.sha256))
            case ToolResult(content=content):
                return replace(part, content=tuple(map(filled, content)))
            case _:
                return part

    parts = unseal(sealed.text, sealed.payload)
    return tuple(map(filled, parts)) if loaded else parts


def unseal(text: str, payload: bytes | None) -> tuple[Part, ...]:
    """The parts of a stored row; images come without their bytes."""
    if payload is None:
        return (Text(text),)
    return tuple(parse_part(block) for block in unpack(payload, text))


def derive_text(parts: Iterable[Part]) -> str:
    """What search, summarizers and readers see of a row. Always valid Unicode without NUL."""
    return readable(_derived(parts))


def _derived(parts: Iterable[Part]) -> str:
    return "\n".join([piece for part in parts if (piece := _derive(part)) is not None])


@frozen
class Large:
    """A large tool result: its place among the parts, and where its words stand in the derived text."""

    part: int
    call_id: str
    start: int
    characters: int


def large_results(parts: Iterable[Part], most: int) -> Iterator[Large]:
    """The tool results that say more than `most` characters."""
    start = 0
    for index, part in enumerate(parts):
        length = _derived_length(part)
        if length is None:
            continue
        if isinstance(part, ToolResult):
            said = sum(len(inner.text) for inner in part.content if isinstance(inner, Text))
            if said > most:
                head = len(_RESULT[part.is_error]) + 1
                yield Large(index, part.call_id, start + head, length - head)
        start += length + 1


def _derived_length(part: Part) -> int | None:
    """How long a part's derived text is; a large result is not copied for it."""
    match part:
        case Text(text) if text.isascii():
            return len(text)
        case ToolResult(content=content):
            lengths = (_derived_length(inner) for inner in content)
            return len(_RESULT[part.is_error]) + sum(1 + length for length in lengths if length is not None)
        case _:
            piece = _derive(part)
            return None if piece is None else len(readable(piece))


def weigh(parts: Iterable[Part]) -> Size:
    """One input's size by the rule of tokens.py: the serialised form's bytes, images by their pixels."""
    weight = fixed = 0
    for part in parts:
        more = _weigh(part)
        weight, fixed = weight + more[0], fixed + more[1]
    return Size(weight, 1, fixed)


def _is_complete(parts: tuple[Part, ...], text: str) -> bool:
    return len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text == text and not parts[0].extra


def _derive(part: Part) -> str | None:
    """A part's own words, not yet readable."""
    match part:
        case Text():
            return part.text
        case Reasoning():
            return None  # kept and returned by reads, but neither searched nor summarized
        case ToolCall():
            return "\n".join([f"[call {part.name}]", *_argument_lines("", part.arguments)])
        case ToolResult():
            pieces = [piece for inner in part.content if (piece := _derive(inner)) is not None]
            return "\n".join([_RESULT[part.is_error], *pieces])
        case Image():
            return describe_image(part)
        case Opaque():
            return f"[{part.kind} block, {len(encode(part.raw))} bytes]"
        case _:
            assert_never(part)


def describe_image(image: Image) -> str:
    """An image in words: media type, pixels, bytes; never its content."""
    sides = f"{image.width}x{image.height} px" if image.width and image.height else "size unknown"
    return f"[image {readable(image.media_type)}, {sides}, {image.size_bytes} bytes]"


def _argument_lines(path: str, value: Json) -> Iterable[str]:
    """Arguments a line each, strings as they are, so that code and quotes in them can be searched."""
    match value:
        case dict() if value:
            for key, member in value.items():
                yield from _argument_lines(f"{path}.{key}" if path else key, member)
        case list() if value:
            for index, member in enumerate(value):
                yield from _argument_lines(f"{path}[{index}]", member)
        case str():
            yield f"{path}: {value}" if path else value
        case _:
            # The two write numbers with a fraction differently.
            written = json.dumps(value) if isinstance(value, float) else encode(value).decode()
            yield f"{path}: {written}" if path else written


def readable(text: str) -> str:
    """Text that SQLite, UTF-8 and a terminal of any client can carry: no lone surrogate, no NUL."""
    if text.isascii() and "\x00" not in text:
        return text
    if "\x00" in text:
        text = text.replace("\x00", "\u2400")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A surrogate pair written as two escapes is one character; what stays lone is unreadable.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _weigh(part: Part) -> tuple[int, int]:
    """Bytes, and image tokens."""
    match part:
        case Text():
            return utf8_length(part.text), 0
        case Reasoning(extra=extra):
            return utf8_length(part.text) + (len(encode(dict(extra))) if extra else 0), 0
        case ToolCall():
            return utf8_length(part.call_id) + utf8_length(part.name) + len(encode(part.arguments)), 0
        case ToolResult():
            weight, fixed = utf8_length(part.call_id), 0
            for inner in part.content:
                more = (len(encode(inner.text)), 0) if isinstance(inner, Text) else _weigh(inner)
                weight, fixed = weight + more[0], fixed + more[1]
            return weight, fixed
        case Image(width=width, height=height):
            return 0, image_tokens(width, height)
        case Opaque(raw):
            return _weigh_opaque(raw)
        case _:
            assert_never(part)


def _weigh_opaque(raw: Json) -> tuple[int, int]:
    """A block we do not read counts by its JSON, but base64 inside it as one image of unknown size."""
    data = _base64_in(raw) if isinstance(raw, dict) else None
    if data is None:
        return len(encode(raw)), 0
    return len(encode(raw)) - len(data), image_tokens(None, None)


def _base64_in(raw: dict[str, Json]) -> str | None:
    """The bytes of a document, a sound or a file where a provider's block carries them."""
    match raw:
        case {"source": {"type": "base64", "data": str(data)}}:
            return data
        case {"input_audio": {"data": str(data)}} | {"file": {"file_data": str(data)}}:
            return data
        case _:
            return None


def _images(parts: Iterable[Part]) -> Iterable[Image]:
    for part in parts:
        if isinstance(part, Image):
            yield part
        elif isinstance(part, ToolResult):
            yield from _images(part.content)


def _without_bytes(part: Part) -> Part:
    match part:
        case Image():
            return replace(part, data=None)
        case ToolResult(content=content) if any(isinstance(c, Image) for c in content):
            return replace(
                part,
                content=tuple(replace(c, data=None) if isinstance(c, Image) else c for c in content),
            )
        case _:
            return part
