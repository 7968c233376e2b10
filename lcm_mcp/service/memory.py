"""Memory without requests: sessions that nobody prepares are folded too, so that they can be looked through.

No window is known and none is needed: complete older units become nodes, and no cut is made. No model is
asked, however many are configured: an import may hold years of sessions.
"""

from __future__ import annotations

import time
from dataclasses import replace

import apsw

from lcm_mcp.dag.plan import ROOM_NODES, Policy
from lcm_mcp.ids import SessionId
from lcm_mcp.service.answers import Folded
from lcm_mcp.service.folding import Goal, fold
from lcm_mcp.service.passes import Compacted, Progress
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import LcmSettings
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.units import Span, units_back

MEMORY_S = 3600.0


def memory_policy(settings: LcmSettings) -> Policy:
    """How sessions are folded that no window is known for: room for twelve summaries of full size."""
    target = settings.leaf_target_tokens
    return Policy(settings.leaf_chunk_tokens, target, ROOM_NODES * target)


async def fold_memory(work: Workplace, session: SessionId) -> Folded | None:
    """Make nodes of every complete older unit; None where folding is off or there was nothing to fold."""
    if not work.settings.fold_imports:
        return None
    newest = await work.store.read(newest_unit, session)
    if newest is None:
        return None
    progress = Progress()
    await _fold(work, session, newest, progress, time.monotonic() + MEMORY_S)
    if not progress.leaves:
        return None
    return Folded(
        leaves=len(progress.leaves),
        parents=len(progress.parents),
        source_tokens=sum(node.source_tokens for node in progress.leaves),
        summary_tokens=sum(node.tokens for node in progress.leaves),
    )


async def fold_beside(work: Workplace, session: SessionId, progress: Progress, deadline: float) -> Compacted:
    """The same as a pass beside the requests, for a session that has grown."""
    began = time.monotonic()
    newest = await work.store.read(newest_unit, session)
    if work.settings.fold_imports and newest is not None:
        await _fold(work, session, newest, progress, deadline)
    return Compacted(None, progress, time.monotonic() - began)


async def _fold(
    work: Workplace, session: SessionId, newest: Span, progress: Progress, deadline: float
) -> None:
    policy = memory_policy(work.settings.lcm)
    await fold(replace(work, models=()), Goal(session, newest.first, policy, deadline), progress)


def newest_unit(db: apsw.Connection, session: SessionId) -> Span | None:
    """The unit that stays whole: what stands before it is complete. None where there is no row."""
    found = sessions.find_by_id(db, session)
    if found is None or found.leaf == 0:
        return None
    return next(units_back(Path(db, session, found.leaf).marks_back()))
