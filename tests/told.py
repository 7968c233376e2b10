"""What a test knows it told: active rows with their weight, their pairs and units, worked out anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcm_mcp.tokens import Size
from lcm_mcp.transcript.model import Draft, Part, Role, ToolCall, ToolResult
from lcm_mcp.transcript.sealing import seal


@dataclass(frozen=True, slots=True)
class Told:
    """An active row as the test told it."""

    seq: int
    role: Role
    text: str
    parts: tuple[Part, ...]
    size: Size

    @property
    def ref(self) -> str:
        return f"e{self.seq}"


def told(seq: int, draft: Draft) -> Told:
    sealed = seal(draft)
    return Told(seq, draft.role, sealed.text, draft.parts, sealed.size)


def weight(rows: Sequence[Told]) -> Size:
    return sum((row.size for row in rows), Size())


def pairs(active: Sequence[Told]) -> list[tuple[int, int]]:
    """Calls and their results as places in `active`: a result answers the nearest open call before it."""
    waiting: dict[str, list[int]] = {}
    found: list[tuple[int, int]] = []
    for place, row in enumerate(active):
        for part in row.parts:
            asked = waiting.get(_call_key(part.call_id)) if isinstance(part, ToolResult) else None
            if asked:
                found.append((asked.pop(), place))
        for part in row.parts:
            if isinstance(part, ToolCall):
                waiting.setdefault(_call_key(part.call_id), []).append(place)
    return found


def _call_key(call_id: str) -> str:
    return call_id.encode("utf-8", "replace").decode()


def opens(row: Told) -> bool:
    """Whether a unit opens at this row, if no pair crosses it."""
    return row.role == "user" and not any(isinstance(part, ToolResult) for part in row.parts)


def newest_unit(active: Sequence[Told]) -> int:
    """The place in `active` where the newest unit opens."""
    crossing = pairs(active)
    borders = (
        place
        for place in range(len(active) - 1, 0, -1)
        if opens(active[place]) and not any(call < place <= answer for call, answer in crossing)
    )
    return next(borders, 0)
