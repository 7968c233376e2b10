"""The lcm strategy's pass: fold, condense, and draw a cut of the nodes that stand.

A cut is committed only if it shows strictly less than before and still matches the store. Its tail starts
at a border where a node ends, never before the tail of the cut in force. If the summarizer fails, the last
cut stays and is shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import apsw

from lcm_mcp.dag import cuts
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import Cut, ShownNode
from lcm_mcp.dag.plan import MIN_TARGET_TOKENS, Policy, Settled, Shape, left_over, next_step
from lcm_mcp.ids import CutId, Seq, SessionId
from lcm_mcp.projection import lcm
from lcm_mcp.projection.labels import fence_history
from lcm_mcp.service.folding import Goal, fold, read_plan
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.quoting import Quotes, quotes_for
from lcm_mcp.service.showing import shown_history, shown_size, summarized
from lcm_mcp.service.spending import most_source_tokens
from lcm_mcp.service.tails import Tail, wanted_tail
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.windows import Window
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import LcmSettings
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import join
from lcm_mcp.values import frozen

STRATEGY = "lcm"
MAX_STALE_CUTS = 5


def settled(db: apsw.Connection, work: Workplace, session: SessionId, window: Window) -> Progress | None:
    """The outcome of a pass that would find nothing to do; None where there is something."""
    aim = _aim(db, work, session, window)
    step = next_step(aim.shape, aim.policy)
    if not isinstance(step, Settled) or draw_cut(db, session, window, aim.tail, aim.policy, step.stalled):
        return None
    return Progress(stalled=step.stalled)


async def fold_and_cut(
    work: Workplace, session: SessionId, window: Window, progress: Progress, deadline: float
) -> Cut | None:
    """Bring a session's projection under its window's lines as far as it goes."""
    for _ in range(MAX_STALE_CUTS):
        progress.stalled = False
        aim = await work.store.read(_aim, work, session, window)
        tail, policy = aim.tail, aim.policy
        await fold(work, Goal(session, tail.first, policy, deadline, tail.divided), progress)
        if progress.failed is not None:
            return None
        drawn = await work.store.read(draw_cut, session, window, tail, policy, progress.stalled)
        if drawn is None:
            return None
        committed = await work.store.write(_commit, session, drawn)
        if committed is not None:
            return committed
    return None


@frozen
class _Aim:
    """The tail that is wanted, what there is to fold and condense before it, and the sizes for that."""

    tail: Tail
    shape: Shape
    policy: Policy


def _aim(db: apsw.Connection, work: Workplace, session: SessionId, window: Window) -> _Aim:
    settings = work.settings.lcm
    found = sessions.existing(db, session)
    in_force = cuts.last_cut(db, session, STRATEGY)
    floor = None if in_force is None else in_force.tail_from
    tail = wanted_tail(db, found, window, floor, split=settings.split_oversized_unit)
    shape = read_plan(db, session, tail.first, divided=tail.divided).shape
    return _Aim(tail, shape, _policy(db, found, window, settings, _chunk(work, window), tail, shape))


def _chunk(work: Workplace, window: Window) -> int:
    """How many rows go under one leaf, in tokens: no more than whoever summarizes them can read."""
    most = most_source_tokens(work)
    chunk = min(work.settings.lcm.leaf_chunk_tokens, window.tokens // 2)
    return chunk if most is None else min(chunk, most)


def _policy(
    db: apsw.Connection,
    session: Session,
    window: Window,
    settings: LcmSettings,
    chunk: int,
    tail: Tail,
    shape: Shape,
) -> Policy:
    """Sizes for this window; where all that stands beside summaries leaves little room, they do with that."""
    policy = Policy(chunk, settings.leaf_target_tokens, window.in_rule_tokens(window.summaries))
    loose = [unit.span for unit in left_over(shape.units, chunk)]
    size = join(loose).size + tail.size if loose else tail.size
    tail_from = loose[0].first if loose else tail.first
    quotes = quotes_for(db, session, Path(db, session.id, session.leaf), tail_from, tail, window)
    room = _room(window, size, quotes)
    if room < policy.budget:
        cramped = max(room, MIN_TARGET_TOKENS)
        return Policy(chunk, settings.leaf_target_tokens, cramped, cramped=True)
    return policy


def _room(window: Window, verbatim: Size, quotes: Quotes) -> int:
    """What summaries may take beside such a tail and such quotes, in tokens of the fixed rule."""
    beside = lcm.history_size(fence_history(quotes.blocks)) + verbatim
    return window.in_rule_tokens(window.tokens - window.preamble - window.weigh(beside))


def draw_cut(
    db: apsw.Connection, session: SessionId, window: Window, tail: Tail, policy: Policy, stalled: bool
) -> Cut | None:
    """The cut to make of the nodes that stand; None where it would not show strictly less than before, or not
    enough less to be worth the prefix that a cache holds."""
    found = sessions.existing(db, session)
    path = Path(db, session, found.leaf)
    in_force = cuts.last_cut(db, session, STRATEGY)
    now = window.weigh(shown_size(db, found, in_force, found.leaf))
    draw = partial(_draw, db, found, path, tail, window, policy, stalled=stalled)
    best: tuple[Cut, int] | None = None
    for end in _ends(db, found, path, tail, in_force):
        stays = in_force is not None and path.after(end) == in_force.tail_from
        cut, weight = draw(end, shortest=stays and now + window.preamble > window.tokens)
        if best is None or weight < best[1]:
            best = cut, weight
        # What stands under this tail is as good as another one that is below the line.
        if (min(best[1], now) if stays else best[1]) + window.preamble < window.swap:
            break
    if best is None or best[1] >= now:
        return None
    moves = in_force is None or best[0].tail_from != in_force.tail_from
    return best[0] if moves or _worthwhile(window, now, best[1]) else None


def _worthwhile(window: Window, now: int, then: int) -> bool:
    """Whether a cut under the same tail brings a request below the line it is at, or into its window."""
    before, after = now + window.preamble, then + window.preamble
    if before < window.swap:
        return True
    line = window.trigger if before >= window.trigger else window.swap
    return after < line or after <= window.tokens < before


def _ends(db: apsw.Connection, session: Session, path: Path, tail: Tail, in_force: Cut | None) -> list[Seq]:
    """Rows after which the tail may start, the best first: the last one before the tail that is wanted, then
    later ones up to the newest it may start at, for where that leaves too much; last those whose border a
    late result has crossed since a node was made to end there."""
    floor = Seq(1) if in_force is None else path.before(in_force.tail_from)
    whole: list[Seq] = []
    crossed: list[Seq] = []

    def sort_in(end: Seq) -> None:
        border = dag.border_after(db, session.id, path, end)
        if border == "none" and tail.divided and end >= tail.unit:
            border = dag.border_after(db, session.id, path, end, "round")
        if border == "none" and in_force is not None and end == floor:
            border = "whole"  # where the cut in force ends was a border, and stays one for it
        if border != "none":
            (whole if border == "whole" else crossed).append(end)

    end = dag.covered_end(db, session.id, path, path.before(tail.first))
    while end >= floor and end > 0 and not whole:
        sort_in(end)
        end = dag.covered_end(db, session.id, path, Seq(end - 1))
    for end in dag.ends_between(db, session.id, path, max(tail.first, floor), path.before(tail.newest)):
        sort_in(end)
    return whole + crossed


def _draw(
    db: apsw.Connection,
    session: Session,
    path: Path,
    tail: Tail,
    window: Window,
    policy: Policy,
    end: Seq,
    *,
    stalled: bool,
    shortest: bool = False,
) -> tuple[Cut, int]:
    """The cut whose tail starts after row `end`, and what it shows weighs; shortest: every summary by its
    shortest text, so that the rows to come need no further cut at once."""
    tail_from = path.after(end)
    assert tail_from is not None
    nodes = dag.frontier(db, session.id, path, end)
    texts = [summarized(db, session.id, node) for node in nodes]
    quotes = quotes_for(db, session, path, tail_from, tail, window)
    verbatim = store.path_totals(db, session.id, session.leaf) - store.path_totals(db, session.id, end)
    room = max(_room(window, verbatim, quotes), 0)
    tiers = lcm.choose_tiers(texts, 0 if shortest else min(policy.budget, room))
    history = lcm.history(texts, tiers, quotes.blocks)
    assert history is not None
    cut = Cut(
        id=CutId(0),
        strategy=STRATEGY,
        tail_from=tail_from,
        shown=tuple(ShownNode(node.id, tier) for node, tier in zip(nodes, tiers, strict=True)),
        running=None,
        quotes=quotes.quotes,
        crowded_out=quotes.crowded_out,
        stalled=stalled,
        grown=policy.grown,
        window=window.tokens,
        prefix_sha256=hashlib.sha256(history.encode()).hexdigest(),
        made_at=now_ms(),
    )
    return cut, window.weigh(lcm.history_size(history) + verbatim)


def _commit(db: apsw.Connection, session: SessionId, cut: Cut) -> Cut | None:
    """Store a cut if its nodes are still the frontier before its tail; None where they are not."""
    found = sessions.existing(db, session)
    path = Path(db, session, found.leaf)
    if cut.tail_from not in path:
        return None
    standing = dag.frontier(db, session, path, path.before(cut.tail_from))
    if [node.id for node in standing] != [shown.node for shown in cut.shown]:
        return None
    now = shown_history(db, session, replace(cut, id=found.next_cut)) or ""
    if hashlib.sha256(now.encode()).hexdigest() != cut.prefix_sha256:  # a node was made again meanwhile
        return None
    return replace(cut, id=cuts.commit_cut(db, session, cut))
