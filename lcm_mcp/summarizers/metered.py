"""A model as a summarizer whose every call is asked for before, and accounted for after.

The account says no where a cap would be passed or a breaker is open; then nothing is sent. What failed for
a moment (429, 5xx, no connection) is tried again as the other side asks, within the time of the pass; what
was refused is not. What may have been paid for and cannot be counted stays counted at its most.
"""

from __future__ import annotations

import re
import time
from typing import Final, Protocol

import anyio
import anyio.to_thread

from lcm_mcp.dag.breakers import Fault
from lcm_mcp.dag.model import FREE, Cost
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.summarizers.model import Answer, Request
from lcm_mcp.summarizers.prompting import Prompt, prompt_for
from lcm_mcp.tokens import text_tokens
from lcm_mcp.values import frozen

# Servers that do not know a model's reasoning for what it is pass it on before the answer.
_THOUGHTS = re.compile(r"\A\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
MOST_TRIES: Final = 3
FIRST_WAIT_S: Final = 0.5
MOST_WAIT_S: Final = 20.0
"""Who asks to be left alone for longer is, and the next of the chain is asked."""
MOST_QUIET_S: Final = 3600.0
LEAST_CALL_S: Final = 1.0


@frozen
class Reply:
    """What came back; tokens are None where the other side did not count. whole: it said that it was done,
    not that it ran out of room or would not."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    whole: bool = True


class CallFault(Exception):
    """A call that brought no answer.

    refused: the same call would fail again; passing: it may work in a moment, after wait_s where the other
    side said so; unpaid: it certainly cost nothing.
    """

    def __init__(
        self,
        reason: str,
        *,
        refused: bool = False,
        passing: bool = False,
        unpaid: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refused = refused
        self.passing = passing
        self.unpaid = unpaid
        self.wait_s = wait_s


class Model(Protocol):
    """Something that answers a prompt. Its mark changes with its settings, its key among them."""

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> str: ...
    @property
    def timeout_s(self) -> float: ...

    def unready(self) -> str | None:
        """What is missing for a call, as the end of a sentence; told without making one."""
        ...

    def window(self) -> int | None:
        """Its context window in tokens, None where unknown. May load a catalogue."""
        ...

    def output_tokens(self, limit_tokens: int) -> int:
        """The most tokens it may answer with where the summary may take so many."""
        ...

    async def ask(self, prompt: Prompt) -> Reply:
        """Raises CallFault."""
        ...

    def price(self, input_tokens: int, output_tokens: int) -> int | None:
        """Millionths of a dollar; None where no price is known. May load a catalogue."""
        ...


@frozen
class PutDown:
    """A call that may be made: the UTC day it counts for, and the most tokens it can take."""

    day: str
    tokens: int


class Account(Protocol):
    """Who has to agree to a call. deadline is on the monotonic clock, in seconds."""

    @property
    def deadline(self) -> float: ...

    async def put_down(self, model: Model, tokens: int) -> PutDown:
        """Agree to a call of at most so many tokens. Raises SummarizerFailed where it may not be made."""
        ...

    async def settle(self, model: Model, call: PutDown, cost: Cost | None, fault: Fault | None) -> None:
        """Say how a call ended; cost None where nobody knows."""
        ...

    def note_masked(self, keys: int) -> None:
        """Keep how many keys were masked in a prompt that is sent."""
        ...

    def note(self, failed: SummarizerFailed) -> None:
        """Keep why the next of the chain had to be asked."""
        ...


@frozen
class Metered:
    """A model on an account; redacting: keys are masked in what it is sent."""

    model: Model
    account: Account
    redacting: bool = True

    @property
    def name(self) -> str:
        return self.model.name

    async def summarize(self, request: Request) -> Answer:
        return await self.answer(prompt_for(request, redacting=self.redacting))

    async def answer(self, prompt: Prompt) -> Answer:
        """The same for a prompt of another kind. Raises SummarizerFailed."""
        try:
            return await self._answer(prompt)
        except SummarizerFailed as failed:
            self.account.note(failed)
            raise

    async def _answer(self, prompt: Prompt) -> Answer:
        unready = self.model.unready()
        if unready is not None:
            raise SummarizerFailed(self.name, unready)
        window = await anyio.to_thread.run_sync(self.model.window)
        taken = prompt.tokens + self.model.output_tokens(prompt.limit_tokens)
        if window is not None and taken > window:
            raise SummarizerFailed(
                self.name, f"prompt and answer could take {taken:,} tokens, and its window has {window:,}"
            )
        self.account.note_masked(prompt.masked)
        for tried in range(1, MOST_TRIES + 1):
            try:
                reply, cost = await self._call(prompt)
            except CallFault as fault:
                wait = FIRST_WAIT_S * 2 ** (tried - 1) if fault.wait_s is None else fault.wait_s
                late = time.monotonic() + wait + LEAST_CALL_S > self.account.deadline
                if not fault.passing or tried == MOST_TRIES or wait > MOST_WAIT_S or late:
                    raise SummarizerFailed(self.name, fault.reason) from None
                await anyio.sleep(wait)
            else:
                return Answer(_THOUGHTS.sub("", reply.text) if reply.whole else "", self.name, cost)
        raise AssertionError("the last try returns or raises")

    async def _call(self, prompt: Prompt) -> tuple[Reply, Cost]:
        """One call, put down before and settled after, however it ends."""
        left = self.account.deadline - time.monotonic()
        if left < LEAST_CALL_S:
            raise SummarizerFailed(self.name, "the time of this pass is over")
        seconds = min(self.model.timeout_s, left)
        most = prompt.most_tokens + self.model.output_tokens(prompt.limit_tokens)
        call = await self.account.put_down(self.model, most)
        cost: Cost | None = None
        fault: Fault | None = None
        try:
            with anyio.fail_after(seconds):
                reply = await self.model.ask(prompt)
            cost = await self._cost(prompt, reply)
            return reply, cost
        except TimeoutError:
            reason = f"there was no answer within {seconds:.3g} s"
            fault = None if seconds < self.model.timeout_s else Fault(reason)
            raise CallFault(reason) from None
        except CallFault as found:
            cost = FREE if found.unpaid else None
            fault = _fault(found)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await self.account.settle(self.model, call, cost, fault)

    async def _cost(self, prompt: Prompt, reply: Reply) -> Cost:
        """What the provider counted, or where it did not our own estimate."""
        given = reply.input_tokens or text_tokens(prompt.system) + text_tokens(prompt.user)
        taken = text_tokens(reply.text) if reply.output_tokens is None else reply.output_tokens
        with anyio.CancelScope(shield=True):  # it was paid for: whoever gives up now still has it counted
            return Cost(given, taken, await anyio.to_thread.run_sync(self.model.price, given, taken))
        raise AssertionError


def _fault(found: CallFault) -> Fault:
    quiet = None
    if found.passing and found.wait_s is not None and found.wait_s > MOST_WAIT_S:
        quiet = int(min(found.wait_s, MOST_QUIET_S) * 1000)
    return Fault(found.reason, found.refused, quiet)
