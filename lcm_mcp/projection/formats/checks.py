"""What the formats' order checks share: turns that alternate, and calls that are answered.

A check reads rendered messages as a provider would and trusts nothing of how they were made. It exists
to prove the order; rendering never calls it, since its order is valid by construction, and a fault is
a sentence, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lcm_mcp.projection.model import Message
from lcm_mcp.transcript.model import Json, JsonObject

Unique = Literal["group", "request", "never"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message seen as calls and results; waits: more results may follow it directly."""

    assistant: bool
    calls: Sequence[Json] = ()
    results: Sequence[Json] = ()
    waits: bool = False


def check_turns(messages: Sequence[Message], repeated: str | None = None) -> list[str]:
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


def check_answers(turns: Sequence[Turn], unique: Unique) -> Iterator[str]:
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


def body_blocks(body: JsonObject) -> list[dict[str, Json]]:
    """The blocks of a message whose content is a list; none where it is anything else."""
    content = body.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def values_of(blocks: Sequence[dict[str, Json]], kind: str, key: str) -> list[Json]:
    return [block.get(key) for block in blocks if block.get("type") == kind]


def _repeated(turns: Sequence[Turn], unique: Unique) -> Iterator[str]:
    seen: list[Json] = []
    for index, turn in enumerate(turns):
        for call in turn.calls:
            if call in seen and unique != "never":
                yield f"message {index}: {call} is used twice"
            seen.append(call)
        if unique == "group":
            seen = []
