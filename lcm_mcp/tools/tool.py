"""A tool as a value: what it is called, what it takes and gives, how it runs and how it reads.

Each answer is given twice, because clients show their model one channel or the other: as structured
content under the tool's output schema, and as compact text that says the same and ends with the next
call. Both together stay below a size that clients can take. Refused: knowing any protocol (server/
does), and deciding anything about memory (the service does).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import orjson

from lcm_mcp.errors import LcmError
from lcm_mcp.tools.arguments import Arguments, input_schema, parse
from lcm_mcp.tools.schema import answer_schema
from lcm_mcp.tools.text import paragraph, sound, written
from lcm_mcp.values import frozen

if TYPE_CHECKING:
    from lcm_mcp.service import Service

MOST_BYTES: Final = 400_000
"""Both channels of one answer, serialised: a client of the SDK drops the connection over 1 MiB."""
DEFAULT_BYTES: Final = 8_000
"""Text of a page whose size nobody asked for: some clients cut near 10 KB, and the way on with the rest."""
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


@frozen
class Effects:
    """What a client may assume of a call before it allows it; no tool reaches beyond the store."""

    read_only: bool
    idempotent: bool
    destructive: bool = False


READS: Final = Effects(read_only=True, idempotent=True)
ADDS: Final = Effects(read_only=False, idempotent=False)
"""Appends or folds: nothing stored is changed or lost, but a repeat without entry_ids adds again."""


@frozen
class Picture:
    """An image that an answer shows; data is base64."""

    media_type: str
    data: str


@frozen
class Answered:
    """One answer in both channels, and the images it shows beside them."""

    text: str
    structured: dict[str, Any]
    pictures: tuple[Picture, ...] = ()


@frozen
class Paging:
    """The argument that sizes a page, its least value, and others that say how much is wanted."""

    argument: str
    least: int
    also: tuple[str, ...] = ()


@frozen
class Tool(Generic[A, R]):
    """render gives an answer's text without the next call, brief without the bulk of it. pictures takes the
    images out of an answer, which then only says which they are.

    repeated names the arguments that a next page takes, None meaning all.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    answer: type[R]
    effects: Effects
    run: Callable[[Service, A], Awaitable[R]]
    render: Callable[[R], str]
    brief: Callable[[R], str] | None = None
    paging: Paging | None = None
    repeated: tuple[str, ...] | None = None
    pictures: Callable[[R], tuple[R, tuple[Picture, ...]]] | None = None

    @property
    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any]:
        return answer_schema(self.answer)

    async def call(self, service: Service, given: Mapping[str, object]) -> Answered:
        """Answer one call. Raises LcmError for anything the caller can put right."""
        asked = parse(self.arguments, given)
        arguments: A | None = asked
        while True:
            answer, pictures = self._parted(await self.run(service, arguments))
            text, structured = self._text(asked, answer, self.render), written(answer)
            size = _size(text, structured)
            excess = self._excess(asked, text, size)
            arguments = None if excess <= 1 else self._smaller(arguments, excess)
            if arguments is None:
                break
        if size > MOST_BYTES and self.brief is not None:
            text = self._text(asked, answer, self.brief)
            size = _size(text, structured)
        if size > MOST_BYTES:
            raise AnswerTooLarge(size)
        return Answered(text, orjson.loads(structured), pictures)

    def _parted(self, answer: R) -> tuple[R, tuple[Picture, ...]]:
        return (answer, ()) if self.pictures is None else self.pictures(answer)

    def _excess(self, asked: A, text: str, size: int) -> float:
        """How many times too large a page is, whose channels have `size` bytes."""
        excess = size / MOST_BYTES
        paging = self.paging
        if paging is not None and not asked.model_fields_set & {paging.argument, *paging.also}:
            excess = max(excess, len(text.encode()) / DEFAULT_BYTES)
        return excess

    def _smaller(self, arguments: A, excess: float) -> A | None:
        """Arguments for a smaller page, or None where there is none."""
        if self.paging is None:
            return None
        name = self.paging.argument
        now = cast("int", getattr(arguments, name))
        smaller = max(self.paging.least, min(int(now / excess), now - 1))
        return arguments.model_copy(update={name: smaller}) if smaller < now else None

    def _text(self, asked: A, answer: R, render: Callable[[R], str]) -> str:
        text = sound(paragraph(render(answer), getattr(answer, "behind", None)))
        cursor: str | None = getattr(answer, "next_cursor", None)
        return text if cursor is None else f"{text}\n{self._next_call(asked, answer, cursor)}"

    def _next_call(self, asked: A, answer: R, cursor: str) -> str:
        """How to get the next page, as a call to be copied."""
        takes = type(asked).model_fields if self.repeated is None else self.repeated
        given = {name: getattr(asked, name) for name in takes if name in asked.model_fields_set}
        session: str | None = getattr(answer, "session", None)
        if session is not None and "session" in takes:
            given["session"] = session  # the one fallen back on may be another by the next call
        echoed = written({**given, "cursor": cursor}).decode()
        if len(echoed) <= _ECHOED_CHARACTERS:
            return f"There is more: call {self.name} {echoed}"
        return f'There is more: call {self.name} with the same arguments and "cursor": "{cursor}"'


def _size(text: str, structured: bytes) -> int:
    return len(orjson.dumps(text)) + len(structured)
