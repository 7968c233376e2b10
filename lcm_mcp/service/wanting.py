"""Which summaries agents may write, and what each is made from.

Wanted are, in this order, the next leaf of complete older units, the next parent, and nodes that were made by
rule. The plan is the one that sessions are folded by which no window is known for. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag import tasks
from lcm_mcp.dag.model import MAX_FANOUT, Node
from lcm_mcp.dag.plan import Condense, FoldLeaves, Shape, next_step
from lcm_mcp.dag.tasks import Place, Task
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.folding import node_source, nodes_source, read_plan, rows_source, task_for
from lcm_mcp.service.memory import memory_policy, newest_unit
from lcm_mcp.service.times import now_ms
from lcm_mcp.settings import LcmSettings
from lcm_mcp.summarizers import ladder
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path, Segment
from lcm_mcp.transcript.units import Span, join, rounds
from lcm_mcp.values import frozen

RULE_NODES = 8
"""Of the nodes made by rule, how many are looked at for one that is free."""


@frozen
class Source:
    """What a task is about: the node over its rows where there is one, and which rows those are."""

    key: str
    node: Node | None
    wanted: ladder.Task
    rows: Sequence[Segment]

    def covers(self, seq: Seq) -> bool:
        return any(part.low <= seq <= part.high for part in self.rows)


def due(db: apsw.Connection, settings: LcmSettings, session: SessionId) -> Sequence[Sequence[Place]]:
    """Places that may be given away, the most urgent first, each in the batch that it is stored with."""
    _, path = path_of(db, session)
    given = tasks.of_session(db, session)
    taken = [task for task in given if task.is_taken(now_ms())]
    newest = newest_unit(db, session)
    if newest is None:
        return ()
    batches = _batches(db, settings, session, path, newest.first, given, taken)
    busy = {task.place for task in taken}
    return [batch for batch in batches if not busy.issuperset(batch)]


def _batches(
    db: apsw.Connection,
    settings: LcmSettings,
    session: SessionId,
    path: Path,
    before: Seq,
    given: Sequence[Task],
    taken: Sequence[Task],
) -> Iterator[Sequence[Place]]:
    """What is wanted, the most urgent first: a leaf, a parent, nodes that were made by rule."""
    policy = memory_policy(settings)
    shape = read_plan(db, session, before, divided=False).shape
    begun = _begun(path, shape, given, taken)
    step = next_step(shape, policy)
    if begun:
        yield begun
    elif isinstance(step, FoldLeaves):
        yield [Place(0, span.first, span.last) for span in step.spans]
    step = next_step(Shape((), shape.frontier), policy)
    if isinstance(step, Condense):
        yield [Place(step.children[0].depth + 1, step.children[0].first, step.children[-1].last)]
    busy = {task.place for task in taken}
    places = (Place(node.depth, node.first, node.last) for node in dag.by_rule(db, session))
    yield from ([place] for place in islice(places, RULE_NODES + len(busy)) if place.last in path)


def _begun(path: Path, shape: Shape, given: Sequence[Task], taken: Sequence[Task]) -> Sequence[Place]:
    """The leaves of the unit that agents are at: the plan may want others by now, as rows were added."""
    if not shape.units:
        return ()
    first = shape.units[0].span.first
    for task in taken:
        if task.place.depth == 0 and task.place.first >= first:
            batch = [each.place for each in given if each.batch == task.batch]
            if batch[0].first == first and batch[-1].last in path:
                return batch
    return ()


def source_of(db: apsw.Connection, settings: LcmSettings, task: Task) -> Source | None:
    """What a task's summary is made from; None where its rows or their nodes have changed."""
    place, session = task.place, task.session
    key, path = path_of(db, session)
    if place.last not in path:
        return None
    node = dag.find_over(db, session, place.depth, place.first, place.last)
    if node is not None:
        source, tokens = node_source(db, session, node)
    elif place.depth == 0:
        span = span_over(path, place)
        source, tokens = rows_source(db, session, path.leaf, span), span.tokens
    else:
        children = children_of(db, session, path, place)
        if not children:
            return None
        source, tokens = nodes_source(db, session, children)
    wanted = task_for(source, tokens, place.depth, place.first, place.last, memory_policy(settings))
    return Source(key, node, wanted, path.between(place.first, place.last))


def path_of(db: apsw.Connection, session: SessionId) -> tuple[str, Path]:
    """A session's key and its active path."""
    found = sessions.existing(db, session)
    return found.key, Path(db, session, found.leaf)


def span_over(path: Path, place: Place) -> Span:
    return join(rounds(path.marks(place.first, place.last)))


def children_of(db: apsw.Connection, session: SessionId, path: Path, place: Place) -> Sequence[Node]:
    """The neighbours that a parent is wanted of; none where the frontier has changed there."""
    below = list(islice(dag.frontier_back(db, session, path, place.last), MAX_FANOUT + 1))
    found = [node for node in reversed(below) if node.first >= place.first]
    whole = found and (found[0].first, found[-1].last) == (place.first, place.last)
    return found if whole and all(node.depth == place.depth - 1 for node in found) else ()
