"""Uvicorn that ends as we want it: calls answered, streams closed, connections that say nothing dropped.

At a signal it goes on until no call is in flight: clients look up a tool to read its answer, and some
connect anew for that. Calls that take too long are stopped, and answered so. Refused: waiting at a second
signal, and raising a signal again past our own cleaning up, as uvicorn would.
"""

from __future__ import annotations

import asyncio
import socket
import time
from types import FrameType
from typing import Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from lcm_mcp.server import limits
from lcm_mcp.server.limits import Calls

_TELLING_S: Final = 1.0
"""How long the clients whose calls were stopped may take to be told."""
_READING_S: Final = 1.0
"""How long clients may take to read what is left for them, once nothing is awaited any more."""


class Ending(uvicorn.Server):
    """A server that keeps the streams open to which its last answers go: should_exit would close them."""

    def __init__(self, config: uvicorn.Config, calls: Calls) -> None:
        super().__init__(config)
        self._calls = calls
        self._asked_at: float | None = None
        self._idle_ticks = 0
        self._silent: dict[H11Protocol, tuple[RequestResponseCycle | None, float]] = {}

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        else:
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is open. Who does not read or write on by then is dropped: uvicorn would cancel, with a
        trace of it on stderr, whoever waits for such a client."""
        dropping = asyncio.get_running_loop().call_later(_READING_S, self._drop_all)
        await super().shutdown(sockets)
        dropping.cancel()

    def _drop_all(self) -> None:
        for connection in cast("set[H11Protocol]", self.server_state.connections):
            connection.transport.abort()

    async def on_tick(self, counter: int) -> bool:
        now = time.monotonic()
        self._drop_silent(now)
        if self._asked_at is not None:
            self._wind_down(now - self._asked_at)
        return await super().on_tick(counter)

    def _wind_down(self, waited_s: float) -> None:
        if waited_s > limits.ANSWERING_S:
            self._calls.stop()
        # The answer to a call goes out a moment after the call has ended: a tick later it has.
        self._idle_ticks = 0 if self._calls.at_work else self._idle_ticks + 1
        if self._idle_ticks > 1 or waited_s > limits.ANSWERING_S + _TELLING_S:
            self.should_exit = True

    def _drop_silent(self, now: float) -> None:
        """Close connections on which no request has begun for long: uvicorn waits for its head for ever."""
        silent: dict[H11Protocol, tuple[RequestResponseCycle | None, float]] = {}
        for connection in cast("set[H11Protocol]", self.server_state.connections):
            cycle = cast("RequestResponseCycle | None", connection.cycle)
            if cycle is None or cycle.response_complete:
                last, since = self._silent.get(connection, (None, now))
                silent[connection] = (cycle, since if last is cycle else now)
                if now - silent[connection][1] > limits.SILENCE_S:
                    connection.transport.close()
        self._silent = silent
