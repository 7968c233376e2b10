"""prepare_context: what a request shows, under its window, with an observation of how it came about.

Below the trigger, and until the first cut, that is the plain history. At the trigger the request waits for
a compaction. Between cuts nothing before the tail's end changes. A projection is named by its cut and its
leaf, so later pages show the very same one whatever is appended meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import apsw
import orjson

from lcm_mcp.dag import cuts
from lcm_mcp.dag.cuts import Cut
from lcm_mcp.errors import BadCursor, InvalidArgument
from lcm_mcp.ids import CutId, Seq
from lcm_mcp.projection import lcm
from lcm_mcp.projection.formats import render
from lcm_mcp.projection.model import Message, Notes, Projection, TailRow
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import (
    Done,
    Fragment,
    Observation,
    Prepared,
    PreparedMessage,
    Receipt,
    Section,
    Status,
    Strategy,
)
from lcm_mcp.service.compaction import (
    STRATEGY,
    Compacted,
    Window,
    compact,
    divide,
    shown_history,
    shown_size,
)
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.service.workplace import Workplace, wanted_session
from lcm_mcp.service.writing import Guard, append
from lcm_mcp.tokens import METHOD, PREAMBLE_TOKENS, TOOL_TOKENS, Size, bytes_to_tokens, text_tokens
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sealing import encode
from lcm_mcp.transcript.sessions import Session

PAGE_BYTES = 150_000
"""JSON of messages in one page; text and structured answer together then stay below 400 KB."""
PREVIEW_CHARACTERS = 180


@dataclass(frozen=True, slots=True)
class _View:
    """A session as one projection sees it."""

    session: Session
    leaf: Seq
    cut: Cut | None
    size: Size

    @property
    def name(self) -> str:
        return f"c{0 if self.cut is None else self.cut.id}.e{self.leaf}"


@dataclass(frozen=True, slots=True)
class _Judged:
    """How a preparation stands: its view, its estimate before and after, and what was done."""

    view: _View
    window: Window | None
    estimated: bool
    preamble: int
    before: int
    compacted: Compacted | None

    @property
    def tokens(self) -> int:
        return self.preamble + self.view.size.tokens


async def prepare(work: Workplace, query: PrepareQuery) -> Prepared:
    """Append what came, compact if it is time, and give a page of the projection."""
    if query.cursor is not None:
        return await _later_page(work, query)
    deadline = time.monotonic() + query.deadline_ms / 1000
    key, receipt = query.session, None
    if query.append:
        if query.session is None:
            raise InvalidArgument("session", "append needs one", "Name the session to append to.")
        receipt = await append(work, query.session, query.append, Guard(), None, None)
        key = receipt.session
    session = await work.store.read(wanted_session, work, key)
    if query.strategy is not None and query.strategy != session.strategy:
        await work.store.write(sessions.select_strategy, session.id, query.strategy)
    judged = await _judge(work, session, query, deadline)
    return await _answer(work, query, judged, receipt)


async def _judge(work: Workplace, session: Session, query: PrepareQuery, deadline: float) -> _Judged:
    """Decide whether a compaction is due, and make it."""
    strategy = _strategy(work, session, query)
    view = await work.store.read(_view, session, strategy, None)
    preamble = preamble_tokens(query)
    asked = query.window_tokens or work.settings.lcm.context_window_tokens
    before = preamble + view.size.tokens
    # A forced compaction without a known window takes what there is now for the window.
    tokens = before if asked is None and query.compact == "force" else asked
    window = None if tokens is None else divide(tokens, preamble, work.settings.lcm)
    due = window is not None and (
        query.compact == "force" or (query.compact == "auto" and before >= window.trigger)
    )
    compacted = None
    if window is not None and due and strategy == STRATEGY and view.leaf > 0:
        compacted = await compact(work, session.id, window, deadline)
        view = await work.store.read(_view, session, strategy, None)
    return _Judged(view, window, asked is None, preamble, before, compacted)


def _strategy(work: Workplace, session: Session, query: PrepareQuery) -> Strategy:
    chosen = query.strategy or session.strategy or work.settings.strategy
    return "none" if chosen == "none" else "lcm"


def preamble_tokens(query: PrepareQuery) -> int:
    """The estimate of the preamble: the caller's own figure, or that of its text and tools."""
    if query.preamble_tokens is not None:
        return query.preamble_tokens
    if query.system is None and not query.tools:
        return 0
    tools = sum(bytes_to_tokens(len(_tool_bytes(tool))) + TOOL_TOKENS for tool in query.tools)
    return PREAMBLE_TOKENS + text_tokens(query.system or "") + tools


def _tool_bytes(tool: object) -> bytes:
    return orjson.dumps(tool, default=repr)


def _view(db: apsw.Connection, session: Session, strategy: Strategy, at: tuple[int, int] | None) -> _View:
    """The projection in force, or the one named by a cut and a leaf. Raises BadCursor for one that is not."""
    current = sessions.find_by_id(db, session.id)
    assert current is not None
    leaf = current.leaf
    cut = cuts.last_cut(db, session.id, STRATEGY) if strategy == STRATEGY else None
    if at is not None:
        cut = cuts.find_cut(db, session.id, CutId(at[0])) if at[0] else None
        leaf = Seq(at[1])
        gone = at[0] != 0 and cut is None
        if gone or (leaf != 0 and store.read_mark(db, session.id, leaf) is None):
            raise BadCursor
    return _View(current, leaf, cut, shown_size(db, current, cut, leaf))


async def _later_page(work: Workplace, query: PrepareQuery) -> Prepared:
    if query.append or query.strategy is not None or query.compact == "force":
        raise InvalidArgument(
            "cursor", "a further page neither appends nor compacts", "Give only session, format and cursor."
        )
    assert query.cursor is not None
    session = await work.store.read(wanted_session, work, query.session)
    cut, leaf, index, offset, status, estimate = cursors.read(
        query.cursor, _asked(session, query), int, int, int, int, str, int
    )
    view = await work.store.read(_view, session, "lcm", (int(cut), int(leaf)))
    rendered, notes, _ = await work.store.read(_render, view, query)
    return _page(
        query,
        view,
        rendered,
        _Start(int(index), int(offset)),
        _Facts(cast("Status", status), notes, int(estimate)),
    )


def _asked(session: Session, query: PrepareQuery) -> tuple[object, ...]:
    return ("prepare", session.id, query.format)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What every page of one projection says alike."""

    status: Status
    notes: tuple[str, ...]
    estimate: int
    receipt: Receipt | None = None
    observation: Observation | None = None


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a page starts: a message, and characters of its JSON that were given already."""

    index: int
    offset: int


async def _answer(work: Workplace, query: PrepareQuery, judged: _Judged, receipt: Receipt | None) -> Prepared:
    rendered, format_notes, projection = await work.store.read(_render, judged.view, query)
    status, notes = _status(query, judged)
    notes += format_notes
    observation = _observe(work, query, judged, projection, status, notes)
    await work.store.write(
        cuts.keep_observation,
        judged.view.session.id,
        judged.view.name,
        orjson.dumps(observation),
        now_ms(),
    )
    facts = _Facts(status, notes, judged.tokens, receipt, observation if query.detail else None)
    return _page(query, judged.view, rendered, _Start(0, 0), facts)


def _render(
    db: apsw.Connection, view: _View, query: PrepareQuery
) -> tuple[Sequence[Message], tuple[str, ...], Projection]:
    path = Path(db, view.session.id, view.leaf)
    first = path.after(Seq(0)) if view.cut is None else view.cut.tail_from
    segments = () if first is None else path.between(first, view.leaf)
    tail = [
        TailRow(f"e{row.seq}", row) for row in store.read_rows(db, view.session.id, segments, images=True)
    ]
    projection = Projection(shown_history(db, view.session.id, view.cut), tail)
    rendered = render(projection, query.format)
    return rendered.messages, _format_notes(rendered.notes), projection


def _format_notes(notes: Notes) -> tuple[str, ...]:
    counted = (
        (notes.labelled_calls, "tool calls without a result in place are shown as labelled text"),
        (notes.labelled_results, "tool results without their call are shown as labelled text"),
        (notes.reasoning_left_out, "reasoning parts were left out: this format cannot carry them"),
        (notes.images_as_metadata, "images are shown as metadata only"),
        (notes.opaque_left_out, "blocks of other kinds were left out: this format cannot carry them"),
    )
    return tuple(f"{count} {what}" for count, what in counted if count)


def _status(query: PrepareQuery, judged: _Judged) -> tuple[Status, tuple[str, ...]]:
    """The one word for how it went, and every sentence that explains it."""
    notes: list[str] = []
    compacted, window = judged.compacted, judged.window
    if compacted is not None:
        notes.extend(_pass_notes(compacted))
    if window is None:
        return "unknown_window", (*notes, "The window is unknown: give window_tokens or set it.")
    over = judged.tokens > window.tokens
    if over:
        notes.append(_over_note(judged, window, query))
    elif judged.tokens >= window.trigger and compacted is not None and query.compact != "force":
        notes.append("The request is above the trigger and nothing is left to fold; it fits the window.")
    if compacted is not None and compacted.progress.failed is not None:
        return "failed", tuple(notes)
    if over:
        return "limited", tuple(notes)
    return "not_needed" if compacted is None or compacted.cut is None else "compacted", tuple(notes)


def _pass_notes(compacted: Compacted) -> list[str]:
    notes: list[str] = []
    progress = compacted.progress
    if progress.failed is not None:
        notes.append(f"{progress.failed} The last cut is shown; nothing was lost.")
    if progress.out_of_time:
        notes.append("The time for one call was over; what was made is kept and the next call goes on.")
    if progress.stalled:
        notes.append("condensation-stalled: no run of neighbours is left; summaries show less text instead.")
    if compacted.cut is not None and compacted.cut.grown:
        notes.append("The summary budget was raised: the window's share has no room for twelve summaries.")
    return notes


def _over_note(judged: _Judged, window: Window, query: PrepareQuery) -> str:
    figures = f"{judged.tokens} tokens estimated ({window.preamble} of them preamble), window {window.tokens}"
    if query.compact == "never":
        return f"Over the window: {figures}. Compaction was not allowed (compact: never)."
    if judged.compacted is None:
        return f"Over the window: {figures}. This session's strategy is none: nothing is compacted."
    return (
        f"Over the window: {figures}. The newest unit stays whole and nothing of it was discarded; "
        "use a larger window or a smaller preamble."
    )


def _observe(
    work: Workplace,
    query: PrepareQuery,
    judged: _Judged,
    projection: Projection,
    status: Status,
    notes: tuple[str, ...],
) -> Observation:
    view, window = judged.view, judged.window
    compacted = judged.compacted
    return Observation(
        session=view.session.key,
        prepared=view.name,
        made_at=iso(now_ms()),
        status=status,
        notes=notes,
        strategy=_strategy(work, view.session, query),
        regime="passive" if compacted is None else "blocking",
        window_tokens=None if window is None else window.tokens,
        window_source=_window_source(query, judged),
        trigger_tokens=None if window is None else window.trigger,
        tail_tokens=None if window is None else window.tail,
        summary_tokens=None if window is None else window.summaries,
        estimated_input_tokens=judged.tokens,
        estimate_method=METHOD,
        tokens_before=judged.before,
        rows=view.session.next_seq - 1,
        shown_nodes=0 if view.cut is None else len(view.cut.shown),
        tail_rows=len(projection.tail),
        sections=tuple(_sections(query, judged, projection)),
        cut=None if view.cut is None else f"c{view.cut.id}",
        prefix_sha256=None if view.cut is None else view.cut.prefix_sha256,
        done=None if compacted is None else _done(compacted),
    )


def _window_source(
    query: PrepareQuery, judged: _Judged
) -> Literal["argument", "setting", "unknown", "estimate"]:
    if query.window_tokens:
        return "argument"
    if not judged.estimated:
        return "setting"
    return "unknown" if judged.window is None else "estimate"


def _done(compacted: Compacted) -> Done:
    progress = compacted.progress
    return Done(len(progress.leaves), len(progress.parents), progress.levels, round(compacted.seconds, 3))


def _sections(query: PrepareQuery, judged: _Judged, projection: Projection) -> Iterator[Section]:
    """The request's parts in order, with what each weighs; together they are the estimate."""
    view = judged.view
    if judged.preamble:
        yield Section(
            id="preamble",
            label="System prompt and tools",
            kind="preamble",
            sources=(),
            items=1 + len(query.tools),
            bytes=len((query.system or "").encode("utf-8", "replace")),
            tokens=judged.preamble,
            preview=(query.system or "")[:PREVIEW_CHARACTERS],
        )
    history = lcm.history_size(projection.history)
    if view.cut is not None and projection.history is not None:
        yield Section(
            id="summaries",
            label="Summaries of the earlier conversation",
            kind="summaries",
            sources=tuple(f"#{shown.node}" for shown in view.cut.shown),
            items=len(view.cut.shown),
            bytes=history.bytes,
            tokens=history.tokens,
            preview=projection.history[:PREVIEW_CHARACTERS],
        )
    tail = view.size - history
    if projection.tail:
        first, last = projection.tail[0], projection.tail[-1]
        yield Section(
            id="tail",
            label="Newest rows, word for word",
            kind="tail",
            sources=(f"{first.ref}..{last.ref}",),
            items=len(projection.tail),
            bytes=tail.bytes,
            tokens=judged.tokens - judged.preamble - history.tokens,
            preview=first.row.text[:PREVIEW_CHARACTERS],
        )


def _page(
    query: PrepareQuery, view: _View, messages: Sequence[Message], start: _Start, facts: _Facts
) -> Prepared:
    """As many messages as fit into a page; one that fits none comes in fragments of its JSON."""
    shown: list[PreparedMessage] = []
    room = PAGE_BYTES
    fragment: Fragment | None = None
    following: _Start | None = None
    for index in range(start.index, len(messages)):
        message = messages[index]
        body = encode(dict(message.body))
        if start.offset == 0 or index > start.index:
            if len(body) <= room:
                room -= len(body)
                shown.append(PreparedMessage(dict(message.body), message.sources))
                continue
            if shown or len(body) <= PAGE_BYTES:
                following = _Start(index, 0)
                break
        fragment, following = _fragment(message, body, index, start)
        break
    if following is not None and following.index == len(messages):
        following = None
    receipt = facts.receipt
    return Prepared(
        session=view.session.key,
        created=receipt is not None and receipt.created,
        refs=() if receipt is None else receipt.refs,
        duplicates=() if receipt is None else receipt.duplicates,
        conflicts=() if receipt is None else receipt.conflicts,
        prepared=view.name,
        status=facts.status,
        notes=facts.notes,
        estimated_input_tokens=facts.estimate,
        change="full",
        format=query.format,
        first_message=start.index,
        total_messages=len(messages),
        messages=tuple(shown),
        fragment=fragment,
        next_cursor=None if following is None else _cursor(query, view, following, facts),
        observation=facts.observation,
    )


def _fragment(message: Message, body: bytes, index: int, start: _Start) -> tuple[Fragment, _Start]:
    text = body.decode()
    offset = start.offset if index == start.index else 0
    piece = text[offset : offset + PAGE_BYTES].encode()[:PAGE_BYTES].decode(errors="ignore")
    end = offset + len(piece)
    following = _Start(index + 1, 0) if end >= len(text) else _Start(index, end)
    return Fragment(index, offset, len(text), piece, message.sources), following


def _cursor(query: PrepareQuery, view: _View, following: _Start, facts: _Facts) -> str:
    cut = 0 if view.cut is None else view.cut.id
    return cursors.make(
        _asked(view.session, query),
        (cut, view.leaf, following.index, following.offset, facts.status, facts.estimate),
    )
