"""What a compaction has made so far, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from lcm_mcp.dag.cuts import Cut
from lcm_mcp.dag.model import FREE, Cost, Node
from lcm_mcp.values import frozen


@dataclass(slots=True)
class Progress:
    """What a pass has made; failed is the summarizer's own sentence where it could not be called.

    written counts summaries that are no nodes (rolling's), levels the rungs they came from. planned and
    folded are tokens of source, planned being None until it is known. no_room: no summary, however short,
    was smaller than what it stood for. calls are those of models, cost what they took; uncounted are tokens
    of calls under way and of broken ones, at their most. masked are keys that no model was sent. faults say
    why others of the chain were asked.
    """

    leaves: list[Node] = field(default_factory=list[Node])
    parents: list[Node] = field(default_factory=list[Node])
    written: int = 0
    written_levels: set[int] = field(default_factory=set[int])
    planned_tokens: int | None = None
    folded_tokens: int = 0
    summary_tokens: int = 0
    stalled: bool = False
    no_room: bool = False
    failed: str | None = None
    out_of_time: bool = False
    calls: int = 0
    uncounted_tokens: int = 0
    cost: Cost = FREE
    masked: int = 0
    faults: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(sorted({node.level for node in (*self.leaves, *self.parents)} | self.written_levels))

    @property
    def line(self) -> str:
        """How far it is, for people."""
        made = len(self.leaves) + len(self.parents) + self.written
        said = f"{made} {'summary' if made == 1 else 'summaries'} made"
        if self.total is None and not self.folded_tokens:
            return said
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.folded_tokens:,}{of} tokens folded, {said}"

    @property
    def total(self) -> int | None:
        """The tokens to fold in all, None where that is unknown or nothing is: a pass may only join nodes."""
        return self.planned_tokens or None


@frozen
class Compacted:
    """How a compaction ended: cut is the new one, None where the one in force stays."""

    cut: Cut | None
    progress: Progress
    seconds: float
