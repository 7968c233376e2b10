"""Passes beside the requests: one of a session at a time, followed as long as its caller can wait.

While `running` is entered, passes live in its task group: a caller that waited long enough leaves and the
pass goes on, and leaving `running` cancels them. Without it a pass lives in the call that wants it, and
ends with it. A pass that fails tells those who wait for it; nobody else is disturbed.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc

from lcm_mcp.errors import SessionForgotten
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.passes import Compacted, Progress

PASS_S = 600.0
"""The longest a pass may take; what it has made by then is kept, and a later one goes on."""
GRACE_S = 5.0
"""How long a call without a background waits for the step that its time ran out in."""
REPORT_S = 0.5
_NO_ROW = Seq(0)

Job = Callable[[Progress, float], Awaitable[Compacted]]
"""Does a pass: told where to note its progress, and its deadline on the monotonic clock in seconds."""
Report = Callable[[float, float | None, str], Awaitable[None]]
"""Is told how far a call is: done, of how much if known, and a line for people."""


async def no_report(_done: float, _total: float | None, _line: str) -> None:
    """For callers that do not want to know."""


@dataclass(slots=True)
class Pass:
    """A pass: outcome is None while it works, and where it was cancelled or broke.

    leaf is the session's last row when it was started.
    """

    leaf: Seq = _NO_ROW
    progress: Progress = field(default_factory=Progress)
    ended: anyio.Event = field(default_factory=anyio.Event)
    outcome: Compacted | None = None
    fault: Exception | None = None


class Background:
    """The passes of one service."""

    def __init__(self) -> None:
        self._tasks: anyio.abc.TaskGroup | None = None
        self._passes: dict[SessionId, Pass] = {}
        self._untold: dict[SessionId, Pass] = {}

    @asynccontextmanager
    async def running(self, *, finish: bool = False) -> AsyncGenerator[None]:
        """Host passes; on leaving they are cancelled, or waited for where `finish` says so."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                if not finish:
                    tasks.cancel_scope.cancel()

    @property
    def hosts(self) -> bool:
        """Whether a pass can go on after its call."""
        return self._tasks is not None

    def at_work(self, session: SessionId) -> Pass | None:
        """The session's pass that is under way."""
        return self._passes.get(session)

    def failure(self, session: SessionId, leaf: Seq) -> Compacted | None:
        """How the session's last pass beside the requests failed: told once, and again while its last row is
        still that of then, so that nobody tries in vain without being told."""
        failed = self._untold.get(session)
        if failed is None or failed.outcome is None:
            return None
        if failed.leaf != leaf:
            del self._untold[session]
        return failed.outcome

    def start(self, session: SessionId, job: Job, leaf: Seq = _NO_ROW) -> Pass:
        """Start a pass beside the requests, or find the one under way; only while hosting."""
        assert self._tasks is not None
        known = self._passes.get(session)
        if known is not None:
            return known
        made = self._passes[session] = Pass(leaf)
        self._tasks.start_soon(self._run, session, made, job, time.monotonic() + PASS_S)
        return made

    async def carry_out(self, session: SessionId, job: Job, seconds: float, report: Report) -> Pass:
        """Start a pass, or join the one under way, and wait for its end, at most so many seconds."""
        if self._tasks is None:
            return await self._within_the_call(session, job, seconds, report)
        made = self.start(session, job)
        with anyio.move_on_after(seconds):
            await _follow(made, report)
        return made

    async def _within_the_call(self, session: SessionId, job: Job, seconds: float, report: Report) -> Pass:
        made = self._passes.get(session) or Pass()
        async with anyio.create_task_group() as tasks:
            if session not in self._passes:
                self._passes[session] = made
                tasks.start_soon(self._run, session, made, job, time.monotonic() + seconds)
            with anyio.move_on_after(seconds + GRACE_S):
                await _follow(made, report)
            tasks.cancel_scope.cancel()
        return made

    async def _run(self, session: SessionId, made: Pass, job: Job, deadline: float) -> None:
        try:
            made.outcome = await job(made.progress, deadline)
            if made.outcome.progress.failed is None:
                self._untold.pop(session, None)  # what failed before was done since
            else:
                self._untold[session] = made
        except Exception as fault:
            made.fault = fault
            if self.hosts and not isinstance(fault, SessionForgotten):  # that somebody did on purpose
                traceback.print_exception(fault, file=sys.stderr)
        finally:
            del self._passes[session]
            made.ended.set()


async def _follow(made: Pass, report: Report) -> None:
    """Wait for a pass, telling now and then how far it is."""
    while not made.ended.is_set():
        with anyio.move_on_after(REPORT_S):
            await made.ended.wait()
        progress = made.progress
        await report(progress.folded_tokens, progress.total, progress.line)
