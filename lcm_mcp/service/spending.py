"""Calls of models within their budget: the account of a pass, kept in the store that all processes share.

A call is put down with the most it can take in the same transaction that compares the caps, so that no two
calls, of whatever processes, pass a cap together. A refusal costs nothing and the next of the chain is
asked. A breaker that is open refuses too.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from lcm_mcp.chain import CommandEntry, Entry, ExtractiveEntry
from lcm_mcp.dag import breakers, spending
from lcm_mcp.dag.breakers import Breaker, Fault
from lcm_mcp.dag.model import Cost
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.ids import SessionId
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.times import iso, now_ms, today
from lcm_mcp.service.windows import MOST_RUNNING_TOKENS
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings, default_folder
from lcm_mcp.summarizers.command import CommandModel
from lcm_mcp.summarizers.metered import Metered, Model, PutDown
from lcm_mcp.summarizers.model import Summarizer
from lcm_mcp.summarizers.providers import AnthropicModel, OpenaiModel
from lcm_mcp.tokens import BYTES_PER_TOKEN
from lcm_mcp.transcript.sessions import existing
from lcm_mcp.values import frozen

PROMPT_BYTES = 4096
"""Of a prompt, what it says beside the source."""
LEAST_CHUNK_TOKENS = 512
LEAST_SOURCE_TOKENS = 2048
"""A cap that leaves less than this is none to cut sources by: the calls are refused."""


def models_of(settings: Settings) -> tuple[Model, ...]:
    """The models that the settings list, in order; one that is listed twice has its number in its name."""
    models: list[Model] = []
    names: list[str] = []
    for entry in settings.summarizers:
        if not isinstance(entry, ExtractiveEntry):
            names.append(entry.name)
            number = names.count(entry.name)
            models.append(_model(entry, entry.name if number == 1 else f"{entry.name} ({number})"))
    return tuple(models)


def _model(entry: Entry, name: str) -> Model:
    if isinstance(entry, CommandEntry):
        return CommandModel(entry, name, default_folder())
    assert not isinstance(entry, ExtractiveEntry)
    return AnthropicModel(entry, name) if entry.kind == "anthropic" else OpenaiModel(entry, name)


def chain_for(
    work: Workplace, session: SessionId, progress: Progress, deadline: float
) -> Sequence[Summarizer]:
    """The summarizers as a pass asks them, its models on its account."""
    account = PassAccount(work, session, progress, deadline)
    redacting = work.settings.redact_outgoing
    return [*(Metered(model, account, redacting) for model in work.models), *work.chain]


def most_source_tokens(work: Workplace) -> int | None:
    """The longest source, in tokens by our rule, that a call's cap and every model's window let through; None
    where nothing is known or no model is asked. May load a catalogue. A token of ours is BYTES_PER_TOKEN
    bytes, of which the cap counts each; of a window half is left for what surrounds the source."""
    told = max((model.output_tokens(MOST_RUNNING_TOKENS) for model in work.models), default=0)
    room = (work.settings.summarizer_call_tokens - told - PROMPT_BYTES) // BYTES_PER_TOKEN
    rooms = [room] if work.models and room >= LEAST_SOURCE_TOKENS else []
    windows = filter(None, (model.window() for model in work.models))
    rooms += [max(min(window // 2, window - told - PROMPT_BYTES), LEAST_CHUNK_TOKENS) for window in windows]
    return min(rooms, default=None)


@frozen
class PassAccount:
    """The account of one pass."""

    work: Workplace
    session: SessionId
    progress: Progress
    deadline: float

    async def put_down(self, model: Model, tokens: int) -> PutDown:
        settings, progress = self.work.settings, self.progress
        if tokens > settings.summarizer_call_tokens:
            raise _over(model, "summarizerCallTokens", settings.summarizer_call_tokens)
        counted = progress.uncounted_tokens + progress.cost.tokens
        if counted + tokens > settings.summarizer_pass_tokens:
            raise _over(model, "summarizerPassTokens", settings.summarizer_pass_tokens)
        # Before anything is waited for: whatever else this pass does meanwhile, it counts.
        progress.uncounted_tokens += tokens
        place = spending.Place(today(), self.session, model.name)
        try:
            await self.work.store.write(
                _enter, model, place, tokens, settings.summarizer_day_tokens, now_ms()
            )
        except BaseException:
            progress.uncounted_tokens -= tokens
            raise
        progress.calls += 1
        return PutDown(place.day, tokens)

    async def settle(self, model: Model, call: PutDown, cost: Cost | None, fault: Fault | None) -> None:
        if cost is not None:
            self.progress.uncounted_tokens -= call.tokens
            self.progress.cost += cost
        place = spending.Place(call.day, self.session, model.name)
        await self.work.store.write(_leave, model, place, call.tokens, cost, fault, now_ms())

    def note_masked(self, keys: int) -> None:
        self.progress.masked += keys

    def note(self, failed: SummarizerFailed) -> None:
        self.progress.faults[str(failed)] = None


def breakers_open(db: apsw.Connection, models: Sequence[Model]) -> list[Breaker]:
    """The breakers that keep models of the chain from being asked."""
    found = (breakers.find(db, model.mark) for model in models)
    return [one for one in found if one is not None and one.opened_at is not None]


def breaker_line(breaker: Breaker) -> str:
    assert breaker.opened_at is not None
    return (
        f"Summarizer {breaker.summarizer} is not asked since {iso(breaker.opened_at)}: {breaker.reason}; "
        f"other settings clear this, and it is tried again after {iso(breaker.again_at)}."
    )


def _enter(
    db: apsw.Connection, model: Model, place: spending.Place, tokens: int, day_tokens: int, now: int
) -> None:
    """The caps first: a call that is let through a breaker to see whether it still fails has to be made."""
    existing(db, place.session)
    counted = spending.counted_on(db, place.day)
    if counted + tokens > day_tokens:
        raise _over(model, "summarizerDayTokens", day_tokens)
    breaker = breakers.admit(db, model.mark, now)
    if breaker is not None:
        reason = f"{breaker.reason}, so it is left alone until {iso(breaker.again_at)}"
        raise SummarizerFailed(model.name, reason)
    spending.put_down(db, place, tokens)


def _leave(
    db: apsw.Connection,
    model: Model,
    place: spending.Place,
    tokens: int,
    cost: Cost | None,
    fault: Fault | None,
    now: int,
) -> None:
    if cost is not None:
        spending.settle(db, place, tokens, cost)
    if fault is not None:
        breakers.note_fault(db, model.mark, model.name, fault, now)
    elif cost is not None:
        breakers.clear(db, model.mark)


def _over(model: Model, cap: str, most: int) -> SummarizerFailed:
    return SummarizerFailed(model.name, f"a call could go beyond {cap} ({most:,}), so nothing was sent")
