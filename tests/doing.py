"""Any deed done to a world, and a crash in the midst of one.

After a crash the copy of the files made at that moment is opened and the history goes on there. What had
been acknowledged must be in it; the deed that was interrupted is there as far as it had committed, and each
of its transactions wholly or not at all. A client repeats what has identities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import apsw
from deeds import Append, Compact, Crash, Deed, Forget, Fork, Import, Prepare, Redo, Rewind, Turn
from dying import Died, Doom, bury
from judging import compact, prepare
from ledger import Ledger, Seen, Trail
from moving import move
from world import Chosen, Standing, World

from lcm_mcp.tokens import Size
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.sessions import Session

BATCH_LINES = 200
"""An import commits so many lines of its file at a time."""


async def do(world: World, deed: Deed) -> None:
    match deed:
        case Prepare():
            await prepare(world, deed)
        case Compact():
            await compact(world, deed)
        case Crash():
            await crash(world, deed)
        case Rewind() | Fork() | Redo() | Turn() | Forget():
            await move(world, deed)
        case _:
            await world.do(deed)


async def crash(world: World, deed: Crash) -> None:
    """Die in a deed, come to life again, see what is there, and repeat what can be repeated."""
    kept = Kept(world.ledger.copy(), world.trail.copy(), world.chosen, [*world.tale.cuts])
    world.store.sentence(Doom(deed.write, deed.moment, world.folder.parent / f"life{world.lives + 1}"))
    try:
        await do(world, deed.deed)
    except* Died:
        pass
    world.store.sentence(None)
    if not world.store.dead:
        return
    world.lives += 1
    await world.service.close()
    world.open(world.folder.parent / f"life{world.lives}", world.settings)
    await bury(world.store)
    await _find(world, kept, deed)
    match deed.deed:
        case Append(named=True):
            await world.send(world.tale.named[-1], named=False)
        case Import(format=form):
            await world.import_more(Import(form, [], compacted=False))
        case Rewind() | Fork() | Forget():
            await move(world, deed.deed)
        case _:
            pass


@dataclass(frozen=True, slots=True)
class Kept:
    """What was acknowledged before the deed that was interrupted."""

    ledger: Ledger
    trail: Trail
    chosen: Chosen
    cuts: list[Standing]


async def _find(world: World, kept: Kept, deed: Crash) -> None:
    """Compare what is there with before the deed and after it; the world goes on from there."""
    tale = world.tale
    session, pinned, trail = await world.store.read(_found, tale.key)
    _find_rows(world, kept, deed, (session.next_seq - 1, session.leaf))
    assert pinned in (kept.ledger.pinned, tale.ledger.pinned)
    tale.ledger.pinned = pinned
    chosen = Chosen(session.strategy, session.provider, session.model)
    assert chosen in (kept.chosen, tale.chosen)
    if chosen != tale.chosen:
        tale.chosen, tale.cuts = kept.chosen, kept.cuts
    _compare_trails(kept.trail.seen, tale.trail.seen, trail)
    tale.trail = Trail(trail)


def _find_rows(world: World, kept: Kept, deed: Crash, found: tuple[int, int]) -> None:
    """The rows and where their path ends, as before the deed or after it; of a large file as many as were
    taken in."""
    tale, (rows, leaf) = world.tale, found
    large = isinstance(deed.deed, Import) and len(tale.lines[deed.deed.format]) > BATCH_LINES
    states = {(one.rows, one.leaf): one for one in (tale.ledger, kept.ledger)}
    assert found in states or (large and rows < tale.ledger.rows)
    if found not in states:
        drafts = tale.drafts[deed.deed.format] if isinstance(deed.deed, Import) else []
        while kept.ledger.rows < rows:
            kept.ledger.tell([drafts[0]], tale.covered)
            drafts = drafts[1:]
    tale.ledger = states.get(found, kept.ledger)
    assert tale.ledger.leaf == leaf
    tale.settle()


def _found(db: apsw.Connection, key: str) -> tuple[Session, set[int], list[Seen]]:
    session = sessions.find_by_key(db, key)
    assert session is not None
    pinned = {seq for (seq,) in db.execute("SELECT seq FROM pin WHERE session = ?", (session.id,))}
    columns = "prepared, model, bytes, fixed, body ->> 'estimated_input_tokens', input_tokens"
    rows = db.execute(f"SELECT {columns} FROM observation WHERE session = ? ORDER BY n", (session.id,))
    trail = [
        Seen(name, model, Size(bytes=size, fixed=fixed), estimate, counted)
        for name, model, size, fixed, estimate, counted in rows
    ]
    return session, pinned, trail


def _compare_trails(before: list[Seen], after: list[Seen], found: list[Seen]) -> None:
    """What was answered is there, as is what was counted before; the deed's own usage may be or not, and so
    may the observation that nobody was told."""
    assert len(after) <= len(found) <= len(after) + 1
    for place, (expected, one) in enumerate(zip(after, found, strict=False)):
        counts = {expected.counted, before[place].counted if place < len(before) else None}
        assert one.counted in counts
        assert one == replace(expected, counted=one.counted, size=one.size)
        assert one.size.bytes == expected.size.bytes
        assert one.size.beside_bytes == expected.size.beside_bytes
