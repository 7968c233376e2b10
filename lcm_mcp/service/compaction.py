"""Compaction: a new cut for a session, and the folding of sessions nobody prepares.

A cut is planned on what stands in the store, its missing nodes are made, and it is committed only if it
shows strictly less than before and still matches the store. The tail starts at a unit border where a node
ends, never before the tail of the cut in force. If the summarizer fails, the last cut stays and is shown.
One process at a time compacts a session; a dead one's lease is lost.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace

import anyio
import apsw

from lcm_mcp.dag import cuts
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import Cut, ShownNode
from lcm_mcp.dag.model import Node, header
from lcm_mcp.dag.plan import MIN_TARGET_TOKENS, ROOM_NODES, Policy, Settled, next_step
from lcm_mcp.ids import CutId, Seq, SessionId
from lcm_mcp.projection import lcm
from lcm_mcp.projection.lcm import Summarized
from lcm_mcp.service.answers import Folded
from lcm_mcp.service.folding import Goal, Progress, fold, read_plan
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import LcmSettings
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import Span, units_back

STRATEGY = "lcm"
MEMORY_S = 3600.0
LEASE_POLL_S = 0.05
MAX_STALE_CUTS = 5
FENCE_TOKENS = lcm.history_size(lcm.history([Summarized("", "", {"primary": ""})], ["primary"])).tokens
"""What the history message takes before it says anything."""


@dataclass(frozen=True, slots=True)
class Window:
    """The window and what it is divided into, in tokens; preamble is what the request brings itself."""

    tokens: int
    preamble: int
    trigger: int
    tail: int
    summaries: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """How a compaction ended: cut is the new one, None where the one in force stays."""

    cut: Cut | None
    progress: Progress
    seconds: float


def divide(window: int, preamble: int, settings: LcmSettings) -> Window:
    """A window's lines under the settings in force; a large preamble takes its room from the tail."""
    trigger = -(-window * settings.trigger_percent // 100)
    left = trigger - preamble - FENCE_TOKENS - MIN_TARGET_TOKENS
    return Window(
        tokens=window,
        preamble=preamble,
        trigger=trigger,
        tail=min(window * settings.tail_percent // 100, max(left, 0)),
        summaries=window * settings.summary_percent // 100,
    )


def memory_policy(settings: LcmSettings) -> Policy:
    """How sessions are folded that no window is known for: room for twelve summaries of full size."""
    target = settings.leaf_target_tokens
    return Policy(settings.leaf_chunk_tokens, target, ROOM_NODES * target)


async def fold_memory(work: Workplace, session: SessionId) -> Folded | None:
    """Make nodes of every complete older unit; None where folding is off or there was nothing to fold."""
    if not work.settings.fold_imports:
        return None
    newest = await work.store.read(_newest_unit, session)
    if newest is None:
        return None
    goal = Goal(session, newest.first, memory_policy(work.settings.lcm), time.monotonic() + MEMORY_S)
    progress = await fold(work, goal)
    if not progress.leaves:
        return None
    return Folded(
        leaves=len(progress.leaves),
        parents=len(progress.parents),
        source_tokens=sum(node.source_tokens for node in progress.leaves),
        summary_tokens=sum(node.tokens for node in progress.leaves),
    )


def _newest_unit(db: apsw.Connection, session: SessionId) -> Span | None:
    found = sessions.find_by_id(db, session)
    if found is None or found.leaf == 0:
        return None
    return next(units_back(Path(db, session, found.leaf).marks_back()))


async def compact(work: Workplace, session: SessionId, window: Window, deadline: float) -> Compacted:
    """Bring a session's projection under its window's lines as far as it goes."""
    started = time.monotonic()
    settled = await work.store.read(_settled, work.settings.lcm, session, window)
    if settled is not None:
        return Compacted(None, settled, time.monotonic() - started)
    token = await _lease(work, session, deadline)
    if token is None:
        return Compacted(None, Progress(out_of_time=True), time.monotonic() - started)
    try:
        cut, progress = await _compact(work, session, window, deadline)
        return Compacted(cut, progress, time.monotonic() - started)
    finally:
        with anyio.CancelScope(shield=True):
            await work.store.write(cuts.release_lease, session, token)


def _settled(
    db: apsw.Connection, settings: LcmSettings, session: SessionId, window: Window
) -> Progress | None:
    """The outcome of a pass that would find nothing to do, told without taking a lease or writing."""
    wanted = _wanted_tail(db, session, window)
    policy = _policy(window, settings, wanted)
    step = next_step(read_plan(db, session, wanted.first).shape, policy)
    if not isinstance(step, Settled) or draw_cut(db, session, window, wanted, policy, step.stalled):
        return None
    return Progress(stalled=step.stalled)


async def _lease(work: Workplace, session: SessionId, deadline: float) -> str | None:
    while True:
        token = await work.store.write(cuts.take_lease, session, now_ms())
        if token is not None or time.monotonic() > deadline:
            return token
        await anyio.sleep(LEASE_POLL_S)


async def _compact(
    work: Workplace, session: SessionId, window: Window, deadline: float
) -> tuple[Cut | None, Progress]:
    progress = Progress()
    for _ in range(MAX_STALE_CUTS):
        wanted = await work.store.read(_wanted_tail, session, window)
        policy = _policy(window, work.settings.lcm, wanted)
        progress = await fold(work, Goal(session, wanted.first, policy, deadline))
        if progress.failed is not None:
            return None, progress
        drawn = await work.store.read(draw_cut, session, window, wanted, policy, progress.stalled)
        if drawn is None:
            return None, progress
        committed = await work.store.write(_commit, session, drawn)
        if committed is not None:
            return committed, progress
    return None, progress


def _policy(window: Window, settings: LcmSettings, wanted: Tail) -> Policy:
    """Sizes for this window; where the newest unit leaves little room, summaries have to do with that."""
    chunk = min(settings.leaf_chunk_tokens, window.tokens // 2)
    room = window.tokens - window.preamble - wanted.least.tokens - FENCE_TOKENS
    policy = Policy(chunk, settings.leaf_target_tokens, window.summaries)
    if room < policy.budget:
        return Policy(chunk, settings.leaf_target_tokens, max(room, MIN_TARGET_TOKENS), cramped=True)
    return policy


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the tail should start, at the latest at the newest unit, whose size is `least`."""

    first: Seq
    newest: Seq
    least: Size


def _wanted_tail(db: apsw.Connection, session: SessionId, window: Window) -> Tail:
    """The most newest whole units that fit into the tail's share; reads no further back than that.

    The tail never starts before that of the cut in force, not even where a late result has joined the newest
    unit with one that the cut covers.
    """
    found = sessions.find_by_id(db, session)
    assert found is not None
    path = Path(db, session, found.leaf)
    spans = lcm.tail_units(units_back(path.marks_back()), window.tail)
    first, newest = spans[-1].first, spans[0].first
    in_force = cuts.last_cut(db, session, STRATEGY)
    if in_force is not None and in_force.tail_from in path:
        first, newest = max(first, in_force.tail_from), max(newest, in_force.tail_from)
    totals = store.path_totals(db, session, found.leaf)
    return Tail(first, newest, totals - store.path_totals(db, session, path.before(newest)))


def draw_cut(
    db: apsw.Connection,
    session: SessionId,
    window: Window,
    wanted: Tail,
    policy: Policy,
    stalled: bool,
) -> Cut | None:
    """The cut to make of the nodes that stand; None where it would not show strictly less than before."""
    found = sessions.find_by_id(db, session)
    assert found is not None
    path = Path(db, session, found.leaf)
    in_force = cuts.last_cut(db, session, STRATEGY)
    now = shown_size(db, found, in_force, found.leaf)
    best: tuple[Cut, Size] | None = None
    for end in _ends(db, found, path, wanted, in_force):
        cut, size = _draw(db, found, path, end, window, policy, stalled)
        if best is None or size.tokens < best[1].tokens:
            best = cut, size
        if best[1].tokens + window.preamble < window.trigger:
            break
    if best is None or best[1].tokens >= now.tokens:
        return None
    return best[0]


def _ends(db: apsw.Connection, session: Session, path: Path, wanted: Tail, in_force: Cut | None) -> list[Seq]:
    """Rows after which the tail may start, the best first: the last one before the tail that is wanted, then
    later ones up to the newest unit, for where that leaves too much; last those whose border a late result
    has crossed since a node was made to end there."""
    floor = Seq(1) if in_force is None else path.before(in_force.tail_from)
    whole: list[Seq] = []
    crossed: list[Seq] = []

    def sort_in(end: Seq) -> None:
        match dag.border_after(db, session.id, path, end):
            case "whole":
                whole.append(end)
            case "crossed":
                crossed.append(end)
            case "none" if in_force is not None and end == floor:
                whole.append(end)  # where the cut in force ends was a border, and stays one for it
            case "none":
                pass

    end = dag.covered_end(db, session.id, path, path.before(wanted.first))
    while end >= floor and not whole:
        sort_in(end)
        end = dag.covered_end(db, session.id, path, Seq(end - 1))
    for end in dag.ends_between(db, session.id, path, max(wanted.first, floor), path.before(wanted.newest)):
        sort_in(end)
    return whole + crossed


def _draw(
    db: apsw.Connection,
    session: Session,
    path: Path,
    end: Seq,
    window: Window,
    policy: Policy,
    stalled: bool,
) -> tuple[Cut, Size]:
    """The cut whose tail starts after row `end`, and what its projection weighs."""
    tail_from = path.after(end)
    assert tail_from is not None
    nodes = dag.frontier(db, session.id, path, end)
    texts = [summarized(db, session.id, node) for node in nodes]
    totals = store.path_totals(db, session.id, session.leaf)
    tail = totals - store.path_totals(db, session.id, end)
    room = window.tokens - window.preamble - tail.tokens - FENCE_TOKENS
    tiers = lcm.choose_tiers(texts, min(policy.budget, max(room, 0)))
    history = lcm.history(texts, tiers)
    assert history is not None
    cut = Cut(
        id=CutId(0),
        strategy=STRATEGY,
        tail_from=tail_from,
        shown=tuple(ShownNode(node.id, tier) for node, tier in zip(nodes, tiers, strict=True)),
        stalled=stalled,
        grown=policy.grown,
        window=window.tokens,
        prefix_sha256=hashlib.sha256(history.encode()).hexdigest(),
        made_at=now_ms(),
    )
    return cut, lcm.history_size(history) + tail


def _commit(db: apsw.Connection, session: SessionId, cut: Cut) -> Cut | None:
    """Store a cut if its nodes are still the frontier before its tail; None where they are not."""
    found = sessions.find_by_id(db, session)
    assert found is not None
    path = Path(db, session, found.leaf)
    if cut.tail_from not in path:
        return None
    standing = dag.frontier(db, session, path, path.before(cut.tail_from))
    if [node.id for node in standing] != [shown.node for shown in cut.shown]:
        return None
    return replace(cut, id=cuts.commit_cut(db, session, cut))


def summarized(db: apsw.Connection, session: SessionId, node: Node) -> Summarized:
    """A node with its texts, ready to be shown."""
    texts = {tier.kind: tier.text for tier in dag.tiers(db, session, node.id).values()}
    return Summarized(header(node.id, node.depth, node.first, node.last), f"#{node.id}", texts)


def shown_history(db: apsw.Connection, session: SessionId, cut: Cut | None) -> str | None:
    """The history message of a cut: always the same words for the same cut."""
    if cut is None:
        return None
    texts: list[Summarized] = []
    for shown in cut.shown:
        node = dag.find_node(db, session, shown.node)
        assert node is not None
        texts.append(summarized(db, session, node))
    return lcm.history(texts, [shown.tier for shown in cut.shown])


def shown_size(db: apsw.Connection, session: Session, cut: Cut | None, leaf: Seq) -> Size:
    """What the projection of a cut weighs at a leaf: history and tail, without preamble."""
    totals = store.path_totals(db, session.id, leaf)
    if cut is None:
        return totals
    before = Path(db, session.id, leaf).before(cut.tail_from)
    tail = totals - store.path_totals(db, session.id, before)
    return lcm.history_size(shown_history(db, session.id, cut)) + tail
