"""Event streams (SSE): what a client posts is asked on a stream of its own, and answered there.

All conversations are over the store that everybody shares. Refused: more streams than there is room for, and
keeping one whose client asks nothing for very long, or does not read what it is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio.abc
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.shared.message import SessionMessage
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from lcm_mcp.server import limits
from lcm_mcp.server.guards import unavailable


class EventStreams:
    """A client's event stream: one conversation, over the store that all share, until it was long idle."""

    def __init__(self, server: Server[dict[str, Any]], transport: SseServerTransport) -> None:
        self._server = server
        self._transport = transport
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":  # HEAD, which routes take along, would hold a stream that nobody reads
            return await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)
        if self._open >= limits.MOST_SESSIONS:
            sentence = f"{self._open} event streams are open, and no more are taken. Try again in a while."
            return await unavailable(sentence)(scope, receive, send)
        self._open += 1
        try:
            await self._converse(scope, receive, send)
        finally:
            self._open -= 1

    async def _converse(self, scope: Scope, receive: Receive, send: Send) -> None:
        options = self._server.create_initialization_options()
        client = _Client(receive)
        async with self._transport.connect_sse(scope, client, send) as (incoming, outgoing):
            posted = _Posted(incoming.receive, incoming.aclose)
            told = _Told(outgoing.send, outgoing.aclose, client.leave)
            await self._server.run(posted, told, options)


class _Client:
    """Whether the client of a stream has left; it counts as gone, too, once it is left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._waiting = anyio.CancelScope()
        self._left = False

    def leave(self) -> None:
        self._left = True
        self._waiting.cancel()

    async def __call__(self) -> Message:
        if not self._left:
            with anyio.CancelScope() as self._waiting:
                return await self._receive()
        return {"type": "http.disconnect"}


class _Posted(anyio.abc.ObjectReceiveStream[SessionMessage | Exception]):
    """What a client posts to its stream; its end comes, too, where nothing was posted for too long."""

    def __init__(
        self,
        following: Callable[[], Awaitable[SessionMessage | Exception]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._following = following
        self._close = close

    async def receive(self) -> SessionMessage | Exception:
        with anyio.move_on_after(limits.STREAM_IDLE_S):
            return await self._following()
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        await self._close()


class _Told(anyio.abc.ObjectSendStream[SessionMessage]):
    """What a client is told on its stream; one that does not read is left once too much waits for it."""

    def __init__(
        self,
        tell: Callable[[SessionMessage], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        leave: Callable[[], None],
    ) -> None:
        self._tell = tell
        self._close = close
        self._leave = leave
        self._unread = 0

    async def send(self, item: SessionMessage) -> None:
        self._unread += 1
        if self._unread > limits.MOST_UNREAD:
            self._leave()
        try:
            await self._tell(item)
        finally:
            self._unread -= 1

    async def aclose(self) -> None:
        await self._close()


class Messages:
    """What is posted to an event stream; whose client has left meanwhile needs it no more."""

    def __init__(self, transport: SseServerTransport) -> None:
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._transport.handle_post_message(scope, receive, send)
