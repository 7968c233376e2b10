"""The window: how large it is, who says so, and the lines it is divided into.

The caller's argument comes first, then the setting, then the catalogue by the model's name; else it is
unknown, and nothing is compacted by itself. Sizes are our estimate, until a provider has counted enough
requests of this session to say how many bytes a token really has: then lines and fit use that ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import anyio.to_thread
import apsw

from lcm_mcp import models
from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Pair
from lcm_mcp.dag.plan import MIN_TARGET_TOKENS
from lcm_mcp.projection import lcm
from lcm_mcp.projection.labels import fence_history
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.settings import Settings
from lcm_mcp.tokens import BYTES_PER_TOKEN, PREAMBLE_TOKENS, TOOL_TOKENS, Size, bytes_to_tokens, utf8_length
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

WindowSource = Literal["argument", "setting", "catalogue", "estimate", "unknown"]

FENCE = lcm.history_size(fence_history([]))
"""What the history message takes before it says anything."""
RECAP_ROWS, RECAP_CHARACTERS = 3, 400
RECAP_TOKENS = RECAP_ROWS * (RECAP_CHARACTERS // BYTES_PER_TOKEN + 12)
MOST_RUNNING_TOKENS, LEAST_RUNNING_TOKENS = 2048, 128

PAIRS, LEAST_PAIRS, SPREAD = 8, 3, 0.25
LEAST_RATIO, MOST_RATIO = 2.0, 8.0
"""Bytes a token: a provider's count outside of these is of something else than this request."""


@frozen
class Preamble:
    """What the request brings itself: the estimate by the fixed rule, and what it is made of."""

    tokens: int
    size: Size

    def with_history(self, shown: Size, bytes_per_token: float | None) -> int:
        """A whole request in tokens: by the fixed rule, or under a provider's ratio where that is known."""
        if bytes_per_token is None:
            return self.tokens + shown.tokens
        return (self.size + shown).tokens_at(bytes_per_token)


@frozen
class Window:
    """A window and what it is divided into, in tokens; preamble is what the request brings itself.

    swap is where a pass starts beside the requests, trigger where a request waits for one. summaries is
    the room for nodes, or for the one summary of rolling; pins that for pinned rows. bytes_per_token is
    the ratio that a provider's counts gave, None while the fixed rule holds.
    """

    tokens: int
    preamble: int
    trigger: int
    swap: int
    tail: int
    summaries: int
    pins: int
    bytes_per_token: float | None = None

    def weigh(self, size: Size) -> int:
        """What a size takes, in tokens, under the ratio in force."""
        return size.tokens if self.bytes_per_token is None else size.tokens_at(self.bytes_per_token)

    def in_rule_tokens(self, tokens: int) -> int:
        """As many tokens of the fixed rule as the texts have that take so many under the ratio in force."""
        if self.bytes_per_token is None:
            return tokens
        return int(tokens * self.bytes_per_token / BYTES_PER_TOKEN)


def preamble_of(query: PrepareQuery) -> Preamble:
    """The preamble's weight: the caller's own figure, or that of its text and tools."""
    if query.preamble_tokens is not None:
        return Preamble(query.preamble_tokens, Size(fixed=query.preamble_tokens))
    if query.system is None and not query.tools:
        return Preamble(0, Size())
    texts = [utf8_length(query.system or ""), *(len(encode(_json(tool))) for tool in query.tools)]
    fixed = PREAMBLE_TOKENS + TOOL_TOKENS * len(query.tools)
    return Preamble(fixed + sum(map(bytes_to_tokens, texts)), Size(bytes=sum(texts), fixed=fixed))


def _json(value: object) -> Json:
    return value  # pyright: ignore[reportReturnType]  # it came as JSON


async def find_window(
    settings: Settings, session: Session, query: PrepareQuery, strategy: Strategy
) -> tuple[int | None, WindowSource]:
    """The window in tokens, and who says so."""
    if query.window_tokens is not None:
        return query.window_tokens, "argument"
    setting = {
        "rolling": settings.rolling.context_window_tokens,
        "lcm": settings.lcm.context_window_tokens,
        "none": settings.rolling.context_window_tokens or settings.lcm.context_window_tokens,
    }[strategy]
    if setting is not None:
        return setting, "setting"
    model = query.model or session.model
    if model is not None:
        provider = query.provider if query.model else query.provider or session.provider
        known = await anyio.to_thread.run_sync(models.context_window, provider, model)
        if known is not None:
            return known, "catalogue"
    return None, "unknown"


def divide(
    tokens: int, preamble: Preamble, strategy: Strategy, settings: Settings, bytes_per_token: float | None
) -> Window:
    """A window's lines under the settings in force; a large preamble takes its room from the tail."""
    if strategy == "rolling":
        own, swap_percent = settings.rolling, settings.rolling.trigger_percent
        summaries = min(MOST_RUNNING_TOKENS, max(LEAST_RUNNING_TOKENS, tokens // 10))
        least = summaries + RECAP_TOKENS
    else:
        own, swap_percent = settings.lcm, settings.lcm.swap
        summaries = tokens * settings.lcm.summary_percent // 100
        least = MIN_TARGET_TOKENS
    swap = -(-tokens * swap_percent // 100)
    weighed = preamble.with_history(Size(), bytes_per_token)
    left = swap - preamble.with_history(FENCE, bytes_per_token) - least
    return Window(
        tokens=tokens,
        preamble=weighed,
        trigger=-(-tokens * own.trigger_percent // 100),
        swap=swap,
        tail=min(tokens * own.tail_percent // 100, max(left, 0)),
        summaries=summaries,
        pins=tokens * settings.pinned_rows_percent // 100,
        bytes_per_token=bytes_per_token,
    )


def ratio_in_force(db: apsw.Connection, session: Session, model: str | None) -> float | None:
    """How many bytes a token has by the provider's own counts for this model, where they agree."""
    return calibrate(observations.pairs(db, session.id, model, PAIRS))


def calibrate(pairs: Sequence[Pair]) -> float | None:
    """The median bytes a token of pairs that agree; None where fewer than LEAST_PAIRS do."""
    ratios = [
        pair.bytes / (pair.input_tokens - pair.fixed) for pair in pairs if pair.input_tokens > pair.fixed
    ]
    ratios = [ratio for ratio in ratios if LEAST_RATIO <= ratio <= MOST_RATIO]
    if not ratios:
        return None
    middle = median(ratios)
    agreeing = [ratio for ratio in ratios if abs(ratio - middle) <= SPREAD * middle]
    return median(agreeing) if len(agreeing) >= LEAST_PAIRS else None


def named_model(provider: str | None, model: str | None) -> str | None:
    """Whom a request is for, as one name; None where nobody was named."""
    return "/".join(part for part in (provider, model) if part) or None
