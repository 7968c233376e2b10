"""Selecting a strategy: what a session is prepared with from now on, and who decided it.

A call that names none only looks, and writes nothing. A switch drops the running summary of before; it
makes no cut, so a request shows it at once and compacts when its window asks for it.
"""

from __future__ import annotations

from typing import Literal

import apsw

from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.workplace import Workplace, strategy_of, wanted_session
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen


@frozen
class Selection:
    """A session's strategy, who chose it, and how many rows it holds, removed ones among them."""

    session: str
    strategy: Strategy
    chosen_by: Literal["session", "settings"]
    rows: int


async def select(work: Workplace, key: str | None, strategy: Strategy | None) -> Selection:
    """Select a strategy for the session where one is named, and say which is on."""
    if strategy is None:
        return await work.store.read(_look, work, key)
    return await work.store.write(_select, work, key, strategy)


def put_strategy(db: apsw.Connection, work: Workplace, session: Session, strategy: Strategy) -> None:
    """Make the strategy the session's own; one other than the one on drops the running summary."""
    if strategy != session.strategy:
        switches = strategy != strategy_of(work, session)
        sessions.select_strategy(db, session.id, strategy, drop_running=switches)


def _look(db: apsw.Connection, work: Workplace, key: str | None) -> Selection:
    session = wanted_session(db, work, key)
    chosen_by = "settings" if session.strategy is None else "session"
    return Selection(session.key, strategy_of(work, session), chosen_by, session.rows)


def _select(db: apsw.Connection, work: Workplace, key: str | None, strategy: Strategy) -> Selection:
    session = wanted_session(db, work, key)
    put_strategy(db, work, session, strategy)
    return _look(db, work, session.key)
