"""What exports of chat services share: a document of many conversations, each a session of its own.

A conversation is parsed alone and forgotten before the next. What is none is told of and passed over. No
service is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.documents import ELEMENTS, documents
from lcm_mcp.transcript.importers.fields import list_of
from lcm_mcp.transcript.importers.jsonl import BadLine
from lcm_mcp.transcript.importers.report import Event, Trouble


class Conversation(Protocol):
    """A conversation being read; line is the number of its last message, counted through the file."""

    line: int

    def events(self) -> Iterator[Event]: ...


def conversations(
    path: Path,
    session_key: str | None,
    is_conversation: Callable[[Block], bool],
    begin: Callable[[Block, str | None, str, int], Conversation],
) -> Iterator[Event]:
    """The events of all conversations of a file; `session_key` is for a document that is a single one.

    begin takes a conversation, the key of the caller's choice, the one for a conversation that has none, and
    how many messages came before. Raises OSError.
    """
    line = 0
    for document in documents(path):
        single = not document.is_list
        found = iter([document.whole()]) if single else document.elements(document.members()[ELEMENTS])
        for number, piece in enumerate(found, 1):
            if isinstance(piece, BadLine) or not is_conversation(piece.value):
                line += 1
                problem = piece.problem if isinstance(piece, BadLine) else "it is no conversation"
                yield Trouble(line, f"conversation {number}: {problem}")
                continue
            reading = begin(piece.value, session_key if single else None, f"{path.stem}/{number}", line)
            yield from reading.events()
            line = reading.line


def is_export(sample: Block, is_conversation: Callable[[Block], bool]) -> bool:
    """Whether a document's first conversation, or the document itself, is one."""
    first = next(iter(list_of(sample, ELEMENTS)), sample)
    return isinstance(first, dict) and is_conversation(first)
