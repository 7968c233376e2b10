"""Prompts that waited in Claude Code's queue while its model worked, and which of them no other line tells.

A prompt is put into the queue and leaves it for the model, or goes back to who wrote it. One for the model
has in most versions a message or an attachment of its own. Where none has come by the time the model goes on,
the notes of the queue are all that tells what was said, and it is a row. Commands of the client and what
programs put into the queue are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from lcm_mcp.transcript.blocks import Block, parse_content
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.fields import plain_text, text_of
from lcm_mcp.transcript.model import Draft, Json
from lcm_mcp.values import frozen

MOST_KEPT = 50
_OTHERS = ("<", "/", "!")
"""How it begins what a program, a command or the shell is told by, which has lines of another form."""


@frozen
class Queued:
    """A prompt as the queue had it; line is where it was last noted, and at when, as it stands there."""

    content: Json
    line: int
    at: str | None

    @property
    def text(self) -> str:
        return plain_text(parse_content(self.content)).strip()

    def draft(self) -> Draft:
        return Draft(
            "user", parse_content(self.content), entry_id=f"line:{self.line}", at=read_instant(self.at)
        )


@dataclass(slots=True)
class Queue:
    """What waits, and what was given to the model and is not told by another line so far; oldest first."""

    waiting: list[Queued] = field(default_factory=list[Queued])
    given: list[Queued] = field(default_factory=list[Queued])

    def note(self, value: Block, line: int) -> None:
        """Follow an operation of the queue."""
        match text_of(value, "operation"):
            case "enqueue":
                self.waiting = [*self.waiting, Queued(value.get("content"), line, None)][-MOST_KEPT:]
            case "popAll":
                self.waiting.clear()
            case "dequeue" | "remove":
                self._leave(value, line)
            case _:
                pass

    def _leave(self, value: Block, line: int) -> None:
        if not self.waiting:
            return
        content, reason = value.get("content"), text_of(value, "reason")
        place = next((n for n, each in enumerate(self.waiting) if each.content == content), 0)
        gone = Queued(self.waiting.pop(place).content, line, text_of(value, "timestamp"))
        if (reason is None or "absorbed" in reason) and gone.text and not gone.text.startswith(_OTHERS):
            self.given = [*self.given, gone][-MOST_KEPT:]

    def tell(self, message: str) -> None:
        """Forget the prompts that a message tells; several may be told in one, each in lines of its own.

        Some leave the queue without a note of it.
        """
        told = f"\n{message.strip()}\n"
        self.given = [each for each in self.given if f"\n{each.text}\n" not in told]
        self.waiting = [each for each in self.waiting if f"\n{each.text}\n" not in told]

    def untold(self) -> Sequence[Queued]:
        """The prompts that the model was given and that nothing has told, now that it goes on."""
        found, self.given = self.given, []
        return found

    def memory(self) -> Json:
        return [[[each.content, each.line, each.at] for each in kept] for kept in (self.waiting, self.given)]

    def remember(self, memory: Json) -> None:
        if isinstance(memory, list):
            kept = cast("list[list[tuple[Json, int, str | None]]]", memory)
            self.waiting, self.given = ([Queued(*each) for each in part] for part in kept)
