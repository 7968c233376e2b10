"""Making nodes: the loop that turns uncovered rows into leaves and crowded frontiers into parents.

The plan is pure, the ladder holds no connection, the commit checks that nothing it relied on has changed;
this module only carries values between the three. What was committed stays, whatever happens next. It is
bounded: every step makes the shape smaller, and plans made stale by another process are tried again only
a few times.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Node, Stale, Summary, header
from lcm_mcp.dag.plan import Condense, FoldLeaves, Policy, Settled, Shape, Unit, next_step
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.spending import chain_for
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.summarizers.ladder import Task, climb, shown_tokens
from lcm_mcp.summarizers.model import Child, NodesSource, RowsSource, Source, Summarizer
from lcm_mcp.tokens import TokenCount
from lcm_mcp.transcript import files, sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.units import Span, join, rounds, units
from lcm_mcp.values import frozen

MAX_STALE_PLANS = 5
UNKNOWN_ID = NodeId(999_999)
"""Stands in a header while the node has no number yet; at least as long as the real one will be."""

REMAKE_S = 45.0
"""How long one node may take to be made again: a call is answered within 50 s."""


@frozen
class Goal:
    """Fold the whole units that end before row `before`, and condense what stands before them.

    divided: row `before` opens a round of the newest unit, whose earlier rounds are folded too.
    """

    session: SessionId
    before: Seq
    policy: Policy
    deadline: float
    """On the monotonic clock, in seconds."""
    divided: bool = False


@frozen
class Plan:
    shape: Shape
    leaf: Seq


async def fold(work: Workplace, goal: Goal, progress: Progress) -> None:
    """Work towards a goal until it is reached or stalls, time is over, or no summarizer answers."""
    for _ in range(MAX_STALE_PLANS):
        plan = await work.store.read(read_plan, goal.session, goal.before, divided=goal.divided)
        left = sum(unit.span.tokens for unit in plan.shape.units)
        progress.planned_tokens = progress.folded_tokens + left
        try:
            stale = await _carry_out(work, goal, plan, progress)
        except SummarizerFailed as failed:
            progress.failed = str(failed)
            return
        if not stale:
            return


def read_plan(db: apsw.Connection, wanted: SessionId, before: Seq, *, divided: bool) -> Plan:
    """What there is to fold and condense before row `before`; divided as in a Goal."""
    session = sessions.existing(db, wanted)
    path = Path(db, session.id, session.leaf)
    end = dag.covered_end(db, session.id, path, session.leaf)
    first = path.after(end)
    foldable: list[Unit] = []
    if first is not None and first < before:
        marks = path.marks(first, session.leaf)
        place = 0
        for span in units(marks):
            own = marks[place : place + span.rows]
            place += span.rows
            if span.last < before:
                foldable.append(Unit(span, rounds(own)))
            elif divided and span.first < before:
                closed = [part for part in rounds(own) if part.last < before]
                foldable.append(Unit(join(closed), closed))
    standing = dag.frontier(db, session.id, path, path.before(before)) if session.leaf else []
    return Plan(Shape(foldable, standing), session.leaf)


async def _carry_out(work: Workplace, goal: Goal, plan: Plan, progress: Progress) -> bool:
    """Take the plan's steps one by one, keeping its shape up to date; True where it turned out stale."""
    shape: Shape | Stale = plan.shape
    while not isinstance(shape, Stale):
        if time.monotonic() > goal.deadline:
            progress.out_of_time = True
            return False
        step = next_step(shape, goal.policy)
        match step:
            case Settled(stalled):
                progress.stalled = stalled
                return False
            case FoldLeaves(spans):
                shape = await _fold_leaves(work, goal, plan.leaf, shape, spans, progress)
            case Condense(children):
                condensed = await _condense(work, goal, shape, children, progress)
                if condensed is None:
                    progress.stalled = True
                    return False
                shape = condensed
            case _:
                assert_never(step)
    return True


async def _fold_leaves(
    work: Workplace, goal: Goal, leaf: Seq, shape: Shape, spans: Sequence[Span], progress: Progress
) -> Shape | Stale:
    made = await _make_leaves(work, goal, leaf, spans, chain_for(work, goal.session, progress, goal.deadline))
    if isinstance(made, Stale):
        return made
    progress.leaves.extend(made)
    progress.folded_tokens += sum(node.source_tokens for node in made)
    progress.summary_tokens += sum(node.tokens for node in made)
    left = [unit for unit in shape.units if unit.span.first > spans[-1].last]
    return Shape(left, [*shape.frontier, *made])


async def _condense(
    work: Workplace, goal: Goal, shape: Shape, children: Sequence[Node], progress: Progress
) -> Shape | Stale | None:
    chain = chain_for(work, goal.session, progress, goal.deadline)
    parent = await _make_parent(work, goal, children, chain)
    if parent is None or isinstance(parent, Stale):
        return parent
    progress.parents.append(parent)
    progress.summary_tokens += parent.tokens
    return replace(shape, frontier=_with_parent(shape.frontier, children, parent))


def _with_parent(frontier: Sequence[Node], children: Sequence[Node], parent: Node) -> list[Node]:
    place = next(index for index, node in enumerate(frontier) if node.id == children[0].id)
    return [*frontier[:place], parent, *frontier[place + len(children) :]]


async def _make_leaves(
    work: Workplace, goal: Goal, leaf: Seq, spans: Sequence[Span], chain: Sequence[Summarizer]
) -> list[Node] | Stale:
    made: list[tuple[Span, Summary]] = []
    for span in spans:
        source = await work.store.read(rows_source, goal.session, leaf, span)
        summary = await climb(chain, task_for(source, span.tokens, 0, span.first, span.last, goal.policy))
        # A leaf's source has at least MIN_LEAF_TOKENS, and a pointer to it far fewer.
        assert summary is not None
        made.append((span, summary))
    return await work.store.write(dag.commit_leaves, goal.session, made, now_ms())


async def _make_parent(
    work: Workplace, goal: Goal, children: Sequence[Node], chain: Sequence[Summarizer]
) -> Node | Stale | None:
    source, tokens = await work.store.read(nodes_source, goal.session, children)
    first, last = children[0].first, children[-1].last
    summary = await climb(chain, task_for(source, tokens, children[0].depth + 1, first, last, goal.policy))
    if summary is None:
        return None
    return await work.store.write(dag.commit_parent, goal.session, children, tokens, summary, now_ms())


async def remake(work: Workplace, session: SessionId, node: Node, policy: Policy) -> Summary | None:
    """A node's summary made again from its sources; None where none is smaller. Raises SummarizerFailed."""
    source, tokens = await work.store.read(node_source, session, node)
    chain = chain_for(work, session, Progress(), time.monotonic() + REMAKE_S)
    return await climb(chain, task_for(source, tokens, node.depth, node.first, node.last, policy))


def node_source(db: apsw.Connection, session: SessionId, node: Node) -> tuple[Source, TokenCount]:
    if node.depth == 0:
        span = Path(db, session, node.last).between(node.first, node.last)
        rows = store.read_rows(db, session, span)
        return RowsSource(list(files.described(db, session, rows))), node.source_tokens
    below = (dag.find_node(db, session, child) for child in dag.children(db, session, node.id))
    return nodes_source(db, session, [child for child in below if child is not None])


def task_for(source: Source, tokens: TokenCount, depth: int, first: Seq, last: Seq, policy: Policy) -> Task:
    return Task(
        source=source,
        source_tokens=tokens,
        target=policy.target(tokens),
        header=header(UNKNOWN_ID, depth, first, last),
        span=f"e{first}..e{last}",
    )


def rows_source(db: apsw.Connection, session: SessionId, leaf: Seq, span: Span) -> RowsSource:
    path = Path(db, session, leaf)
    rows = store.read_rows(db, session, path.between(span.first, span.last))
    return RowsSource(list(files.described(db, session, rows)))


def nodes_source(
    db: apsw.Connection, session: SessionId, nodes: Sequence[Node]
) -> tuple[NodesSource, TokenCount]:
    """What a parent is made from, the most thorough text of each child, and what it has to be smaller than:
    the children as they are shown at their tersest, under the headers they have by now."""
    made: list[Child] = []
    tokens = 0
    for node in nodes:
        texts = dag.tiers(db, session, node.id)
        made.append(Child(f"e{node.first}..e{node.last}", texts.get("rich", texts["primary"]).text))
        own = header(node.id, node.depth, node.first, node.last)
        tokens += shown_tokens(own, texts["primary"].text)
    return NodesSource(made), TokenCount(tokens)
