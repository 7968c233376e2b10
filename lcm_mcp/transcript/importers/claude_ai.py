"""Claude.ai exports: conversations.json, a single conversation, or the whole archive.

A message is a row, but for what tools answered in the middle of it: answers are rows of their own, and what
the model said after them is another one. Where the export says what a message hangs under, an edited prompt
makes a branch. An attachment's text is kept with its name; of other files the export has only the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lcm_mcp.transcript.blocks import Block, parse_part
from lcm_mcp.transcript.importers.exports import conversations, is_export
from lcm_mcp.transcript.importers.fields import list_of, text_of, title_of, without
from lcm_mcp.transcript.importers.messages import instant
from lcm_mcp.transcript.importers.report import Entry, Event, Other, SessionFound, Tip, Trouble
from lcm_mcp.transcript.model import BEGINNING, Draft, Json, Opaque, Part, Role, Text, ToolCall, ToolResult

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}
_TIMING = ("start_timestamp", "stop_timestamp", "flags")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read an export as events, a conversation at a time; `session_key` names the session of a single one.

    Lines are the messages, counted through. Raises OSError.
    """
    return conversations(path, session_key, is_conversation, _begun)


def is_document(sample: Block) -> bool:
    """Whether a document is of this kind."""
    return is_export(sample, is_conversation)


def is_conversation(value: Block) -> bool:
    return isinstance(value.get("chat_messages"), list)


def _begun(value: Block, wanted: str | None, otherwise: str, line: int) -> _Conversation:
    return _Conversation(value, wanted or text_of(value, "uuid") or otherwise, line)


@dataclass(slots=True)
class _Conversation:
    """A conversation being read; last_of is the last row of a message, which those under it follow."""

    value: Block
    key: str
    line: int
    at: int | None = None
    last: str | None = None
    last_of: dict[str, str] = field(default_factory=dict[str, str])

    def events(self) -> Iterator[Event]:
        self.at = instant(self.value.get("created_at"))
        yield SessionFound(self.key, title_of(text_of(self.value, "name")), None)
        for message in list_of(self.value, "chat_messages"):
            self.line += 1
            if not isinstance(message, dict):
                yield Trouble(self.line, "a message is no object")
                continue
            yield from self._message(message)
        tip = self.last_of.get(text_of(self.value, "current_leaf_message_uuid") or "")
        if tip is not None:
            yield Tip(self.key, tip)

    def _message(self, message: Block) -> Iterator[Event]:
        role = _ROLES.get(text_of(message, "sender") or "")
        uuid = text_of(message, "uuid") or f"@{self.line}"
        rows = _rows(role, _parts(message, uuid)) if role is not None else []
        if not rows:
            yield Other("empty message" if role is not None else "message of another sender", self.line)
            return
        parent = self._parent(message)
        self.at = instant(message.get("created_at")) or self.at
        for number, (speaker, parts) in enumerate(rows):
            entry_id = uuid if number == 0 else f"{uuid}#{number}"
            draft = Draft(speaker, parts, entry_id, at=self.at, parent=parent if number == 0 else self.last)
            yield Entry(self.key, draft, self.line)
            self.last = entry_id
        self.last_of[uuid] = self.last or uuid

    def _parent(self, message: Block) -> str | None:
        """The row that a message follows: of the message that it names, else the one before."""
        named = text_of(message, "parent_message_uuid")
        if named is None:
            return self.last
        return self.last_of.get(named, BEGINNING if self.last is None else self.last)


def _rows(role: Role, parts: Sequence[Part]) -> list[tuple[Role, tuple[Part, ...]]]:
    """A message's parts as rows: answers of tools apart from what the model said."""
    rows: list[tuple[Role, tuple[Part, ...]]] = []
    for part in parts:
        speaker: Role = "tool" if isinstance(part, ToolResult) else role
        if rows and rows[-1][0] == speaker:
            rows[-1] = speaker, (*rows[-1][1], part)
        else:
            rows.append((speaker, (part,)))
    return rows


def _parts(message: Block, uuid: str) -> list[Part]:
    """Content blocks, else the plain text, then what was attached."""
    parts: list[Part] = []
    open_call = ""
    for number, block in enumerate(list_of(message, "content")):
        part = _part(block, f"{uuid}:{number}", open_call)
        if isinstance(part, ToolCall):
            open_call = part.call_id
        if not (isinstance(part, Text) and not part.text):
            parts.append(part)
    text = text_of(message, "text")
    if not parts and text is not None:
        parts.append(Text(text))
    return [
        *parts,
        *map(_attachment, list_of(message, "attachments")),
        *map(_file, list_of(message, "files")),
    ]


def _part(block: Json, own_id: str, open_call: str) -> Part:
    """A block; exports leave out the ids of calls, so that an answer is to the last call before it."""
    if not isinstance(block, dict):
        return parse_part(block)
    said = without(block, *_TIMING)
    if said.get("type") == "tool_use":
        said.setdefault("id", own_id)
    if said.get("type") == "tool_result" and "tool_use_id" not in said:
        said["tool_use_id"] = open_call or own_id
    return parse_part(said)


def _attachment(attachment: Json) -> Part:
    text = text_of(attachment, "extracted_content") if isinstance(attachment, dict) else None
    if text is None or not isinstance(attachment, dict):
        return Opaque(attachment)
    return Text(text, without(attachment, "extracted_content"))


def _file(file: Json) -> Part:
    return Opaque({"type": "file", **file} if isinstance(file, dict) else file)
