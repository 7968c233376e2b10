"""Entries as clients send them, read into drafts: neutral ones, Anthropic and OpenAI messages.

The message itself is strict, because a client can correct it: unknown keys, roles and values are
refused by name, before anything is written. The blocks inside it are lenient, because a client
often only passes them on (blocks.py). A response object may be given whole; its envelope (model,
usage, stop reason) is accepted and not kept. Roles stay as sent: an Anthropic user message of tool
results is a user entry; only "developer" is renamed, to "system".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

from lcm_mcp.errors import MalformedEntry
from lcm_mcp.transcript.blocks import (
    MAX_DEPTH,
    Block,
    parse_content,
    parse_result_content,
    parse_tool_call,
    too_deep,
)
from lcm_mcp.transcript.model import ROLES, Draft, Json, Opaque, Part, Reasoning, Role, Text, ToolResult
from lcm_mcp.values import frozen

MAX_ID_CHARACTERS = 200

_OUR_KEYS = (
    "role",
    "content",
    "entry_id",
    "at",
    "pin",
    "active",
    "parent",
    "branch",
    "outcome_of",
    "message_id",
    "id",
    "name",
    "tool_calls",
    "tool_call_id",
)
# Content that OpenAI and its imitators put beside `content`; each is kept as a part.
_SIDE_KEYS = ("refusal", "audio", "annotations", "function_call")
_REASONING_KEY = "reasoning_content"
_ENVELOPE_KEYS = (
    "type",
    "model",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "container",
    "context_management",
)
_KNOWN_KEYS = frozenset((*_OUR_KEYS, *_SIDE_KEYS, _REASONING_KEY, *_ENVELOPE_KEYS))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The instants that a calendar of four-digit years can show.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@frozen
class Problem:
    """Why a value is no entry: a clause without a full stop."""

    text: str


class _Malformed(Exception):
    """Carries a problem out of the nested readers; never leaves this module."""


def parse_entry(value: object, index: int) -> Draft:
    """Read one entry of a batch, `index` counting from 0. Raises MalformedEntry."""
    draft = read_entry(value)
    if isinstance(draft, Problem):
        raise MalformedEntry(index, draft.text)
    return draft


def read_entry(value: object) -> Draft | Problem:
    """Read one entry, giving what is wrong with it as a value: importers go on after it."""
    try:
        return _draft(_entry(value))
    except _Malformed as problem:
        return Problem(str(problem))


def read_instant(value: object) -> int | None:
    """Milliseconds since 1970 UTC of an ISO 8601 text (naive means UTC) or of a number of them.

    None for anything else, and for instants outside the years 1 to 9999.
    """
    instant: int | float | None
    match value:
        case str():
            instant = _iso_instant(value.strip())
        case bool():
            instant = None
        case int() | float():
            instant = value
        case _:
            instant = None
    # NaN and the infinities fail the comparison too.
    return int(instant) if instant is not None and _FIRST_MS <= instant <= _LAST_MS else None


def _iso_instant(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def _entry(value: object) -> Block:
    """The entry as an object of known keys."""
    if not isinstance(value, dict):
        raise _Malformed(f"it is {_a_kind_of(value)}, not an object")
    entry = cast("Block", value)
    unknown = sorted(str(key) for key in entry if key not in _KNOWN_KEYS)
    if unknown:
        named = ", ".join(key[:60] for key in unknown[:8])
        raise _Malformed(f"unknown key{'s' if len(unknown) > 1 else ''} {named}")
    if too_deep(entry):
        raise _Malformed(f"its content is nested more than {MAX_DEPTH} deep")
    if entry.get("type", "message") != "message":
        raise _Malformed(f"type: {_shown(entry['type'])} is not a message")
    return entry


def _draft(entry: Block) -> Draft:
    role = _role(entry)
    message_id = _identity(entry, "message_id")
    response_id = _identity(entry, "id")
    return Draft(
        role=role,
        parts=_tool_parts(entry) if role == "tool" else _message_parts(entry, role),
        entry_id=_identity(entry, "entry_id"),
        message_id=response_id if message_id is None else message_id,
        at=_at(entry),
        active=_flag(entry, "active", otherwise=True),
        pin=_flag(entry, "pin", otherwise=False),
        parent=_identity(entry, "parent"),
        branch=_flag(entry, "branch", otherwise=False),
        outcome_of=_identity(entry, "outcome_of"),
    )


def _role(entry: Block) -> Role:
    if "role" not in entry:
        raise _Malformed("role is missing")
    role = entry["role"]
    if role == "developer":
        return "system"
    for known in ROLES:
        if role == known:
            return known
    raise _Malformed(f"role: {_shown(role)} is not one of {', '.join(ROLES)} (or developer)")


def _identity(entry: Block, key: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Malformed(f"{key}: it is {_a_kind_of(value)}, not a text")
    if not 0 < len(value) <= MAX_ID_CHARACTERS:
        raise _Malformed(f"{key}: it has {len(value)} characters, from 1 to {MAX_ID_CHARACTERS} are possible")
    return value


def _at(entry: Block) -> int | None:
    value = entry.get("at")
    at = read_instant(value)
    if at is None and value is not None:
        raise _Malformed(f"at: {_shown(value)} is neither an ISO 8601 time nor milliseconds since 1970")
    return at


def _flag(entry: Block, key: str, *, otherwise: bool) -> bool:
    value = entry.get(key)
    if value is None or isinstance(value, bool):
        return otherwise if value is None else value
    raise _Malformed(f"{key}: it is {_a_kind_of(value)}, neither true nor false")


def _content(entry: Block) -> str | list[Json] | None:
    content = entry.get("content")
    if content is None or isinstance(content, (str, list)):
        return content
    raise _Malformed(f"content: it is {_a_kind_of(content)}, neither a text nor a list of parts")


def _message_parts(entry: Block, role: Role) -> tuple[Part, ...]:
    if entry.get("tool_call_id") is not None:
        raise _Malformed(f"tool_call_id: it belongs to an entry of role tool, not {role}")
    calls = entry.get("tool_calls")
    if calls is not None and (role != "assistant" or not isinstance(calls, list)):
        raise _Malformed("tool_calls: it is a list, and belongs to an entry of role assistant")
    beside = _beside(entry) + tuple(parse_tool_call(call) for call in calls or [])
    content, reasoning = _content(entry), _reasoning(entry)
    if content is None and not beside and not reasoning:
        raise _Malformed("content is missing")
    # OpenAI sends "" as well as null where there are only calls: neither says anything.
    said = () if content == "" and beside else _named(parse_content(content), entry)
    return reasoning + said + beside


def _tool_parts(entry: Block) -> tuple[Part, ...]:
    """A tool entry: one answer under tool_call_id, or parts that hold tool results."""
    content, call_id = _content(entry), entry.get("tool_call_id")
    if entry.get("tool_calls"):
        raise _Malformed("tool_calls: it belongs to an entry of role assistant, not tool")
    if content is None:
        raise _Malformed("content is missing")
    if isinstance(call_id, str):
        name = entry.get("name")
        extra: Block = {} if name is None else {"name": name}
        return (ToolResult(call_id, parse_result_content(content), extra=extra),)
    parts = parse_content(content)
    if call_id is not None or not any(isinstance(part, ToolResult) for part in parts):
        raise _Malformed("a tool entry needs tool_call_id (a text), or tool_result parts as content")
    return parts


def _reasoning(entry: Block) -> tuple[Part, ...]:
    text = entry.get(_REASONING_KEY)
    return (Reasoning(text),) if isinstance(text, str) and text else ()


def _beside(entry: Block) -> tuple[Part, ...]:
    """What stands beside the content, in the shape of the OpenAI part of the same name."""
    return tuple(Opaque({"type": key, key: entry[key]}) for key in _SIDE_KEYS if entry.get(key))


def _named(parts: tuple[Part, ...], entry: Block) -> tuple[Part, ...]:
    """Keep a participant's name on the first text, or on its own where there is none."""
    name = entry.get("name")
    if name is None:
        return parts
    match parts:
        case (Text(text, extra), *others):
            return (Text(text, {**extra, "name": name}), *others)
        case _:
            return (Opaque({"type": "name", "name": name}), *parts)


def _a_kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def _shown(value: object) -> str:
    """A value as it may stand in a message: short, whatever it is."""
    if isinstance(value, str):
        return repr(value[:80])
    # Python refuses to print integers of thousands of digits.
    printable = isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20)
    return repr(value) if printable else _a_kind_of(value)
