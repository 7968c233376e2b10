"""What Claude Code writes beside a session file and between its messages.

A subagent has a file of its own in the folder `<session>/subagents`, an output too long for the model is in
`<session>/tool-results`, a prompt that waited in the queue is an attachment. An output's file is read by its
bare name and only from that folder, whatever path the message names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.fields import kind_of, object_of
from lcm_mcp.transcript.model import Part, ResultPart, Text, ToolResult

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""A longer output is left to its file; the message says where that is."""
_SAVED_TAG = "<persisted-output>"
_SAVED = re.compile(_SAVED_TAG + r".{0,400}? saved to:? [^\n]*?([\w.-]{1,120})\s*\n", re.DOTALL)
_AGENT = re.compile(r"[\w-]{1,100}", re.ASCII)


def subagents_folder(path: Path) -> Path:
    return path.with_suffix("") / "subagents"


def has_subagent(path: Path, agent: str) -> bool:
    """Whether a subagent has a file beside the session's."""
    if _AGENT.fullmatch(agent) is None:
        return False
    return (subagents_folder(path) / f"agent-{agent}.jsonl").is_file()


def queued_prompt(value: Block) -> Block | None:
    """As a message, the prompt that was given to the model from the queue; None for any other line."""
    attachment = object_of(value, "attachment")
    if kind_of(value) != "attachment" or kind_of(attachment) != "queued_command":
        return None
    prompt = attachment.get("prompt")
    if not isinstance(prompt, (str, list)) or not prompt:
        return None
    return {**value, "type": "user", "message": {"role": "user", "content": prompt}}


def whole_results(path: Path, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts with the outputs whole of which results hold the beginning."""
    for part in parts:
        if isinstance(part, ToolResult) and any(map(_is_saved, part.content)):
            return tuple(_whole(path, part) for part in parts)
    return parts


def _is_saved(piece: ResultPart) -> bool:
    return isinstance(piece, Text) and piece.text.startswith(_SAVED_TAG)


def _whole(path: Path, part: Part) -> Part:
    if not isinstance(part, ToolResult):
        return part
    return replace(part, content=tuple(_whole_piece(path, piece) for piece in part.content))


def _whole_piece(path: Path, piece: ResultPart) -> ResultPart:
    found = _SAVED.match(piece.text) if isinstance(piece, Text) else None
    if found is None or not isinstance(piece, Text):
        return piece
    saved = path.with_suffix("") / "tool-results" / found[1]
    try:
        if saved.is_symlink() or not saved.is_file() or saved.stat().st_size > MAX_OUTPUT_BYTES:
            return piece
        text = saved.read_bytes().decode("utf-8", "replace")
    except OSError:
        return piece
    return Text(text, {**piece.extra, "shown": piece.text})
