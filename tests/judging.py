"""The deeds that ask for a request view, and what each has to come to under its window's lines.

Worked out beforehand from the ledger alone: what the projection weighs, whether it is at a line, so whether
nothing happens, the request waits for a compaction, or one goes on beside it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

import anyio
import apsw
import pytest
from asking import Dump, View, dump, look, prepared, same
from deeds import Compact, Prepare, Report
from ledger import Seen, weigh
from quotebook import Quoting
from viewbook import Limit, holds_fit, holds_lcm_limit, holds_rolling_limit, preamble_of, size_of
from world import KEY, Asked, Chosen, World

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.background import Pass
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.prepared import Done, Observation
from lcm_mcp.service.requests import PrepareQuery, Usage
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import sessions

Regime = Literal["passive", "async", "blocking"]
NOWHERE = "c777.e999999"
NOT_KEPT = "usage was not kept"


@dataclass(frozen=True, slots=True)
class Before:
    """How a session stood before a request: its projection with the preamble, in bytes and tokens."""

    size: Size
    preamble: Size
    tokens: int
    ratio: float | None
    calls: int
    nodes: int
    cut: str | None


# --- the deeds


async def prepare(world: World, deed: Prepare) -> None:
    """Ask for a request view, and judge it."""
    world.tell(deed.entries)
    usage = _usage(world, deed.usage)
    known = usage is None or world.trail.counted(usage.prepared, usage.input_tokens)
    named = _named(world, deed)
    query = replace(_query(deed), usage=usage)
    before = _before(world, query, named.named)
    query = replace(query, window_tokens=_window(world, deed, before))
    folds = await _folds(world)
    async with _hosting(world, deed.beside):
        if (
            deed.beside
            and _regime(world, query, before, _window_expected(world, query, before)[0]) == "async"
        ):
            _stop_at(world, deed.beside)
        view = await _ask(world, query, named.named)
        seen = view.observation
        assert any(note.startswith(NOT_KEPT) for note in view.notes) != known
        assert (seen.provider, seen.model) == (named.provider, named.model)
        assert (view.status, view.notes, view.tokens) == (
            seen.status,
            seen.notes,
            seen.estimated_input_tokens,
        )
        await _judge(world, query, before, seen)
        if seen.regime == "async":
            await _follow(world, before)
    await _left_nothing_behind(world)
    if world.strategy != "lcm":
        assert folds == await _folds(world)


async def compact(world: World, deed: Compact) -> None:
    """Compact by force, as the command does; strategy none has nothing to compact by."""
    if (deed.strategy or world.strategy) == "none":
        before = await dump(world.service)
        with pytest.raises(InvalidArgument):
            await world.service.compact(KEY, deed.strategy)
        await same(world.service, before)
        return
    world.choose(replace(world.chosen, strategy=deed.strategy or world.chosen.strategy))
    query = PrepareQuery(KEY, compact="force")
    before = _before(world, query, world.chosen.named)
    folds = await _folds(world)
    seen = await world.service.compact(KEY, deed.strategy)
    _remember(world, query, world.chosen.named, seen)
    await _judge(world, query, before, seen)
    if world.strategy == "rolling":
        assert folds == await _folds(world)


def _usage(world: World, report: Report | None) -> Usage | None:
    if report is None:
        return None
    if report.ratio is None or not world.trail.seen:
        return Usage(NOWHERE, 1000)
    of = world.trail.seen[-1 - report.back % len(world.trail.seen)]
    size = next(one for one in reversed(world.trail.seen) if one.prepared == of.prepared).size
    counted = 0 if report.ratio == 0 else size.beside_bytes + round(size.bytes / report.ratio)
    return Usage(of.prepared, counted, counted // 2)


def _named(world: World, deed: Prepare) -> Chosen:
    """Whom the request is for. Only one that may compact says so for those after it as well."""
    known = world.chosen
    other = deed.model is not None and known.model is not None and deed.model != known.model
    named = replace(known, provider=deed.provider or known.provider, model=deed.model or known.model)
    chosen = replace(named, strategy=deed.strategy or known.strategy)
    if deed.compact == "never":
        world.choose(replace(known, strategy=chosen.strategy))
        return named
    # A new model's provider is not known to be the one before.
    world.choose(replace(chosen, provider=deed.provider) if other else chosen)
    return world.chosen


def _query(deed: Prepare) -> PrepareQuery:
    return PrepareQuery(
        session=KEY,
        append=deed.entries,
        strategy=deed.strategy,
        preamble_tokens=None if deed.system else deed.preamble,
        system=deed.system,
        tools=[{"name": "Bash", "input_schema": {}}] if deed.system else (),
        provider=deed.provider,
        model=deed.model,
        format=deed.format,
        compact=deed.compact,
        keep=deed.keep,
    )


def _before(world: World, query: PrepareQuery, model: str | None) -> Before:
    ratio = world.trail.ratio(model)
    shown = world.shown_now()
    tokens, preamble = preamble_of(query)
    tokens += shown.tokens
    if ratio is not None:
        tokens = weigh(preamble + shown, ratio)
    return Before(shown, preamble, tokens, ratio, world.calls, world.nodes, world.cut)


def _window(world: World, deed: Prepare, before: Before) -> int | None:
    """The window in tokens; at and below the edge are the two whose triggers part the present size."""
    at_edge = max(1, before.tokens * 100 // world.trigger_percent)
    match deed.window:
        case "usual":
            return world.window
        case "at the edge":
            return at_edge
        case "below the edge":
            return at_edge + 1
        case _:
            return deed.window


# --- asking


async def _ask(world: World, query: PrepareQuery, model: str | None) -> View:
    view = await prepared(world.service, query)
    _remember(world, query, model, view.observation)
    return view


def _remember(world: World, query: PrepareQuery, model: str | None, seen: Observation) -> None:
    """Note a preparation; law 7: its estimate is the rule's, and counts only stand beside it."""
    tokens, preamble = preamble_of(query)
    size = size_of(seen, world.active)
    ratio = world.trail.ratio(model)
    calibrated = None if ratio is None else weigh(preamble + size, ratio)
    assert seen.estimated_input_tokens == tokens + size.tokens
    assert seen.calibrated_input_tokens == calibrated
    assert seen.provider_input_tokens is None
    assert seen.after.tokens == (seen.estimated_input_tokens if calibrated is None else calibrated)
    if query.keep:
        kept = Seen(seen.prepared, model, preamble + size, seen.estimated_input_tokens)
        world.trail.seen.append(kept)


@asynccontextmanager
async def _hosting(world: World, beside: int | None) -> AsyncGenerator[None]:
    """Let passes go on beside their requests, where the deed says so."""
    if beside is None:
        yield
        return
    for summarizer in world.chain:
        summarizer.stopped = anyio.Event()
    try:
        async with world.service.background.running():
            yield
    finally:
        for summarizer in world.chain:
            summarizer.stop_at = None


def _stop_at(world: World, number: int) -> None:
    for summarizer in world.chain:
        summarizer.stop_at = summarizer.calls + number


async def _folds(world: World) -> Dump:
    """Every node with its children and texts."""
    whole = await dump(world.service)
    return {name: whole[name] for name in ("node", "edge", "tier")}


# --- what it has to come to


def _window_expected(world: World, query: PrepareQuery, before: Before) -> tuple[int | None, str]:
    groups = ("rolling", "lcm") if world.strategy == "none" else (world.strategy,)
    set_for = [world.settings.get(f"{group}.contextWindowTokens") for group in groups]
    own = next((tokens for tokens in set_for if tokens is not None), None)
    if query.window_tokens is not None:
        return query.window_tokens, "argument"
    if own is not None:
        return int(own), "setting"
    if query.compact != "force":
        return None, "unknown"
    # Once there is a cut, what stood for the window when it was made does so again.
    stands = before.tokens if world.in_force is None else world.in_force.window
    return stands or None, "estimate"


def _regime(world: World, query: PrepareQuery, before: Before, window: int | None) -> Regime:
    swap = world.percent("swapPercent", world.trigger_percent)
    if window is None or world.strategy == "none" or not world.active or query.compact == "never":
        return "passive"
    if query.compact == "force" or before.tokens * 100 >= window * world.trigger_percent:
        return "blocking"
    if before.tokens * 100 < window * swap:
        return "passive"
    return "async" if world.service.background.hosts else "blocking"


async def _judge(world: World, query: PrepareQuery, before: Before, seen: Observation) -> None:
    """Compare what was done with what had to be."""
    window, source = _window_expected(world, query, before)
    assert (seen.strategy, seen.window_tokens, seen.window_source) == (world.strategy, window, source)
    assert seen.before.tokens == before.tokens
    holds_fit(seen)
    regime = _regime(world, query, before, window)
    if window is not None and regime != "passive":
        world.asked = Asked(window, before.ratio)
    if regime == "async" and seen.regime == "passive":
        regime = "passive"  # nothing was left to do, so nothing was started
    assert seen.regime == regime
    if regime == "blocking":
        await _judge_compacted(world, query, before, seen)
        return
    assert (seen.cut, seen.done, seen.after.tokens) == (before.cut, None, before.tokens)
    if regime == "passive":
        assert world.calls == before.calls
        assert seen.status in ("not_needed", "limited", "unknown_window")
    else:
        assert seen.status == "scheduled"


async def _judge_compacted(world: World, query: PrepareQuery, before: Before, seen: Observation) -> None:
    """What a compaction that was waited for has come to."""
    assert seen.done is not None
    if seen.cut == before.cut:
        assert seen.after.tokens == before.tokens
    else:
        assert seen.after.tokens < before.tokens
    if seen.status == "failed":
        assert world.may_fail
        assert seen.cut == before.cut
        return
    assert seen.status in ("compacted", "limited", "not_needed")
    if world.steady:
        _got_somewhere(world, before, seen.cut, seen.done, stalled=_stalled(seen))
    if world.steady or not _stalled(seen):
        await _repeat(world, query, seen)
    if seen.status == "limited":
        await _judge_limit(world, before, seen)


def _stalled(seen: Observation) -> bool:
    """Whether condensing came to nothing; a summarizer in another mood may do it the next time."""
    return any(note.startswith("condensation-stalled") for note in seen.notes)


def _got_somewhere(
    world: World, before: Before, cut: str | None, done: Done | Progress, *, stalled: bool
) -> None:
    """No summarizer is called for nothing: a node or a cut is left."""
    if world.calls > before.calls and not stalled:
        assert done.leaves or done.parents or cut != before.cut


async def _repeat(world: World, query: PrepareQuery, seen: Observation) -> None:
    """Law 10: the same compaction again, finished before, changes nothing and asks no summarizer."""
    before, calls = await dump(world.service), world.calls
    again = replace(query, append=(), usage=None, window_tokens=seen.window_tokens)
    assert (await _ask(world, again, _model_of(seen))).prepared == seen.prepared
    await same(world.service, before)
    assert world.calls == calls or _stalled(seen)


def _model_of(seen: Observation) -> str | None:
    return Chosen(None, seen.provider, seen.model).named


async def _judge_limit(world: World, before: Before, seen: Observation) -> None:
    pins = int(world.settings.get("pinnedRowsPercent", 2))
    pinned, window = world.ledger.pinned, world.asked.window
    cut = Quoting(world.active, pinned, window, pins, before.ratio, world.strategy)
    in_force = None
    if seen.cut is not None:
        tail = next(section.sources[0] for section in seen.sections if section.kind == "tail")
        in_force = int(tail.split("..")[0].removeprefix("e"))
    trigger = -(-window * world.trigger_percent // 100)
    limit = Limit(cut, trigger, before.preamble, in_force, world.splits, world.steady)
    if world.strategy == "rolling":
        holds_rolling_limit(limit)
    else:
        await holds_lcm_limit(world.service, KEY, limit)


# --- beside the requests


async def _follow(world: World, before: Before) -> None:
    """While a pass works requests show what the last one showed; once it has ended the next shows its cut."""
    session = await world.service.work.store.read(sessions.find_by_key, KEY)
    assert session is not None
    found = world.service.background.at_work(session.id)
    if found is None:
        return
    await _until_stopped(world, found)
    view = (await look(world.service, PrepareQuery(KEY)))["messages"]
    if not found.ended.is_set():
        assert view.cut == before.cut
        return
    assert found.fault is None
    assert found.outcome is not None
    if found.outcome.progress.failed is not None:
        assert world.may_fail
        assert view.cut == before.cut
        return
    cut = found.outcome.cut
    assert view.cut == (before.cut if cut is None else f"c{cut.id}")
    if world.steady:
        progress = found.outcome.progress
        _got_somewhere(world, before, view.cut, progress, stalled=progress.stalled)


async def _until_stopped(world: World, found: Pass) -> None:
    """Wait until the pass has ended, or has reached a call that never ends."""
    async with anyio.create_task_group() as tasks:

        async def leave(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in (found.ended, *(summarizer.stopped for summarizer in world.chain)):
            tasks.start_soon(leave, event)


async def _left_nothing_behind(world: World) -> None:
    """No pass is at work once its host is gone, and no lease is held."""

    def leases(db: apsw.Connection) -> int:
        found: int = db.execute("SELECT count(*) FROM lease").get
        return found

    assert await world.service.work.store.read(leases) == 0
