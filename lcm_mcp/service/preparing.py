"""prepare_context: what a request shows, under its window, with an observation of how it came about.

Below the lines, and until the first cut, that is the plain history. From the swap line on a pass works
beside the requests; at the trigger the request waits for it. Between cuts nothing before the tail's end
changes. If a pass fails, the last cut is shown and the status says so; no call waits beyond its deadline.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Literal

import apsw

from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Observed
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import SessionId
from lcm_mcp.service.answers import Format, Receipt, Strategy
from lcm_mcp.service.compaction import Wanted, compact, settled
from lcm_mcp.service.observing import Judged, observe, status_of, write_observation
from lcm_mcp.service.paging import Bookmark, Facts, Start, page, read_cursor
from lcm_mcp.service.passes import Compacted, Progress
from lcm_mcp.service.prepared import Observation, Prepared, Wire
from lcm_mcp.service.recalling import Recalled, recall, recalled_again, with_recalled, without_recalled
from lcm_mcp.service.requests import PrepareQuery, Usage
from lcm_mcp.service.selecting import put_strategy
from lcm_mcp.service.spending import breaker_line, breakers_open
from lcm_mcp.service.splicing import Asked, Change, Held, change_since, find_held
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.viewing import Outline, View, format_notes, named_view, outline, view_in_force
from lcm_mcp.service.windows import (
    Window,
    WindowSource,
    divide,
    find_window,
    named_model,
    preamble_of,
    ratio_in_force,
)
from lcm_mcp.service.workplace import Workplace, strategy_of, wanted_session
from lcm_mcp.service.writing import NOT_MEASURED, Guard, append, keep_usage
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

COMPACTION_S = 40.0
"""The longest a request waits for a compaction: clients give up at 60 s, and the answer takes time too."""
MAX_PASSES = 3


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
    notes: tuple[str, ...] = ()
    if query.usage is not None and not await _measured(work, session, query.usage):
        notes = (NOT_MEASURED,)
    session = await _selected(work, session, query)
    judged = await _judge(work, session, query, deadline)
    return await _answer(work, query, judged, receipt, notes)


async def glance(work: Workplace, key: str | None, window_tokens: int | None) -> Observation:
    """What a request would show now; nothing is folded or kept, and no message made, however long it is."""
    query = PrepareQuery(key, window_tokens=window_tokens, compact="never", keep=False)
    session = await work.store.read(wanted_session, work, key)
    judged = await _judge(work, session, query, 0.0)
    outlined = await work.store.read(outline, judged.view)
    return observe(query, judged, outlined, *status_of(work.settings, query, judged))


async def force(work: Workplace, key: str | None, strategy: Strategy | None) -> Observation:
    """Compact a session now, window known or not, and say what was done."""
    session = await work.store.read(wanted_session, work, key)
    if (strategy or strategy_of(work, session)) == "none":
        raise InvalidArgument(
            "strategy", f"that of session {session.key!r} is none", "Give rolling or lcm to compact it."
        )
    query = PrepareQuery(
        session.key, strategy=strategy, compact="force", format="text", detail=True, given=False
    )
    observation = (await prepare(work, query)).observation
    assert observation is not None
    return observation


async def _append(work: Workplace, query: PrepareQuery) -> Receipt:
    key = query.session or work.settings.session
    if key is None:
        raise InvalidArgument("session", "append needs one", "Name the session to append to.")
    return await append(work, key, query.append, Guard(query.after))


async def _measured(work: Workplace, session: Session, usage: Usage) -> bool:
    return await work.store.write(keep_usage, session.id, usage)


async def _selected(work: Workplace, session: Session, query: PrepareQuery) -> Session:
    """The session with the strategy and model that the call names; written only where that is new."""
    names_other = query.compact != "never" and (
        query.provider not in (None, session.provider) or query.model not in (None, session.model)
    )
    if not names_other and query.strategy in (None, session.strategy):
        return session
    return await work.store.write(_select, work, session.id, query, names_other)


def _select(
    db: apsw.Connection, work: Workplace, wanted: SessionId, query: PrepareQuery, names_other: bool
) -> Session:
    session = sessions.existing(db, wanted)
    if names_other:
        sessions.name_model(db, session, query.provider, query.model)
    if query.strategy is not None:
        put_strategy(db, work, session, query.strategy)
    return sessions.existing(db, wanted)


@frozen
class _Lines:
    """How large the window is, who says so, and its lines; None where nobody knows it."""

    window: Window | None
    source: WindowSource


async def _judge(work: Workplace, session: Session, query: PrepareQuery, deadline: float) -> Judged:
    """Decide whether a compaction is due, and make it, or start it."""
    strategy = query.strategy or strategy_of(work, session)
    model = named_model(query.provider or session.provider, query.model or session.model)
    view, ratio = await work.store.read(_standing, session, strategy, model)
    lines = await _lines(work, session, query, strategy, view, ratio)
    window = lines.window
    judged = Judged(view, view, strategy, window, lines.source, preamble_of(query), model, ratio)
    if window is None or strategy == "none" or view.leaf == 0:
        return judged
    wanted = Wanted(session.id, strategy, window)
    match _due(query, judged, window):
        case "blocking":
            return await _waited(work, wanted, query, judged, deadline)
        case "async":
            return await _beside(work, wanted, query, judged, deadline)
        case "passive":
            return judged


def _standing(
    db: apsw.Connection, session: Session, strategy: Strategy, model: str | None
) -> tuple[View, float | None]:
    return view_in_force(db, session.id, strategy), ratio_in_force(db, session, model)


async def _lines(
    work: Workplace,
    session: Session,
    query: PrepareQuery,
    strategy: Strategy,
    view: View,
    ratio: float | None,
) -> _Lines:
    preamble = preamble_of(query)
    tokens, source = await find_window(work.settings, session, query, strategy)
    if tokens is None and query.compact == "force":
        # Without a known window what there is now stands for it; after that, what stood for it then,
        # so that forcing once more finds nothing to do.
        now = preamble.with_history(view.size, ratio)
        tokens, source = (now if view.cut is None else view.cut.window), "estimate"
    if not tokens:
        return _Lines(None, source)
    return _Lines(divide(tokens, preamble, strategy, work.settings, ratio), source)


def _due(query: PrepareQuery, judged: Judged, window: Window) -> Literal["passive", "async", "blocking"]:
    if query.compact == "force":
        return "blocking"
    if query.compact == "never" or judged.tokens < window.swap:
        return "passive"
    return "blocking" if judged.tokens >= window.trigger else "async"


async def _waited(
    work: Workplace, wanted: Wanted, query: PrepareQuery, judged: Judged, deadline: float
) -> Judged:
    """Compact and wait; a pass that was under way may have been for other lines, so look again after it."""
    for _ in range(MAX_PASSES):
        found = await work.store.read(settled, work, wanted)
        if found is not None:
            before = judged.compacted
            compacted = Compacted(None, found, 0.0) if before is None or before.cut is None else before
            return replace(judged, compacted=compacted, regime="blocking")
        joined = work.background.at_work(wanted.session) is not None
        left = max(deadline - time.monotonic(), 0.0)
        done = await work.background.carry_out(
            wanted.session, partial(compact, work, wanted), left, work.report
        )
        if done.fault is not None:
            raise done.fault
        view = await work.store.read(view_in_force, wanted.session, judged.strategy)
        unfinished = Compacted(None, replace(done.progress, out_of_time=True), COMPACTION_S)
        judged = replace(judged, view=view, compacted=done.outcome or unfinished, regime="blocking")
        if not joined or done.outcome is None or _due(query, judged, wanted.window) != "blocking":
            return judged
    return judged


async def _beside(
    work: Workplace, wanted: Wanted, query: PrepareQuery, judged: Judged, deadline: float
) -> Judged:
    """Start a pass beside the requests, if there is something to do for it and the last one did not fail."""
    if not work.background.hosts:
        return await _waited(work, wanted, query, judged, deadline)
    failed = work.background.failure(wanted.session, judged.view.leaf)
    if failed is not None:
        return replace(judged, compacted=failed)
    if work.background.at_work(wanted.session) is None:
        found: Progress | None = await work.store.read(settled, work, wanted)
        if found is not None:
            return judged
        if not work.background.hosts:  # any more
            return await _waited(work, wanted, query, judged, deadline)
        work.background.start(wanted.session, partial(compact, work, wanted), judged.view.leaf)
    return replace(judged, regime="async")


async def _answer(
    work: Workplace, query: PrepareQuery, judged: Judged, receipt: Receipt | None, notes: tuple[str, ...]
) -> Prepared:
    view = judged.view
    outlined, change, unheld, recalled = await work.store.read(_since, work, view, query, judged)
    judged = replace(judged, recalled=recalled)
    status, said = status_of(work.settings, query, judged)
    open_now = await work.store.read(breakers_open, work.models) if work.models else []
    notes = (
        *notes,
        *unheld,
        *recalled.notes,
        *said,
        *map(breaker_line, open_now),
        *format_notes(change.notes),
    )
    observation = observe(query, judged, outlined, status, notes)
    if query.keep:
        size = judged.preamble.size + view.size
        body = write_observation(observation, change.wire if query.given else None)
        shown_bytes = size.bytes + utf8_length(recalled.block)
        seen = Observed(view.name, judged.model, shown_bytes, size.beside_bytes, body)
        await work.store.write(_keep, view.session.id, seen)
    detail = observation if query.detail else None
    facts = Facts(
        query.format, status, notes, judged.estimate, judged.calibrated, receipt, detail, recalled.written
    )
    return _given(work, page(view, change, Start(), facts), view, change)


def _keep(db: apsw.Connection, session: SessionId, seen: Observed) -> None:
    observations.keep(db, sessions.existing(db, session).id, seen, now_ms())


def _since(
    db: apsw.Connection, work: Workplace, view: View, query: PrepareQuery, judged: Judged
) -> tuple[Outline, Change, tuple[str, ...], Recalled]:
    """What the view is, what has changed since the one that the client holds, why that is not gone by, and
    what was recalled."""
    outlined = outline(db, view)
    session, recalled = view.session, Recalled()
    asked = Asked(query.format, query.provider or session.provider, query.model or session.model)
    held = None if query.have is None else find_held(db, view, query.have, asked)
    unheld = (held,) if isinstance(held, str) else ()
    if query.query is not None:
        room = None if judged.window is None else judged.window.tokens - judged.tokens
        recalled = recall(db, view, query.query, room, work.meaning)
    change, recalled = _changed(db, view, query.format, None if isinstance(held, str) else held, recalled)
    return outlined, change, unheld, recalled


def _changed(
    db: apsw.Connection, view: View, form: Format, held: Held | None, recalled: Recalled
) -> tuple[Change, Recalled]:
    change = without_recalled(db, view, form, change_since(db, view, form, held))
    return with_recalled(db, view, form, change, recalled)


async def _later_page(work: Workplace, query: PrepareQuery, cursor: str) -> Prepared:
    if query.append or query.strategy is not None or query.compact == "force" or query.usage is not None:
        raise InvalidArgument(
            "cursor", "a further page neither appends nor compacts", "Give only session, format and cursor."
        )
    session = await work.store.read(wanted_session, work, query.session)
    mark = read_cursor(cursor, session, query.format)
    known = work.unfinished.get(cursor)
    view, change = await work.store.read(_again, session, query.format, mark, known)
    notes = format_notes(change.notes)
    facts = Facts(query.format, mark.status, notes, mark.estimate, mark.calibrated, recalled=mark.recalled)
    return _given(work, page(view, change, mark.start, facts), view, change)


def _given(work: Workplace, answered: Prepared, view: View, change: Change) -> Prepared:
    """Keep what a page is of while there is another to give, so that it need not be made again; one only."""
    work.unfinished.clear()
    if answered.next_cursor is not None:
        work.unfinished[answered.next_cursor] = view, change
    return answered


def _again(
    db: apsw.Connection, session: Session, form: Format, mark: Bookmark, known: tuple[View, Change] | None
) -> tuple[View, Change]:
    """The change that a cursor goes on with, made again unless it is known; the store must still hold it."""
    view = named_view(db, session.id, mark.cut, mark.leaf)
    if known is not None:
        return known
    held = mark.held and Held(
        named_view(db, session.id, mark.held.cut, mark.held.leaf),
        Wire(form, mark.held.messages, mark.held.renamed, (), mark.held.recalled),
    )
    change, _ = _changed(db, view, form, held, recalled_again(db, view, mark.recalled))
    return view, change
