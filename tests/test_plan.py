"""What is summarized next: chunks of whole units, long units at round borders, runs of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.dag.model import MAX_DEPTH, MAX_FANOUT, Node
from lcm_mcp.dag.plan import (
    MIN_LEAF_TOKENS,
    MIN_TARGET_TOKENS,
    ROOM_NODES,
    Condense,
    FoldLeaves,
    Policy,
    Settled,
    Shape,
    Unit,
    next_step,
)
from lcm_mcp.ids import NodeId, Seq
from lcm_mcp.tokens import INPUT_TOKENS, Size, TokenCount
from lcm_mcp.transcript.units import Span, join

POLICY = Policy(leaf_chunk=1000, leaf_target=200, asked_budget=2400)


def weighing(tokens: int) -> Size:
    """A size of one input and that many tokens in all."""
    return Size(bytes=(tokens - INPUT_TOKENS) * 4, inputs=1)


def rows(first: int, *tokens: int) -> list[Span]:
    """Spans of one row each, that follow each other."""
    return [
        Span(Seq(seq), Seq(seq), Seq(seq - 1), 1, weighing(each)) for seq, each in enumerate(tokens, first)
    ]


def unit(first: int, *round_tokens: int) -> Unit:
    rounds = rows(first, *round_tokens)
    return Unit(join(rounds), rounds)


def uncovered(*units: Sequence[int]) -> list[Unit]:
    """Units by the tokens of their rounds."""
    made: list[Unit] = []
    first = 1
    for tokens in units:
        made.append(unit(first, *tokens))
        first += len(tokens)
    return made


def node(number: int, depth: int, tokens: int = 300) -> Node:
    seq = Seq(number)
    return Node(NodeId(number), depth, seq, seq, 1, TokenCount(9 * tokens), 0, TokenCount(tokens), 1)


def nodes(*depths: int, tokens: int = 300) -> list[Node]:
    return [node(number, depth, tokens) for number, depth in enumerate(depths, 1)]


def folds(units: list[Unit], policy: Policy = POLICY) -> list[tuple[int, int]]:
    """First and last row of each leaf of the next step."""
    step = next_step(Shape(units, []), policy)
    return [(span.first, span.last) for span in step.spans] if isinstance(step, FoldLeaves) else []


def condensed(frontier: list[Node], policy: Policy = POLICY) -> list[int]:
    step = next_step(Shape([], frontier), policy)
    return [child.id for child in step.children] if isinstance(step, Condense) else []


# --- leaves


def test_the_oldest_whole_units_that_fill_a_chunk_become_one_leaf() -> None:
    assert folds(uncovered([400], [300], [299], [300])) == [(1, 3)]


def test_a_unit_that_does_not_fit_waits_for_the_next_leaf() -> None:
    assert folds(uncovered([600], [500], [100])) == [(1, 1)]


def test_a_long_unit_becomes_leaves_that_end_at_round_borders() -> None:
    assert folds(uncovered([300, 400, 500, 400, 600], [100])) == [(1, 2), (3, 4), (5, 5)]


def test_a_round_longer_than_a_chunk_is_one_leaf() -> None:
    assert folds(uncovered([300, 5000, 300])) == [(1, 1), (2, 2), (3, 3)]


def test_a_small_rest_of_a_long_unit_joins_its_last_leaf() -> None:
    assert folds(uncovered([900, 900, 100])) == [(1, 1), (2, 3)]


def test_a_small_head_takes_the_following_unit_with_it() -> None:
    assert folds(uncovered([100], [980], [500])) == [(1, 2)]
    assert folds(uncovered([100], [900, 900])) == [(1, 2), (3, 3)]


def test_a_small_head_waits_where_nothing_follows() -> None:
    assert folds(uncovered([MIN_LEAF_TOKENS - 1])) == []
    assert folds(uncovered([MIN_LEAF_TOKENS])) == [(1, 1)]
    assert next_step(Shape(uncovered([100], [100]), []), POLICY) == Settled(stalled=False)


# --- runs


def test_nothing_is_condensed_while_the_frontier_is_within_its_budget() -> None:
    assert next_step(Shape([], nodes(*[0] * 8)), POLICY) == Settled(stalled=False)


def test_leaves_come_before_parents() -> None:
    step = next_step(Shape(uncovered([500]), nodes(*[0] * 20)), POLICY)
    assert isinstance(step, FoldLeaves)


def test_the_oldest_run_at_the_shallowest_depth_that_has_one_is_condensed() -> None:
    assert condensed(nodes(2, 2, 1, 1, 0, 1, 1, 0, 0, 0)) == [8, 9, 10]
    assert condensed(nodes(2, 2, 1, 1, 0, 1, 1, 1, 0)) == [3, 4]
    assert condensed(nodes(3, 3, 2, 1, 0, 1, 0, 1, 0)) == [1, 2]


def test_a_run_has_at_most_eight_nodes() -> None:
    assert condensed(nodes(*[0] * 20)) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_frontier_without_a_run_over_its_budget_is_stalled() -> None:
    assert next_step(Shape([], nodes(2, 1, 0, tokens=900)), POLICY) == Settled(stalled=True)


def test_nodes_at_the_greatest_depth_are_no_run() -> None:
    assert condensed(nodes(*[MAX_DEPTH] * 4, *[MAX_DEPTH - 1] * 6)) == [5, 6, 7, 8, 9, 10]
    assert next_step(Shape([], nodes(*[MAX_DEPTH] * 9)), POLICY) == Settled(stalled=True)


# --- sizes


def test_a_budget_without_room_for_twelve_summaries_is_grown() -> None:
    small = Policy(leaf_chunk=1000, leaf_target=200, asked_budget=500)
    assert (small.budget, small.grown) == (ROOM_NODES * MIN_TARGET_TOKENS, True)
    assert (POLICY.budget, POLICY.grown) == (2400, False)
    assert next_step(Shape([], nodes(0, 0, tokens=700)), small) == Settled(stalled=False)


def test_a_cramped_window_keeps_to_what_it_has_room_for() -> None:
    cramped = Policy(leaf_chunk=1000, leaf_target=200, asked_budget=500, cramped=True)
    assert (cramped.budget, cramped.grown) == (500, False)
    assert condensed(nodes(0, 0, tokens=300), cramped) == [1, 2]


def test_a_summary_aims_at_the_least_of_target_half_its_source_and_its_share() -> None:
    roomy = Policy(leaf_chunk=6000, leaf_target=768, asked_budget=20_000)
    assert roomy.target(6000) == 768
    assert roomy.target(1000) == 500
    assert Policy(6000, 768, 6000).target(6000) == 500
    assert Policy(6000, 768, 100).target(6000) == MIN_TARGET_TOKENS


# --- laws

UNITS = st.lists(st.lists(st.integers(13, 3000), min_size=1, max_size=6), max_size=12)
FRONTIERS = st.lists(st.tuples(st.integers(0, MAX_DEPTH), st.integers(20, 900)), max_size=40)


@given(UNITS)
def test_leaves_are_whole_rounds_in_order_end_a_unit_and_are_worth_it(units: list[list[int]]) -> None:
    left = uncovered(*units)
    done = 0
    while isinstance(step := next_step(Shape(left, []), POLICY), FoldLeaves):
        rounds = [span for each in left for span in each.rounds]
        for span in step.spans:
            assert span.first == done + 1
            done = span.last
            assert span.tokens >= MIN_LEAF_TOKENS
            inside = [each for each in rounds if span.first <= each.first <= span.last]
            assert span == join(inside)
            # A leaf is over a chunk only where its last pieces could not stand alone.
            assert span.tokens <= POLICY.leaf_chunk or len(inside) == 1 or small_end(inside)
        assert done in {each.span.last for each in left}
        left = [each for each in left if each.span.first > done]
    assert sum(each.span.tokens for each in left) < MIN_LEAF_TOKENS + sum(INPUT_TOKENS for _ in left)


def small_end(inside: list[Span]) -> bool:
    """Whether a leaf grew too long for a reason: a small head or a small rest beside a longer piece."""
    sizes = [join(inside[:n]).tokens for n in range(1, len(inside))]
    rests = [join(inside[n:]).tokens for n in range(1, len(inside))]
    return any(size < MIN_LEAF_TOKENS for size in (*sizes, *rests))


@given(FRONTIERS)
def test_condensing_ends_within_the_budget_or_stalled(frontier: list[tuple[int, int]]) -> None:
    shown = [node(number, depth, tokens) for number, (depth, tokens) in enumerate(frontier, 1)]
    steps = 0
    while isinstance(step := next_step(Shape([], shown), POLICY), Condense):
        steps += 1
        assert steps <= len(frontier)
        place = shown.index(step.children[0])
        children = shown[place : place + len(step.children)]
        assert list(step.children) == children
        assert 2 <= len(children) <= MAX_FANOUT
        assert len({child.depth for child in children}) == 1
        assert children[0].depth < MAX_DEPTH
        shown[place : place + len(children)] = [node(1000 + place, children[0].depth + 1, 20)]
    assert isinstance(step, Settled)
    over = sum(each.tokens for each in shown) > POLICY.budget
    runs = any(older.depth == newer.depth < MAX_DEPTH for older, newer in pairwise(shown))
    assert step.stalled == over
    assert not (over and runs)


def test_condensing_stops_short_where_more_would_leave_the_budget_half_empty() -> None:
    large = [node(number, 1, 800) for number in range(1, 9)]
    step = next_step(Shape((), large), Policy(6000, 768, 3200))
    # Six of eight: 2 x 800 and a parent of about 266 are over half of 3200; seven would leave 1066.
    assert step == Condense(tuple(large[:6]))
