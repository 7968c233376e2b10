"""Requests made by hand, below any client: what a server answers to its method, route, headers and body."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage, HTTPResponse

from connecting import OPENING, line

ROUTES = (("GET", "/sse"), ("POST", "/mcp"), ("GET", "/mcp"), ("POST", "/messages/"), ("GET", "/anything"))
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    text: str

    @property
    def refusal(self) -> str:
        """The sentence of a JSON-RPC error."""
        return json.loads(self.text)["error"]["message"]


def knock(
    port: int, method: str, route: str, body: bytes | Iterable[bytes] | None = None, **headers: str
) -> Answer:
    """One request on a connection of its own; a _ in a header's name stands for a dash."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, route, body, {**(JSON if body else {}), **given})
        found = connection.getresponse()
        return Answer(found.status, found.headers, found.read().decode())
    finally:
        connection.close()


@contextmanager
def stream(
    port: int, route: str = "/sse", receive_bytes: int | None = None, **headers: str
) -> Generator[HTTPResponse]:
    """An event stream that is open; receive_bytes is about what the system takes of it before it is read."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    if receive_bytes is not None:
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.sock.connect(("127.0.0.1", port))
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", route, headers={"Accept": "text/event-stream", **given})
    found = connection.getresponse()
    try:
        yield found
    finally:
        found.close()
        connection.close()


def open_session(port: int) -> Answer:
    """Ask for a session of streamable HTTP in the handshake era; its id is in the headers."""
    return knock(port, "POST", "/mcp", OPENING.splitlines()[0].encode())


def session_of(opened: Answer) -> str:
    assert opened.status == 200
    return opened.headers["mcp-session-id"]


def ping(port: int, session: str) -> int:
    body = line("ping", {}, 1).encode()
    return knock(port, "POST", "/mcp", body, Mcp_Session_Id=session).status


def in_pieces(size: int) -> Iterable[bytes]:
    """A body of that many bytes whose length nobody declares."""
    whole = json.dumps("x" * (size - 2)).encode()
    return (whole[start : start + 1000] for start in range(0, size, 1000))


def posting_to(events: HTTPResponse) -> str:
    """Where a client posts to, as the stream that it has opened tells it first."""
    assert events.readline() == b"event: endpoint\r\n"
    return events.readline().decode().removeprefix("data: ").strip()
