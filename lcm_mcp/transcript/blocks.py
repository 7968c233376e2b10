"""Message content of every provider, read once into parts, and parts written as neutral JSON.

Anthropic blocks, OpenAI content parts and our own neutral parts share one reader: a block's type
names its reader, and a block no reader understands is an Opaque that holds it verbatim. So reading
never raises and never drops; reading what `part_to_json` wrote gives the part back. Fields a known
block has beyond ours stay in its `extra`. Pictures are sized by their header and never decoded,
linked ones are never fetched. Wire formats, which turn parts back into a provider's blocks, are
not here.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable
from typing import assert_never, cast

from lcm_mcp.transcript.model import (
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Reasoning,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)

MAX_DEPTH = 200
"""Containers inside one another; deeper JSON is refused, since later serialisers stop at 254."""
MAX_SIDE_PIXELS = 65_535
"""A header that claims a longer side is not believed: one such image would outweigh any window."""

Block = dict[str, Json]

_DATA_URL = re.compile(r"data:([^,;]*)(?:;[^,;]*)*;base64,", re.ASCII | re.IGNORECASE)
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_LONG_ZERO = b"0" * 19
_DIGITS_AS_ZERO = bytes(ord("0") if ord("0") <= byte <= ord("9") else 0 for byte in range(256))
_USUAL_BYTES = 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def parse_content(content: Json) -> tuple[Part, ...]:
    """Read a message's content: a string, a list of blocks and strings, or None for nothing.

    Any other value becomes one Opaque. An empty string is an empty Text, so that a row that says
    nothing is told from one that has no parts.
    """
    match content:
        case None:
            return ()
        case str():
            return (Text(content),)
        case list():
            return tuple(map(parse_part, content))
        case _:
            return (Opaque(content),)


def parse_part(block: Json) -> Part:
    """Read one block of a content list, whatever its provider; what is not understood is Opaque."""
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return Opaque(block)
    kind = block.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    part = None if reader is None else reader(block)
    return Opaque(block) if part is None else part


def parse_result_content(content: Json) -> tuple[ResultPart, ...]:
    """Read what a tool answered. Parts that a result cannot hold (calls, reasoning) stay Opaque."""
    if not isinstance(content, list):
        content = [] if content is None else [content]
    return tuple(map(_result_part, content))


def parse_tool_call(call: Json) -> ToolCall | Opaque:
    """Read an item of an OpenAI message's `tool_calls`; its arguments are text that holds JSON."""
    if not isinstance(call, dict):
        return Opaque(call)
    kind = call.get("type", "function")
    body = call.get(kind) if isinstance(kind, str) else None
    call_id = call.get("id")
    if not isinstance(body, dict) or not isinstance(call_id, str):
        return Opaque(call)
    name, arguments = body.get("name"), body.get("input" if kind == "custom" else "arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        return Opaque(call)
    extra = _rest(call, "id", "type", "function", "custom")
    if kind == "custom":  # free text by definition: never parsed, and marked so that it goes back as such
        return ToolCall(call_id, name, arguments, {**extra, "type": "custom"})
    return ToolCall(call_id, name, _arguments(arguments), extra)


def image_from_bytes(media_type: str, data: bytes, extra: JsonObject | None = None) -> Image:
    """Describe an image by its raw bytes (never base64). Sides are None where the header tells none."""
    import imagesize  # pyright: ignore[reportMissingTypeStubs]  (it ships none; it loads an XML parser)

    # Unreadable headers come back as -1, never as an exception.
    width, height = imagesize.get(io.BytesIO(data))  # pyright: ignore[reportUnknownMemberType]
    return Image(
        media_type=media_type,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        width=_side(width),
        height=_side(height),
        data=data,
        extra=extra or {},
    )


def part_to_json(part: Part) -> Block:
    """Write a part in the neutral form, such that parse_part gives an equal part back.

    An image is written with base64 `data` where its bytes are loaded, else as metadata alone.
    """
    match part:
        case Text():
            return _with_extra({"type": "text", "text": part.text}, part.extra)
        case Reasoning():
            return _with_extra({"type": "reasoning", "text": part.text}, part.extra)
        case ToolCall():
            named: Block = {"type": "tool_call", "call_id": part.call_id, "name": part.name}
            named["arguments"] = part.arguments
            return _with_extra(named, part.extra)
        case ToolResult():
            parts: list[Json] = [part_to_json(piece) for piece in part.content]
            result: Block = {"type": "tool_result", "call_id": part.call_id, "content": parts}
            return _with_extra({**result, "is_error": True} if part.is_error else result, part.extra)
        case Image():
            return _image_to_json(part)
        case Opaque(raw):
            return raw if isinstance(raw, dict) and _stays_opaque(raw) else {"type": "opaque", "raw": raw}
        case _:
            assert_never(part)


def too_deep(value: Json) -> bool:
    """Whether containers nest more than MAX_DEPTH deep. Goes level by level, so never recurses."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
            if isinstance(member, (dict, list))
        ]
        if not level:
            return False
    return True


def has_long_number(content: bytes) -> bool:
    """Whether 19 digits stand together: orjson makes a float of an integer beyond 64 bits."""
    if len(content) > _USUAL_BYTES:
        return _LONG_NUMBER.search(content) is not None
    return _LONG_ZERO in content.translate(_DIGITS_AS_ZERO)  # many times faster, but it copies


def _result_part(block: Json) -> ResultPart:
    part = parse_part(block)
    return part if isinstance(part, (Text, Image, Opaque)) else Opaque(block)


def _stays_opaque(raw: Block) -> bool:
    # By identity, not equality: {"type": "opaque"} blocks unwrap to something else that may be equal.
    part = parse_part(raw)
    return isinstance(part, Opaque) and part.raw is raw


def _rest(block: Block, *known: str) -> Block:
    """The block's other fields; our own `extra` object, standing alone, is taken for its content."""
    rest = {key: value for key, value in block.items() if key not in known}
    if not rest:
        return rest
    inner = rest.get("extra")
    return inner if isinstance(inner, dict) and len(rest) == 1 else rest


def _with_extra(block: Block, extra: JsonObject) -> Block:
    return {**block, "extra": dict(extra)} if extra else block


def _arguments(text: str) -> Json:
    """The object that an OpenAI arguments string holds, or the string itself."""
    try:
        value = cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and not too_deep(value) else text


def _read_text(block: Block) -> Text | None:
    text = block.get("text")
    return Text(text, _rest(block, "type", "text")) if isinstance(text, str) else None


def _read_thinking(block: Block) -> Reasoning | None:
    text = block.get("thinking")
    # An empty text with `data` means redacted thinking; a thinking block must not be taken for one.
    if not isinstance(text, str) or (text == "" and "data" in block):
        return None
    return Reasoning(text, _rest(block, "type", "thinking"))


def _read_redacted(block: Block) -> Reasoning | None:
    """Encrypted reasoning: no text, `data` in extra, which is how a wire format tells it."""
    return Reasoning("", _rest(block, "type")) if isinstance(block.get("data"), str) else None


def _read_reasoning(block: Block) -> Reasoning | None:
    text = block.get("text")
    return Reasoning(text, _rest(block, "type", "text")) if isinstance(text, str) else None


def _read_call(block: Block) -> ToolCall | None:
    """Anthropic's tool_use and our tool_call, which differ in names only."""
    id_key = "call_id" if "call_id" in block else "id"
    arguments_key = "arguments" if "arguments" in block else "input"
    call_id, name = block.get(id_key), block.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str) or arguments_key not in block:
        return None
    return ToolCall(call_id, name, block[arguments_key], _rest(block, "type", id_key, "name", arguments_key))


def _read_result(block: Block) -> ToolResult | None:
    id_key = next((key for key in ("call_id", "tool_use_id", "tool_call_id") if key in block), "call_id")
    call_id, is_error = block.get(id_key), block.get("is_error")
    if not isinstance(call_id, str):
        return None
    known = ["type", id_key, "content"]
    if is_error is None or isinstance(is_error, bool):
        known.append("is_error")
    content = parse_result_content(block.get("content"))
    return ToolResult(call_id, content, is_error is True, _rest(block, *known))


def _read_image(block: Block) -> Image | None:
    """Anthropic's image with a base64 source, MCP's with mimeType, or ours with data or without."""
    source = block.get("source")
    if isinstance(source, dict):
        if source.get("type") != "base64" or len(source) != 3:
            return None
        return _loaded(source.get("media_type"), source.get("data"), _rest(block, "type", "source"))
    media_key = "mimeType" if "mimeType" in block else "media_type"
    if block.get("data") is None:
        return _unloaded(block)
    extra = _rest(block, "type", media_key, "sha256", "size_bytes", "width", "height", "data")
    return _loaded(block.get(media_key), block["data"], extra)


def _read_image_url(block: Block) -> Image | None:
    """OpenAI's image_url (an object) and input_image (a string); only data: URLs hold an image."""
    link = block.get("image_url")
    details = {key: value for key, value in link.items() if key != "url"} if isinstance(link, dict) else {}
    url = link.get("url") if isinstance(link, dict) else link
    found = _DATA_URL.match(url) if isinstance(url, str) else None
    if not isinstance(url, str) or found is None:
        return None
    return _loaded(found[1], url[found.end() :], {**_rest(block, "type", "image_url"), **details})


def _read_opaque(block: Block) -> Opaque | None:
    return Opaque(block["raw"]) if set(block) == {"type", "raw"} else None


def _loaded(media_type: Json, data: Json, extra: Block) -> Image | None:
    if not isinstance(media_type, str) or not isinstance(data, str):
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return image_from_bytes(media_type, raw, extra) if raw else None


def _unloaded(block: Block) -> Image | None:
    """An image known by its metadata alone, as part_to_json writes it without bytes."""
    media_type, sha256, size = block.get("media_type"), block.get("sha256"), block.get("size_bytes")
    if not isinstance(media_type, str) or not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return None
    extra = _rest(block, "type", "media_type", "sha256", "size_bytes", "width", "height", "data")
    return Image(media_type, sha256, size, _side(block.get("width")), _side(block.get("height")), None, extra)


def _side(pixels: Json) -> int | None:
    if not isinstance(pixels, int) or isinstance(pixels, bool):
        return None
    return pixels if 0 < pixels <= MAX_SIDE_PIXELS else None


def _image_to_json(image: Image) -> Block:
    block: Block = {
        "type": "image",
        "media_type": image.media_type,
        "sha256": image.sha256,
        "size_bytes": image.size_bytes,
        "width": image.width,
        "height": image.height,
    }
    if image.data is not None:
        block["data"] = base64.b64encode(image.data).decode("ascii")
    return _with_extra(block, image.extra)


_READERS: dict[str, Callable[[Block], Part | None]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "reasoning": _read_reasoning,
    "tool_use": _read_call,
    "tool_call": _read_call,
    "tool_result": _read_result,
    "image": _read_image,
    "image_url": _read_image_url,
    "input_image": _read_image_url,
    "opaque": _read_opaque,
}
