"""SSE and streamable HTTP as one application, for any number of clients at once.

All connections share the one store. An end that a signal asks for lets the calls in flight be answered
first. Refused: a host that others can reach without a token, and whatever guards refuses.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

import uvicorn
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from lcm_mcp import __version__
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.server import limits
from lcm_mcp.server.building import build_server
from lcm_mcp.server.ending import Ending
from lcm_mcp.server.guards import (
    Answering,
    Bearer,
    OneEach,
    Readable,
    SameSite,
    WholeBody,
    is_loopback,
    same_site,
)
from lcm_mcp.server.inspector import inspector_routes
from lcm_mcp.server.limits import Calls
from lcm_mcp.server.sse import EventStreams, Messages

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.tools import ToolsetName

_CLOSING_S: Final = 2
"""How long open streams may take to be closed."""


class _StreamableEndpoint:
    """Streamable HTTP; a client that finds no room is told when to come again.

    A client that comes back to a stream is given a new one: there is nothing on it that it could have missed.
    """

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message.get("status") == 503:
                again = (b"retry-after", str(limits.RETRY_AFTER_S).encode())
                message = {**message, "headers": [*message["headers"], again]}
            await send(message)

        headers = [header for header in scope["headers"] if header[0] != b"last-event-id"]
        await self._manager.handle_request({**scope, "headers": headers}, receive, told)


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "server": "lcm-mcp", "version": __version__})


def http_app(
    service: Service,
    site: TransportSecuritySettings,
    toolset: ToolsetName,
    calls: Calls,
) -> Starlette:
    """SSE at /sse and /messages/, streamable HTTP at /mcp, the inspector at / and /health, as one
    application."""
    server = build_server(service, toolset, calls)
    most = limits.MOST_BODY_BYTES
    sse = SseServerTransport("/messages/", security_settings=site, max_request_body_size=most)
    manager = StreamableHTTPSessionManager(
        server,
        security_settings=site,
        session_idle_timeout=limits.IDLE_S,
        max_request_body_size=most,
        max_sessions=limits.MOST_SESSIONS,
    )

    @asynccontextmanager
    async def serving(_app: Starlette) -> AsyncGenerator[None]:
        async with service.running(), manager.run():
            yield

    token = service.work.settings.token
    return Starlette(
        routes=[
            Route("/sse", endpoint=EventStreams(server, sse), methods=["GET"]),
            Mount("/messages/", app=Readable(Messages(sse))),
            Route("/mcp", endpoint=Readable(OneEach(_StreamableEndpoint(manager)))),
            Route("/health", endpoint=_health, methods=["GET"]),
            *inspector_routes(service, calls),
        ],
        middleware=[
            Middleware(SameSite, settings=site),
            *([] if token is None else [Middleware(Bearer, token=token.get_secret_value())]),
            Middleware(Answering, calls=calls),
            Middleware(WholeBody),
        ],
        lifespan=serving,
    )


async def serve_http(
    service: Service,
    host: str = "127.0.0.1",
    port: int = 8765,
    allowed_hosts: Sequence[str] = (),
    toolset: ToolsetName = "all",
) -> None:
    """Serve SSE and streamable HTTP until a signal asks for the end. Raises InvalidArgument."""
    if not is_loopback(host) and service.work.settings.token is None:
        raise InvalidArgument(
            "host",
            f"{host!r} can be reached by others, and there is no token to ask them for",
            "Set LCM_TOKEN, or use 127.0.0.1 and a tunnel from elsewhere.",
        )
    calls = Calls()
    app = http_app(service, same_site(host, allowed_hosts), toolset, calls)
    _keep_quiet()
    with listening(host, port) as listener:
        config = uvicorn.Config(
            app,
            lifespan="on",
            http="h11",
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.MOST_CONNECTIONS,
            timeout_keep_alive=limits.KEEP_ALIVE_S,
            timeout_graceful_shutdown=_CLOSING_S,
        )
        at = f"[{host}]" if ":" in host else host
        bound = cast("int", listener.getsockname()[1])
        sys.stderr.write(
            f"lcm-mcp serves http://{at}:{bound}/mcp (streamable HTTP), /sse (SSE) and / (inspector)\n"
        )
        sys.stderr.flush()
        await Ending(config, calls).serve(sockets=[listener])


def _keep_quiet() -> None:
    """Let stderr hold faults of ours alone: what a client sends wrong is told to the client."""
    logging.getLogger("mcp").setLevel(logging.ERROR)
    logging.getLogger("mcp.server.sse").setLevel(logging.CRITICAL)  # a message that is none, with its words


def listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else str(error)
        raise InvalidArgument("port", f"{port} cannot be used ({reason})", "Choose another one.") from None
    # Connections take it from here. Without it, an answer in two parts waits 40 ms for the client's nod.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
