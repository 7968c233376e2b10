"""The deeds that ask for a request view, and what each has to come to under its window's lines.

Worked out beforehand from the ledger alone: what the projection weighs, whether it is at a line, so whether
nothing happens, the request waits for a compaction, or one goes on beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pytest
from asking import Dump, View, dump, prepared, same
from deeds import Compact, Prepare
from hosting import follow, hold_back, hosting
from ledger import Seen, weigh
from quotebook import Quoting
from viewbook import Limit, holds_fit, holds_lcm_limit, holds_rolling_limit, preamble_of, size_of
from world import NOT_KEPT, Asked, Chosen, World

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.prepared import Done, Observation
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.tokens import Size

Regime = Literal["passive", "async", "blocking"]


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
    usage, known = world.count(deed.usage)
    named = _named(world, deed)
    query = replace(_query(deed), session=world.key, usage=usage)
    before = _before(world, query, named.named)
    query = replace(query, window_tokens=_window(world, deed, before))
    folds = await _folds(world)
    async with hosting(world, deed.beside):
        due = _due(world, query, before)
        if due.regime == "async":
            hold_back(world, deed.beside)
        view = await _ask(world, query, named.named)
        seen = view.observation
        assert any(note.startswith(NOT_KEPT) for note in view.notes) != known
        assert (seen.provider, seen.model) == (named.provider, named.model)
        assert (view.status, view.notes, view.tokens) == (
            seen.status,
            seen.notes,
            seen.estimated_input_tokens,
        )
        await _judge(world, query, before, due, seen)
        if seen.regime == "async":
            ended = await follow(world)
            if ended is not None and world.steady:
                _got_somewhere(
                    world, before, ended.cut is not None, ended.progress, stalled=ended.progress.stalled
                )
    if world.strategy != "lcm":
        assert folds == await _folds(world)


async def compact(world: World, deed: Compact) -> None:
    """Compact by force, as the command does; strategy none has nothing to compact by."""
    if (deed.strategy or world.strategy) == "none":
        before = await dump(world.service)
        with pytest.raises(InvalidArgument):
            await world.service.compact(world.key, deed.strategy)
        await same(world.service, before)
        return
    world.choose(replace(world.chosen, strategy=deed.strategy or world.chosen.strategy))
    query = PrepareQuery(world.key, compact="force")
    before = _before(world, query, world.chosen.named)
    folds, due = await _folds(world), _due(world, query, before)
    seen = await world.service.compact(world.key, deed.strategy)
    _remember(world, query, world.chosen.named, seen)
    await _judge(world, query, before, due, seen)
    if world.strategy == "rolling":
        assert folds == await _folds(world)


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
    return Before(shown, preamble, tokens, ratio, world.calls, world.tale.nodes, world.cut)


def _window(world: World, deed: Prepare, before: Before) -> int | None:
    """The window in tokens; at and below the edge are the two whose triggers part the present size."""
    both_lines = world.percent("swapPercent", world.trigger_percent) + world.trigger_percent
    at_edge = max(1, before.tokens * 100 // world.trigger_percent)
    match deed.window:
        case "usual":
            return world.window
        case "at the edge":
            return at_edge
        case "below the edge":
            return at_edge + 1
        case "between":
            return max(1, before.tokens * 200 // both_lines)
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


async def _folds(world: World) -> Dump:
    """Every node with its children and texts."""
    whole = await dump(world.service)
    return {name: whole[name] for name in ("node", "edge", "tier")}


# --- what it has to come to


@dataclass(frozen=True, slots=True)
class Due:
    """The window a request is for, who says so, and whether its compaction is waited for."""

    window: int | None
    source: str
    regime: Regime


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


def _due(world: World, query: PrepareQuery, before: Before) -> Due:
    """What a request has to come to; what it asks for is noted beforehand, lest it dies with it."""
    window, source = _window_expected(world, query, before)
    due = Due(window, source, _regime(world, query, before, window))
    if window is not None and due.regime != "passive":
        world.tale.asked = Asked(window, before.ratio)
    return due


async def _judge(world: World, query: PrepareQuery, before: Before, due: Due, seen: Observation) -> None:
    """Compare what was done with what had to be."""
    assert (seen.window_tokens, seen.window_source) == (due.window, due.source)
    assert seen.strategy == world.strategy
    assert seen.before.tokens == before.tokens
    holds_fit(seen)
    if due.regime == "blocking":
        assert seen.regime == "blocking"
        await _judge_compacted(world, query, before, seen)
        return
    assert (seen.cut, seen.after.tokens) == (before.cut, before.tokens)
    if due.regime == "async" and world.tale.failed_at is not None:
        _judge_told(world, before, seen)
    elif seen.regime == "passive":  # also where nothing was left to do, so nothing was started
        assert (world.calls, seen.done) == (before.calls, None)
        assert seen.status in ("not_needed", "limited", "unknown_window")
    else:
        assert (seen.regime, due.regime, seen.status, seen.done) == ("async", "async", "scheduled", None)


def _judge_told(world: World, before: Before, seen: Observation) -> None:
    """How the last pass beside the requests failed is told by the next one, instead of trying again at once;
    and by those after it, until rows are added."""
    assert (seen.status, seen.regime, world.calls) == ("failed", "passive", before.calls)
    if world.tale.failed_at != world.active[-1].seq:
        world.tale.failed_at = None


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
        world.tale.failed_at = 0  # told here, and once more
        return
    assert seen.status in ("compacted", "limited", "not_needed")
    world.tale.failed_at = None
    if world.strategy == "lcm" and seen.cut != before.cut:
        _judge_prefix(world, before, seen)
    if world.steady:
        _got_somewhere(world, before, seen.cut != before.cut, seen.done, stalled=_stalled(seen))
    if world.steady or not _stalled(seen):
        await _repeat(world, query, seen)
    if seen.status == "limited":
        await _judge_limit(world, before, seen)


def _judge_prefix(world: World, before: Before, seen: Observation) -> None:
    """A cut that moves no tail pays for the prefix it changes: with it a request is below the line it was at,
    or fits its window."""
    if world.in_force is None or world.in_force.tail_from != _tail_from(seen):
        return
    window, after = world.asked.window, seen.after.tokens
    lines = (world.percent("swapPercent", world.trigger_percent), world.trigger_percent)
    reached = [percent for percent in lines if before.tokens * 100 >= window * percent]
    below = not reached or after * 100 < window * max(reached)
    assert below or after <= window < before.tokens


def _tail_from(seen: Observation) -> int:
    tail = next(section.sources[0] for section in seen.sections if section.kind == "tail")
    return int(tail.split("..")[0].removeprefix("e"))


def _stalled(seen: Observation) -> bool:
    """Whether no text was found that is small enough; a summarizer in another mood may find one."""
    return any(note.startswith(("condensation-stalled", "No summary fits")) for note in seen.notes)


def _got_somewhere(world: World, before: Before, cuts: bool, done: Done | Progress, *, stalled: bool) -> None:
    """No summarizer is called for nothing: a node or a cut is left."""
    if world.calls > before.calls and not stalled:
        assert cuts or done.leaves or done.parents


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
    in_force = None if seen.cut is None else _tail_from(seen)
    trigger = -(-window * world.trigger_percent // 100)
    limit = Limit(cut, trigger, before.preamble, in_force, world.splits, world.steady)
    if world.strategy == "lcm":
        await holds_lcm_limit(world.service, world.key, limit)
    elif world.steady or not _stalled(seen):  # nodes may say so little that no text is smaller
        holds_rolling_limit(limit)
