"""Anthropic's Messages API: content is always a list of blocks, results stand in user messages.

The API refuses blank texts, repeated or oddly spelled tool ids, images outside user turns, a message
that ends in thinking, and blocks it does not know; each is prevented here, never left to fail. Signed
thinking goes back byte for byte; what has no signature is another provider's and is left out. Cache
breakpoints are not set here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from lcm_mcp.projection.labels import (
    NO_OUTPUT,
    NOTHING_MORE_SAID,
    arguments_object,
    image_label,
    opaque_label,
    spelled,
    system_label,
)
from lcm_mcp.projection.model import Notes
from lcm_mcp.projection.wire import Block, Dialect, IdRule, Shown, base64_of
from lcm_mcp.transcript.model import (
    Image,
    Json,
    Opaque,
    Part,
    Reasoning,
    ResultPart,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

# Which blocks that we do not interpret the API takes, and where. One it does not know fails the whole
# request, and transcripts hold other providers' blocks too; so unknown ones are named, not sent.
_USER_BLOCKS = frozenset({"document", "search_result", "image", "container_upload"})
_RESULT_BLOCKS = frozenset({"document", "search_result", "image", "tool_reference"})
_ASSISTANT_BLOCK = re.compile(r"compaction|\w+_tool_use|\w+_tool_result|server_tool_use", re.ASCII)
_NAME_CHARACTERS = 128
_THINKING = ("thinking", "redacted_thinking")


def _show(part: Part, speaker: Role) -> Shown:
    match part:
        case Text(text):
            return _text(system_label(text) if speaker == "system" and text.strip() else text)
        case Reasoning():
            return _thinking(part) if speaker == "assistant" else _LEFT_OUT
        case ToolCall(call_id, name, arguments):
            tool = spelled(name)[:_NAME_CHARACTERS] or "tool"
            return Shown(
                {"type": "tool_use", "id": call_id, "name": tool, "input": arguments_object(arguments)}
            )
        case ToolResult():
            return _result(part)
        case Image():
            return _image(part, native=speaker != "assistant")
        case Opaque():
            return _opaque(part, native=_takes(part, speaker))
        case _:
            assert_never(part)


def _text(text: str) -> Shown:
    return Shown({"type": "text", "text": text} if text.strip() else None)


def _thinking(part: Reasoning) -> Shown:
    signature, data = part.extra.get("signature"), part.extra.get("data")
    if isinstance(signature, str) and signature:
        return Shown({"type": "thinking", "thinking": part.text, "signature": signature})
    if isinstance(data, str) and not part.text:
        return Shown({"type": "redacted_thinking", "data": data})
    return _LEFT_OUT


def _result(result: ToolResult) -> Shown:
    shown = [_result_part(part) for part in result.content]
    content: list[Json] = [piece.block for piece in shown if piece.block is not None]
    block: Block = {"type": "tool_result", "tool_use_id": result.call_id}
    if result.is_error:
        # An error without content is refused, a success without content is not.
        block |= {"is_error": True, "content": content or [{"type": "text", "text": NO_OUTPUT}]}
    elif content:
        block["content"] = content
    return Shown(block, sum((piece.notes for piece in shown), Notes()))


def _result_part(part: ResultPart) -> Shown:
    match part:
        case Text(text):
            return _text(text)
        case Image():
            return _image(part, native=True)
        case Opaque(raw):
            return _opaque(part, native=isinstance(raw, dict) and part.kind in _RESULT_BLOCKS)
        case _:
            assert_never(part)


def _image(image: Image, *, native: bool) -> Shown:
    data = base64_of(image) if native else None
    if data is None:
        return Shown({"type": "text", "text": image_label(image)}, Notes(images_as_metadata=1))
    return Shown(
        {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}
    )


def _takes(opaque: Opaque, speaker: Role) -> bool:
    if not isinstance(opaque.raw, dict):
        return False
    if speaker == "assistant":
        return _ASSISTANT_BLOCK.fullmatch(opaque.kind) is not None
    return speaker != "system" and opaque.kind in _USER_BLOCKS


def _opaque(opaque: Opaque, *, native: bool) -> Shown:
    if native and isinstance(opaque.raw, dict):
        return Shown(opaque.raw)
    return Shown({"type": "text", "text": opaque_label(opaque)}, Notes(opaque_left_out=1))


def _write(role: str, blocks: Sequence[Block]) -> Block:
    content: list[Json] = [*blocks]
    if role == "assistant" and blocks[0].get("type") not in _THINKING:
        # Joined rows of several model messages may start otherwise; the API wants thinking first then.
        thinking = [block for block in blocks if block.get("type") in _THINKING]
        content = [*thinking, *(block for block in blocks if block.get("type") not in _THINKING)]
    elif blocks[-1].get("type") in _THINKING:
        content.append({"type": "text", "text": NOTHING_MORE_SAID})
    return {"role": role, "content": content}


_LEFT_OUT = Shown(None, Notes(reasoning_left_out=1))
_ROLES: Mapping[Role, str] = {"user": "user", "assistant": "assistant", "tool": "user", "system": "user"}

DIALECT = Dialect(_ROLES, IdRule("request", spelled), _show, _write)
