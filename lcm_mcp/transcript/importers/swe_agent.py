"""SWE-agent trajectories (.traj): the history of messages is the conversation, one a row.

The steps of the trajectory say the same once more, with the whole prompt in each, and are counted only; a run
without a history is read from its steps. Messages have no ids: one is known by its place. Submission, costs
and configuration are no conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.documents import Document, Span, documents
from lcm_mcp.transcript.importers.fields import list_of, plain_text, text_of, title_of
from lcm_mcp.transcript.importers.jsonl import BadLine, Object
from lcm_mcp.transcript.importers.messages import message_draft, message_events, session_of
from lcm_mcp.transcript.importers.report import Entry, Event, Other, Trouble
from lcm_mcp.transcript.model import Draft, Text

_SAID_TWICE = ("trajectory", "history")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a run as one session, known by the file's path where the caller names none. Raises OSError."""
    key = session_key or path.stem
    for document in documents(path):
        members = document.members()
        history, steps = members.get("history"), members.get("trajectory")
        yield session_of(path, session_key, _title(document, history))
        line = 0
        for piece in document.elements(history) if history is not None else ():
            line = piece.line
            yield from message_events(piece, key, piece.line)
        told = line > 0
        for piece in document.elements(steps, line + 1) if steps is not None else ():
            line = piece.line
            if isinstance(piece, BadLine):
                yield Trouble(piece.line, piece.problem)
            elif told:
                yield Other("step", piece.line)
            else:
                yield from _step(piece, key)
        for name in members:
            if name not in _SAID_TWICE:
                line += 1
                yield Other(name[:60], line)


def is_document(sample: Block) -> bool:
    """Whether a document is of this kind: steps, with what the agent did and saw."""
    steps = sample.get("trajectory")
    first = next(iter(list_of(sample, "trajectory")), None)
    looks = isinstance(first, dict) and "action" in first and "observation" in first
    return isinstance(steps, list) and (looks or (not steps and "history" in sample))


def _title(document: Document, history: Span | None) -> str | None:
    for piece in document.elements(history) if history is not None else ():
        if isinstance(piece, Object) and piece.value.get("role") == "user":
            draft = message_draft(piece.value)
            return title_of(plain_text(draft.parts)) if isinstance(draft, Draft) else None
    return None


def _step(piece: Object, key: str) -> Iterator[Event]:
    """A step as two rows: what the model answered, and what it was shown then."""
    said = text_of(piece.value, "response") or text_of(piece.value, "thought") or ""
    action = text_of(piece.value, "action") or ""
    answer = said if action in said else f"{said}\n{action}".strip()
    yield Entry(key, Draft("assistant", (Text(answer),), f"@{piece.line}"), piece.line, piece.line)
    seen = text_of(piece.value, "observation")
    if seen is not None:
        yield Entry(key, Draft("user", (Text(seen),), f"@{piece.line}.observation"), piece.line, piece.line)
