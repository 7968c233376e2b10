"""A history lived: its deeds done one after the other, all laws checked after each, and a death survived."""

from __future__ import annotations

from typing import Literal

import apsw
from asking import View, dump, expanded, look, nodes_of, same
from deeds import Append, AppendAgain, Compact, Crash, Deed, Import, Mortal, Pin, Prepare, Reopen
from dying import Doom, bury
from judging import compact, prepare
from lawbook import holds_cover, holds_every_part, holds_everything_once, holds_memory, holds_shrink
from ledger import Ledger, Seen, Trail
from quotebook import Quoting, holds_labels, holds_length, holds_quotes
from viewbook import (
    history_text,
    holds_border,
    holds_estimate,
    holds_fit,
    holds_order,
    holds_pairs,
    holds_prefix,
)
from world import KEY, Chosen, Standing, World

from lcm_mcp.dag import cuts
from lcm_mcp.projection.model import Format
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.service.showing import shown_history
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import pins, sessions
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.model import Draft
from lcm_mcp.transcript.sessions import Session

LOOK = PrepareQuery(session=KEY, window_tokens=4000, preamble_tokens=100)


async def do(world: World, deed: Deed) -> None:
    """Do a deed to the service and to the model of it."""
    match deed:
        case Crash():
            await _crash(world, deed)
        case AppendAgain():
            await world.append_again(deed)
        case Reopen():
            await world.reopen(deed)
        case _:
            await _do(world, deed)


async def _do(world: World, deed: Mortal) -> None:
    match deed:
        case Append():
            await world.append(deed)
        case Import():
            await world.import_more(deed)
        case Pin():
            await world.pin(deed)
        case Prepare():
            await prepare(world, deed)
        case Compact():
            await compact(world, deed)


# --- the laws


async def check(world: World) -> None:
    """Every law, as the session stands; law 8: looking at it writes nothing."""
    before = await dump(world.service)
    views = await look(world.service, LOOK)
    await _check_projection(world, views)
    await holds_memory(world.service, KEY, world.active)
    await holds_cover(world.service, KEY, world.active)
    await holds_shrink(world.service, KEY, world.active)
    await _check_new_nodes(world)
    await _read_everything(world)
    await same(world.service, before)
    world.views = views


async def _check_projection(world: World, views: dict[Format, View]) -> None:
    view = views["messages"]
    text = history_text(view)
    holds_order(views)
    holds_labels(text, world.strategy, view.shown)
    holds_estimate(views, world.active, LOOK)
    for one in views.values():
        holds_fit(one.observation)
    await holds_everything_once(world.service, KEY, _before_tail(world, view), view.tail, world.active)
    known = world.views.get("messages")
    if known is not None and (known.cut, known.observation.strategy) == (view.cut, world.strategy):
        holds_prefix(world.views, views)
    if view.cut is None:
        assert world.cut is None
        assert view.tail == [row.ref for row in world.active]  # law 5
        return
    assert text is not None
    if view.cut != world.cut:
        _check_new_cut(world, view, text)
    standing = world.in_force
    assert standing is not None
    assert (text, int(view.tail[0][1:])) == (standing.history, standing.tail_from)


def _before_tail(world: World, view: View) -> list[str]:
    """What leads to the rows before the tail: lcm's nodes, or for rolling their range.

    The summary's own span may reach into the tail, where a stored node did that it was made of.
    """
    if world.strategy != "rolling" or view.cut is None:
        return view.shown
    before = [row.ref for row in world.active if row.seq < int(view.tail[0][1:])]
    return [f"{before[0]}..{before[-1]}"]


def _check_new_cut(world: World, view: View, text: str) -> None:
    """A cut made since the last look: its border, quotes and length, and that the tail never went back."""
    asked, start = world.asked, int(view.tail[0][1:])
    if world.in_force is None or start != world.in_force.tail_from:
        holds_border(start, world.active, world.ledger.late, split=world.splits)
    percent = int(world.settings.get("pinnedRowsPercent", 2))
    quoting = Quoting(world.active, world.ledger.pinned, asked.window, percent, asked.ratio, world.strategy)
    place = next(place for place, row in enumerate(world.active) if row.seq == start)
    holds_quotes(text, quoting, place, view.notes)
    if world.strategy == "rolling":
        holds_length(text, asked.window)
    assert world.in_force is None or start >= world.in_force.tail_from
    assert view.cut is not None
    if world.strategy == "lcm":
        world.standing.pop("rolling", None)  # a running summary does not outlive another strategy's cut
    world.standing[world.strategy] = Standing(view.cut, text, start)


async def _check_new_nodes(world: World) -> None:
    """Law 3 in the DAG: a new leaf parts no call from its result, the last new one ends a unit (or, where
    units may be divided, a round of the newest)."""
    nodes = await nodes_of(world.service, KEY)
    new = [node for node in nodes if int(node.id[1:]) > world.nodes and node.depth == 0]
    world.nodes = len(nodes)
    holds_pairs([int(node.span[0][1:]) for node in new], world.active, world.ledger.late)
    if new:
        world.covered = max(int(node.span[1][1:]) for node in new)
        following = next(row.seq for row in world.active if row.seq > world.covered)
        splits = bool(world.settings.get("lcm.splitOversizedUnit", False))
        holds_border(following, world.active, world.ledger.late, split=splits)


async def _read_everything(world: World) -> None:
    await world.service.sessions()
    await world.service.doctor()
    for pattern in ("found", "写", "[lcm:"):
        await world.service.grep(GrepQuery(pattern, session=KEY))
    last = world.ledger.rows
    if last:
        described = (await world.service.describe(f"e{last}", KEY)).row
        assert described is not None
        assert (described.ref, described.pinned) == (f"e{last}", last in world.ledger.pinned)


async def check_end(world: World) -> None:
    """What is looked at once: payloads, every node, repeats, and a store opened again."""
    await holds_every_part(world.service, KEY, world.active)
    places = {row.ref: place for place, row in enumerate(world.active)}
    for node in await nodes_of(world.service, KEY):
        rows = await expanded(world.service, KEY, node.id, 1500)
        span = world.active[places[node.span[0]] : places[node.span[1]] + 1]
        assert [(row.ref, row.text) for row in rows] == [(row.ref, row.text) for row in span]
    before = await dump(world.service)
    for entries in world.named:
        receipt = await world.service.append(KEY, entries)
        assert len(receipt.duplicates) + len(receipt.conflicts) == len(entries)
    for form in [form for form, lines in world.lines.items() if lines]:
        assert (await world.import_file(form, fold=False))[0] == 0
    await same(world.service, before)
    await world.reopen(Reopen(world.settings))


# --- death


async def _crash(world: World, crash: Crash) -> None:
    """Do a deed and die over it; what the next process finds is what was acknowledged, and the rest of the
    deed wholly or not at all."""
    ledger, named = world.ledger.copy(), len(world.named)
    grave = world.folder.parent / f"life{world.lives}"
    world.store.sentence(Doom(crash.write, crash.moment, grave))
    try:
        await _do(world, crash.deed)
    except BaseException:
        if not world.store.dead:
            raise
    world.store.sentence(None)
    if not world.store.dead:
        return
    world.store.close_now()
    world.lives += 1
    for summarizer in world.chain:
        summarizer.stop_at = None
    world.open(grave, world.settings)
    await bury(world.store)
    await _remember(world, ledger, _drafts(world, crash.deed))
    if world.ledger.rows == ledger.rows:
        del world.named[named:]


def _drafts(world: World, deed: Mortal) -> list[Draft]:
    """What the deed was about to append."""
    match deed:
        case Append() | Prepare():
            return [parse_entry(made, n) for n, made in enumerate(deed.entries)]
        case Import():
            return world.drafts[deed.format]
        case _:
            return []


async def _remember(world: World, ledger: Ledger, drafts: list[Draft]) -> None:
    """Bring the model to what the store holds: before the deed, after it, or (batches of a file) between."""
    left = await world.service.work.store.read(_left)
    whole = world.ledger.copy()
    world.views = {}
    if left is None:
        raise AssertionError("the session is gone")
    session, pinned, trail, standing = left
    assert ledger.rows <= session.next_seq - 1 <= whole.rows
    if session.next_seq - 1 < whole.rows:
        while ledger.rows < session.next_seq - 1:
            ledger.tell(drafts[:1], world.covered)
            drafts = drafts[1:]
        world.ledger = ledger
    world.ledger.pinned = pinned
    world.trail, world.standing = trail, standing
    world.chosen = Chosen(session.strategy, session.provider, session.model)


Left = tuple[Session, set[int], Trail, dict[str, Standing]]


def _left(db: apsw.Connection) -> Left | None:
    session = sessions.find_by_key(db, KEY)
    if session is None:
        return None
    strategies: tuple[Literal["rolling", "lcm"], ...] = ("rolling", "lcm")
    standing: dict[str, Standing] = {}
    for strategy in strategies:
        cut = cuts.last_cut(db, session.id, strategy)
        if cut is not None:
            text = shown_history(db, session.id, cut)
            assert text is not None
            standing[strategy] = Standing(f"c{cut.id}", text, cut.tail_from)
    kept = db.execute(
        "SELECT prepared, model, bytes, fixed, input_tokens FROM observation WHERE session = ? ORDER BY n",
        (session.id,),
    )
    trail = Trail(
        [
            Seen(prepared, model, Size(bytes=weight, fixed=fixed), 0, counted)
            for prepared, model, weight, fixed, counted in kept
        ]
    )
    return session, {int(seq) for seq in pins.pinned(db, session.id)}, trail, standing
