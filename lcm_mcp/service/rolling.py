"""The rolling strategy's pass: fold the last summary and what is newly evicted into its replacement.

What the running summary may take is known before anything is summarized, so that a cut always shows less
than before; where that leaves too little, there is nothing to do. Long evictions go in chunks of at most
half the window, each carrying the summary so far. The first time, stored nodes stand for the rows they
cover. Nothing is written before it succeeded, and a failure leaves the last cut in force.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import anyio.to_thread
import apsw

from lcm_mcp.dag import cuts
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import Cut, Running
from lcm_mcp.dag.model import FREE, Node, Summary
from lcm_mcp.dag.plan import divide_rounds
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.ids import CutId, Seq, SessionId
from lcm_mcp.projection import lcm, rolling
from lcm_mcp.projection.labels import rolling_header
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.quoting import Quotes, quotes_for, recap_rows
from lcm_mcp.service.showing import shown_size
from lcm_mcp.service.spending import chain_for, most_source_tokens
from lcm_mcp.service.tails import Tail, wanted_tail
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.windows import Window
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import RollingSettings
from lcm_mcp.summarizers.ladder import Task, climb, shown_tokens
from lcm_mcp.summarizers.model import Child, FoldSource
from lcm_mcp.tokens import TokenCount
from lcm_mcp.transcript import files, sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import Span, rounds, units
from lcm_mcp.values import frozen

STRATEGY: Final = "rolling"
WORTHWHILE_TOKENS = 64
"""A summary that may not even be so long is not worth a cut."""
MAX_STALE_CUTS = 5


@frozen
class Chunk:
    """What one call folds beside the summary so far: stored summaries, then rows.

    last is the last row it accounts for; ends_unit: the tail could start after it.
    """

    children: tuple[Child, ...]
    spans: tuple[Span, ...]
    tokens: int
    last: Seq
    ends_unit: bool


@frozen
class Eviction:
    """What a pass has to fold, oldest first, and how long the summary of it may be, in tokens."""

    leaf: Seq
    in_force: Cut | None
    tail: Tail
    first: Seq
    chunks: tuple[Chunk, ...]
    limit: TokenCount


def settled(
    db: apsw.Connection, settings: RollingSettings, session: SessionId, window: Window
) -> Progress | None:
    """The outcome of a pass that would find nothing to do; None where there is something."""
    return Progress() if read_eviction(db, settings, session, window) is None else None


async def fold_and_cut(
    work: Workplace, session: SessionId, window: Window, progress: Progress, deadline: float
) -> Cut | None:
    """Evict what does not fit the tail and put the new summary in its place."""
    for _ in range(MAX_STALE_CUTS):
        most = await anyio.to_thread.run_sync(most_source_tokens, work)
        eviction = await work.store.read(read_eviction, work.settings.rolling, session, window, most)
        if eviction is None:
            return None
        try:
            running = await _fold(work, session, eviction, progress, deadline)
        except SummarizerFailed as failed:
            progress.failed = str(failed)
            return None
        if running is None:
            return None
        drawn = await work.store.read(_draw, session, window, eviction, running)
        committed = None if drawn is None else await work.store.write(_commit, session, drawn, eviction)
        if drawn is None or committed is not None:
            return committed
    return None


def read_eviction(
    db: apsw.Connection,
    settings: RollingSettings,
    session: SessionId,
    window: Window,
    most: int | None = None,
) -> Eviction | None:
    """What there is to evict; None where that is nothing, or nothing worth a cut. most is what a call may
    be given, in tokens, where that may be less than half the window."""
    found = sessions.existing(db, session)
    in_force = cuts.last_cut(db, session, STRATEGY)
    floor = None if in_force is None else in_force.tail_from
    tail = wanted_tail(db, found, window, floor, split=settings.split_oversized_unit)
    path = Path(db, session, found.leaf)
    first = path.after(Seq(0))
    if first is None or tail.first <= (floor or first):
        return None
    limit = _limit(db, found, path, tail, window, in_force, first)
    if limit < WORTHWHILE_TOKENS:
        return None
    half = window.in_rule_tokens(window.tokens) // 2
    size = max((half if most is None else min(half, most)) - limit, WORTHWHILE_TOKENS)
    chunks = tuple(_chunks(db, found, path, tail, floor, size))
    start = first if in_force is None or in_force.running is None else in_force.running.first
    return Eviction(found.leaf, in_force, tail, start, chunks, limit)


def _limit(
    db: apsw.Connection,
    session: Session,
    path: Path,
    tail: Tail,
    window: Window,
    in_force: Cut | None,
    first: Seq,
) -> TokenCount:
    """How long the summary may be such that the cut shows less than now, and fits the window if it can."""
    quotes = _quotes(db, session, path, tail.first, tail, window, in_force)
    bare = lcm.history_size(rolling.history("", first, path.before(tail.first), quotes.blocks))
    verbatim = store.path_totals(db, session.id, session.leaf) - store.path_totals(
        db, session.id, path.before(tail.first)
    )
    without = window.weigh(bare + verbatim)
    now = window.weigh(shown_size(db, session, in_force, session.leaf))
    smaller = window.in_rule_tokens(now - without - 2)
    fitting = window.in_rule_tokens(window.tokens - window.preamble - without)
    room = min(window.summaries, smaller)
    return TokenCount(min(room, max(fitting, WORTHWHILE_TOKENS)))


def _quotes(
    db: apsw.Connection,
    session: Session,
    path: Path,
    tail_from: Seq,
    tail: Tail,
    window: Window,
    in_force: Cut | None,
) -> Quotes:
    recap = recap_rows(db, session, path, tail_from, in_force)
    return quotes_for(db, session, path, tail_from, tail, window, recap)


# --- what is evicted, in chunks


def _chunks(
    db: apsw.Connection, session: Session, path: Path, tail: Tail, floor: Seq | None, size: int
) -> Iterator[Chunk]:
    """Chunks of about `size` tokens: stored nodes where there is no summary yet, then rows."""
    children: list[Child] = []
    spans: list[Span] = []
    taken, last = 0, Seq(0)
    nodes = [] if floor is not None else _nodes(db, session, path, tail)
    after = path.after(nodes[-1].last) if nodes else floor or path.after(Seq(0))
    pieces: list[tuple[Node | Span, int, bool]] = [(node, node.tokens, False) for node in nodes]
    if after is not None and after < tail.first:
        pieces += [(span, span.tokens, ends) for span, ends in _spans(path, after, tail, size)]
    for place, (piece, tokens, ends) in enumerate(pieces):
        if isinstance(piece, Node):
            children.append(_child(db, session.id, piece))
        else:
            spans.append(piece)
        taken, last = taken + tokens, piece.last
        following = pieces[place + 1][1] if place + 1 < len(pieces) else None
        if following is None or taken + following > size:
            yield Chunk(tuple(children), tuple(spans), taken, last, ends or following is None)
            children, spans, taken = [], [], 0


def _nodes(db: apsw.Connection, session: Session, path: Path, tail: Tail) -> list[Node]:
    """The stored nodes that stand for rows before the tail: the frontier there, and the leaves after it, of
    which the last may reach into the tail, whose unit is kept whole all the same."""
    nodes = dag.frontier(db, session.id, path, path.before(tail.first))
    while True:
        after = path.after(nodes[-1].last) if nodes else path.after(Seq(0))
        if after is None or after >= tail.first:
            return nodes
        leaf = dag.leaf_from(db, session.id, path, after)
        if leaf is None:
            return nodes
        nodes.append(leaf)


def _child(db: apsw.Connection, session: SessionId, node: Node) -> Child:
    texts = dag.tiers(db, session, node.id)
    return Child(f"e{node.first}..e{node.last}", texts.get("rich", texts["primary"]).text)


def _spans(path: Path, first: Seq, tail: Tail, size: int) -> Iterator[tuple[Span, bool]]:
    """The rows from `first` up to the tail as spans of whole units, or of rounds where a unit is longer than
    `size` tokens; with each whether a tail could start after it."""
    marks = path.marks(first, path.leaf)
    place = 0
    for span in units(marks):
        own = marks[place : place + span.rows]
        place += span.rows
        if span.first >= tail.first:
            return
        parts = [part for part in rounds(own) if part.last < tail.first]
        if span.last < tail.first and span.tokens <= size:
            yield span, True
        elif parts:
            leaves = divide_rounds(parts, size)
            for number, leaf in enumerate(leaves):
                yield leaf, tail.divided or (number + 1 == len(leaves) and span.last < tail.first)


# --- folding


async def _fold(
    work: Workplace, session: SessionId, eviction: Eviction, progress: Progress, deadline: float
) -> Running | None:
    """The summary over the last chunk that was reached and may end before a tail; None where none was."""
    progress.planned_tokens = progress.folded_tokens + sum(chunk.tokens for chunk in eviction.chunks)
    so_far = None if eviction.in_force is None else eviction.in_force.running
    reached: Running | None = None
    cost = FREE
    for chunk in eviction.chunks:
        if time.monotonic() > deadline:
            progress.out_of_time = True
            return reached
        source = await work.store.read(_source, session, eviction.leaf, so_far, chunk)
        chain = chain_for(work, session, progress, deadline)
        summary = await climb(chain, _task(source, eviction, so_far, chunk))
        if summary is None:
            progress.no_room = True
            return reached
        primary = summary.primary
        cost += primary.cost
        so_far = Running(primary.text, eviction.first, chunk.last, primary.level, primary.model, cost)
        _note(progress, chunk, summary)
        if chunk.ends_unit:
            reached = so_far
    return reached


def _note(progress: Progress, chunk: Chunk, summary: Summary) -> None:
    progress.written += 1
    progress.written_levels.add(summary.primary.level)
    progress.folded_tokens += chunk.tokens
    progress.summary_tokens += summary.primary.tokens


def _source(
    db: apsw.Connection, session: SessionId, leaf: Seq, so_far: Running | None, chunk: Chunk
) -> FoldSource:
    before = () if so_far is None else (Child(f"e{so_far.first}..e{so_far.last}", so_far.text),)
    path = Path(db, session, leaf)
    segments = [part for span in chunk.spans for part in path.between(span.first, span.last)]
    rows = store.read_rows(db, session, segments)
    return FoldSource((*before, *chunk.children), list(files.described(db, session, rows)))


def _task(source: FoldSource, eviction: Eviction, so_far: Running | None, chunk: Chunk) -> Task:
    first, last = eviction.first, chunk.last
    told = sum(shown_tokens(child.span, child.text) for child in source.children)
    rows = sum(span.tokens for span in chunk.spans)
    return Task(
        source=source,
        source_tokens=TokenCount(told + rows),
        target=eviction.limit,
        header=rolling_header(first, last),
        span=f"e{first}..e{last}",
        limit=eviction.limit,
    )


# --- the cut


def _draw(
    db: apsw.Connection, session: SessionId, window: Window, eviction: Eviction, running: Running
) -> Cut | None:
    """The cut that shows this summary; None where it would not show strictly less than before."""
    found = sessions.existing(db, session)
    path = Path(db, session, found.leaf)
    in_force = eviction.in_force
    tail_from = (
        path.after(running.last) if running.last < path.before(eviction.tail.first) else eviction.tail.first
    )
    assert tail_from is not None
    quotes = _quotes(db, found, path, tail_from, eviction.tail, window, in_force)
    history = rolling.history(running.text, running.first, running.last, quotes.blocks)
    verbatim = store.path_totals(db, session, found.leaf) - store.path_totals(
        db, session, path.before(tail_from)
    )
    now = shown_size(db, found, in_force, found.leaf)
    if window.weigh(lcm.history_size(history) + verbatim) >= window.weigh(now):
        return None
    return Cut(
        id=CutId(0),
        strategy=STRATEGY,
        tail_from=tail_from,
        shown=(),
        running=running,
        quotes=quotes.quotes,
        crowded_out=quotes.crowded_out,
        stalled=False,
        grown=False,
        window=window.tokens,
        prefix_sha256=hashlib.sha256(history.encode()).hexdigest(),
        made_at=now_ms(),
    )


def _commit(db: apsw.Connection, session: SessionId, cut: Cut, eviction: Eviction) -> Cut | None:
    """Store a cut if the one it replaces is still in force and its tail on the path; None where not."""
    found = sessions.existing(db, session)
    if cuts.last_cut(db, session, STRATEGY) != eviction.in_force:
        return None
    if cut.tail_from not in Path(db, session, found.leaf):
        return None
    return replace(cut, id=cuts.commit_cut(db, session, cut))
