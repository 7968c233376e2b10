"""What a preparation says of itself: its status in one word, the notes that explain it, the observation.

Pure: everything said here is made from the values of that one preparation. An estimate is always named
as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from typing import Literal

import orjson

from lcm_mcp.dag.observations import Measured
from lcm_mcp.projection import lcm
from lcm_mcp.service.answers import Status, Strategy
from lcm_mcp.service.passes import Compacted, Progress
from lcm_mcp.service.prepared import Counts, Done, Observation, Section, Wire
from lcm_mcp.service.recalling import Recalled
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.service.viewing import Outline, View
from lcm_mcp.service.windows import Preamble, Window, WindowSource
from lcm_mcp.settings import Settings
from lcm_mcp.tokens import METHOD, bytes_to_tokens, utf8_length
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.values import frozen

PREVIEW_CHARACTERS = 180
MAX_NODES_NAMED = 100
MAX_FAULTS = 8


@frozen
class Judged:
    """How a preparation stands: its view before and now, for whom it is, and what was done.

    bytes_per_token is the provider's own ratio where it is known; recalled is for this request alone.
    """

    first_view: View
    view: View
    strategy: Strategy
    window: Window | None
    window_source: WindowSource
    preamble: Preamble
    model: str | None
    bytes_per_token: float | None
    compacted: Compacted | None = None
    regime: Literal["passive", "async", "blocking"] = "passive"
    recalled: Recalled = field(default_factory=Recalled)

    @property
    def estimate(self) -> int:
        """The request by the fixed rule, in tokens."""
        return self.preamble.tokens + self.view.size.tokens + self.recalled.tokens

    @property
    def calibrated(self) -> int | None:
        """The request under the provider's own ratio, where that is known."""
        return None if self.bytes_per_token is None else self._tokens(self.view) + self.recalled.tokens

    @property
    def tokens(self) -> int:
        """The figure that lines and fit go by."""
        return self._tokens(self.view)

    def counts(self, view: View) -> Counts:
        cut = view.cut
        shown = 0 if cut is None else len(cut.shown) + (cut.running is not None)
        return Counts(self._tokens(view), shown, view.tail_rows)

    def _tokens(self, view: View) -> int:
        return self.preamble.with_history(view.size, self.bytes_per_token)


def status_of(settings: Settings, query: PrepareQuery, judged: Judged) -> tuple[Status, tuple[str, ...]]:
    """The one word for how it went, and every sentence that explains it."""
    notes = [*_pass_notes(judged), *_cut_notes(judged)]
    window = judged.window
    if window is None:
        return "unknown_window", (*notes, _unknown_window(judged))
    over = judged.tokens > window.tokens
    if over:
        notes.append(
            f"Over the window: {judged.tokens} tokens estimated ({window.preamble} of them preamble), "
            f"window {window.tokens}."
        )
    status = _unfinished(judged)
    if status is None and over:
        notes.append(_limit(settings, judged, query))
        status = "limited"
    return status or _finished(query, judged, window, notes), tuple(notes)


def _unfinished(judged: Judged) -> Status | None:
    """The status of a compaction that is not at its end, or came to none."""
    if judged.regime == "async":
        return "scheduled"
    progress = None if judged.compacted is None else judged.compacted.progress
    if progress is None or (progress.failed is None and not progress.out_of_time):
        return None
    return "scheduled" if progress.failed is None else "failed"


def _finished(query: PrepareQuery, judged: Judged, window: Window, notes: list[str]) -> Status:
    compacted = judged.compacted
    if compacted is not None and judged.tokens >= window.trigger and query.compact != "force":
        notes.append("The request is above the trigger and nothing is left to fold; it fits the window.")
    return "not_needed" if compacted is None or compacted.cut is None else "compacted"


def _unknown_window(judged: Judged) -> str:
    if judged.model is None:
        return "The window is unknown: give window_tokens or the model's name, or set it."
    return f"The window is unknown, also for {judged.model[:80]!r}: give window_tokens or set it."


def _cut_notes(judged: Judged) -> list[str]:
    cut = judged.view.cut
    if cut is None or not cut.crowded_out:
        return []
    named = ", ".join(f"e{seq}" for seq in cut.crowded_out[:20])
    rows = "row" if len(cut.crowded_out) == 1 else "rows"
    return [f"{len(cut.crowded_out)} pinned {rows} found no room within pinnedRowsPercent: {named}."]


def _masked(progress: Progress) -> list[str]:
    if not progress.masked:
        return []
    return [f"{progress.masked} key-shaped strings were masked in what models were sent."]


def _pass_notes(judged: Judged) -> list[str]:
    if judged.regime == "async":
        return ["A compaction is under way beside the requests; this one shows what the last one showed."]
    compacted = judged.compacted
    if compacted is None:
        return []
    progress = compacted.progress
    notes = _masked(progress)
    if progress.failed is not None:
        notes.append(f"{progress.failed} The last cut is shown; nothing was lost.")
    notes += [fault for fault in [*progress.faults][:MAX_FAULTS] if fault != progress.failed]
    if progress.out_of_time:
        notes.append("The time for this call was over: what was made is kept, and the rest is gone on with.")
    if progress.stalled:
        notes.append("condensation-stalled: no run of neighbours is left; summaries show less text instead.")
    if progress.no_room:
        notes.append("No summary fits the room that this window leaves for it; what was shown stays.")
    if compacted.cut is not None and compacted.cut.grown:
        notes.append("The summary budget was raised: the window's share has no room for twelve summaries.")
    return notes


def _limit(settings: Settings, judged: Judged, query: PrepareQuery) -> str:
    """Why a request over its window was not made smaller."""
    if query.compact == "never":
        return "Compaction was not allowed (compact: never)."
    if judged.strategy == "none":
        return "This session's strategy is none: nothing is compacted."
    own = settings.rolling if judged.strategy == "rolling" else settings.lcm
    if own.split_oversized_unit:
        return (
            "The newest round stays whole and nothing of it was discarded; "
            "use a larger window or a smaller preamble."
        )
    return (
        "The newest unit stays whole and nothing of it was discarded; use a larger window or a smaller "
        f"preamble, or set {judged.strategy}.splitOversizedUnit to fold its older rounds."
    )


def observe(
    query: PrepareQuery, judged: Judged, outlined: Outline, status: Status, notes: tuple[str, ...]
) -> Observation:
    view, window = judged.view, judged.window
    provider, model = query.provider or view.session.provider, query.model or view.session.model
    return Observation(
        session=view.session.key,
        prepared=view.name,
        made_at=iso(now_ms()),
        status=status,
        notes=notes,
        strategy=judged.strategy,
        regime=judged.regime,
        provider=provider,
        model=model,
        window_tokens=None if window is None else window.tokens,
        window_source=judged.window_source,
        trigger_tokens=None if window is None else window.trigger,
        swap_tokens=None if window is None else window.swap,
        tail_tokens=None if window is None else window.tail,
        summary_tokens=None if window is None else window.summaries,
        pin_tokens=None if window is None else window.pins,
        estimated_input_tokens=judged.estimate,
        estimate_method=METHOD,
        calibrated_input_tokens=judged.calibrated,
        bytes_per_token=None if judged.bytes_per_token is None else round(judged.bytes_per_token, 3),
        provider_input_tokens=None,
        provider_cached_tokens=None,
        rows=outlined.rows,
        before=judged.counts(judged.first_view),
        after=judged.counts(view),
        sections=tuple(_sections(query, judged, outlined)),
        cut=None if view.cut is None else f"c{view.cut.id}",
        prefix_sha256=None if view.cut is None else view.cut.prefix_sha256,
        done=None if judged.compacted is None else _done(judged.compacted),
    )


def write_observation(observation: Observation, wire: Wire | None) -> bytes:
    """An observation as it is kept, with what was given of it (None: nothing)."""
    own = {field.name: getattr(observation, field.name) for field in fields(observation)}
    return orjson.dumps({**own, "wire": wire})


def read_observation(body: bytes, measured: Measured | None) -> Observation | None:
    """An observation as it was kept, with what the provider counted since; None where another version of
    this program wrote it in other words."""
    kept = orjson.loads(body)
    kept.pop("wire", None)
    try:
        kept["sections"] = tuple(
            Section(**(section | {"sources": tuple(section["sources"])})) for section in kept["sections"]
        )
        kept["before"], kept["after"] = Counts(**kept["before"]), Counts(**kept["after"])
        done = kept["done"]
        if done is not None:
            kept["done"] = Done(**(done | {"nodes": tuple(done["nodes"]), "levels": tuple(done["levels"])}))
        kept["notes"] = tuple(kept["notes"])
        if measured is not None:
            kept["provider_input_tokens"] = measured.input_tokens
            kept["provider_cached_tokens"] = measured.cached_tokens
        return Observation(**kept)
    except (KeyError, TypeError):
        return None


def _done(compacted: Compacted) -> Done:
    progress = compacted.progress
    made = (*progress.leaves, *progress.parents)
    return Done(
        leaves=len(progress.leaves),
        parents=len(progress.parents),
        written=progress.written,
        nodes=tuple(f"#{node.id}" for node in made[:MAX_NODES_NAMED]),
        levels=progress.levels,
        source_tokens=progress.folded_tokens,
        summary_tokens=progress.summary_tokens,
        seconds=round(compacted.seconds, 3),
        model_calls=progress.calls,
        model_input_tokens=progress.cost.input_tokens,
        model_output_tokens=progress.cost.output_tokens,
        uncounted_tokens=progress.uncounted_tokens,
        cost_usd=progress.cost.usd,
    )


def _sections(query: PrepareQuery, judged: Judged, outlined: Outline) -> Iterator[Section]:
    """The request's parts in order, with what each weighs; together they are the estimate."""
    view = judged.view
    if judged.preamble.tokens:
        yield Section(
            id="preamble",
            label="System prompt and tools",
            kind="preamble",
            sources=(),
            items=1 + len(query.tools),
            bytes=judged.preamble.size.bytes,
            tokens=judged.preamble.tokens,
            preview=readable((query.system or "")[:PREVIEW_CHARACTERS]),
        )
    history = lcm.history_size(view.history)
    if view.history is not None:
        yield from _before_the_tail(view, view.history, outlined.quotes)
    tail = view.size - history
    if outlined.first:
        yield Section(
            id="tail",
            label="Newest rows, word for word",
            kind="tail",
            sources=(f"e{outlined.first}..e{outlined.last}",),
            items=view.tail_rows,
            bytes=tail.bytes,
            tokens=judged.estimate - judged.preamble.tokens - history.tokens - judged.recalled.tokens,
            preview=outlined.opening[:PREVIEW_CHARACTERS],
        )
    if judged.recalled.marks:
        yield _recalled(judged.recalled)


def _recalled(recalled: Recalled) -> Section:
    return Section(
        id="recalled",
        label="Rows recalled for this request",
        kind="recalled",
        sources=tuple(f"e{mark.seq}" for mark in recalled.marks),
        items=len(recalled.marks),
        bytes=utf8_length(recalled.block),
        tokens=recalled.tokens,
        preview=recalled.block.partition("\n\n")[2][:PREVIEW_CHARACTERS],
    )


def _before_the_tail(view: View, history: str, quotes: Sequence[str]) -> Iterator[Section]:
    cut = view.cut
    assert cut is not None
    size = lcm.history_size(history)
    quoted = sum(utf8_length(quote) + 2 for quote in quotes)
    running = () if cut.running is None else (f"e{cut.running.first}..e{cut.running.last}",)
    yield Section(
        id="summaries",
        label="Summaries of the earlier conversation" if cut.shown else "Summary of the earlier conversation",
        kind="summaries",
        sources=tuple(f"#{shown.node}" for shown in cut.shown) or running,
        items=len(cut.shown) or 1,
        bytes=size.bytes - quoted,
        tokens=size.tokens - bytes_to_tokens(quoted),
        preview=history.partition("\n\n")[2][:PREVIEW_CHARACTERS],
    )
    if quotes:
        yield Section(
            id="quotes",
            label="Rows quoted from the earlier conversation",
            kind="quotes",
            sources=tuple(f"e{quote.seq}" for quote in cut.quotes),
            items=len(quotes),
            bytes=quoted,
            tokens=bytes_to_tokens(quoted),
            preview=quotes[0][:PREVIEW_CHARACTERS],
        )
