"""What a test knows it told: active rows with their weight, their pairs, units and rounds, worked out anew.

Places are indices into a list of active rows.
"""

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
    message_id: str | None

    @property
    def ref(self) -> str:
        return f"e{self.seq}"

    @property
    def answers(self) -> bool:
        return any(isinstance(part, ToolResult) for part in self.parts)


def told(seq: int, draft: Draft) -> Told:
    sealed = seal(draft)
    return Told(seq, draft.role, sealed.text, draft.parts, sealed.size, draft.message_id)


def weight(rows: Sequence[Told]) -> Size:
    return sum((row.size for row in rows), Size())


def pairs(active: Sequence[Told]) -> list[tuple[int, int]]:
    """Calls and their results as places: a result answers the nearest open call before it."""
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
    return row.role == "user" and not row.answers


def opens_round(active: Sequence[Told], place: int) -> bool:
    """Whether a round opens at this place, if no pair crosses it: a request, or a model's next message."""
    row = active[place]
    if place == 0 or opens(row):
        return True
    if row.role != "assistant" or row.answers:
        return False
    before = (one for one in reversed(active[:place]) if opens(one) or _speaks(one))
    return row.message_id is None or row.message_id != next(before, row).message_id


def _speaks(row: Told) -> bool:
    return row.role == "assistant" and not row.answers


def unit_of(active: Sequence[Told], place: int) -> int:
    """The place where the unit opens that the row at `place` belongs to."""
    crossing = pairs(active)
    borders = (at for at in range(place, 0, -1) if opens(active[at]) and not _crosses(crossing, at))
    return next(borders, 0)


def newest_unit(active: Sequence[Told]) -> int:
    """The place where the newest unit opens."""
    return unit_of(active, len(active) - 1)


def newest_round(active: Sequence[Told]) -> int:
    """The place where the newest round of the newest unit opens."""
    crossing = pairs(active)
    rounds = (
        at
        for at in range(len(active) - 1, newest_unit(active), -1)
        if opens_round(active, at) and not _crosses(crossing, at)
    )
    return next(rounds, newest_unit(active))


def _crosses(crossing: Sequence[tuple[int, int]], place: int) -> bool:
    return any(call < place <= answer for call, answer in crossing)
