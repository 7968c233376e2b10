"""Passes beside the requests: let go on after their request, waited for, or left in the midst of their work.

No summarizer of such a pass answers before its request has been answered, so that the pass is always met
while it works.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import apsw
from asking import look
from dying import NOBODY
from world import World

from lcm_mcp.service.background import Pass
from lcm_mcp.service.passes import Compacted
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript import sessions


@asynccontextmanager
async def hosting(world: World, beside: int | None) -> AsyncGenerator[None]:
    """Let passes go on beside their requests, where the deed says so; law: they leave no lease behind."""
    if beside is None:
        yield
    else:
        try:
            async with world.service.background.running():
                yield
        finally:
            for summarizer in world.chain:
                summarizer.stop_at, summarizer.gate = None, None
    await _holds_no_lease(world)


def hold_back(world: World, number: int | None) -> None:
    """Let every summarizer wait until the pass is followed, and never answer its call of that number."""
    for summarizer in world.chain:
        summarizer.gate, summarizer.stopped = anyio.Event(), anyio.Event()
        summarizer.stop_at = summarizer.calls + number if number else None


async def follow(world: World) -> Compacted | None:
    """What a pass beside the last request has come to; None where it is still at work, or was not met.

    While it works requests show what the last one showed; once it has ended the next one shows its cut. How
    it failed is told by the next request.
    """
    before = world.cut
    session = await world.service.work.store.read(sessions.find_by_key, world.key)
    assert session is not None
    found = world.service.background.at_work(session.id)
    for summarizer in world.chain:
        if summarizer.gate is not None:
            summarizer.gate.set()
    if found is None:
        return None
    await _until_stopped(world, found)
    view = (await look(world.service, PrepareQuery(world.key)))["messages"]
    if not found.ended.is_set():
        assert view.cut == before
        return None
    assert found.fault is None
    assert found.outcome is not None
    cut = found.outcome.cut
    assert view.cut == (before if cut is None else f"c{cut.id}")
    failed = found.outcome.progress.failed is not None
    assert world.may_fail or not failed
    assert cut is None or not failed
    world.tale.failed_at = world.active[-1].seq if failed else None
    return found.outcome


async def _until_stopped(world: World, found: Pass) -> None:
    """Wait until the pass has ended, or has reached a call that is never answered."""
    async with anyio.create_task_group() as tasks:

        async def leave(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        for event in (found.ended, *(summarizer.stopped for summarizer in world.chain)):
            tasks.start_soon(leave, event)


async def _holds_no_lease(world: World) -> None:
    """No lease is held once a call has answered and its host is gone, but by the dead."""

    def leases(db: apsw.Connection) -> int:
        found: int = db.execute("SELECT count(*) FROM lease WHERE holder <> ?", (NOBODY,)).get
        return found

    assert await world.service.work.store.read(leases) == 0
