"""ChatGPT exports: conversations.json, one of its numbered parts, a single conversation, or the archive.

A conversation is a tree of messages. All of them are stored, each under the nearest one above it that says
anything; the path to current_node is the conversation, the other branches are removed ones. Times that
are missing are those of the message above. A message to a tool is a call, what the tool says is its answer,
though the export names no calls. Empty messages are counted and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lcm_mcp.transcript.blocks import Block, parse_tool_call
from lcm_mcp.transcript.importers.exports import conversations, is_export
from lcm_mcp.transcript.importers.fields import list_of, object_of, text_of, title_of, without
from lcm_mcp.transcript.importers.messages import instant
from lcm_mcp.transcript.importers.report import Entry, Event, Other, SessionFound, Tip
from lcm_mcp.transcript.model import (
    BEGINNING,
    Draft,
    Json,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolResult,
)

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}
_EVERYONE = ("", "all")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read an export as events, a conversation at a time; `session_key` names the session of a single one.

    Lines are the messages, counted through. Raises OSError.
    """
    return conversations(path, session_key, is_conversation, _begun)


def is_document(sample: Block) -> bool:
    """Whether a document is of this kind."""
    return is_export(sample, is_conversation)


def is_conversation(value: Block) -> bool:
    return isinstance(value.get("mapping"), dict) and ("title" in value or "current_node" in value)


def _begun(value: Block, wanted: str | None, otherwise: str, line: int) -> _Conversation:
    return _Conversation(
        value, wanted or text_of(value, "conversation_id") or text_of(value, "id") or otherwise, line
    )


@dataclass(slots=True)
class _Node:
    """A message that is looked at: what it hangs under of what is stored, and when that was written."""

    name: str
    under: str | None
    at: int | None


@dataclass(slots=True)
class _Conversation:
    """A conversation being read; calls has the call that a message makes, or that it answers."""

    value: Block
    key: str
    line: int
    calls: dict[str, str] = field(default_factory=dict[str, str])

    def events(self) -> Iterator[Event]:
        title = title_of(text_of(self.value, "title"))
        yield SessionFound(self.key, title, None)
        mapping = object_of(self.value, "mapping")
        tip, began = text_of(self.value, "current_node"), instant(self.value.get("create_time"))
        active, nearest = _path_to(mapping, tip), None
        above: dict[str, _Node] = {}
        for name, parent in _in_order(mapping, active):
            up = above.get(parent or "")
            node = _Node(name, up.under if up else None, up.at if up else began)
            yield from self._message(object_of(object_of(mapping, name), "message"), node)
            above[name] = node
            if name in active and node.under is not None:
                nearest = node.under
        if nearest is not None:
            yield Tip(self.key, nearest)

    def _message(self, message: Block, node: _Node) -> Iterator[Event]:
        """A node's message, after which the node stands for it; one that says nothing is only counted."""
        if not message:
            return
        self.line += 1
        author = object_of(message, "author")
        role = _ROLES.get(text_of(author, "role") or "")
        parts = _parts(object_of(message, "content"))
        if role is None or not parts:
            yield Other("empty message" if not parts else f"{text_of(author, 'role')} message", self.line)
            return
        entry_id = text_of(message, "id") or node.name
        node.at = instant(message.get("create_time")) or node.at
        if role == "tool":
            parts = (self._answer(text_of(author, "name") or "tool", entry_id, node.under, parts),)
        recipient = text_of(message, "recipient") or ""
        if role == "assistant" and recipient not in _EVERYONE:
            parts = _called(entry_id, recipient, parts)
            self.calls[entry_id] = entry_id
        yield Entry(
            self.key,
            Draft(role, parts, entry_id, at=node.at, parent=node.under or BEGINNING),
            self.line,
        )
        node.under = entry_id

    def _answer(self, tool: str, entry_id: str, under: str | None, parts: tuple[Part, ...]) -> ToolResult:
        """What a tool says answers the message to it that stands above; one answer follows another."""
        call = self.calls.get(under or "", entry_id)
        if under in self.calls:
            self.calls[entry_id] = call
        content = tuple(
            Text(part.text, part.extra) if isinstance(part, Reasoning) else part
            for part in parts
            if isinstance(part, (Text, Opaque, Reasoning))
        )
        return ToolResult(call, content, extra={"name": tool})


def _called(entry_id: str, recipient: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """A message to a tool as a call, whose arguments are the text that was sent."""
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    call = parse_tool_call({"id": entry_id, "function": {"name": recipient, "arguments": text}})
    return (*(part for part in parts if not isinstance(part, Text)), call)


def _path_to(mapping: Block, tip: str | None) -> set[str]:
    """The nodes from the root to a node, which a damaged export may lead round in a circle."""
    found: set[str] = set()
    while tip is not None and tip in mapping and tip not in found:
        found.add(tip)
        tip = text_of(object_of(mapping, tip), "parent")
    return found


def _in_order(mapping: Block, active: set[str]) -> Iterator[tuple[str, str | None]]:
    """Every node after the one above it, what is active last; those in no tree come as they stand."""
    below: dict[str | None, list[str]] = {}
    for name in mapping:
        parent = text_of(object_of(mapping, name), "parent")
        below.setdefault(parent if parent in mapping else None, []).append(name)
    seen: set[str] = set()
    for root in (*sorted(below.get(None, []), key=active.__contains__), *mapping):
        waiting: list[tuple[str, str | None]] = [(root, None)]
        while waiting:
            name, parent = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            yield name, parent
            # The last one put is the first one taken: what is active is put first.
            children = sorted(reversed(below.get(name, [])), key=lambda each: each not in active)
            waiting += [(child, name) for child in children]


def _parts(content: Block) -> tuple[Part, ...]:
    """A message's content by its content_type; none where it says nothing."""
    kind = text_of(content, "content_type")
    match kind:
        case "text" | "multimodal_text":
            found = (_piece(piece) for piece in list_of(content, "parts"))
            return tuple(part for part in found if part is not None)
        case "thoughts":
            return tuple(_thought(each) for each in list_of(content, "thoughts"))
        case "reasoning_recap":
            return (Reasoning(text_of(content, "content") or ""),) if text_of(content, "content") else ()
        case _:
            return _other(content)


def _piece(piece: Json) -> Part | None:
    if isinstance(piece, str):
        return Text(piece) if piece else None
    if isinstance(piece, dict) and text_of(piece, "text") is not None:  # a voice message, as it was heard
        return Text(text_of(piece, "text") or "", without(piece, "text"))
    return Opaque(piece)


def _thought(thought: Json) -> Part:
    if not isinstance(thought, dict):
        return Opaque(thought)
    said = (text_of(thought, name) for name in ("summary", "content"))
    return Reasoning("\n".join(text for text in said if text))


def _other(content: Block) -> tuple[Part, ...]:
    """Code, what a tool printed, a page: text with what is said beside it; else all as it is."""
    for name in ("text", "result"):
        text = content.get(name)
        if isinstance(text, str):
            return (Text(text, without(content, name)),) if text else ()
    return (Opaque(content),) if without(content, "content_type", "parts") else ()
