"""No call beyond any cap, whatever several passes of several processes do at the same time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import KEY, turns, using

from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.ids import Seq, SessionId, TextId
from lcm_mcp.service import Service
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.spending import PassAccount
from lcm_mcp.summarizers.metered import CallFault, Metered, Reply
from lcm_mcp.summarizers.model import Request, RowsSource
from lcm_mcp.summarizers.prompting import Prompt
from lcm_mcp.tokens import TokenCount
from lcm_mcp.transcript.model import Row


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a pass: bytes of its source, how many of its tokens it takes (0 to 1), how it ends, and
    how often others run meanwhile."""

    size: int
    share: float
    ends: str
    turns: int


@dataclass
class Paid:
    """What calls took so far, as the other side knows it."""

    call_cap: int
    day_cap: int
    total: int = 0
    under_way: int = 0

    def begin(self, most: int) -> None:
        self.under_way += most
        assert most <= self.call_cap
        assert self.total + self.under_way <= self.day_cap

    def end(self, most: int, took: int) -> None:
        self.under_way -= most
        self.total += took


@dataclass
class Drawn:
    """A model that does as drawn, and whose calls are all seen by Paid."""

    paid: Paid
    call: Call
    name: str = "drawn"
    mark: str = field(default_factory=lambda: uuid4().hex)  # no breaker stands in the way
    timeout_s: float = 60.0
    took: list[int] = field(default_factory=list[int])

    def window(self) -> int | None:
        return None

    def unready(self) -> str | None:
        return None

    def output_tokens(self, limit_tokens: int) -> int:
        return limit_tokens + 100

    def price(self, input_tokens: int, output_tokens: int) -> int | None:
        return input_tokens

    async def ask(self, prompt: Prompt) -> Reply:
        room = self.output_tokens(prompt.limit_tokens)
        given, taken = int(prompt.most_tokens * self.call.share), int(room * self.call.share)
        most = prompt.most_tokens + room
        self.paid.begin(most)
        broken = self.call.ends in ("broken", "given up")
        try:
            for _ in range(self.call.turns):
                await anyio.sleep(0)
            if self.call.ends == "broken":
                raise CallFault("it broke")
            if self.call.ends == "refused":
                given = taken = 0
                raise CallFault("it refused", unpaid=True)
            if self.call.ends == "given up":
                raise _GivenUp
            return Reply("told", given or 1, taken)
        finally:
            # A broken call may have taken all it could.
            took = most if broken else max(given, 1) + taken if self.call.ends == "good" else 0
            self.took.append(took)
            self.paid.end(most, took)


class _GivenUp(Exception):
    """Ends a call as a caller does who waits no longer."""


calls = st.builds(
    Call,
    size=st.integers(0, 8000),
    share=st.floats(0, 1),
    ends=st.sampled_from(["good", "good", "good", "broken", "refused", "given up"]),
    turns=st.integers(0, 3),
)
passes = st.lists(st.lists(calls, min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(
    drawn=passes,
    call_cap=st.integers(2000, 12_000),
    pass_cap=st.integers(2000, 30_000),
    day=st.integers(2000, 60_000),
)
def test_no_call_goes_beyond_a_cap_in_any_interleaving(
    drawn: list[list[Call]], call_cap: int, pass_cap: int, day: int
) -> None:
    caps = {
        "summarizerCallTokens": call_cap,
        "summarizerPassTokens": pass_cap,
        "summarizerDayTokens": day,
    }
    with TemporaryDirectory() as folder:
        anyio.run(_all, Path(folder) / "lcm.sqlite", drawn, caps)


async def _all(path: Path, drawn: Sequence[Sequence[Call]], caps: dict[str, int]) -> None:
    """Every pass on a store of its own, as every process has one, all on the same file."""
    paid = Paid(caps["summarizerCallTokens"], caps["summarizerDayTokens"])
    async with using(path, settings=caps) as first:
        await first.append(KEY, turns(1, 1))
        async with anyio.create_task_group() as tasks:
            for one in drawn:
                tasks.start_soon(_pass, path, one, paid, caps)
        stats = await first.stats("*")
    assert stats.spent_today_tokens >= paid.total
    assert stats.spent_today_tokens <= caps["summarizerDayTokens"]


async def _pass(path: Path, drawn: Sequence[Call], paid: Paid, caps: dict[str, int]) -> None:
    async with using(path, settings=caps) as service:
        progress = Progress()
        took = 0
        for call in drawn:
            took += await _call(service, progress, paid, call)
            assert took <= caps["summarizerPassTokens"]
        assert took <= progress.cost.tokens + progress.uncounted_tokens <= caps["summarizerPassTokens"]


async def _call(service: Service, progress: Progress, paid: Paid, call: Call) -> int:
    account = PassAccount(service.work, SessionId(1), progress, time.monotonic() + 60)
    model = Drawn(paid, call)
    row = Row(Seq(1), "user", 0, None, None, TextId(1), "x" * call.size, ())
    request = Request(RowsSource([row]), 1, TokenCount(50), TokenCount(200))
    with suppress(SummarizerFailed, _GivenUp):
        await Metered(model, account).summarize(request)
    return sum(model.took)
