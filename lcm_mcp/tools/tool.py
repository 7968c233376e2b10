"""A tool as a value: what it is called, what it takes and gives, how it runs and how it reads.

Each answer is given twice, because clients show their model one channel or the other: as structured
content under the tool's output schema, and as compact text that says the same and ends with the next
call. Both together stay below a size that clients can take. Refused: knowing any protocol (server.py
does), and deciding anything about memory (the service does).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson

from lcm_mcp.errors import LcmError
from lcm_mcp.tools.arguments import Arguments, input_schema, parse
from lcm_mcp.tools.schema import answer_schema
from lcm_mcp.tools.text import sound, written

if TYPE_CHECKING:
    from lcm_mcp.service import Service

MOST_BYTES: Final = 400_000
"""Both channels of one answer, serialised: a client of the SDK drops the connection over 1 MiB."""
_ECHOED_CHARACTERS: Final = 1_000

A = TypeVar("A", bound=Arguments)
R = TypeVar("R")


class AnswerTooLarge(LcmError):
    """An answer would be more than clients can take."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            f"The answer has {size_bytes} bytes, more than the {MOST_BYTES} a client can take at once. "
            "Ask for less: a smaller limit or max_bytes, or one row or node at a time."
        )


@dataclass(frozen=True, slots=True)
class Effects:
    """What a client may assume of a call before it allows it; no tool reaches beyond the store."""

    read_only: bool
    idempotent: bool
    destructive: bool = False


READS: Final = Effects(read_only=True, idempotent=True)
ADDS: Final = Effects(read_only=False, idempotent=False)
"""Appends or folds: nothing stored is changed or lost, but a repeat without entry_ids adds again."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer in both channels."""

    text: str
    structured: dict[str, Any]


def _never(_arguments: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Tool(Generic[A, R]):
    """render gives an answer's text without the next call; once names arguments not to be repeated in it.

    smaller gives arguments for a smaller page, or None where there is none.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    answer: type[R]
    effects: Effects
    run: Callable[[Service, A], Awaitable[R]]
    render: Callable[[R], str]
    once: tuple[str, ...] = ()
    smaller: Callable[[A], A | None] = _never

    @property
    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any]:
        return answer_schema(self.answer)

    async def call(self, service: Service, given: Mapping[str, object]) -> Answered:
        """Answer one call. Raises LcmError for anything the caller can put right."""
        arguments: A | None = parse(self.arguments, given)
        size = 0
        while arguments is not None:
            answer = await self.run(service, arguments)
            text = self._text(arguments, answer)
            structured = written(answer)
            size = len(structured) + len(orjson.dumps(text))
            if size <= MOST_BYTES:
                return Answered(text, orjson.loads(structured))
            arguments = self.smaller(arguments)
        raise AnswerTooLarge(size)

    def _text(self, arguments: A, answer: R) -> str:
        text = sound(self.render(answer))
        cursor: str | None = getattr(answer, "next_cursor", None)
        return text if cursor is None else f"{text}\n{self._next_call(arguments, answer, cursor)}"

    def _next_call(self, arguments: A, answer: R, cursor: str) -> str:
        """How to get the next page, as a call to be copied."""
        given = {
            name: getattr(arguments, name)
            for name in type(arguments).model_fields
            if name in arguments.model_fields_set and name not in (*self.once, "cursor")
        }
        session: str | None = getattr(answer, "session", None)
        if session is not None and "session" in type(arguments).model_fields:
            given["session"] = session  # the one fallen back on may be another by the next call
        echoed = written({**given, "cursor": cursor}).decode()
        if len(echoed) <= _ECHOED_CHARACTERS:
            return f"There is more: call {self.name} {echoed}"
        without = f" but {', '.join(self.once)}" if self.once else ""
        return f'There is more: call {self.name} with the same arguments{without} and "cursor": "{cursor}"'
