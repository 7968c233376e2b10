"""Nodes that were made by rule, written again by the models of the settings, within their caps.

Leaves come before the parents over them, so that those are made of what a model wrote. A node keeps its text
where the model says nothing usable. When none can be asked any more the rest is left, for the next run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Node, Stale
from lcm_mcp.dag.redoing import supersede
from lcm_mcp.errors import InvalidArgument, SummarizerFailed
from lcm_mcp.ids import SessionId
from lcm_mcp.service.folding import node_source, task_for
from lcm_mcp.service.memory import memory_policy
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.spending import chain_for
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import EVERYWHERE, Workplace, wanted_session
from lcm_mcp.summarizers.ladder import Task, climb
from lcm_mcp.summarizers.model import Summarizer
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

ALL_S = 24 * 3600.0
FAILURES_TO_STOP = 3
"""In a row: one source may be too long for every model, three in a row are no accident."""


@frozen
class Upgraded:
    """How many nodes a model wrote, how many keep their text, how many are left; failed says why.

    calls, tokens and usd are those of this run's calls; usd is null where a price is unknown.
    """

    sessions: tuple[str, ...]
    rewritten: int
    kept: int
    left: int
    failed: str | None
    calls: int
    tokens: int
    usd: float | None


async def upgrade(work: Workplace, key: str | None) -> Upgraded:
    """Write a session's nodes anew, or with "*" every session's. Raises InvalidArgument without a model."""
    if not work.models:
        raise InvalidArgument("extractive", "no model is configured", "Name one in the setting summarizers.")
    chosen = await work.store.read(_chosen, work, key)
    progress, deadline = Progress(), time.monotonic() + ALL_S
    done: Counter[str] = Counter()
    failed, failures = None, 0
    for session in chosen:
        chain = chain_for(replace(work, chain=()), session.id, progress, deadline)
        for node in await work.store.read(_made_by_rule, session):
            if failures >= FAILURES_TO_STOP:
                done["left"] += 1
                continue
            try:
                done[await _rewrite(work, session.id, node, chain)] += 1
                failures = 0
            except SummarizerFailed as fault:
                done["left"] += 1
                failed, failures = str(fault), failures + 1
    return Upgraded(
        sessions=tuple(session.key for session in chosen),
        rewritten=done["rewritten"],
        kept=done["kept"],
        left=done["left"],
        failed=failed,
        calls=progress.calls,
        tokens=progress.cost.tokens,
        usd=progress.cost.usd,
    )


async def _rewrite(
    work: Workplace, session: SessionId, node: Node, chain: Sequence[Summarizer]
) -> Literal["rewritten", "kept"]:
    task, seen = await work.store.read(_task, work, session, node)
    made = await climb(chain, task)
    if made is None or made.primary.level == 3:
        return "kept"
    stored = await work.store.write(supersede, session, node.id, seen, made, now_ms())
    return "kept" if isinstance(stored, Stale) else "rewritten"


def _task(db: apsw.Connection, work: Workplace, session: SessionId, node: Node) -> tuple[Task, str]:
    source, tokens = node_source(db, session, node)
    task = task_for(source, tokens, node.depth, node.first, node.last, memory_policy(work.settings.lcm))
    return task, dag.tiers(db, session, node.id)["primary"].text


def _chosen(db: apsw.Connection, work: Workplace, key: str | None) -> list[Session]:
    if key == EVERYWHERE:
        return list(sessions.every(db))[::-1]
    return [wanted_session(db, work, key)]


def _made_by_rule(db: apsw.Connection, session: Session) -> list[Node]:
    path = Path(db, session.id, session.leaf)
    return [node for node in dag.by_rule(db, session.id) if node.last in path]
