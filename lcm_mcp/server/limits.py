"""How much a client may ask for, how long a call may take, and what is said where it gives no answer.

A wrong call is one sentence; an unexpected fault is one line, its traceback going to stderr, since
stdout may be the wire. Refused: waiting longer than clients do, and showing a client our own traces.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio

from lcm_mcp.errors import LcmError

CALL_LIMIT_S: Final = 50.0
"""Some clients give up at 60 s, and then nobody learns what happened."""
GRACE_S: Final = 5.0
"""How long an orderly end may take before the process ends all the same; the store survives that."""
ANSWERING_S: Final = 3.0
"""How long an end over HTTP waits for the calls in flight before it stops them."""
MOST_BODY_BYTES: Final = 32 * 1024 * 1024
MOST_DROPPED_BYTES: Final = 8 * MOST_BODY_BYTES
BODY_S: Final = 60.0
"""How long a request's body may take to come in."""
MOST_SESSIONS: Final = 100
"""Of each kind at once: event streams, and sessions of streamable HTTP. The modern era needs none."""
MOST_CONNECTIONS: Final = 500
IDLE_S: Final = 30 * 60.0
"""A session of streamable HTTP without a request ends after this; its client opens another by itself."""
STREAM_IDLE_S: Final = 12 * 3600.0
"""An event stream on which nothing was asked ends after this; many clients do not come back by themselves."""
MOST_UNREAD: Final = 200
"""Messages that wait for the client of an event stream to read it; each may be an answer of 400 KB."""
RETRY_AFTER_S: Final = 30
SILENCE_S: Final = 60.0
"""A connection that has not sent a whole request head by then is closed."""
KEEP_ALIVE_S: Final = 30
"""Longer than clients keep a connection, so that none meets its end with a request on the way."""

T = TypeVar("T")


class NoAnswer(Exception):
    """A call that gave no answer, as the sentence its client is told; the cause is what happened."""


class Calls:
    """The calls in flight: whoever ends the process waits for them, and at last stops them."""

    def __init__(self) -> None:
        self._scopes: set[anyio.CancelScope] = set()
        self._requests = 0
        self._stopped = False

    @property
    def at_work(self) -> bool:
        return bool(self._scopes) or self._requests > 0

    @contextmanager
    def request(self) -> Generator[None]:
        """Count a request of the transport, from its first byte to the last of its answer."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def stop(self) -> None:
        """Let every call end now; each is answered all the same."""
        self._stopped = True
        for scope in self._scopes:
            scope.cancel()

    async def answer_of(self, name: str, work: Awaitable[T], remedy: str) -> T:
        """What the work gives, in time; remedy is what to do if it does not. Raises NoAnswer."""
        scope = anyio.CancelScope(deadline=anyio.current_time() + CALL_LIMIT_S)
        self._scopes.add(scope)
        try:
            with scope:
                return await work
        except LcmError as error:
            raise NoAnswer(str(error)) from error
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            raise NoAnswer(
                f"{name} failed unexpectedly ({type(error).__name__}). This is a fault of lcm-mcp, not of "
                "the call; its log (stderr) has the details."
            ) from error
        finally:
            self._scopes.discard(scope)
        if self._stopped:
            raise NoAnswer(f"{name} was stopped, since the server is ending. {remedy}")
        raise NoAnswer(f"{name} took longer than {CALL_LIMIT_S:g} s and was stopped. {remedy}")
