"""The lines of stdin and stdout as the SDK's streams of messages, one JSON-RPC message a line.

Nothing stands between a line and the server but its parsing, since each hand-over between tasks or threads
costs about as much as a short answer. A client that has sent all it wanted gets all its replies before its
messages end. Refused: a line that is no message, with a reply, since its sender would wait for ever. Nobody
else writes to stdout or reads stdin meanwhile: these are the null device and stderr for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import threading
from collections.abc import Callable
from typing import Final, Self

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
import orjson
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from lcm_mcp.server.messages import has_odd_id, readable


class Wire:
    """Both directions; heard is called when the client sends something, gone when it gets no more: with the
    reason where it is not the client's doing."""

    def __init__(self, heard: Callable[[], None], gone: Callable[[str | None], None]) -> None:
        unanswered = _Unanswered()
        self.replies: Final = Replies(_kept_apart(1, os.dup(2)), unanswered, gone)
        lines = _Lines(_kept_apart(0, os.open(os.devnull, os.O_RDONLY)))
        self.messages: Final = Messages(lines, self.replies, unanswered, heard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.messages.close()


class Replies(anyio.abc.ObjectSendStream[SessionMessage]):
    """What the client is sent."""

    def __init__(self, wire: int, unanswered: _Unanswered, gone: Callable[[str | None], None]) -> None:
        self._wire = wire
        self._unanswered = unanswered
        self._gone = gone
        self._one = anyio.Lock(fast_acquire=True)

    async def send(self, item: SessionMessage) -> None:
        """Raises anyio.BrokenResourceError where the client gets no more: there is nobody left to tell."""
        message = item.message
        line = memoryview(_written(message))
        try:
            async with self._one:
                if left := _write_at_once(self._wire, line):
                    await anyio.to_thread.run_sync(_write, self._wire, left)
        except OSError as error:  # a pipe that broke, a socket that was reset, a terminal that was hung up
            left_us = isinstance(error, ConnectionError) or error.errno == errno.EIO
            self._gone(None if left_us else os.strerror(error.errno or 0))
            raise anyio.BrokenResourceError from error
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._unanswered.discard(message.id)

    async def aclose(self) -> None:
        """Nothing: the process ends soon, and with it the wire."""


class Messages(anyio.abc.ObjectReceiveStream[SessionMessage]):
    """What the client sends; its end comes when every request has its reply."""

    def __init__(
        self,
        lines: _Lines,
        replies: Replies,
        unanswered: _Unanswered,
        heard: Callable[[], None],
    ) -> None:
        self._lines = lines
        self._replies = replies
        self._unanswered = unanswered
        self._heard = heard

    async def receive(self) -> SessionMessage:
        """The next message. Raises anyio.EndOfStream."""
        while True:
            try:
                line = await self._lines.receive()
            except anyio.EndOfStream:
                await self._unanswered.none_left()
                raise
            self._heard()
            try:
                text = readable(line).decode(errors="replace")
                message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                if isinstance(message, types.JSONRPCNotification) and has_odd_id(line):
                    raise ValueError
            except ValueError as fault:
                await self._replies.send(SessionMessage(_not_a_message(fault)))
                continue
            match message:
                case types.JSONRPCRequest(id=request):
                    self._unanswered.add(request)
                case types.JSONRPCNotification(method="notifications/cancelled", params=dict(params)):
                    self._unanswered.discard(as_request_id(params.get("requestId")))  # is never answered
                case _:
                    pass
            return SessionMessage(message)

    def close(self) -> None:
        self._lines.close()

    async def aclose(self) -> None:
        self.close()


class _Unanswered:
    """The requests that still want a reply; the SDK would drop them when stdin ends. To it, "7" is 7."""

    def __init__(self) -> None:
        self._ids: list[types.RequestId] = []
        self._changed = anyio.Event()

    def add(self, request: types.RequestId) -> None:
        self._ids.append(coerce_request_id(request))

    def discard(self, request: types.RequestId | None) -> None:
        if request is not None and (known := coerce_request_id(request)) in self._ids:
            self._ids.remove(known)
            self._changed.set()

    async def none_left(self) -> None:
        while self._ids:
            self._changed = anyio.Event()
            await self._changed.wait()


def _not_a_message(fault: Exception) -> types.JSONRPCError:
    """The reply to a line that is no message: the SDK drops it, and its sender would wait for ever."""
    is_json = not (isinstance(fault, ValidationError) and fault.errors()[0]["type"] == "json_invalid")
    code, what = (types.INVALID_REQUEST, "a JSON-RPC message") if is_json else (types.PARSE_ERROR, "JSON")
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=f"not {what}"))


def _kept_apart(standard: int, instead: int) -> int:
    """The wire under a number that nobody else knows; the standard one leads elsewhere from now on, so that
    no child reads the wire, and no stray print comes in between. It waits, whatever it did before: else its
    end and its being empty would be alike."""
    wire = os.dup(standard)
    if os.name == "posix":
        os.set_blocking(wire, True)
    os.dup2(instead, standard)
    os.close(instead)
    return wire


class _Lines:
    """The lines of stdin, read by a thread of our own: the SDK's could not be left while it waits for one.

    It hands them over one by one and waits for nothing but room: a thread that waits to be told that its line
    came wakes up just when that is read, and takes the interpreter from who reads it.
    """

    def __init__(self, wire: int) -> None:
        self._given, self._received = anyio.create_memory_object_stream[bytes](1)
        self._room = threading.Semaphore()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(wire, loop), name="stdin", daemon=True).start()

    async def receive(self) -> bytes:
        """Raises anyio.EndOfStream."""
        line = await self._received.receive()
        self._room.release()
        return line

    def close(self) -> None:
        self._received.close()
        self._given.close()

    def _hand_over(self, line: bytes) -> None:
        with contextlib.suppress(anyio.ClosedResourceError):  # nobody listens any more
            self._given.send_nowait(line)

    def _read(self, wire: int, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            # A socket that is reset or a terminal that is hung up ends what the client says as well.
            with contextlib.suppress(OSError), open(wire, "rb") as stdin:
                for line in stdin:
                    if line.strip():
                        self._room.acquire()
                        loop.call_soon_threadsafe(self._hand_over, line)
            loop.call_soon_threadsafe(self._given.close)


def _written(message: types.JSONRPCMessage) -> bytes:
    """A message as its line; an answer is plain JSON already, which orjson writes several times as fast."""
    if isinstance(message, types.JSONRPCResponse):
        with contextlib.suppress(TypeError):  # an integer over 64 bits or half of a surrogate pair
            answer = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
            return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _write_at_once(wire: int, line: memoryview) -> memoryview:
    """Write as much as the pipe takes without waiting; what is left of the line.

    That a terminal takes more may mean a byte, and the write would wait.
    """
    if not hasattr(select, "poll") or os.isatty(wire):  # the first on Windows
        return line
    ready = select.poll()
    ready.register(wire, select.POLLOUT)
    while line and ready.poll(0):
        line = line[os.write(wire, line[: select.PIPE_BUF]) :]
    return line


def _write(wire: int, line: memoryview) -> None:
    """All of it, however long the client takes to read."""
    while line:
        line = line[os.write(wire, line) :]
