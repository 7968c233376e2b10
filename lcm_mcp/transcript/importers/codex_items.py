"""The items of Codex rollouts as drafts: messages, reasoning, calls and their outputs.

They are items of OpenAI's Responses API. Encrypted reasoning is kept as it is, without a text. What is of an
unknown kind, or not shaped as its kind should be, is one Opaque.
"""

from __future__ import annotations

import json
from typing import cast

from lcm_mcp.transcript.blocks import Block, parse_content, parse_part, parse_result_content, too_deep
from lcm_mcp.transcript.importers.fields import kind_of, list_of, text_of, without
from lcm_mcp.transcript.model import Draft, Json, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

UNSTORED = frozenset(("ghost_snapshot", "compaction_trigger"))
"""Notes of the client among the items."""
KINDS = frozenset(
    (
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
    )
)
"""Kinds that old rollouts have as lines of their own."""
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
# What the client puts into user messages by itself, by how it begins.
_MACHINE_TEXT = ("<", "# AGENTS.md instructions")


def item_draft(item: Block) -> Draft:
    """An item as a draft without an identity."""
    kind = kind_of(item)
    if kind == "message":
        role = _ROLES.get(text_of(item, "role") or "", "assistant")
        extra = without(item, "type", "role", "content")
        parts = parse_content(item.get("content"))
        # Whatever else it says (its phase) goes to its last text.
        match parts:
            case (*others, Text(text, known)) if extra:
                parts = (*others, Text(text, {**known, **extra}))
            case _:
                pass
        return Draft(role, parts)
    if kind in ("compaction", "compaction_summary"):
        return Draft("assistant", (Opaque(item),), active=False)
    role = "tool" if kind.endswith("_output") else "assistant"
    return Draft(role, (_part(kind, item) or Opaque(item),))


def prompt_of(item: Block) -> str | None:
    """What a person wrote in an item, None where it is no such message."""
    if kind_of(item) != "message" or item.get("role") != "user":
        return None
    parts = parse_content(item.get("content"))
    if not parts or (isinstance(parts[0], Text) and parts[0].text.lstrip().startswith(_MACHINE_TEXT)):
        return None
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def prompt_draft(note: Block) -> Draft:
    """A prompt that is told by a note of the screen alone."""
    images = [parse_part({"type": "input_image", "image_url": url}) for url in list_of(note, "images")]
    return Draft("user", (Text(text_of(note, "message") or ""), *images))


def compacted_draft(record: Block) -> Draft:
    """A compaction's text, and what of it is encrypted; the rows that it keeps are there already."""
    text = text_of(record, "message")
    parts: list[Part] = [] if text is None else [Text(text)]
    parts += [
        Opaque(item)
        for item in list_of(record, "replacement_history")
        if isinstance(item, dict) and kind_of(item).startswith("compaction")
    ]
    return Draft("user", tuple(parts), active=False)


def _part(kind: str, item: Block) -> Part | None:
    match kind:
        case "reasoning":
            return _reasoning(item)
        case "function_call":
            return _call(item, _arguments(item.get("arguments")), "arguments")
        case "custom_tool_call":
            call = _call(item, item.get("input"), "input")
            return call and ToolCall(
                call.call_id, call.name, call.arguments, {**call.extra, "type": "custom"}
            )
        case "local_shell_call":
            named: Block = {**item, "name": "local_shell", "call_id": item.get("call_id") or item.get("id")}
            return _call(named, item.get("action"), "action")
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            return _result(item)
        case "image_generation_call":
            return _picture(item)
        case _:
            return None


def _reasoning(item: Block) -> Reasoning:
    """Its text where it has one, else the summary of it; what of it is encrypted goes along."""
    said, told = _texts(list_of(item, "content")), _texts(list_of(item, "summary"))
    extra = without(item, "type", "content", "summary")
    if said and told:
        extra["summary"] = told
    return Reasoning(said or told, extra)


def _texts(blocks: list[Json]) -> str:
    found = (text_of(block, "text") for block in blocks if isinstance(block, dict))
    return "\n\n".join(text for text in found if text)


def _call(item: Block, arguments: Json, field: str) -> ToolCall | None:
    call_id, name = text_of(item, "call_id"), text_of(item, "name")
    if call_id is None or name is None or field not in item:
        return None
    return ToolCall(call_id, name, arguments, without(item, "type", "call_id", "name", field))


def _arguments(text: Json) -> Json:
    """The object that a call's text holds, or the text itself."""
    if not isinstance(text, str):
        return text
    try:
        value = cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and not too_deep(value) else text


def _result(item: Block) -> ToolResult | None:
    """An output: a text, parts, or an object that holds them beside what it says of the run."""
    call_id, output = text_of(item, "call_id"), item.get("output")
    if call_id is None:
        return None
    extra = without(item, "type", "call_id", "output")
    is_error = False
    if isinstance(output, dict):
        field = next((name for name in ("content", "output", "body") if name in output), None)
        if field is not None:
            extra |= without(output, field, "success")
            is_error = output.get("success") is False
            output = output[field]
    return ToolResult(call_id, parse_result_content(output), is_error, extra)


def _picture(item: Block) -> Part | None:
    """A picture that the model made, with what it was asked for."""
    extra = without(item, "type", "result")
    part = parse_part({"type": "image", "media_type": "image/png", "data": item.get("result"), **extra})
    return None if isinstance(part, Opaque) else part
