"""The values of the summary DAG: nodes, their tiers, and what a ladder hands over to be stored.

A leaf (depth 0) covers rows, a parent covers adjacent nodes of one depth. A node's rows are the chain
from its last row back to its first. Its words stand in tiers: the primary one, and a rich one where the
ladder chose a terse text over a thorough one.
"""

from __future__ import annotations

from typing import Final, Literal

from lcm_mcp.ids import NodeId, Seq
from lcm_mcp.tokens import TokenCount
from lcm_mcp.values import frozen

MAX_FANOUT: Final = 8
MAX_DEPTH: Final = 8
"""8 children a node and 8 levels cover 8^8 leaves; a node at this depth is no candidate for a parent."""

TierKind = Literal["primary", "rich"]


@frozen
class Node:
    """A stored node; tokens is what its primary tier takes as shown, header included."""

    id: NodeId
    depth: int
    first: Seq
    last: Seq
    rows: int
    source_tokens: TokenCount
    made_at: int
    tokens: TokenCount
    level: int


@frozen
class Cost:
    """What calls took: tokens as the provider counted them, and millionths of a dollar, None where no price
    is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: int | None = 0

    def __add__(self, other: Cost) -> Cost:
        priced = None
        if self.micro_usd is not None and other.micro_usd is not None:
            priced = self.micro_usd + other.micro_usd
        return Cost(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens, priced)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def usd(self) -> float | None:
        return None if self.micro_usd is None else self.micro_usd / 1_000_000


FREE: Final = Cost()


@frozen
class Tier:
    """One text of a node, with what it takes as shown, the rung it came from, who wrote it, and what the
    answers cost that it took to get it."""

    kind: TierKind
    text: str
    tokens: TokenCount
    level: int
    model: str
    cost: Cost = FREE


@frozen
class Summary:
    """What a ladder made of one source; rich is given where a terser text became the primary one."""

    primary: Tier
    rich: Tier | None = None


@frozen
class Stale:
    """The world moved on while a summary was made: nothing was written, plan again."""


def header(node: NodeId, depth: int, first: Seq, last: Seq) -> str:
    """The line that stands above a summary wherever it is shown."""
    return f"[lcm:summary #{node} depth {depth} span e{first}..e{last}]"
