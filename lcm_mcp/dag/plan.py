"""What to summarize next: pure rules over the shape of a session.

First the rows no leaf covers yet, oldest whole units first; then, while the frontier is over its budget,
the oldest run of neighbours at the shallowest depth that has one. Nothing is summarized twice, nothing
is evicted: what cannot be made smaller is reported. The planner sees weights and borders, never text,
and every step it names makes the shape smaller, so repeating it comes to an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby

from lcm_mcp.dag.model import MAX_DEPTH, MAX_FANOUT, Node
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript.units import Span, join
from lcm_mcp.values import frozen

MIN_LEAF_TOKENS = 256
"""A smaller source is not worth a node: its header alone would be a good part of it."""
MIN_TARGET_TOKENS = 128
ROOM_NODES = 12
"""A frontier needs room for so many summaries, or runs long enough to condense never form."""


@frozen
class Policy:
    """How large things may be, in tokens. budget is what the frontier block may take.

    cramped: the window has no room for more than was asked, however few summaries that is.
    """

    leaf_chunk: int
    leaf_target: int
    asked_budget: int
    cramped: bool = False

    @property
    def budget(self) -> int:
        if self.cramped:
            return self.asked_budget
        return max(self.asked_budget, ROOM_NODES * MIN_TARGET_TOKENS)

    @property
    def grown(self) -> bool:
        """Whether the budget asked for was too small to work with and was raised."""
        return self.budget > self.asked_budget

    def target(self, source_tokens: int) -> TokenCount:
        """What a summary of such a source should come to."""
        most = max(MIN_TARGET_TOKENS, self.budget // ROOM_NODES)
        return TokenCount(min(self.leaf_target, source_tokens // 2, most))


@frozen
class Unit:
    """A whole unit that no leaf covers, with the rounds it may be divided at if it is too long."""

    span: Span
    rounds: Sequence[Span]


@frozen
class Shape:
    """Units to fold (oldest first) and the frontier that stands before them (oldest first)."""

    units: Sequence[Unit]
    frontier: Sequence[Node]


@frozen
class FoldLeaves:
    """Make one leaf of each span and commit them together, so that the covered end ends a unit."""

    spans: tuple[Span, ...]


@frozen
class Condense:
    """Make one parent of these neighbours."""

    children: tuple[Node, ...]


@frozen
class Settled:
    """Nothing is left to do; stalled where the frontier is over its budget all the same."""

    stalled: bool


Step = FoldLeaves | Condense | Settled


def next_step(shape: Shape, policy: Policy) -> Step:
    """The next thing to summarize, if any."""
    spans = _leaf_spans(shape.units, policy.leaf_chunk)
    if spans:
        return FoldLeaves(spans)
    total = sum(node.tokens for node in shape.frontier)
    if total <= policy.budget:
        return Settled(stalled=False)
    run = _run(shape.frontier)
    return Condense(_enough(run, total, policy)) if run else Settled(stalled=True)


def left_over(units: Iterable[Unit], chunk: int) -> Sequence[Unit]:
    """The newest units that make no leaf, being too little to fold."""
    left = deque(units)
    while spans := _leaf_spans(left, chunk):
        while left and left[0].span.first <= spans[-1].last:
            left.popleft()
    return tuple(left)


def _leaf_spans(units: Iterable[Unit], chunk: int) -> tuple[Span, ...]:
    """The leaves of the oldest units that make one chunk; none where they are too little to fold."""
    taken: list[Unit] = []
    size = Size()
    for unit in units:
        grown = size + unit.span.size
        if taken and grown.tokens > chunk and size.tokens >= MIN_LEAF_TOKENS:
            break
        taken.append(unit)
        size = grown
        if size.tokens >= chunk:
            break
    if size.tokens < MIN_LEAF_TOKENS:
        return ()
    if size.tokens <= chunk:
        return (join([unit.span for unit in taken]),)
    return divide_rounds([span for unit in taken for span in unit.rounds], chunk)


def divide_rounds(rounds: Sequence[Span], chunk: int) -> tuple[Span, ...]:
    """Rounds as leaves of about a chunk each; a longer round is one leaf, a small rest joins the last."""
    leaves: list[list[Span]] = [[]]
    size = Size()
    for span in rounds:
        if size.tokens >= MIN_LEAF_TOKENS and (size + span.size).tokens > chunk:
            leaves.append([])
            size = Size()
        leaves[-1].append(span)
        size += span.size
    if len(leaves) > 1 and size.tokens < MIN_LEAF_TOKENS:
        rest = leaves.pop()
        leaves[-1].extend(rest)
    return tuple(join(leaf) for leaf in leaves)


def _run(frontier: Sequence[Node]) -> tuple[Node, ...]:
    """The oldest run of at least two neighbours of one depth, at the shallowest depth that has one."""
    runs = [list(group) for _, group in groupby(frontier, key=lambda node: node.depth)]
    eligible = [run for run in runs if len(run) > 1 and run[0].depth < MAX_DEPTH]
    if not eligible:
        return ()
    return tuple(min(eligible, key=lambda run: run[0].depth)[:MAX_FANOUT])


def _enough(run: tuple[Node, ...], total: int, policy: Policy) -> tuple[Node, ...]:
    """As many of a run's oldest nodes as may go without leaving more than half of the budget empty.

    Nodes made for a larger window (or for none) are large here: eight of them at once would leave a request
    one terse summary where it has room for several.
    """
    for count in range(len(run), 2, -1):
        taken = sum(node.tokens for node in run[:count])
        if total - taken + policy.target(taken) >= policy.budget // 2:
            return run[:count]
    return run[:2]
