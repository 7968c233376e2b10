"""Requests and transcripts as message arrays: a JSON list of OpenAI or Anthropic messages, or an object whose
`messages` is one, with its system prompt.

Messages have no ids: one is known by its place in the list, "@1" being the first, and so it is in a list that
has grown. What else an object holds (model, tools, limits) is the request's and no conversation: it is
counted and not stored. A message of a shape that nobody documents is kept as it is, under its role.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lcm_mcp.transcript.blocks import Block, parse_content, parse_part
from lcm_mcp.transcript.entries import Problem, read_entry, read_instant
from lcm_mcp.transcript.importers.documents import ELEMENTS, Document, Span, documents
from lcm_mcp.transcript.importers.fields import list_of, plain_text, text_of, title_of
from lcm_mcp.transcript.importers.jsonl import BadLine, Object
from lcm_mcp.transcript.importers.report import Entry, Event, Other, SessionFound, Trouble
from lcm_mcp.transcript.model import Draft, Json, Opaque, Part, Role

SYSTEM_ID = "system"
MESSAGES = "messages"
_READ_KEYS = (
    "role",
    "content",
    "id",
    "name",
    "tool_calls",
    "tool_call_id",
    "refusal",
    "audio",
    "annotations",
)
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_LATEST_SECONDS = 100_000_000_000
_SYSTEM_KEYS = ("system", "instructions")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a document as one session, known by its path where the caller names none. Raises OSError."""
    key = session_key or path.stem
    for document in documents(path):
        members = document.members()
        list_ = members.get(MESSAGES, members.get(ELEMENTS))
        if list_ is None:
            continue
        yield session_of(path, session_key, _title(document, list_))
        beside = [(name, span) for name, span in members.items() if span != list_]
        for number, (name, span) in enumerate(beside, 1):
            yield _beside(document, key, name, span, number)
        before = len(beside)
        for piece in document.elements(list_, before + 1):
            yield from message_events(piece, key, piece.line - before)


def is_document(sample: Block) -> bool:
    """Whether a document is of this kind, by its first message."""
    first = next(iter(list_of(sample, MESSAGES) or list_of(sample, ELEMENTS)), None)
    return isinstance(first, dict) and _is_message(first)


def session_of(path: Path, session_key: str | None, title: str | None) -> SessionFound:
    """The session of a file that names none: known by its path, called by its name."""
    if session_key is not None:
        return SessionFound(session_key, title, None)
    return SessionFound(path.stem, title, None, native_id=str(path.resolve()))


def message_events(piece: Object | BadLine, key: str, place: int) -> Iterator[Event]:
    """What an element of a list of messages is, as the entry of that place."""
    if isinstance(piece, BadLine):
        yield Trouble(piece.line, piece.problem)
        return
    if piece.repaired:
        yield Trouble(piece.line, "bytes that are no UTF-8 were replaced", "repaired")
    draft = message_draft(piece.value)
    if isinstance(draft, Problem):
        yield Trouble(piece.line, draft.text)
        return
    yield Entry(key, replace(draft, entry_id=f"@{place}"), piece.line, place)


def message_draft(value: Block) -> Draft | Problem:
    """A message of any provider; one that is not understood is kept whole, but under a known role only."""
    said = value.get("role")
    role = _ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        return Problem(f"role: {str(said)[:60]!r} is none of {', '.join(_ROLES)}")
    if said == "function":
        return Draft("tool", (Opaque(value),), at=_at(value))
    wanted: Block = {name: value[name] for name in _READ_KEYS if value.get(name) is not None}
    if role == "tool" and "tool_call_id" not in wanted and (ids := list_of(value, "tool_call_ids")):
        wanted["tool_call_id"] = ids[0]
    if role != "assistant":
        wanted.pop("tool_calls", None)
    if role != "tool":
        wanted.pop("tool_call_id", None)
    if value.get("function_call"):
        wanted["function_call"] = value["function_call"]
    draft = read_entry(wanted)
    if isinstance(draft, Problem):
        draft = Draft(role, (Opaque(value),))
    return replace(draft, parts=_reasoning(value) + draft.parts, at=_at(value))


def _reasoning(value: Block) -> tuple[Part, ...]:
    """A model's reasoning, which providers and their gateways put beside the content."""
    if blocks := list_of(value, "thinking_blocks"):
        return tuple(parse_part(block) for block in blocks)
    text = text_of(value, "reasoning_content") or text_of(value, "reasoning")
    return () if text is None else (parse_part({"type": "reasoning", "text": text}),)


def _at(value: Block) -> int | None:
    found = next((value[name] for name in ("at", "timestamp", "created_at") if value.get(name)), None)
    return instant(found)


def instant(value: Json) -> int | None:
    """Milliseconds of a time that a source gives as text, in seconds or in milliseconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LATEST_SECONDS:
        value = value * 1000
    return read_instant(value)


def _is_message(value: Block) -> bool:
    return value.get("role") in _ROLES and ("content" in value or "tool_calls" in value)


def _beside(document: Document, key: str, name: str, span: Span, number: int) -> Event:
    """What stands beside the messages of an object: its system prompt, or what is only counted."""
    content = document.value(span) if name in _SYSTEM_KEYS else None
    if content:
        return Entry(key, Draft("system", parse_content(content), SYSTEM_ID), number)
    return Other(name[:60], number)


def _title(document: Document, list_: Span) -> str | None:
    """What the user first said."""
    for piece in document.elements(list_):
        if isinstance(piece, Object) and piece.value.get("role") == "user":
            draft = message_draft(piece.value)
            return None if isinstance(draft, Problem) else title_of(plain_text(draft.parts))
    return None
