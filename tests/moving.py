"""Deeds by which a history moves: back and sideways, into a fork, away from one, out of the store; redo.

Each is done to the service and to the model of it. What is left behind stays as it is: another session is
compared table by table, a fork with the session it came from (law 11).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import Dump, dump, look, nodes_of, same
from deeds import Forget, Fork, Move, Redo, Rewind, Turn
from dying import Died
from looking import left
from viewbook import canonical
from world import Tale, World

from lcm_mcp.errors import InvalidArgument, SummarizerFailed, UnknownSession
from lcm_mcp.projection.model import FORMATS
from lcm_mcp.service.answers import NodeLine
from lcm_mcp.service.requests import PrepareQuery

MOST_SESSIONS = 3


async def move(world: World, deed: Move) -> None:
    match deed:
        case Rewind():
            await rewind(world, deed)
        case Fork():
            await fork(world, deed)
        case Redo():
            await redo(world, deed)
        case Turn():
            await turn(world, deed)
        case Forget():
            await forget(world, deed)


async def rewind(world: World, deed: Rewind) -> None:
    """Back, forwards or sideways; it writes where the path ends, and nothing else."""
    rows = [0, *_rows(world)]
    before, leaf = await dump(world.service), rows[-1 - deed.back % len(rows)]
    removed, restored = world.ledger.move(leaf)
    world.tale.settle()
    moved = await world.service.rewind(f"e{leaf}", world.key)
    assert (moved.removed, moved.restored, moved.leaf) == (removed, restored, f"e{leaf}")
    again = await world.service.rewind(f"e{leaf}", world.key)
    assert (again.removed, again.restored) == (0, 0)
    for table, stored in (await dump(world.service)).items():
        assert table == "session" or stored == before[table]


def _rows(world: World) -> list[int]:
    return sorted(world.ledger.told.keys() - world.ledger.idle)


async def fork(world: World, deed: Fork) -> None:
    """Law 11, and on in the fork. A fork that is there already is told as such."""
    rows = _rows(world)
    if not rows or len(world.others) >= MOST_SESSIONS - 1:
        return
    tale, at = world.tale, rows[-1 - deed.back % len(rows)]
    made = _fork_of(world, at)
    before, calls = await dump(world.service), world.calls
    forked = await world.service.fork(tale.key, f"e{at}", made.key, deed.marker)
    after = await dump(world.service)
    new = all(row[1] != made.key for row in before["session"])  # else it died before it could tell
    assert (forked.created, forked.rows, forked.at) == (new, len(made.ledger.active), f"e{at}")
    assert world.calls == calls
    assert len(after["text"]) == len(before["text"]) + (new and deed.marker)
    assert left(after, tale.key) == left(before, tale.key)
    again = await world.service.fork(tale.key, f"e{at}", made.key, deed.marker)
    assert again == replace(forked, created=False)
    await same(world.service, after)
    assert not world.gone & {int(str(row[0])) for row in after["session"]}
    await _compare(world, made, deed, after)


def _fork_of(world: World, at: int) -> Tale:
    """What a fork at a row has of the session's own."""
    tale, ledger = world.tale, world.ledger.up_to(at)
    path = {row.seq for row in ledger.active}
    cuts = [cut for cut in tale.cuts if cut.strategy == "lcm" and cut.tail_from in path][-1:]
    named = [each for each in tale.named if all(str(made["entry_id"]) in ledger.known for made in each)]
    return Tale(
        f"fork {world.made}",
        ledger,
        chosen=tale.chosen,
        cuts=cuts,
        asked=tale.asked,
        named=named,
        nodes=tale.nodes,
        link=(tale.key, at),
    )


async def _compare(world: World, made: Tale, deed: Fork, now: Dump) -> None:
    """The fork's nodes are its parent's, and its first request what the parent's would be there."""
    world.made += 1
    service, tale = world.service, world.tale
    theirs = {node.id: node for node in await nodes_of(service, tale.key)}
    nodes = await nodes_of(service, made.key)
    for node in nodes:
        assert _bare(node) == _bare(theirs[node.id])
        one, other = [(await service.describe(node.id, key)).node for key in (made.key, tale.key)]
        assert one is not None
        assert other is not None
        assert (one.text, one.children) == (other.text, other.children)
    if not deed.marker and world.strategy != "rolling":
        leaf, query = world.ledger.leaf, PrepareQuery(window_tokens=4000, preamble_tokens=100)
        await service.rewind(f"e{made.ledger.leaf}", tale.key)
        one, other = [await look(service, replace(query, session=key)) for key in (tale.key, made.key)]
        await service.rewind(f"e{leaf}", tale.key)
        for form in FORMATS:
            assert canonical(one[form].messages) == canonical(other[form].messages)
            assert (one[form].prepared, one[form].tokens) == (other[form].prepared, other[form].tokens)
    tale.left = left(now, tale.key)
    world.others[tale.key], world.tale = tale, made
    made.ends = {int(node.span[1][1:]) for node in nodes if node.depth == 0}
    if deed.marker:
        last = made.ledger.rows + 1
        row = (await service.expand(f"e{last}", made.key)).rows[0]
        assert row.text.startswith("[lcm:fork] ")
        world.tell([{"role": "system", "content": row.text, "entry_id": f"the marker of {made.key}"}])
    made.settle()


def _bare(node: NodeLine) -> NodeLine:
    return replace(node, frontier=False, removed=False)


async def redo(world: World, deed: Redo) -> None:
    """A node says something else from now on; nothing that stands on it changes, and no request."""
    nodes = await nodes_of(world.service, world.key)
    if not nodes:
        return
    node = nodes[deed.node % len(nodes)]
    before = await dump(world.service)
    try:
        redone = await world.service.redo(node.id, world.key)
    except SummarizerFailed:
        assert world.may_fail
        await same(world.service, before)
        return
    except InvalidArgument:
        assert not world.steady or node.depth > 0
        await same(world.service, before)
        return
    described = (await world.service.describe(node.id, world.key)).node
    assert described is not None
    if not redone.changed:
        await same(world.service, before)
    written = {name for name, rows in (await dump(world.service)).items() if rows != before[name]}
    assert written <= {"tier", "superseded", "text", "sqlite_sequence", "spend"}
    stands = next(tier for tier in described.tiers if tier.kind == "primary")
    assert (stands.tokens, stands.level, stands.model) == (redone.tokens, redone.level, redone.model)
    assert redone.parents == described.parents


async def turn(world: World, deed: Turn) -> None:
    """Go on in a session that was left; it says what it said."""
    if not world.others:
        return
    key = sorted(world.others)[deed.session % len(world.others)]
    world.tale.left = left(await dump(world.service), world.key)
    world.others[world.key] = world.tale
    world.tale = world.others.pop(key)


async def forget(world: World, deed: Forget) -> None:
    """A session that was left is forgotten; the others lose nothing but that they started from it."""
    if not world.others:
        return
    key = sorted(world.others)[deed.session % len(world.others)]
    tale = world.others.pop(key)
    before = await dump(world.service)
    ours = left(before, world.key)
    number = tale.left["session"][0][0]
    if all(row[1] != key for row in before["session"]):  # it died before it could tell
        _note_forgotten(world, key, number, before)
        return
    try:
        forgotten = await world.service.forget(key)
    except Died:
        world.others[key] = tale
        raise
    assert (forgotten.session, forgotten.id, forgotten.rows) == (key, f"s{number}", len(tale.ledger.told))
    assert forgotten.nodes == len(tale.left["node"])
    after = await dump(world.service)
    assert len(after["text"]) == len(before["text"]) - forgotten.texts
    for name, rows in left(after, world.key).items():
        assert name == "session" or rows == ours[name]
    assert set(forgotten.unlinked) == set(_linked(before, number))
    with pytest.raises(UnknownSession):
        await world.service.expand("e1", f"s{number}")
    _note_forgotten(world, key, number, after)
    await same(world.service, after)


def _note_forgotten(world: World, key: str, number: object, now: Dump) -> None:
    world.gone.add(int(str(number)))
    for other in (world.tale, *world.others.values()):
        other.left = left(now, other.key)
        if other.link is not None and other.link[0] == key:
            other.link = None


def _linked(whole: Dump, number: object) -> list[object]:
    """The keys of the sessions whose parent has that number."""
    return [row[1] for row in whole["session"] if row[7] == number]
