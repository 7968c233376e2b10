"""All laws after each deed, and those that are looked at once at a history's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import apsw
from asking import Dump, View, dump, expanded, look, nodes_of, same
from deeds import Reopen
from lawbook import (
    holds_cover,
    holds_every_part,
    holds_everything_once,
    holds_fold,
    holds_memory,
    holds_shrink,
)
from ledger import Pair, weigh
from quotebook import Quoting, holds_labels, holds_length, holds_quotes, read_history
from stores import serving
from viewbook import (
    history_text,
    holds_border,
    holds_estimate,
    holds_fit,
    holds_order,
    holds_pairs,
    holds_prefix,
    size_of,
)
from world import Standing, World

from lcm_mcp.ids import Seq
from lcm_mcp.projection.model import Format
from lcm_mcp.service.answers import NodeLine
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import pins, sessions, store
from lcm_mcp.transcript.path import Path, Segment, all_marks

LOOK = PrepareQuery(window_tokens=4000, preamble_tokens=100)


async def check(world: World) -> None:
    """Everything that must hold after a deed; law 8: looking at it writes nothing."""
    before = await dump(world.service)
    nodes = await nodes_of(world.service, world.key)
    views = await look(world.service, replace(LOOK, session=world.key))
    await _check_views(world, views, nodes)
    await holds_memory(world.service, world.key, world.active)
    await holds_cover(world.service, world.key, world.ledger.chain)
    await holds_shrink(world.service, world.key, world.ledger.chain)
    _check_new_leaves(world, nodes)
    await _read_everything(world)
    await same(world.service, before)
    _others_stand(world, before)
    world.tale.views, world.tale.path = views, [row.seq for row in world.active]
    for summarizer in world.chain:
        summarizer.sources.clear()


async def _check_views(world: World, views: dict[Format, View], nodes: list[NodeLine]) -> None:
    view = views["messages"]
    text = history_text(view)
    holds_order(views)
    holds_labels(text, world.strategy, view.shown)
    holds_estimate(views, world.active, LOOK)
    for one in views.values():
        holds_fit(one.observation)
    if view.cut not in (None, world.cut):
        _check_new_cut(world, view, [node for node in nodes if not node.removed])
    assert (view.cut, text) == (
        (None, None) if world.in_force is None else (world.cut, world.in_force.history)
    )
    shown = [_before_tail(world, view)] if world.strategy == "rolling" and view.cut else view.shown
    await holds_everything_once(world.service, world.key, shown, view.tail, world.active)
    if view.cut is None:
        assert view.tail == [row.ref for row in world.active]
    known, path = world.tale.views, world.tale.path
    goes_on = [row.seq for row in world.active[: len(path)]] == path
    if known and goes_on and known["messages"].cut == view.cut:
        holds_prefix(known, views)
        if len(path) == len(world.active):
            assert view.messages == known["messages"].messages


def _before_tail(world: World, view: View) -> str:
    """The address of all rows before the tail, which the running summary stands for."""
    place = [row.ref for row in world.active].index(view.tail[0])
    return f"{world.active[0].ref}..{world.active[place - 1].ref}"


# --- a new cut


def _check_new_cut(world: World, view: View, nodes: list[NodeLine]) -> None:
    """Laws 3 and 6 and the quotes where a cut was just made; it is in force from now on."""
    text = history_text(view)
    assert text is not None
    before = world.in_force
    start = int(view.tail[0][1:])
    place = [row.ref for row in world.active].index(view.tail[0])
    pins = int(world.settings.get("pinnedRowsPercent", 2))
    asked = world.asked
    cut = Quoting(world.active, world.ledger.pinned, asked.window, pins, asked.ratio, world.strategy)
    assert _weight(world, size_of(view.observation, world.active)) < _weight(world, world.shown_now())
    if world.strategy == "rolling":
        _check_running(world, view, text, nodes)
    if before is None or start != before.tail_from:
        late = set[Pair]() if world.strategy == "rolling" else world.ledger.late
        holds_border(start, world.active, late, split=world.splits)
    holds_quotes(text, cut, place, view.notes)
    assert view.cut is not None
    world.tale.cuts.append(Standing(view.cut, world.strategy, text, start, asked.window))


def _weight(world: World, size: Size) -> int:
    return weigh(size, world.asked.ratio)


def _check_running(world: World, view: View, text: str, nodes: list[NodeLine]) -> None:
    """The running summary stands for all rows before the tail, which only moves forward; nodes that stood for
    them were read in their stead."""
    before = world.in_force
    start = int(view.tail[0][1:])
    place = [row.ref for row in world.active].index(view.tail[0])
    first, last = view.shown[0].split("..")
    over = int(last.removeprefix("e"))
    assert before is None or start > before.tail_from
    assert first == world.active[0].ref
    reaching = [node for node in nodes if node.depth == 0 and int(node.span[1][1:]) == over]
    assert over == world.active[place - 1].seq or (before is None and over >= start and reaching)
    assert read_history(text).summaries != [""]
    holds_length(text, world.asked.window)
    sources = [source for summarizer in world.chain for source in summarizer.sources]
    since = 0 if before is None else before.tail_from
    holds_fold(sources, world.active, nodes, since=since, place=place)


# --- nodes


def _check_new_leaves(world: World, nodes: list[NodeLine]) -> None:
    """Law 3 in the DAG: new leaves begin and end at rounds and part no call from its result; the last one
    ends a unit, or a closed round of the newest where that may be divided."""
    tale = world.tale
    new = [node for node in nodes if int(node.id[1:]) > tale.nodes and node.depth == 0]
    tale.nodes = max([tale.nodes, *(int(node.id[1:]) for node in nodes)])
    starts = [int(node.span[0][1:]) for node in new]
    holds_pairs([start for start in starts if start not in tale.ledger.torn], world.active, tale.ledger.late)
    if not new:
        return
    ends = {int(node.span[1][1:]) for node in new}
    end = max(ends)
    following = [row.seq for row in world.active if row.seq > end][:1]
    assert following
    holds_border(following[0], world.active, world.ledger.late, split=world.splits)
    tale.covered = end
    tale.ends |= ends


# --- reading


async def _read_everything(world: World) -> None:
    service, rows = world.service, world.ledger.rows
    await _holds_sessions(world)
    # A process that died in a pass leaves a lease, which doctor tells and which ends by itself.
    faults = [check for check in (await service.doctor()).checks if not check.ok and check.name != "leases"]
    assert faults == []
    for pattern in ("found", "写", "[lcm:"):
        await service.grep(GrepQuery(pattern, session=world.key))
    if rows in world.ledger.told:
        described = (await service.describe(f"e{rows}", world.key)).row
        assert described is not None
        assert described.ref == f"e{rows}"
    pinned = (await service.pin([], world.key)).pinned
    assert [line.ref for line in pinned] == [f"e{seq}" for seq in sorted(world.ledger.pinned)]
    await _last_observation(world)


async def _holds_sessions(world: World) -> None:
    """Every session is listed with all its rows and with what it starts from."""
    listed = {line.key: line for line in (await world.service.sessions(project="*")).sessions}
    assert listed.keys() == {world.key, *world.others}
    for tale in (world.tale, *world.others.values()):
        line = listed[tale.key]
        link = None if line.parent is None else (line.parent, int(str(line.opener)[1:]))
        assert (line.rows, link) == (len(tale.ledger.told), tale.link)


async def _last_observation(world: World) -> None:
    """A provider's count stands beside the estimate it belongs to, and the estimate stays what it was."""
    last = await world.service.last_observation(world.key)
    if not world.trail.seen:
        assert last is None
        return
    expected = world.trail.seen[-1]
    assert last is not None
    assert (last.prepared, last.provider_input_tokens, last.estimated_input_tokens) == (
        expected.prepared,
        expected.counted,
        expected.estimate,
    )


async def check_end(world: World) -> None:
    """What is looked at once: payloads, every node, repeats, and a store opened again."""
    await holds_every_part(world.service, world.key, world.active)
    for node in await nodes_of(world.service, world.key):
        rows = await expanded(world.service, world.key, node.id, 1500)
        first, last = (int(ref[1:]) for ref in node.span)
        span = world.ledger.chain(first, last)
        assert [(row.ref, row.text) for row in rows] == [(row.ref, row.text) for row in span]
    before = await dump(world.service)
    for entries in world.tale.named:
        receipt = await world.service.append(world.key, entries)
        assert len(receipt.duplicates) + len(receipt.conflicts) == len(entries)
    for form in [form for form, lines in world.tale.lines.items() if lines]:
        assert (await world.import_file(form, fold=False))[0] == 0
    await same(world.service, before)
    await world.reopen(Reopen(world.settings))


async def check_rebuilt(world: World) -> None:
    """Law 12: a store whose index, totals and descriptors were dropped and made anew answers the same.

    Not dropped are a fork's descriptors, whose numbers are those of the session it came from.
    """
    if not world.ledger.told:
        return
    before = await _answers(world)
    await world.store.write(_drop_derived)
    assert not (await world.service.doctor()).healthy
    await world.service.mend()
    after = await _answers(world)
    for one, other in zip(before, after, strict=True):
        assert one == other


async def _answers(world: World) -> Sequence[object]:
    views = await look(world.service, replace(LOOK, session=world.key))
    found = [await world.service.grep(GrepQuery(each, session="*", limit=50)) for each in ("found", "写")]
    tables = await dump(world.service)
    del tables["file_state"]  # how far texts of earlier builds were looked through
    return tables, [view.messages for view in views.values()], [page.hits for page in found]


def _drop_derived(db: apsw.Connection) -> None:
    db.execute("DROP TRIGGER row_is_never_edited")
    db.execute("UPDATE row SET bytes = 0, fixed = 0, cum_bytes = 0, cum_inputs = 0, cum_fixed = 0")
    db.execute("INSERT INTO gram(gram) VALUES('delete-all')")
    db.execute("UPDATE gram_state SET upto = (SELECT max(id) FROM text), characters = 0")
    for table in ("file", "large_inline"):
        db.execute(f"DELETE FROM {table} WHERE session IN (SELECT id FROM session WHERE link IS NOT 'fork')")
    db.execute("UPDATE file_state SET next = 1, upto = (SELECT max(id) FROM text)")


async def check_exported(world: World) -> None:
    """An export imports as the same rows under the same numbers, with the same path; so does a fork's, which
    leaves out numbers."""
    if not world.ledger.told:
        return
    file = world.folder.parent / "exported.jsonl"
    file.write_bytes(b"".join([page async for page in world.service.export(world.key)]))
    before = await world.store.read(transcript_of, world.key)
    async with serving(world.folder.parent / "copy" / "lcm.sqlite") as other:
        for _ in range(2):
            await other.import_file(file, "neutral")
            assert await other.work.store.read(transcript_of, world.key) == before


def transcript_of(db: apsw.Connection, key: str) -> tuple[list[tuple[object, ...]], object, object, object]:
    """A session's rows with all their parts, their places and weights, the path and the pins."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    rows = store.read_rows(db, session.id, [Segment(Seq(1), Seq(2**40))], images=True)
    told: list[tuple[object, ...]] = [(row.seq, row.role, row.at, row.message_id, row.parts) for row in rows]
    path = [(part.low, part.high) for part in Path(db, session.id, session.leaf).segments()]
    return told, all_marks(db, session.id), path, pins.pinned(db, session.id)


# --- the sessions that were left


def left(whole: Dump, key: str) -> Dump:
    """What the tables hold of a session."""
    (number,) = [row[0] for row in whole["session"] if row[1] == key]
    return {name: [row for row in whole[name] if row[0] == number] for name in OF_SESSIONS}


OF_SESSIONS = ("session", "row", "node", "edge", "tier", "superseded", "cut", "pin", "call", "answer", "file")


def _others_stand(world: World, now: Dump) -> None:
    """Nothing that is done in one session is written in another."""
    for key, tale in world.others.items():
        assert left(now, key) == tale.left, key
