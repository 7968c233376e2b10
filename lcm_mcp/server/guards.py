"""What stands before every route: whose requests are answered at all, and how much of them is taken.

Each is a small ASGI application around the next. Refused, each with one sentence: Host and Origin of
another site (DNS rebinding), requests without the token where there is one (all but OPEN_PATHS), and bodies
that are too large or too slow.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections import deque
from collections.abc import Iterable
from typing import Final

import anyio
import mcp_types as types
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.server import limits
from lcm_mcp.server.inspector.pages import PAGE_PATHS
from lcm_mcp.server.limits import Calls
from lcm_mcp.server.messages import asked_by, fault_of, has_odd_id, readable

OPEN_PATHS: Final = ("/health", *PAGE_PATHS)
"""What answers without a token; it says nothing private. The page asks for the token it then sends."""
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_HOST: Final = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_site(host: str, allowed: Iterable[str] = ()) -> TransportSecuritySettings:
    """The Host and Origin headers that are ours: loopback, the bound host, and the allowed ones.

    An allowed host without a port is allowed with every port. Raises InvalidArgument.
    """
    host = host.lower()
    names = [*_LOOPBACK_NAMES, *(() if _is_everywhere(host) else [f"[{host}]" if ":" in host else host])]
    hosts = [pattern for name in names for pattern in (name, f"{name}:*")]
    for given in allowed:
        found = _HOST.fullmatch(given.lower())
        if found is None:
            raise InvalidArgument(
                "allowed-host",
                f"{given[:80]!r} is no host",
                "Give a name or an address as clients write it, such as memory.example or [::1]:8765.",
            )
        hosts += [found[0]] if found[3] else [found[0], f"{found[0]}:*"]
    origins = [f"{scheme}://{pattern}" for pattern in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def _is_everywhere(host: str) -> bool:
    """Whether the host stands for every address of the machine, and so is no name of it."""
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class SameSite:
    """Answers only requests whose Host and Origin are this server's own, in capitals or not."""

    def __init__(self, app: ASGIApp, settings: TransportSecuritySettings) -> None:
        self._app = app
        self._check = TransportSecurityMiddleware(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope = {**scope, "headers": [_site_header(*header) for header in scope["headers"]]}
        refusal = await self._check.validate_request(Request(scope))
        return await (refusal or self._app)(scope, receive, send)


def _site_header(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A header as it is compared. A host is nobody's where it is none: all that follows a name of ours and a
    colon would be taken for a port."""
    if name not in (b"host", b"origin"):
        return name, value
    value = value.lower()
    host = value.partition(b"://")[2] if name == b"origin" else value
    return name, value if _HOST.fullmatch(host.decode("latin-1")) else b"none"


class Bearer:
    """Answers only requests that carry the token, whatever their route, but for the open paths."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            return await self._app(scope, receive, send)
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        known = scheme.lower() == "bearer"
        if known and secrets.compare_digest(given.strip().encode("latin-1"), self._token):
            return await self._app(scope, receive, send)
        challenge = 'Bearer realm="lcm-mcp"' + (', error="invalid_token"' if known else "")
        said = "The token is wrong." if known else "This server wants a token."
        refusal = refused(
            401,
            f"{said} Send the header Authorization: Bearer TOKEN, TOKEN being the server's LCM_TOKEN.",
            {"WWW-Authenticate": challenge},
        )
        return await refusal(scope, receive, send)


class Answering:
    """Counts the requests that are being answered, and completes the streams that an end cuts off.

    An open stream is no call: it would be waited for in vain.
    """

    def __init__(self, app: ASGIApp, calls: Calls) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            with self._calls.request():
                await self._completed(scope, receive, send)
        else:
            await self._completed(scope, receive, send)

    async def _completed(self, scope: Scope, receive: Receive, send: Send) -> None:
        unfinished = False

        async def watched(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, receive, watched)
        if unfinished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class WholeBody:
    """Reads a request's body before anybody looks at it: neither too large nor too slow."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self._app(scope, receive, send)
        body = None
        try:
            with anyio.move_on_after(limits.BODY_S) as time:
                body = await _body(scope, receive)
        except ClientDisconnect:
            return None
        if time.cancelled_caught:
            sentence = f"The request's body did not come within {limits.BODY_S:g} s."
            return await refused(408, sentence)(scope, receive, send)
        if body is None:
            sentence = f"The request is larger than {limits.MOST_BODY_BYTES} bytes. Send it in parts."
            return await refused(413, sentence)(scope, receive, send)
        return await self._app(scope, _before(receive, body), send)


class Readable:
    """Hands on a message as the SDK can read it; a request by an id that none may have is refused.

    What is no message is found so by the SDK, and told in a sentence of ours instead of in many lines.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            return await self._app(scope, receive, send)
        message = await receive()  # all of it, see WholeBody
        body: bytes = message.get("body", b"")
        if has_odd_id(body):
            sentence = "The id of a request is a text or a whole number."
            return await refused(400, sentence)(scope, receive, send)
        body = readable(body)
        told = False

        async def telling(message: Message) -> None:
            nonlocal told
            if message.get("status") == 400 and (fault := fault_of(body)):
                told = True
                await refused(400, fault[1], code=fault[0])(scope, receive, send)
            elif not told:
                await send(message)

        return await self._app(scope, _before(receive, body), telling)


class OneEach:
    """Refuses a request by an id that its session is still answering: the SDK would send one of the two its
    answer, and the other one none, ever."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._asked: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        session, version = headers.get("mcp-session-id"), headers.get("mcp-protocol-version")
        if (
            session is None
            or scope["method"] != "POST"
            or version not in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
        ):
            return await self._app(scope, receive, send)
        message = await receive()  # all of it, see WholeBody
        body: bytes = message.get("body", b"")
        if (number := asked_by(body)) is None:
            return await self._app(scope, _before(receive, body), send)
        asked = session, number
        if asked in self._asked:
            sentence = "A request by this id is still being answered. Give each request of a session its own."
            return await refused(400, sentence)(scope, receive, send)
        self._asked.add(asked)
        try:
            await self._app(scope, _before(receive, body), send)
        finally:
            self._asked.discard(asked)


def _before(receive: Receive, body: bytes) -> Receive:
    """What is received where a whole body comes first."""
    first: deque[Message] = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        return first.popleft() if first else await receive()

    return replay


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body, or None if it is too large; its length need not be declared.

    What is too much is read on for a while, and dropped: most clients look for an answer only after it.
    """
    headers = Headers(scope=scope)
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limits.MOST_BODY_BYTES and "expect" in headers:
        return None  # this one waits to be let
    body, taken = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        taken += len(piece)
        if taken <= limits.MOST_BODY_BYTES:
            body += piece
        if taken > limits.MOST_DROPPED_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body) if taken <= limits.MOST_BODY_BYTES else None


def unavailable(sentence: str) -> Response:
    return refused(503, sentence, {"Retry-After": str(limits.RETRY_AFTER_S)})


def refused(
    status: int, sentence: str, headers: dict[str, str] | None = None, code: int = types.INVALID_REQUEST
) -> Response:
    """A refusal as a JSON-RPC error, whose sentence clients show; others read it all the same.

    The connection ends with it, since a body may be left unread on it.
    """
    error = types.ErrorData(code=code, message=sentence)
    body = types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
    given = {"Connection": "close", **(headers or {})}
    return JSONResponse(body.model_dump(by_alias=True, exclude_unset=True), status, given)
