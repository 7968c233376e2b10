"""Rows and wire blocks for the tests of wire formats, written short."""

from __future__ import annotations

from collections.abc import Sequence

from wire_order import check_order

from lcm_mcp.ids import Seq, TextId
from lcm_mcp.projection.formats import render
from lcm_mcp.projection.model import Format, Projection, Rendered, TailRow
from lcm_mcp.transcript.blocks import image_from_bytes
from lcm_mcp.transcript.model import (
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Role,
    Row,
    Text,
    ToolCall,
    ToolResult,
)

PICTURE = image_from_bytes("image/png", b"\x89PNG not really")
UNLOADED = Image("image/png", "ab" * 32, 4096, 640, 480)
DOCUMENT = Opaque({"type": "document", "source": {"type": "text", "data": "page 1"}})


Said = tuple[Role, tuple[Part, ...], str | None]
"""A row to be: role, parts, message id."""


def say(
    role: Role, *parts: Part | str, message_id: str | None = None
) -> tuple[Role, tuple[Part, ...], str | None]:
    return role, tuple(Text(part) if isinstance(part, str) else part for part in parts), message_id


def call(call_id: str, name: str = "Bash", arguments: Json = None) -> ToolCall:
    return ToolCall(call_id, name, {"command": "ls"} if arguments is None else arguments)


def result(call_id: str, *content: Text | Image | Opaque | str, is_error: bool = False) -> ToolResult:
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    return ToolResult(call_id, parts, is_error)


def tail_of(rows: Sequence[Said]) -> tuple[TailRow, ...]:
    return tuple(
        TailRow(f"e{seq}", Row(Seq(seq), role, 0, None, message_id, TextId(seq), "", parts))
        for seq, (role, parts, message_id) in enumerate(rows, start=1)
    )


def rendered(form: Format, *rows: Said, history: str | None = None) -> Rendered:
    answer = render(Projection(history, tail_of(rows)), form)
    assert check_order(answer.messages, form) == []
    return answer


def bodies(form: Format, *rows: Said, history: str | None = None) -> list[JsonObject]:
    return [message.body for message in rendered(form, *rows, history=history).messages]


def text(value: str) -> dict[str, Json]:
    return {"type": "text", "text": value}


def tool_use(call_id: str) -> dict[str, Json]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}


def tool_result(call_id: str, *content: str) -> dict[str, Json]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text(value) for value in content]}


def user(*blocks: Json) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


def function(call_id: str, arguments: str = '{"command":"ls"}') -> dict[str, Json]:
    return {"id": call_id, "type": "function", "function": {"name": "Bash", "arguments": arguments}}
