"""The MCP server: the tools over stdio, SSE and streamable HTTP, in both protocol eras.

One store is open per process, whatever the number of connections; who opened it closes it.
A wrong call is answered with one sentence as an error result, an unexpected fault with one line, its
traceback going to stderr; stdout is the wire. Over stdio a client that has sent all it wanted gets all
its replies before the process ends, and a process whose parent is gone ends too. Refused: hosts that
are not loopback (there is no token yet), and Host or Origin headers of another site.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterable, Awaitable, Callable
from concurrent.futures import CancelledError
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel
import mcp_types as types
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lcm_mcp import __version__
from lcm_mcp.errors import InvalidArgument, LcmError
from lcm_mcp.tools import TOOLS
from lcm_mcp.tools.instructions import INSTRUCTIONS
from lcm_mcp.tools.text import sound
from lcm_mcp.tools.tool import Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service

CALL_LIMIT_S: Final = 50.0
"""Some clients give up at 60 s, and then nobody learns what happened."""
PARENT_POLL_S: Final = 1.0
_PARENT: Final = os.getppid()  # taken early: a parent that dies while the store opens would go unnoticed
GRACE_S: Final = 5.0
"""How long an orderly end may take before the process ends all the same; the store survives that."""


def build_server(service: Service) -> Server[dict[str, Any]]:
    """The MCP server over an open service; serving it on a transport is for the functions below."""
    tools = {tool.name: tool for tool in TOOLS}
    published = [_published(tool) for tool in TOOLS]
    schemas = {tool.name: tool.input_schema for tool in published}

    async def list_tools(
        _context: ServerRequestContext[dict[str, Any]], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=published)

    async def call_tool(
        _context: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            message = f"There is no tool {params.name[:80]!r}. The tools are {', '.join(tools)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        return await _result(tool, service, params.arguments or {})

    return Server(
        "lcm-mcp",
        version=__version__,
        title="lcm-mcp memory",
        instructions=INSTRUCTIONS,
        # The tools change only with the version, and clients ask for them at every turn.
        cache_hints={"tools/list": CacheHint(ttl_ms=300_000, scope="public")},
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _published(tool: Tool[Any, Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effects.read_only,
            destructive_hint=tool.effects.destructive,
            idempotent_hint=tool.effects.idempotent,
            open_world_hint=False,
        ),
    )


async def _result(tool: Tool[Any, Any], service: Service, given: dict[str, Any]) -> types.CallToolResult:
    """The answer in both channels; an error is all text, since some clients drop the other channel then."""
    try:
        with anyio.fail_after(CALL_LIMIT_S):
            answered = await tool.call(service, given)
    except LcmError as error:
        return _refusal(str(error))
    except TimeoutError:
        return _refusal(
            f"{tool.name} took longer than {CALL_LIMIT_S:g} s and was stopped. Ask for less, or try again; "
            "entries with an entry_id are not stored twice."
        )
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return _refusal(
            f"{tool.name} failed unexpectedly ({type(error).__name__}). This is a fault of lcm-mcp, not of "
            "the call; its log (stderr) has the details."
        )
    content: list[types.ContentBlock] = [types.TextContent(text=answered.text)]
    return types.CallToolResult(content=content, structured_content=answered.structured)


def _refusal(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)


# --- stdio


async def serve_stdio(service: Service) -> None:
    """Serve one client over stdin and stdout until it leaves, a signal asks for it, or the parent dies."""
    stop = anyio.Event()
    deadline = threading.Timer(GRACE_S, os._exit, (1,))
    deadline.daemon = True
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_hear_signals, stop)
            tasks.start_soon(_watch_parent, stop)
            tasks.start_soon(_converse, build_server(service), stop)
            await stop.wait()
            # A client that reads no more can keep a thread in a write for ever.
            deadline.start()
            tasks.cancel_scope.cancel()
    finally:
        deadline.cancel()


async def _converse(server: Server[dict[str, Any]], stop: anyio.Event) -> None:
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
                tasks.start_soon(_pass_in, incoming, to_server, outgoing.send, unanswered)
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
) -> None:
    """Hand on what the client sends; its end only when every request has its reply."""
    async with to_server:
        async for item in incoming:
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


# --- HTTP


class _Uvicorn(uvicorn.Server):
    """Uvicorn that ends at a signal and returns: its own would raise it again, past our cleaning up."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.should_exit = True


class _SameSite:
    """Answers only requests whose Host and Origin are this server's own, on every route (DNS rebinding)."""

    def __init__(self, app: ASGIApp, settings: TransportSecuritySettings) -> None:
        self._app = app
        self._check = TransportSecurityMiddleware(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._check.validate_request(Request(scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


class _SseEndpoint:
    """A client's event stream: one conversation, over the store that all share."""

    def __init__(self, server: Server[dict[str, Any]], transport: SseServerTransport) -> None:
        self._server = server
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "server": "lcm-mcp", "version": __version__})


def http_app(service: Service, host: str = "127.0.0.1") -> Starlette:
    """SSE at /sse and /messages/, streamable HTTP at /mcp, and /health, as one application."""
    server = build_server(service)
    names = ("127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host)
    hosts = [pattern for name in names for pattern in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{pattern}" for pattern in hosts]
    )
    sse = SseServerTransport("/messages/", security_settings=security)
    streamable = server.streamable_http_app(transport_security=security)
    return Starlette(
        routes=[
            Route("/sse", endpoint=_SseEndpoint(server, sse), methods=["GET"]),
            Mount("/messages/", app=sse.handle_post_message),
            *streamable.routes,
            Route("/health", endpoint=_health, methods=["GET"]),
        ],
        middleware=[Middleware(_SameSite, settings=security)],
        lifespan=lambda _app: server.session_manager.run(),
    )


async def serve_http(service: Service, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Serve SSE and streamable HTTP until a signal asks for the end. Raises InvalidArgument."""
    with _listener(host, port) as listener:
        config = uvicorn.Config(
            http_app(service, host),
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(GRACE_S),
        )
        at = f"[{host}]" if ":" in host else host
        bound = cast("int", listener.getsockname()[1])
        sys.stderr.write(f"lcm-mcp serves http://{at}:{bound}/mcp (streamable HTTP) and /sse (SSE)\n")
        sys.stderr.flush()
        await _Uvicorn(config).serve(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    if not _is_loopback(host):
        raise InvalidArgument(
            "host",
            f"{host!r} can be reached by others, and access without a token is not given",
            "Use 127.0.0.1, ::1 or localhost, and a tunnel from elsewhere.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else str(error)
        raise InvalidArgument("port", f"{port} cannot be used ({reason})", "Choose another one.") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
