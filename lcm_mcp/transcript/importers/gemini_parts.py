"""Gemini's messages and parts as drafts.

A message's text and thoughts, each call and each result are drafts of their own, so that what comes later
under the same id adds to what is there. A part of an unknown kind is an Opaque that holds it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from lcm_mcp.transcript.blocks import Block, parse_part
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.fields import kind_of, list_of, object_of, text_of, without
from lcm_mcp.transcript.model import (
    Draft,
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

_ENDED = ("success", "error", "cancelled")


def message_drafts(message: Block, name: str) -> list[Draft]:
    """A message's drafts under ids made of its own."""
    role: Role = "user" if kind_of(message) == "user" else "assistant"
    at = read_instant(message.get("timestamp"))
    calls = [call for call in list_of(message, "toolCalls") if isinstance(call, dict)]
    spoken = (*map(_thought, list_of(message, "thoughts")), *parts_of(message.get("content")))
    if calls and spoken == (Text(""),):
        spoken = ()
    drafts = [Draft(role, spoken, name, name, at)] if spoken or not calls else []
    asked, answered = list[Draft](), list[Draft]()
    for number, call in enumerate(calls):
        call_id = text_of(call, "id") or f"{name}/{number}"
        tool = text_of(call, "name")
        part = Opaque(call) if tool is None else ToolCall(call_id, tool, call.get("args"))
        asked.append(Draft("assistant", (part,), f"{name}/{call_id}", name, at))
        result = _result(call, call_id)
        if result is not None:
            ended = read_instant(call.get("timestamp"))
            answered.append(Draft("tool", (result,), f"{name}/{call_id}/result", at=ended))
    return [*drafts, *asked, *answered]


def saved_drafts(turns: list[Json]) -> list[Draft]:
    """The turns of a checkpoint; a call without an id is answered by the next result of its name."""
    open_calls: defaultdict[str, deque[str]] = defaultdict(deque)
    drafts: list[Draft] = []
    for place, turn in enumerate(turns, 1):
        content = turn if isinstance(turn, dict) else {}
        parts = [
            _saved_part(part, f"@{place}/{n}", open_calls) for n, part in enumerate(list_of(content, "parts"))
        ]
        answers = bool(parts) and all(isinstance(part, ToolResult) for part in parts)
        role: Role = "assistant" if content.get("role") == "model" else "tool" if answers else "user"
        drafts.append(Draft(role, tuple(parts) if content else (Opaque(turn),), f"@{place}"))
    return drafts


def parts_of(content: Json) -> tuple[Part, ...]:
    """A message's content: a text, a part, or a list of them."""
    if content is None:
        return ()
    return tuple(_part(part) for part in (content if isinstance(content, list) else [content]))


def _part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        return Opaque(part)
    text, data = part.get("text"), object_of(part, "inlineData")
    if isinstance(text, str):
        extra = without(part, "text", "thought")
        return Reasoning(text, extra) if part.get("thought") is True else Text(text, extra)
    if data:
        read = parse_part({"type": "image", "mimeType": data.get("mimeType"), "data": data.get("data")})
        if isinstance(read, Image) and read.media_type.startswith("image/"):
            return read
    return Opaque(part)


def _saved_part(part: Json, name: str, open_calls: defaultdict[str, deque[str]]) -> Part:
    value = part if isinstance(part, dict) else {}
    call, answer = object_of(value, "functionCall"), object_of(value, "functionResponse")
    tool = text_of(call or answer, "name")
    if tool is None:
        return _part(part)
    extra = without(value, "functionCall", "functionResponse")
    if call:
        call_id = text_of(call, "id") or name
        open_calls[tool].append(call_id)
        return ToolCall(call_id, tool, call.get("args"), extra)
    waiting = open_calls[tool]
    call_id = text_of(answer, "id") or (waiting[0] if waiting else name)
    if call_id in waiting:
        waiting.remove(call_id)
    response = answer.get("response")
    return ToolResult(call_id, _answer(response), _failed(response), {**extra, "name": tool})


def _thought(thought: Json) -> Part:
    value: dict[str, Any] = thought if isinstance(thought, dict) else {}
    texts = [text for field in ("subject", "description") if (text := text_of(value, field))]
    return Reasoning("\n".join(texts)) if texts else Opaque(thought)


def _result(call: Block, call_id: str) -> ToolResult | None:
    """What a call came to; None while it has not ended."""
    status, result = text_of(call, "status"), call.get("result")
    failed = status in ("error", "cancelled")
    if result is not None:
        pieces = [
            piece for part in (result if isinstance(result, list) else [result]) for piece in _pieces(part)
        ]
        return ToolResult(call_id, tuple(pieces), failed)
    shown = call.get("resultDisplay")
    if status not in _ENDED:
        return None
    return ToolResult(
        call_id, () if shown is None else (Text(shown) if isinstance(shown, str) else Opaque(shown),), failed
    )


def _pieces(part: Json) -> tuple[ResultPart, ...]:
    response = object_of(part, "functionResponse") if isinstance(part, dict) else {}
    if response:
        return _answer(response.get("response"))
    read = _part(part)
    return (read if isinstance(read, (Text, Image, Opaque)) else Opaque(part),)


def _answer(response: Json) -> tuple[ResultPart, ...]:
    """A tool's answer: its text where it has but one."""
    if isinstance(response, dict) and len(response) == 1:
        value = next(iter(response.values()))
        if isinstance(value, str):
            return (Text(value),)
    return () if response is None else (Text(response) if isinstance(response, str) else Opaque(response),)


def _failed(response: Json) -> bool:
    return isinstance(response, dict) and "error" in response
