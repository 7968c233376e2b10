"""prepare_context: what a request shows, under its window, with an observation of how it came about.

Below the trigger, and until the first cut, that is the plain history. At the trigger the request waits for
a compaction. Between cuts nothing before the tail's end changes. If a compaction fails, the last cut is
shown and the status says so.
"""

from __future__ import annotations

import time
from typing import cast

import orjson

from lcm_mcp.dag import cuts
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.answers import Prepared, Receipt
from lcm_mcp.service.compaction import STRATEGY, compact, divide
from lcm_mcp.service.observing import Judged, observe, status_of
from lcm_mcp.service.paging import Facts, Start, page, read_cursor
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.viewing import named_view, picture, view_in_force
from lcm_mcp.service.workplace import Workplace, strategy_of, wanted_session
from lcm_mcp.service.writing import Guard, append
from lcm_mcp.tokens import PREAMBLE_TOKENS, TOOL_TOKENS, bytes_to_tokens, text_tokens
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.sealing import encode
from lcm_mcp.transcript.sessions import Session

COMPACTION_S = 40.0
"""The longest a request waits for a compaction: clients give up at 60 s, and the answer takes time too."""


async def prepare(work: Workplace, query: PrepareQuery) -> Prepared:
    """Append what came, compact if it is time, and give a page of the projection."""
    if query.cursor is not None:
        return await _later_page(work, query, query.cursor)
    deadline = time.monotonic() + min(query.deadline_ms / 1000, COMPACTION_S)
    key, receipt = query.session, None
    if query.append:
        receipt = await _append(work, query)
        key = receipt.session
    session = await work.store.read(wanted_session, work, key)
    if query.strategy is not None and query.strategy != session.strategy:
        await work.store.write(sessions.select_strategy, session.id, query.strategy)
    judged = await _judge(work, session, query, deadline)
    return await _answer(work, query, judged, receipt)


async def _append(work: Workplace, query: PrepareQuery) -> Receipt:
    key = query.session or work.settings.session
    if key is None:
        raise InvalidArgument("session", "append needs one", "Name the session to append to.")
    return await append(work, key, query.append, Guard(), None, None)


async def _judge(work: Workplace, session: Session, query: PrepareQuery, deadline: float) -> Judged:
    """Decide whether a compaction is due, and make it."""
    strategy = query.strategy or strategy_of(work, session)
    view = await work.store.read(view_in_force, session.id, strategy)
    preamble = preamble_tokens(query)
    asked = query.window_tokens or work.settings.lcm.context_window_tokens
    before = preamble + view.size.tokens
    tokens = asked
    if asked is None and query.compact == "force":
        # Without a known window what there is now stands for it; after that, what stood for it then,
        # so that forcing once more finds nothing to do.
        tokens = before if view.cut is None else view.cut.window
    window = None if tokens is None else divide(tokens, preamble, work.settings.lcm)
    due = window is not None and (
        query.compact == "force" or (query.compact == "auto" and before >= window.trigger)
    )
    compacted = None
    if window is not None and due and strategy == STRATEGY and view.leaf > 0:
        compacted = await compact(work, session.id, window, deadline)
        view = await work.store.read(view_in_force, session.id, strategy)
    return Judged(view, strategy, window, asked is None, preamble, before, compacted)


def preamble_tokens(query: PrepareQuery) -> int:
    """The estimate of the preamble: the caller's own figure, or that of its text and tools."""
    if query.preamble_tokens is not None:
        return query.preamble_tokens
    if query.system is None and not query.tools:
        return 0
    tools = sum(bytes_to_tokens(len(encode(cast("Json", tool)))) + TOOL_TOKENS for tool in query.tools)
    return PREAMBLE_TOKENS + text_tokens(query.system or "") + tools


async def _answer(work: Workplace, query: PrepareQuery, judged: Judged, receipt: Receipt | None) -> Prepared:
    view = judged.view
    pictured = await work.store.read(picture, view, query.format)
    status, notes = status_of(query, judged)
    notes += pictured.notes
    observation = observe(query, judged, pictured.projection, status, notes)
    await work.store.write(
        cuts.keep_observation, view.session.id, view.name, orjson.dumps(observation), now_ms()
    )
    detail = observation if query.detail else None
    facts = Facts(query.format, status, notes, judged.tokens, receipt, detail)
    return page(view, pictured.messages, Start(), facts)


async def _later_page(work: Workplace, query: PrepareQuery, cursor: str) -> Prepared:
    if query.append or query.strategy is not None or query.compact == "force":
        raise InvalidArgument(
            "cursor", "a further page neither appends nor compacts", "Give only session, format and cursor."
        )
    session = await work.store.read(wanted_session, work, query.session)
    mark = read_cursor(cursor, session, query.format)
    view = await work.store.read(named_view, session.id, mark.cut, mark.leaf)
    pictured = await work.store.read(picture, view, query.format)
    facts = Facts(query.format, mark.status, pictured.notes, mark.estimate)
    return page(view, pictured.messages, mark.start, facts)
