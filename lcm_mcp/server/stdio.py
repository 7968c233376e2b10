"""One client over stdin and stdout: its lines, its replies, and every way in which it can end.

stdout is the wire. A client that has sent all it wanted gets all its replies before the process ends;
a signal ends it at once, and so does the death of the process that started it. Refused: a line that is
no message, with a reply, since its sender would wait for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import AsyncIterable, Awaitable, Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from lcm_mcp.server.building import build_supplied
from lcm_mcp.server.limits import GRACE_S, Calls
from lcm_mcp.server.opening import Opening
from lcm_mcp.tools.text import sound

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.tools import ToolsetName

PARENT_POLL_S: Final = 1.0
_PARENT: Final = os.getppid()  # taken early: a parent that dies while the store opens would go unnoticed


async def serve_stdio(open: Callable[[], Service], toolset: ToolsetName = "all") -> None:
    """Serve one client over stdin and stdout until it leaves, a signal asks for it, or the parent dies.

    open gives the service, in a thread, once the client has been told what there is. Raises LcmError.
    """
    stop, opening = anyio.Event(), Opening(open)
    deadline = threading.Timer(GRACE_S, os._exit, (1,))
    deadline.daemon = True
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_hear_signals, stop)
            tasks.start_soon(_watch_parent, stop)
            tasks.start_soon(opening.hold)
            tasks.start_soon(_converse, build_supplied(opening.service, toolset, Calls()), opening, stop)
            await stop.wait()
            # A client that reads no more can keep a thread in a write for ever.
            deadline.start()
            tasks.cancel_scope.cancel()
    finally:
        deadline.cancel()


async def _converse(server: Server[dict[str, Any]], opening: Opening, stop: anyio.Event) -> None:
    """One client's conversation, to its end; then ask for the end of the process."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
    unanswered = _Unanswered()
    try:
        with _stdin_lines() as lines:
            async with (
                stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing),
                incoming,
                outgoing,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(_pass_in, incoming, to_server, outgoing.send, unanswered, opening.heard)
                tasks.start_soon(_pass_out, from_server, outgoing.send, unanswered)
                await server.run(from_client, to_client, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client closed its end: there is nobody left to tell
    finally:
        stop.set()


class _Unanswered:
    """The requests that still want a reply; the SDK would drop them when stdin ends."""

    def __init__(self) -> None:
        self._ids: list[types.RequestId] = []
        self._changed = anyio.Event()

    def add(self, request: types.RequestId) -> None:
        self._ids.append(request)

    def discard(self, request: object) -> None:
        if request in self._ids:
            self._ids.remove(cast("types.RequestId", request))
            self._changed.set()

    async def none_left(self) -> None:
        while self._ids:
            self._changed = anyio.Event()
            await self._changed.wait()


async def _pass_in(
    incoming: AsyncIterable[SessionMessage | Exception],
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    reply: Callable[[SessionMessage], Awaitable[None]],
    unanswered: _Unanswered,
    heard: Callable[[], None],
) -> None:
    """Hand on what the client sends; its end only when every request has its reply."""
    async with to_server:
        async for item in incoming:
            heard()
            if isinstance(item, Exception):
                await reply(SessionMessage(_not_a_message(item)))
                continue
            match item.message:
                case types.JSONRPCRequest(id=request):
                    unanswered.add(request)
                case types.JSONRPCNotification(method="notifications/cancelled", params=dict(params)):
                    unanswered.discard(params.get("requestId"))  # is never answered
                case _:
                    pass
            await to_server.send(item)
        await unanswered.none_left()


async def _pass_out(
    from_server: MemoryObjectReceiveStream[SessionMessage],
    send: Callable[[SessionMessage], Awaitable[None]],
    unanswered: _Unanswered,
) -> None:
    async with from_server:
        async for item in from_server:
            await send(item)
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                unanswered.discard(item.message.id)


def _not_a_message(fault: Exception) -> types.JSONRPCError:
    """The reply to a line that is no message: the SDK drops it, and its sender would wait for ever."""
    is_json = not (isinstance(fault, ValidationError) and fault.errors()[0]["type"] == "json_invalid")
    code, what = (types.INVALID_REQUEST, "a JSON-RPC message") if is_json else (types.PARSE_ERROR, "JSON")
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=f"not {what}"))


def _stdin_lines() -> MemoryObjectReceiveStream[str]:
    """The lines of stdin, read by a thread of our own: the SDK's could not be left while it waits for one.

    File descriptor 0 points to the null device from now on, so that no child reads the wire.
    """
    lines, received = anyio.create_memory_object_stream[str]()
    wire = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    loop = anyio.lowlevel.current_token()
    threading.Thread(target=_read_lines, args=(wire, lines, loop), name="stdin", daemon=True).start()
    return received


def _read_lines(wire: int, lines: MemoryObjectSendStream[str], loop: anyio.lowlevel.EventLoopToken) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.RunFinishedError, CancelledError):
        with open(wire, "rb") as stdin:
            for line in stdin:
                if line.strip():
                    anyio.from_thread.run(lines.send, _readable(line), token=loop)
        anyio.from_thread.run_sync(lines.close, token=loop)
    lines.close()  # where that came too late, nobody receives any more


def _readable(line: bytes) -> str:
    """The line as the SDK can read it: escaped lone surrogates, which JavaScript sends, are replaced."""
    text = line.decode(errors="replace")
    if "\\ud" in text.lower():
        with contextlib.suppress(ValueError, RecursionError):
            given = json.dumps(json.loads(text), ensure_ascii=False)
            if (whole := sound(given)) != given:
                return whole
    return text


async def _hear_signals(stop: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    """Ask for the end at the first SIGINT, SIGTERM or SIGHUP; without this SIGINT waits for stdin's end."""
    try:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for _ in signals:
                stop.set()
    except (NotImplementedError, AttributeError):  # Windows: signals keep their default
        task_status.started()


async def _watch_parent(stop: anyio.Event) -> None:
    """Ask for the end when the process that started this one is gone, even if stdin stays open."""
    while os.getppid() == _PARENT:
        await anyio.sleep(PARENT_POLL_S)
    stop.set()
