"""What a preparation answers: a page of the projection, and the observation that explains it.

Addresses and times (ISO 8601, UTC) are strings, ready to be shown; sizes are tokens by our own estimate
unless the name says bytes, characters or provider.
"""

from __future__ import annotations

from typing import Literal

from lcm_mcp.service.answers import Format, Status, Strategy
from lcm_mcp.transcript.model import Json
from lcm_mcp.values import frozen


@frozen
class Section:
    """A stretch of the prepared request, in order; preview is at most 180 characters."""

    id: str
    label: str
    kind: Literal["preamble", "summaries", "quotes", "tail", "recalled"]
    sources: tuple[str, ...]
    items: int
    bytes: int
    tokens: int
    preview: str


@frozen
class Done:
    """What a compaction did before this answer; nodes names the first 100 it made.

    written counts summaries that are no nodes (rolling's); source_tokens were folded into summary_tokens.
    model_* are what calls of models took, as their providers counted it; uncounted_tokens are those of broken
    calls, at their most. cost_usd is null where a price is unknown.
    """

    leaves: int
    parents: int
    written: int
    nodes: tuple[str, ...]
    levels: tuple[int, ...]
    source_tokens: int
    summary_tokens: int
    seconds: float
    model_calls: int = 0
    model_input_tokens: int = 0
    model_output_tokens: int = 0
    uncounted_tokens: int = 0
    cost_usd: float | None = 0.0


@frozen
class Counts:
    """How much a projection shows: its tokens, summaries and rows shown word for word."""

    tokens: int
    summaries: int
    tail_rows: int


@frozen
class Observation:
    """The description of one preparation; percentages and tokens as they were in force then.

    estimated_input_tokens is always our fixed rule; calibrated_input_tokens the same bytes under the ratio
    that the provider's own counts gave (lines and fit use it where it is there). provider_* are what the
    provider counted for this very request, once it was reported.
    """

    session: str
    prepared: str
    made_at: str
    status: Status
    notes: tuple[str, ...]
    strategy: Strategy
    regime: Literal["passive", "async", "blocking"]
    provider: str | None
    model: str | None
    window_tokens: int | None
    window_source: Literal["argument", "setting", "catalogue", "estimate", "unknown"]
    trigger_tokens: int | None
    swap_tokens: int | None
    tail_tokens: int | None
    summary_tokens: int | None
    pin_tokens: int | None
    estimated_input_tokens: int
    estimate_method: str
    calibrated_input_tokens: int | None
    bytes_per_token: float | None
    provider_input_tokens: int | None
    provider_cached_tokens: int | None
    rows: int
    before: Counts
    after: Counts
    sections: tuple[Section, ...]
    cut: str | None
    prefix_sha256: str | None
    done: Done | None


@frozen
class Wire:
    """How a projection was given: in which form, in how many messages, and where cache marks go.

    renamed: a call in it bears another id than the stored one. recalled: its last message ends with rows that
    were recalled for this request alone.
    """

    format: Format
    messages: int
    renamed: bool
    cache_breakpoints: tuple[int, ...]
    recalled: bool = False


@frozen
class PreparedMessage:
    """One message in the asked format, with the addresses of the rows it shows (none for summaries)."""

    message: dict[str, Json]
    sources: tuple[str, ...]


@frozen
class Inserted:
    """A message as in PreparedMessage, and its place in the projection, counted from 0."""

    index: int
    message: dict[str, Json]
    sources: tuple[str, ...]


@frozen
class Fragment:
    """A piece of a message too large for one page: join json over pages until offset + len(json) = total.

    index is the message's place in the projection; offset and total count characters of its JSON.
    """

    index: int
    offset: int
    total: int
    json: str
    sources: tuple[str, ...]


@frozen
class Prepared:
    """A page of the projection named by prepared, with what an append in the same call did.

    full: messages are the projection. Otherwise it is `keep` of the held messages after the first `omit`,
    with those of insert put in at their places, in order; keep_from is the first row of what is kept.
    cache_breakpoints are indexes in the projection, on the first page only.
    """

    session: str
    created: bool
    refs: tuple[str, ...]
    duplicates: tuple[str, ...]
    conflicts: tuple[str, ...]
    prepared: str
    status: Status
    notes: tuple[str, ...]
    estimated_input_tokens: int
    calibrated_input_tokens: int | None
    change: Literal["none", "splice", "full"]
    omit: int
    keep: int
    keep_from: str | None
    format: Format
    first_message: int
    total_messages: int
    messages: tuple[PreparedMessage, ...]
    insert: tuple[Inserted, ...]
    fragment: Fragment | None
    next_cursor: str | None
    cache_breakpoints: tuple[int, ...]
    observation: Observation | None
