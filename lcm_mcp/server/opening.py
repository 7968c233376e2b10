"""A service that opens while its server already answers: at the first call, or when the client falls silent.

Loading what remembers takes as long as loading the protocol. A client that starts a server asks at once what
it offers, and calls a tool only when its model wants one, so the first is answered before the rest is loaded.
Refused: going on without a store. Who waits for one that cannot be opened is told why, then the process ends.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from lcm_mcp.errors import LcmError

if TYPE_CHECKING:
    from lcm_mcp.service import Service

Supply = Callable[[], Awaitable["Service"]]
"""Gives the service, waiting for it where it is still being opened."""
QUIET_S: Final = 0.1
"""Silence after which a client has asked all that it asks of every server."""
CLOSING_S: Final = 5.0
TOLD_S: Final = 0.5
"""How long a process that cannot go on waits for those it still has to tell."""


class Opening:
    """The service to come; `open` imports and opens it, in a thread."""

    def __init__(self, open: Callable[[], Service]) -> None:
        self._open = open
        self._heard = time.monotonic()
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._waiting = 0
        self._outcome: Service | LcmError | None = None

    def heard(self) -> None:
        """The client has sent something: it may ask more."""
        self._heard = time.monotonic()

    async def service(self) -> Service:
        """The service, as soon as it is open. Raises what keeps it from opening."""
        self._wanted.set()
        self._waiting += 1
        try:
            await self._settled.wait()
        finally:
            self._waiting -= 1
        if isinstance(self._outcome, LcmError):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    async def hold(self) -> None:
        """Open the service when it is time and host it until cancelled, then close it. Raises LcmError."""
        while not self._wanted.is_set() and (left := self._heard + QUIET_S - time.monotonic()) > 0:
            with anyio.move_on_after(left):
                await self._wanted.wait()
        try:
            service = await anyio.to_thread.run_sync(self._open)
        except LcmError as error:
            self._outcome = error
            self._settled.set()
            with anyio.CancelScope(shield=True):  # the client may be leaving: the error is told all the same
                await anyio.sleep(TOLD_S if self._waiting else 0)
            raise
        try:
            async with service.running():
                self._outcome = service
                self._settled.set()
                await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(CLOSING_S, shield=True):
                await service.close()
