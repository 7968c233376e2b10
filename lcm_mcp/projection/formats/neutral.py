"""Our own messages: parts in the neutral JSON that entries are read from, so they read back as sent.

Nothing is left out but empty texts: reasoning, pictures and unknown blocks stand as they are stored,
and call ids are the stored ones, repeated where the source repeated them (a result answers the nearest
call before it). Results have the role "tool", several in a row one message. System rows in the middle
of a conversation are labelled user text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_mcp.projection.labels import system_label
from lcm_mcp.projection.model import Notes
from lcm_mcp.projection.wire import Block, Dialect, IdRule, Shown
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import Image, Part, Role, Text, ToolResult


def _show(part: Part, speaker: Role) -> Shown:
    match part:
        case Text(""):
            return Shown(None)
        case Text(text, extra) if speaker == "system":
            return Shown(part_to_json(Text(system_label(text), extra)))
        case _:
            return Shown(part_to_json(part), Notes(images_as_metadata=_unloaded(part)))


def _unloaded(part: Part) -> int:
    """How many of the part's pictures came without their bytes."""
    pieces = part.content if isinstance(part, ToolResult) else (part,)
    return sum(isinstance(piece, Image) and piece.data is None for piece in pieces)


def _write(role: str, blocks: Sequence[Block]) -> Block:
    return {"role": role, "content": [*blocks]}


_ROLES: Mapping[Role, str] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "user"}

DIALECT = Dialect(_ROLES, IdRule("as stored"), _show, _write)
