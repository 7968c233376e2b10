"""What a preparation says of itself: its status in one word, the notes that explain it, the observation.

Pure: everything said here is made from the values of that one preparation. An estimate is always named
as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lcm_mcp.projection import lcm
from lcm_mcp.projection.model import Projection
from lcm_mcp.service.answers import Done, Observation, Section, Status, Strategy
from lcm_mcp.service.compaction import Compacted, Window
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.service.viewing import View
from lcm_mcp.tokens import METHOD
from lcm_mcp.transcript.sealing import readable

PREVIEW_CHARACTERS = 180
MAX_NODES_NAMED = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """How a preparation stands: its view, its estimate before and after, and what was done."""

    view: View
    strategy: Strategy
    window: Window | None
    estimated: bool
    preamble: int
    before: int
    compacted: Compacted | None

    @property
    def tokens(self) -> int:
        return self.preamble + self.view.size.tokens


def status_of(query: PrepareQuery, judged: Judged) -> tuple[Status, tuple[str, ...]]:
    """The one word for how it went, and every sentence that explains it."""
    window, compacted = judged.window, judged.compacted
    notes = [] if compacted is None else _pass_notes(compacted)
    if window is None:
        return "unknown_window", (*notes, "The window is unknown: give window_tokens or set it.")
    over = judged.tokens > window.tokens
    if over:
        notes.append(
            f"Over the window: {judged.tokens} tokens estimated ({window.preamble} of them preamble), "
            f"window {window.tokens}."
        )
    if compacted is not None and compacted.progress.failed is not None:
        return "failed", tuple(notes)
    if compacted is not None and compacted.progress.out_of_time:
        return "scheduled", tuple(notes)
    if over:
        return "limited", (*notes, _limit(judged, query))
    if compacted is None:
        return "not_needed", tuple(notes)
    if judged.tokens >= window.trigger and query.compact != "force":
        notes.append("The request is above the trigger and nothing is left to fold; it fits the window.")
    return "not_needed" if compacted.cut is None else "compacted", tuple(notes)


def _pass_notes(compacted: Compacted) -> list[str]:
    notes: list[str] = []
    progress = compacted.progress
    if progress.failed is not None:
        notes.append(f"{progress.failed} The last cut is shown; nothing was lost.")
    if progress.out_of_time:
        notes.append("The time for this call was over: what was made is kept, the next call goes on.")
    if progress.stalled:
        notes.append("condensation-stalled: no run of neighbours is left; summaries show less text instead.")
    if compacted.cut is not None and compacted.cut.grown:
        notes.append("The summary budget was raised: the window's share has no room for twelve summaries.")
    return notes


def _limit(judged: Judged, query: PrepareQuery) -> str:
    """Why a request over its window was not made smaller."""
    if query.compact == "never":
        return "Compaction was not allowed (compact: never)."
    if judged.compacted is None:
        return "This session's strategy is none: nothing is compacted."
    return (
        "The newest unit stays whole and nothing of it was discarded; "
        "use a larger window or a smaller preamble."
    )


def observe(
    query: PrepareQuery,
    judged: Judged,
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
        strategy=judged.strategy,
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
    query: PrepareQuery, judged: Judged
) -> Literal["argument", "setting", "unknown", "estimate"]:
    if query.window_tokens:
        return "argument"
    if not judged.estimated:
        return "setting"
    return "unknown" if judged.window is None else "estimate"


def _done(compacted: Compacted) -> Done:
    progress = compacted.progress
    made = (*progress.leaves, *progress.parents)
    return Done(
        leaves=len(progress.leaves),
        parents=len(progress.parents),
        nodes=tuple(f"#{node.id}" for node in made[:MAX_NODES_NAMED]),
        levels=progress.levels,
        seconds=round(compacted.seconds, 3),
    )


def _sections(query: PrepareQuery, judged: Judged, projection: Projection) -> Iterator[Section]:
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
            preview=readable((query.system or "")[:PREVIEW_CHARACTERS]),
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
