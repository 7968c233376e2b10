"""OpenCode's messages and parts as drafts.

Only what has ended is a draft: a text that is being written has another one at the next reading. A part of an
unknown kind is an Opaque that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

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
    Text,
    ToolCall,
    ToolResult,
)
from lcm_mcp.values import frozen

_UNSTORED = frozenset(("step-start", "step-finish", "snapshot", "patch", "retry", "compaction"))
_WRITTEN = ("text", "reasoning")
_ENVELOPE = ("id", "type", "sessionID", "messageID", "text", "time")


@frozen
class Message:
    """A message's record and its parts; None is one that could not be read."""

    info: Block | None
    parts: Sequence[Block | None]

    @property
    def first(self) -> Block:
        """The part that it begins with."""
        found = [part for part in self.parts if part is not None]
        return found[0] if found else {}


def message_drafts(message: Message, place: str, before: str | None) -> list[Draft]:
    """A message's drafts; `place` names it where it has no id, `before` is the newest row before it."""
    info = message.info or {}
    name, at = text_of(info, "id") or place, read_instant(object_of(info, "time").get("created"))
    parts = [part for part in message.parts if part is not None and kind_of(part) not in _UNSTORED]
    if info.get("role") == "user":
        said = tuple(_part(part) for part in parts)
        return [Draft("user", said, name, name, at, prompt_under=before)] if said else []
    ended = "completed" in object_of(info, "time") or "error" in info
    active = info.get("summary") is not True
    drafts: list[Draft] = []
    for number, part in enumerate(parts):
        part_name = text_of(part, "id") or f"{name}/{number}"
        if kind_of(part) == "tool":
            drafts += _call_drafts(part, part_name, name, at, active)
        elif ended or kind_of(part) not in _WRITTEN or "end" in object_of(part, "time"):
            drafts.append(Draft("assistant", (_part(part),), part_name, name, at, active))
    error = object_of(info, "error")
    if error:
        drafts.append(
            Draft("assistant", (Opaque({"type": "error", **error}),), f"{name}/error", name, at, active)
        )
    return drafts


def started_session(part: Block) -> str | None:
    """The session that a call started as its subagent."""
    if kind_of(part) != "tool":
        return None
    told = object_of(object_of(part, "state"), "metadata")
    return text_of(told, "sessionId") or text_of(told, "sessionID")


def _call_drafts(part: Block, part_name: str, name: str, at: int | None, active: bool) -> list[Draft]:
    call_id, tool, state = text_of(part, "callID"), text_of(part, "tool"), object_of(part, "state")
    if call_id is None or tool is None:
        return [Draft("assistant", (Opaque(part),), part_name, name, at, active)]
    status = text_of(state, "status")
    if status == "pending":  # its arguments are still being written
        return []
    drafts = [Draft("assistant", (ToolCall(call_id, tool, state.get("input")),), part_name, name, at, active)]
    if status in ("completed", "error"):
        result = ToolResult(call_id, _answer(state, status), status == "error", {"name": tool})
        ended = read_instant(object_of(state, "time").get("end"))
        drafts.append(Draft("tool", (result,), f"{part_name}/result", at=ended, active=active))
    return drafts


def _answer(state: Block, status: str) -> tuple[ResultPart, ...]:
    said = state.get("error" if status == "error" else "output")
    pieces: list[Part] = [] if said is None else [Text(said) if isinstance(said, str) else Opaque(said)]
    pieces += [_part(part) for part in list_of(state, "attachments") if isinstance(part, dict)]
    return tuple(_piece(piece) for piece in pieces)


def _piece(part: Part) -> ResultPart:
    match part:
        case Text() | Image() | Opaque():
            return part
        case Reasoning(text=text):
            return Text(text)
        case ToolCall() | ToolResult():
            return Opaque(None)
        case _:
            assert_never(part)


def _part(part: Block) -> Part:
    kind, text = kind_of(part), part.get("text")
    if kind == "text" and isinstance(text, str):
        return Text(text, without(part, *_ENVELOPE))
    if kind == "reasoning" and isinstance(text, str):
        return Reasoning(text, without(part, *_ENVELOPE))
    if kind == "file":
        return _file(part)
    return Opaque(part)


def _file(part: Block) -> Part:
    """A picture by its content; any other file as it is told of."""
    url: Json = part.get("url")
    if isinstance(url, str) and url.startswith("data:image/"):
        read = parse_part(
            {"type": "input_image", "image_url": url, **without(part, *_ENVELOPE, "url", "mime")}
        )
        if isinstance(read, Image):
            return read
    return Opaque(part)
