"""OpenAI's chat completions: calls beside the content, one tool message a result, system messages.

A single text is sent as a string, which every compatible server takes; several stay separate content
parts. Arguments are always a JSON object written as a string. Pictures can stand in user messages only,
and reasoning nowhere: there they become metadata or are left out, and are counted. Not for the
Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from lcm_mcp.projection.labels import (
    TOOL_FAILED,
    arguments_object,
    arguments_text,
    image_label,
    json_text,
    opaque_label,
    spelled,
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

_NAME_CHARACTERS = 64
_CALLS = ("function", "custom")
_USER_PARTS = frozenset({"input_audio", "file", "image_url"})


def _show(part: Part, speaker: Role) -> Shown:
    match part:
        case Text(text):
            return Shown({"type": "text", "text": text} if text else None)
        case Reasoning():
            return Shown(None, Notes(reasoning_left_out=1))
        case ToolCall():
            return Shown(_call(part))
        case ToolResult():
            return _result(part)
        case Image():
            return _image(part, native=speaker == "user")
        case Opaque():
            return _opaque(part, native=speaker == "user")
        case _:
            assert_never(part)


def _opaque(opaque: Opaque, *, native: bool) -> Shown:
    """Audio, files and linked pictures go back as they came; they stand in user messages only."""
    raw = opaque.raw
    if (
        native
        and isinstance(raw, dict)
        and opaque.kind in _USER_PARTS
        and isinstance(raw.get(opaque.kind), dict)
    ):
        return Shown(raw)
    return Shown({"type": "text", "text": opaque_label(opaque)}, Notes(opaque_left_out=1))


def _call(call: ToolCall) -> Block:
    name = spelled(call.name)[:_NAME_CHARACTERS] or "tool"
    if call.extra.get("type") == "custom" and isinstance(call.arguments, str):
        return {"id": call.call_id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
    arguments = json_text(arguments_object(call.arguments))
    return {"id": call.call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(result: ToolResult) -> Shown:
    shown = [_result_part(part) for part in result.content]
    texts = [TOOL_FAILED] if result.is_error else []
    texts += [arguments_text(piece.block["text"]) for piece in shown if piece.block is not None]
    block: Block = {"tool_call_id": result.call_id, "content": "\n".join(texts)}
    return Shown(block, sum((piece.notes for piece in shown), Notes()))


def _result_part(part: ResultPart) -> Shown:
    match part:
        case Text() | Opaque():
            return _show(part, "tool")
        case Image():
            return _image(part, native=False)
        case _:
            assert_never(part)


def _image(image: Image, *, native: bool) -> Shown:
    data = base64_of(image) if native else None
    if data is None:
        return Shown({"type": "text", "text": image_label(image)}, Notes(images_as_metadata=1))
    return Shown({"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}})


def _write(role: str, blocks: Sequence[Block]) -> Block:
    if role == "tool":
        return {"role": role, **blocks[0]}
    said: list[Json] = [block for block in blocks if block["type"] not in _CALLS]
    calls: list[Json] = [block for block in blocks if block["type"] in _CALLS]
    match said:
        case []:
            content: Json = None
        case [{"type": "text", "text": text}]:
            content = text
        case _:
            content = said
    body: Block = {"role": role, "content": content}
    return {**body, "tool_calls": calls} if calls else body


_ROLES: Mapping[Role, str] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}

DIALECT = Dialect(_ROLES, IdRule("group"), _show, _write, apart=frozenset({"tool"}))
