"""A readable transcript: one user message whose content is a single string.

Each row stands under a heading with its role and ref, `=== assistant e105 ===`; calls and results are
lines that begin with -> and <-. The string of a longer tail begins with that of a shorter one, but for
calls still waiting at its end. Pictures and unknown blocks are metadata, reasoning is left out. Text is
verbatim, except that a line of it that would read as a heading is indented by a space.
"""

from __future__ import annotations

import re
from typing import assert_never

from lcm_mcp.projection.labels import (
    NOTHING_TO_SHOW,
    arguments_text,
    image_label,
    one_line,
    opaque_label,
    sendable_text,
)
from lcm_mcp.projection.model import Message, Notes, Projection, Rendered
from lcm_mcp.projection.wire import IdRule, pair
from lcm_mcp.transcript.model import (
    Image,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

_HEADING = re.compile(r"^(?==== )", re.MULTILINE)


def render(projection: Projection) -> Rendered:
    """Render as text; with neither history nor rows there is no message."""
    lines, notes = pair(projection.tail, IdRule("as stored"))
    sections = [] if projection.history is None else [projection.history]
    for line in lines:
        ref = projection.tail[line.place].ref
        shown = [_shown(part) for part in line.parts]
        notes += sum((lost for _, lost in shown), Notes())
        said = [text for text, _ in shown if text is not None]
        if said:
            sections.append("\n".join((f"=== {line.speaker} {ref} ===", *said)))
    if not sections and not projection.tail:
        return Rendered((), notes)
    content = sendable_text("\n\n".join(sections or [NOTHING_TO_SHOW]))
    sources = tuple(row.ref for row in projection.tail)
    return Rendered((Message("user", {"role": "user", "content": content}, sources),), notes)


def _shown(part: Part) -> tuple[str | None, Notes]:
    match part:
        case Text(text):
            return _HEADING.sub(" ", text) if text.strip() else None, Notes()
        case Reasoning():
            return None, Notes(reasoning_left_out=1)
        case ToolCall(call_id, name, arguments):
            return f"-> {one_line(name)} ({one_line(call_id)}) {_quoted(arguments_text(arguments))}", Notes()
        case ToolResult():
            return _result(part)
        case Image():
            return image_label(part), Notes(images_as_metadata=1)
        case Opaque():
            return opaque_label(part), Notes(opaque_left_out=1)
        case _:
            assert_never(part)


def _result(result: ToolResult) -> tuple[str, Notes]:
    shown = [_shown(piece) for piece in result.content]
    fault = " error:" if result.is_error else ""
    said = "\n".join(text for text, _ in shown if text is not None)
    return f"<- ({one_line(result.call_id)}){fault} {said}", sum((lost for _, lost in shown), Notes())


def _quoted(text: str) -> str:
    return _HEADING.sub(" ", text)
