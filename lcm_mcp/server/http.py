"""SSE and streamable HTTP as one application, for any number of clients at once.

All connections share the one store. Refused: hosts that are not loopback (there is no token yet), and
Host or Origin headers of another site, on every route.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lcm_mcp import __version__
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.server.building import build_server
from lcm_mcp.server.limits import GRACE_S

if TYPE_CHECKING:
    from lcm_mcp.service import Service


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

    @asynccontextmanager
    async def serving(_app: Starlette) -> AsyncGenerator[None]:
        async with service.running(), server.session_manager.run():
            yield

    return Starlette(
        routes=[
            Route("/sse", endpoint=_SseEndpoint(server, sse), methods=["GET"]),
            Mount("/messages/", app=sse.handle_post_message),
            *streamable.routes,
            Route("/health", endpoint=_health, methods=["GET"]),
        ],
        middleware=[Middleware(_SameSite, settings=security)],
        lifespan=serving,
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
