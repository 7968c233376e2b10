"""What random histories do to a session: every deed is a plain value that Hypothesis can shrink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from histories import Entry, batches, long_work, oddly_answered, work_done
from hypothesis import strategies as st

from lcm_mcp.projection.model import FORMATS, Format
from lcm_mcp.service.answers import Strategy

Settings = dict[str, int | bool | str]


@dataclass(frozen=True, slots=True)
class Report:
    """Usage of the preparation so far back: as many tokens as give that many bytes a token; 0: hardly any,
    None: under a name that nothing was ever prepared under."""

    back: int
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Append:
    """Append natively; named: with entry_ids of the test's own; usage is told in the same call."""

    entries: list[Entry]
    named: bool
    usage: Report | None = None


@dataclass(frozen=True, slots=True)
class AppendAgain:
    """Append once more what came `back` named appends ago, with other content where `changed`."""

    back: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Import:
    """Lengthen the session's file of that format and import it whole; compacted: the client noted a
    summary of its own (an inactive row) before these entries."""

    format: Literal["neutral", "claude-code"]
    entries: list[Entry]
    compacted: bool


@dataclass(frozen=True, slots=True)
class Pin:
    """Pin rows, or take their pins: each row by its number from the newest, round again."""

    rows: list[int]
    off: bool


Window = int | Literal["usual", "at the edge", "below the edge", "between"] | None
"""In tokens; the history's usual one; or such that the projection just is, just is not at the trigger, or
is between the swap line and the trigger."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """A request. beside None: nobody hosts passes; 0: a pass beside the request is waited for afterwards;
    else it is left at its summarizer call of that number."""

    entries: list[Entry]
    window: Window
    preamble: int
    compact: Literal["auto", "force", "never"]
    strategy: Strategy | None
    format: Format
    system: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Report | None = None
    keep: bool = True
    beside: int | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    strategy: Strategy | None


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close the store and open it again with other settings."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Rewind:
    """Let the path end at the row so far back from the newest, round again."""

    back: int


@dataclass(frozen=True, slots=True)
class Fork:
    """Go on in a fork from the row so far back from the newest, round again."""

    back: int
    marker: bool


@dataclass(frozen=True, slots=True)
class Redo:
    """Make a node again; it counts round again."""

    node: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Go on in one of the sessions that were left."""

    session: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget one of them."""

    session: int


Plain = Append | AppendAgain | Import | Pin | Reopen
Move = Rewind | Fork | Redo | Turn | Forget
Mortal = Append | Import | Pin | Prepare | Compact | Rewind | Fork | Redo | Forget


@dataclass(frozen=True, slots=True)
class Crash:
    """Do a deed and die at its write of that number: before it, when all of it is done but the COMMIT, or
    right after that. Where the deed writes less, nobody dies."""

    deed: Mortal
    write: int
    moment: Literal["before", "inside", "after"]


Deed = Plain | Move | Prepare | Compact | Crash

STRATEGIES: tuple[Strategy, ...] = ("rolling", "lcm", "none")
strategies = st.sampled_from(STRATEGIES)
usual_windows = st.sampled_from([2000, 2000, 3000, 4000, 4000, 8000, 16000])
windows: st.SearchStrategy[Window] = st.sampled_from(
    [
        "usual",
        "usual",
        "usual",
        "usual",
        "between",
        "between",
        "at the edge",
        "below the edge",
        2000,
        4000,
        16000,
        None,
    ]
)
ratios = st.sampled_from([3.0, 3.1, 3.2, 3.4] * 2 + [5.0, 1.5, 9.0, 0, None])
reports = st.builds(Report, st.integers(0, 5), ratios)


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    """Settings that hold; the swap line is drawn only where it is above what a compaction leaves."""
    pins = draw(st.sampled_from([0, 2, 2, 10]))
    made: Settings = {"pinnedRowsPercent": pins}
    tail, summary, trigger = (draw(st.sampled_from(each)) for each in ([5, 25, 40], [3, 10, 25], [80, 90]))
    made |= {"lcm.tailPercent": tail, "lcm.summaryPercent": summary, "lcm.triggerPercent": trigger}
    swaps = [swap for swap in (50, 60, 78) if tail + summary + pins < swap]
    made |= draw(st.one_of(st.just(Settings()), st.sampled_from(swaps).map(lambda n: {"lcm.swapPercent": n})))
    made["lcm.leafChunkTokens"] = draw(st.sampled_from([512, 512, 1000, 6000]))
    made["lcm.leafTargetTokens"] = draw(st.sampled_from([64, 128, 768]))
    made["rolling.tailPercent"] = draw(st.sampled_from([5, 25, 50]))
    made["rolling.triggerPercent"] = draw(st.sampled_from([70, 90]))
    for group in ("lcm", "rolling"):
        made[f"{group}.splitOversizedUnit"] = draw(st.booleans())
        if draw(st.integers(0, 5)) == 5:
            made[f"{group}.contextWindowTokens"] = 5000
    return made


names = st.sampled_from(
    [(None, None)] * 6 + [("one", "small"), ("one", "large"), ("two", None), (None, "large")]
)


@st.composite
def prepares(draw: st.DrawFn) -> Prepare:
    provider, model = cast("tuple[str | None, str | None]", draw(names))
    return Prepare(
        entries=draw(st.one_of(long_work, batches)),
        window=draw(windows),
        preamble=draw(st.sampled_from([0, 0, 300, 1500])),
        compact=draw(st.sampled_from(["auto", "auto", "auto", "force", "never"])),
        strategy=draw(st.one_of(*[st.none()] * 4, strategies)),
        format=draw(st.sampled_from(FORMATS)),
        system=draw(st.sampled_from([None, None, "You are careful. " * 20])),
        provider=provider,
        model=model,
        usage=draw(st.one_of(st.none(), reports, reports)),
        keep=draw(st.sampled_from([True, True, True, False])),
        beside=draw(st.sampled_from([None, 0, 0, 1, 2, 5])),
    )


appends = st.builds(Append, batches, st.booleans(), st.one_of(st.none(), reports))
imports = st.builds(
    Import, st.sampled_from(["neutral", "claude-code"]), st.one_of(long_work, batches), st.booleans()
)
pins = st.builds(
    Pin, st.lists(st.integers(0, 60), min_size=1, max_size=3), st.sampled_from([False, False, True])
)
compacts = st.builds(Compact, st.one_of(st.none(), strategies))
backs = st.one_of(st.integers(0, 6), st.integers(0, 200))
rewinds = st.builds(Rewind, backs)
forks = st.builds(Fork, st.one_of(st.just(0), backs), st.sampled_from([False, False, True]))
redoes = st.builds(Redo, st.integers(0, 40))
forgets = st.builds(Forget, st.integers(0, 2))
turns = st.builds(Turn, st.integers(0, 2))
moves: st.SearchStrategy[Move] = st.one_of(rewinds, rewinds, rewinds, forks, redoes, turns, forgets)
mortals: st.SearchStrategy[Mortal] = st.one_of(appends, imports, pins, compacts, prepares(), prepares())
moved: st.SearchStrategy[Mortal] = st.one_of(rewinds, forks, redoes, forgets, prepares())
crashes = st.builds(
    Crash, mortals, st.integers(1, 12), st.sampled_from(["before", "inside", "inside", "after"])
)
others = st.one_of(
    imports, pins, st.builds(AppendAgain, st.integers(0, 3), st.booleans()), st.builds(Reopen, all_settings())
)
deeds: st.SearchStrategy[Deed] = st.one_of(
    appends, prepares(), prepares(), prepares(), prepares(), compacts, others, crashes
)


@st.composite
def requests(draw: st.DrawFn) -> Prepare:
    """What an agent sends turn by turn; its provider counts about three bytes a token, where it counts."""
    done = st.builds(work_done, st.integers(1, 2), st.integers(0, 50))
    return Prepare(
        entries=draw(st.one_of(done, done, oddly_answered)),
        window="usual",
        preamble=draw(st.sampled_from([0, 0, 200, 1500])),
        compact="auto",
        strategy=draw(st.one_of(*[st.none()] * 6, strategies)),
        format=draw(st.sampled_from(FORMATS)),
        usage=draw(st.sampled_from([None, None, Report(0, 3.0), Report(0, 3.1)])),
        beside=draw(st.sampled_from([None, 0])),
    )


@st.composite
def changes(draw: st.DrawFn) -> Prepare:
    """A request by which another strategy, provider or model may be named."""
    provider, model = cast("tuple[str | None, str | None]", draw(names))
    return Prepare(
        entries=draw(st.builds(work_done, st.integers(0, 2), st.integers(0, 50))),
        window="usual",
        preamble=0,
        compact=draw(st.sampled_from(["auto", "auto", "auto", "never"])),
        strategy=draw(st.one_of(st.none(), strategies)),
        format=draw(st.sampled_from(FORMATS)),
        provider=provider,
        model=model,
        usage=draw(st.one_of(st.none(), reports)),
    )


switches: st.SearchStrategy[Deed] = st.one_of(changes(), changes(), changes(), compacts, pins)


@st.composite
def hosted(draw: st.DrawFn) -> Prepare:
    """A request that a pass may go on beside."""
    return Prepare(
        entries=draw(st.builds(work_done, st.integers(0, 3), st.integers(0, 50))),
        window=draw(st.sampled_from(["between", "between", "usual"])),
        preamble=draw(st.sampled_from([0, 0, 300])),
        compact="auto",
        strategy=draw(st.one_of(*[st.none()] * 6, strategies)),
        format=draw(st.sampled_from(FORMATS)),
        beside=draw(st.sampled_from([None, 0, 0, 1, 2, 5])),
    )


hosted_crashes = st.builds(
    Crash, hosted(), st.integers(1, 12), st.sampled_from(["before", "inside", "inside", "after"])
)
asides: st.SearchStrategy[Deed] = st.one_of(hosted(), hosted(), hosted(), pins, hosted_crashes)


@st.composite
def swapping(draw: st.DrawFn) -> Settings:
    """Settings with a swap line of lcm's below its trigger."""
    room: Settings = {"lcm.tailPercent": 25, "lcm.summaryPercent": 10}
    return {**draw(all_settings()), **room, "lcm.swapPercent": draw(st.sampled_from([50, 60, 78]))}


moving_crashes = st.builds(
    Crash, moved, st.integers(1, 2), st.sampled_from(["before", "inside", "inside", "after"])
)
wanderings: st.SearchStrategy[Deed] = st.one_of(
    prepares(), prepares(), imports, appends, compacts, pins, moves, moves, moves, moves, moving_crashes
)
"""A history that moves: what adds to it and asks for it, and as often what takes it elsewhere."""
