"""Compaction: one pass of the session's strategy, by one process at a time.

A pass that would find nothing to do is known by reading alone and takes no lease. A dead process's lease is
lost. The two strategies are cutting.py (lcm) and rolling.py.
"""

from __future__ import annotations

import time
from typing import Literal
from uuid import uuid4

import anyio
import apsw

from lcm_mcp.dag import leases
from lcm_mcp.ids import SessionId
from lcm_mcp.service import cutting, rolling
from lcm_mcp.service.passes import Compacted, Progress
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.windows import Window
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript.sessions import existing
from lcm_mcp.values import frozen

LEASE_POLL_S = 0.05


@frozen
class Wanted:
    """A compaction of a session for a window."""

    session: SessionId
    strategy: Literal["lcm", "rolling"]
    window: Window


def settled(db: apsw.Connection, work: Workplace, wanted: Wanted) -> Progress | None:
    """The outcome of a pass that would find nothing to do, told by reading alone; None where there is
    something."""
    if wanted.strategy == "lcm":
        return cutting.settled(db, work, wanted.session, wanted.window)
    return rolling.settled(db, work.settings.rolling, wanted.session, wanted.window)


async def compact(work: Workplace, wanted: Wanted, progress: Progress, deadline: float) -> Compacted:
    """Do the pass; progress is kept up to date meanwhile, deadline in seconds of the monotonic clock."""
    started = time.monotonic()
    token = uuid4().hex
    do = cutting.fold_and_cut if wanted.strategy == "lcm" else rolling.fold_and_cut
    try:
        cut = None
        if await _lease(work, wanted.session, token, deadline):
            cut = await do(work, wanted.session, wanted.window, progress, deadline)
        else:
            progress.out_of_time = True
        return Compacted(cut, progress, time.monotonic() - started)
    finally:
        with anyio.CancelScope(shield=True):
            await work.store.write(leases.release_lease, wanted.session, token)


async def _lease(work: Workplace, session: SessionId, token: str, deadline: float) -> bool:
    while not await work.store.write(_take, session, token):
        if time.monotonic() > deadline:
            return False
        await anyio.sleep(LEASE_POLL_S)
    return True


def _take(db: apsw.Connection, session: SessionId, token: str) -> bool:
    return leases.take_lease(db, existing(db, session).id, token, now_ms())
