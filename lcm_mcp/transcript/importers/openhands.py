"""OpenHands events as JSON lines: what the agent was told, did and saw is a draft each, by its event's id.

Actions of one answer of the model share its id. What a condenser wrote is kept off the path, and what it
forgot stays. Events about state, figures and pauses are counted and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lcm_mcp.transcript.blocks import Block, parse_content, parse_part, parse_result_content, parse_tool_call
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.fields import (
    first_text,
    follow_lines,
    list_of,
    object_of,
    plain_text,
    text_of,
    without,
)
from lcm_mcp.transcript.importers.jsonl import Object, Readable
from lcm_mcp.transcript.importers.messages import message_draft, session_of
from lcm_mcp.transcript.importers.report import (
    FROM_START,
    Entry,
    Event,
    Mark,
    Other,
    Resume,
    without_marks,
)
from lcm_mcp.transcript.model import Draft, Json, Opaque, Part, Reasoning, Text, ToolCall, ToolResult


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a file of events as one session, known by its path where the caller names none. Raises OSError."""
    with path.open("rb") as file:
        yield from without_marks(follow(path, file, session_key))


def follow(
    path: Path, file: Readable, session_key: str | None = None, resume: Resume = FROM_START
) -> Iterator[Event | Mark]:
    """The same of an open file from where it was left, with a Mark after each line."""
    yield from follow_lines(_Reading(path, session_key), file, resume.place)


def is_line(value: Block) -> bool:
    """Whether an object can only be an event."""
    kind = text_of(value, "kind") or ""
    return (
        kind.endswith(("Event", "Observation", "Condensation")) and "source" in value and "timestamp" in value
    )


@dataclass(slots=True)
class _Reading:
    """What is remembered: whether the session was spoken of."""

    path: Path
    wanted_key: str | None
    named: bool = False

    def memory(self) -> dict[str, Json]:
        return {"read": True}  # nothing of earlier lines is needed

    def events(self, found: Object) -> Iterator[Event]:
        draft = _draft(found.value)
        if draft is None:
            yield Other(text_of(found.value, "kind") or "unknown", found.line)
            return
        session = session_of(self.path, self.wanted_key, None)
        if not self.named:
            self.named = True
            yield session_of(self.path, self.wanted_key, first_text(self.path, _said))
        ordinal = None if text_of(found.value, "id") else found.line
        yield Entry(session.key, draft, found.line, ordinal)


def _said(value: Block) -> str | None:
    """What a person wrote in this event."""
    if text_of(value, "kind") != "MessageEvent" or value.get("source") != "user":
        return None
    draft = _draft(value)
    return None if draft is None else plain_text(draft.parts)


def _draft(value: Block) -> Draft | None:
    """The row that an event is, None for one that is no part of the conversation."""
    entry_id, at = text_of(value, "id"), read_instant(value.get("timestamp"))
    match text_of(value, "kind"):
        case "SystemPromptEvent":
            return Draft("system", _content([value.get("system_prompt")]), entry_id, at=at)
        case "MessageEvent":
            return _message(value, entry_id, at)
        case "ActionEvent":
            said = _thoughts(value) + _content(list_of(value, "thought")) + (_call(value),)
            return Draft("assistant", said, entry_id, text_of(value, "llm_response_id"), at)
        case "ObservationEvent" | "UserRejectObservation" | "AgentErrorEvent":
            return Draft("tool", (_result(value),), entry_id, at=at)
        case "CondensationSummaryEvent" | "Condensation" if text_of(value, "summary") is not None:
            return Draft("user", (Text(text_of(value, "summary") or ""),), entry_id, at=at, active=False)
        case _:
            return None


def _message(value: Block, entry_id: str | None, at: int | None) -> Draft:
    told = object_of(value, "llm_message")
    draft = message_draft({"role": told.get("role"), "content": ""})
    role = draft.role if isinstance(draft, Draft) else "user"
    calls = tuple(parse_tool_call(call) for call in list_of(told, "tool_calls"))
    content = told.get("content")
    said = _content(content) if isinstance(content, list) else parse_content(content)
    parts = _thoughts(told) + said + _content(list_of(value, "extended_content")) + calls
    return Draft(role, parts, entry_id, text_of(value, "llm_response_id"), at)


def _thoughts(value: Block) -> tuple[Part, ...]:
    if blocks := list_of(value, "thinking_blocks"):
        return tuple(parse_part(block) for block in blocks)
    text = text_of(value, "reasoning_content")
    return () if text is None else (Reasoning(text),)


def _content(blocks: list[Json]) -> tuple[Part, ...]:
    return tuple(parse_part(_plain(block)) for block in blocks if block is not None)


def _plain(block: Json) -> Json:
    """A block without the client's mark for caching."""
    return without(block, "cache_prompt") if isinstance(block, dict) else block


def _call(value: Block) -> ToolCall | Opaque:
    call = object_of(value, "tool_call")
    call_id = text_of(value, "tool_call_id") or text_of(call, "id") or text_of(value, "id") or ""
    name = text_of(call, "name") or text_of(value, "tool_name") or "unknown"
    arguments = call.get("arguments")
    if not isinstance(arguments, str):
        return ToolCall(call_id, name, value.get("action") if arguments is None else arguments)
    return parse_tool_call({"id": call_id, "function": {"name": name, "arguments": arguments}})


def _result(value: Block) -> ToolResult:
    """What a tool answered, or what became of the call instead; an observation without content whole."""
    call_id = text_of(value, "tool_call_id") or text_of(value, "action_id") or ""
    failed = text_of(value, "error") or text_of(value, "rejection_reason")
    if failed is not None:
        return ToolResult(call_id, (Text(failed),), is_error=True)
    seen = object_of(value, "observation")
    content = seen.get("content", seen.get("output"))
    if not content:
        return ToolResult(call_id, (Opaque(seen),), seen.get("is_error") is True)
    blocks = [_plain(block) for block in content] if isinstance(content, list) else content
    return ToolResult(call_id, parse_result_content(blocks), seen.get("is_error") is True)
