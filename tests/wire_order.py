"""What a provider would refuse in the order of a format's messages: turns that alternate, calls answered.

A check reads rendered messages as a provider would and trusts nothing of how they were made; a fault is a
sentence. The package has none of it, since its order is valid by construction: this is what shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lcm_mcp.projection.model import Format, Message
from lcm_mcp.transcript.model import Json, JsonObject

_Unique = Literal["group", "request", "never"]
_THINKING = ("thinking", "redacted_thinking")


def check_order(messages: Sequence[Message], form: Format) -> list[str]:
    """Say what a provider would refuse in the order of these messages; empty where it is valid."""
    return _CHECKS[form](messages)


def _neutral(messages: Sequence[Message]) -> list[str]:
    """Say where turns, calls and results do not follow one another."""
    faults = _check_turns(messages)
    turns: list[_Turn] = []
    for message in messages:
        blocks = _body_blocks(message.body)
        calls, results = (_values_of(blocks, kind, "call_id") for kind in ("tool_call", "tool_result"))
        turns.append(_Turn(message.role == "assistant", calls, results, waits=message.role == "tool"))
    return [*faults, *_check_answers(turns, "never")]


def _anthropic(messages: Sequence[Message]) -> list[str]:
    """Say what the API would refuse in the order of turns, calls and results."""
    faults = _check_turns(messages)
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        blocks = _body_blocks(message.body)
        kinds = [block.get("type") for block in blocks]
        results = _values_of(blocks, "tool_result", "tool_use_id")
        turns.append(_Turn(message.role == "assistant", _values_of(blocks, "tool_use", "id"), results))
        if "tool_result" in kinds[len(results) :]:
            faults.append(f"message {index}: a result stands behind other content")
        if not kinds or kinds[-1] in _THINKING:
            faults.append(f"message {index}: it is empty, or ends in thinking")
    return [*faults, *_check_answers(turns, "request")]


def _openai(messages: Sequence[Message]) -> list[str]:
    """Say what the API would refuse in the order of turns, calls and results."""
    faults = _check_turns(messages, repeated="tool")
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            turns.append(_Turn(False, results=[message.body.get("tool_call_id")], waits=True))
            continue
        calls = message.body.get("tool_calls")
        ids = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        turns.append(_Turn(message.role == "assistant", ids))
        if not ids and not message.body.get("content"):
            faults.append(f"message {index}: it is empty")
    return [*faults, *_check_answers(turns, "group")]


def _text(messages: Sequence[Message]) -> list[str]:
    """Say whether this is anything but one user message with a string."""
    shapes = [(message.role, isinstance(message.body.get("content"), str)) for message in messages]
    return [] if shapes in ([], [("user", True)]) else [f"not one user message with a text: {shapes}"]


@dataclass(frozen=True, slots=True)
class _Turn:
    """A message seen as calls and results; waits: more results may follow it directly."""

    assistant: bool
    calls: Sequence[Json] = ()
    results: Sequence[Json] = ()
    waits: bool = False


def _check_turns(messages: Sequence[Message], repeated: str | None = None) -> list[str]:
    """Say where the user does not speak first, or a role other than `repeated` follows itself."""
    faults = [
        f"message {index}: body and role differ"
        for index, message in enumerate(messages)
        if message.body.get("role") != message.role
    ]
    if next((message.role for message in messages if message.role != "system"), "user") != "user":
        faults.append("the first message that is not the system's is not the user's")
    for index in range(1, len(messages)):
        role = messages[index].role
        if role == messages[index - 1].role and role != repeated:
            faults.append(f"message {index}: a second {role} message in a row")
    return faults


def _check_answers(turns: Sequence[_Turn], unique: _Unique) -> Iterator[str]:
    """Say which results answer no call just before, and which calls but the last turn's have no result."""
    awaited: list[Json] = []
    overdue: list[Json] = []
    for index, turn in enumerate(turns):
        for result in turn.results:
            if result in awaited:
                awaited.remove(result)
            else:
                yield f"message {index}: {result} answers no call just before"
        if not turn.waits:
            overdue, awaited = [*overdue, *awaited], [*turn.calls]
        if turn.assistant and overdue:
            yield f"message {index}: {overdue} before it have no result"
            overdue = []
    yield from _repeated(turns, unique)


def _body_blocks(body: JsonObject) -> list[dict[str, Json]]:
    """The blocks of a message whose content is a list; none where it is anything else."""
    content = body.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _values_of(blocks: Sequence[dict[str, Json]], kind: str, key: str) -> list[Json]:
    return [block.get(key) for block in blocks if block.get("type") == kind]


def _repeated(turns: Sequence[_Turn], unique: _Unique) -> Iterator[str]:
    seen: list[Json] = []
    for index, turn in enumerate(turns):
        for call in turn.calls:
            if call in seen and unique != "never":
                yield f"message {index}: {call} is used twice"
            seen.append(call)
        if unique == "group":
            seen = []


_CHECKS: Mapping[Format, Callable[[Sequence[Message]], list[str]]] = {
    "messages": _neutral,
    "anthropic": _anthropic,
    "openai": _openai,
    "text": _text,
}
