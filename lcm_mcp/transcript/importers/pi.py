"""Pi session files of all three versions: a line that carries a message is one draft, in the file's order.

From the second version on the lines are a tree: one that hangs elsewhere than under the one before it makes a
branch, and the branch that was written last is the active path, as in Pi. What an extension puts into the
context and what a left branch came to are messages like others; the text of a compaction, and commands that a
person kept from the model, are kept off the path. What else is noted (models, labels, an extension's own
state, a result's details) is not stored. The first version has no ids: an entry is known by its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lcm_mcp.transcript.blocks import Block, parse_content, parse_result_content
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.fields import (
    Remembering,
    first_objects,
    first_text,
    follow_lines,
    kind_of,
    list_of,
    object_of,
    place_name,
    text_of,
    title_of,
    without,
)
from lcm_mcp.transcript.importers.jsonl import Object, Readable
from lcm_mcp.transcript.importers.report import (
    FROM_START,
    Entry,
    Event,
    Mark,
    Other,
    Resume,
    SessionFound,
    without_marks,
)
from lcm_mcp.transcript.model import (
    BEGINNING,
    Draft,
    Json,
    Opaque,
    Part,
    Role,
    Text,
    ToolResult,
)

_REMEMBERED = frozenset(("key", "project", "named", "last", "beside"))
# What a message beyond the model's own is said by.
_SUMMARIES = {"branchSummary": "branch_summary", "compactionSummary": "compaction"}
_COMMAND_FIELDS = ("role", "command", "output", "content", "timestamp", "excludeFromContext")
_SPOKEN = ("message", "custom_message", "branch_summary", "compaction")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a session file as events, in bounded memory; `session_key` overrides its own. Raises OSError."""
    with open_transcript(path) as file:
        yield from without_marks(follow(path, file, session_key))


def follow(
    path: Path, file: Readable, session_key: str | None = None, resume: Resume = FROM_START
) -> Iterator[Event | Mark]:
    """The same of an open file from where it was left, with a Mark after each line."""
    reading = _Reading(path, session_key)
    reading.remember(resume.memory)
    return follow_lines(reading, file, resume.place)


def is_line(value: Block) -> bool:
    """Whether an object can only be a line of such a file: its header, a message or a compaction."""
    match kind_of(value):
        case "session":
            return "timestamp" in value and "cwd" in value and "id" in value
        case "message":
            return "role" not in value and "role" in object_of(value, "message")
        case "compaction":
            return "summary" in value and "tokensBefore" in value
        case _:
            return False


@dataclass(slots=True)
class _Reading(Remembering):
    """What has to be remembered of earlier lines.

    last is the newest row of the path; beside has, for lines that are no row of a path, the row above them.
    """

    remembered = _REMEMBERED

    path: Path
    wanted_key: str | None
    key: str | None = None
    project: str | None = None
    named: bool = False
    last: str | None = None
    beside: dict[str, str] = field(default_factory=dict[str, str])
    spoken: bool = False

    def events(self, found: Object) -> Iterator[Event]:
        value, kind = found.value, kind_of(found.value)
        if kind == "session" and self.key is None:
            self.key = self.wanted_key or text_of(value, "id")
            self.project = text_of(value, "cwd")
        if kind not in _SPOKEN:
            self._pass_by(value)
            yield Other(kind, found.line)
            return
        if not self.spoken:
            yield self._session()
        named = text_of(value, "id") or place_name(found)
        role, parts, active = _message(value, kind)
        message_at = object_of(value, "message").get("timestamp")
        draft = Draft(
            role=role,
            parts=parts,
            entry_id=named,
            at=read_instant(value.get("timestamp")) or read_instant(message_at),
            active=active,
            parent=self._parent(value),
        )
        if active:
            self.last = named
        else:
            self._pass_by(value)
        yield Entry(self.key or "", draft, found.line, None if text_of(value, "id") else found.line)

    def _session(self) -> SessionFound:
        self.key = self.key or self.wanted_key or self.path.stem
        self.spoken = True
        if self.named:
            return SessionFound(self.key, None, None)
        self.named = True
        return SessionFound(self.key, _title(self.path), self.project)

    def _parent(self, value: Block) -> str | None:
        """The row that a line hangs under, where that is another one than the row before."""
        if "parentId" not in value:
            return None
        above = self._row_of(text_of(value, "parentId"))
        return None if above == (self.last or BEGINNING) else above

    def _row_of(self, name: str | None) -> str:
        return BEGINNING if name is None else self.beside.get(name, name)

    def _pass_by(self, value: Block) -> None:
        name = text_of(value, "id")
        if name is not None and "parentId" in value:
            self.beside[name] = self._row_of(text_of(value, "parentId"))


def _message(value: Block, kind: str) -> tuple[Role, tuple[Part, ...], bool]:
    """A line's role, its parts, and whether it is in the agent's context."""
    message = object_of(value, "message")
    said = text_of(message, "role") if kind == "message" else kind
    if kind != "message":
        message = value
    said = _SUMMARIES.get(said or "", said)
    match said:
        case "user":
            return "user", parse_content(message.get("content")), True
        case "assistant":
            return "assistant", _answer(message), True
        case "toolResult":
            return "tool", (_result(message),), True
        case "bashExecution":
            return "user", (_command(message),), message.get("excludeFromContext") is not True
        case "custom" | "hookMessage" | "custom_message":
            return "user", parse_content(message.get("content")), True
        case "branch_summary" | "compaction":
            text = text_of(message, "summary")
            parts = (Opaque(message) if text is None else Text(text),)
            return "user", parts, said == "branch_summary"
        case _:
            return "user", (Opaque(message or value),), True


def _answer(message: Block) -> tuple[Part, ...]:
    content = message.get("content")
    if isinstance(content, list):
        content = [_renamed(block) for block in content]
    parts = parse_content(content)
    error = text_of(message, "errorMessage")
    return parts if error is None else (*parts, Opaque({"type": "error", "message": error}))


def _renamed(block: Json) -> Json:
    """A call under the type that is read as one."""
    is_call = isinstance(block, dict) and block.get("type") == "toolCall"
    return {**block, "type": "tool_call"} if isinstance(block, dict) and is_call else block


def _result(message: Block) -> Part:
    call_id = text_of(message, "toolCallId")
    if call_id is None:
        return Opaque(message)
    name = text_of(message, "toolName")
    content = parse_result_content(message.get("content"))
    return ToolResult(call_id, content, message.get("isError") is True, {"name": name} if name else {})


def _command(message: Block) -> Part:
    """A command that a person ran, as its line and what came out."""
    command, output = text_of(message, "command"), message.get("output")
    if command is None or not isinstance(output, str):
        return Opaque(message)
    return Text(f"$ {command}\n{output}", without(message, *_COMMAND_FIELDS))


def _title(path: Path) -> str | None:
    """The name that a person gave, else what was first said."""
    infos = (each.value for each in first_objects(path) if kind_of(each.value) == "session_info")
    names = [title_of(text_of(info, "name")) for info in infos]
    return next((name for name in reversed(names) if name), None) or first_text(path, _said)


def _said(value: Block) -> str | None:
    message = object_of(value, "message")
    if kind_of(value) != "message" or message.get("role") != "user":
        return None
    blocks = [block for block in list_of(message, "content") if isinstance(block, dict)]
    return text_of(message, "content") or next(
        (text for block in blocks if (text := text_of(block, "text"))), None
    )
