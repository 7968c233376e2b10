"""What one client may take of a server over HTTP: bodies, time, sessions; small limits stand for ours."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from connecting import OPENING, answered, line, serving, tool
from knocking import in_pieces, knock, open_session, ping, posting_to, session_of, stream
from mcp import Client

from lcm_mcp.server.http import listening

LIMITS = "from lcm_mcp.server import limits\nlimits.{} = {}"


def until(true: Callable[[], bool]) -> None:
    """Wait for what comes about in a moment, but not for ever."""
    for _ in range(400):
        if true():
            return
        time.sleep(0.05)
    pytest.fail("it did not come about")


@pytest.mark.parametrize("route", ["/mcp", "/messages/?session_id=0123456789abcdef0123456789abcdef"])
def test_a_body_that_is_too_large_is_refused_in_a_sentence_declared_or_not(
    route: str, store_path: Path
) -> None:
    with serving(store_path, before=LIMITS.format("MOST_BODY_BYTES", 20_000)) as (port, _):
        for body in (b"x" * 20_001, in_pieces(20_001)):
            answer = knock(port, "POST", route, body)
            assert answer.status == 413
            assert answer.refusal == "The request is larger than 20000 bytes. Send it in parts."
        for body in (b"x" * 20_000, in_pieces(20_000)):
            assert knock(port, "POST", route, body).status in (400, 404)


def test_a_body_larger_than_the_transports_take_by_themselves_is_taken(store_path: Path) -> None:
    with serving(store_path) as (port, _):
        assert knock(port, "POST", "/mcp", b"x" * 9_000_000).status == 400
        most = 32 * 1024 * 1024
        assert knock(port, "POST", "/mcp", b"x" * (most + 1)).status == 413
        waiting = {"Content_Length": str(most + 1), "Expect": "100-continue"}
        assert knock(port, "POST", "/mcp", b"", **waiting).status == 413


def test_a_body_without_end_is_not_read_for_ever(store_path: Path) -> None:
    before = LIMITS.format("MOST_BODY_BYTES", 1000) + "\nlimits.MOST_DROPPED_BYTES = 20_000"
    with (
        serving(store_path, before=before) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
    ):
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n")
        connection.sendall(b"x" * 20_001)
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_come_is_not_waited_for(store_path: Path) -> None:
    with (
        serving(store_path, before=LIMITS.format("BODY_S", 0.2)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
    ):
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        while connection.recv(1000):
            pass  # and the connection is closed


@pytest.mark.parametrize("said", [b"", b"GET /health HTTP/1.1\r\nHost: local"])
def test_a_connection_that_never_asks_is_closed(said: bytes, store_path: Path) -> None:
    with (
        serving(store_path, before=LIMITS.format("SILENCE_S", 0.5)) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        stream(port) as open_stream,
    ):
        connection.sendall(said)
        assert connection.recv(100) == b""
        assert open_stream.readline() == b"event: endpoint\r\n"
        assert open_stream.isclosed() is False
        assert knock(port, "GET", "/health").status == 200


def test_streams_beyond_the_most_are_told_to_come_again_and_find_room_when_one_leaves(
    store_path: Path,
) -> None:
    with serving(store_path, before=LIMITS.format("MOST_SESSIONS", 2)) as (port, _):
        with stream(port) as first, stream(port) as second:
            assert (first.status, second.status) == (200, 200)
            full = knock(port, "GET", "/sse")
            assert full.status == 503
            assert full.headers["Retry-After"] == "30"
            assert full.refusal == "2 event streams are open, and no more are taken. Try again in a while."

        def found_room() -> bool:
            with stream(port) as third:
                return third.status == 200

        until(found_room)


async def test_sessions_beyond_the_most_are_told_to_come_again_and_the_open_ones_go_on(
    store_path: Path,
) -> None:
    with serving(store_path, before=LIMITS.format("MOST_SESSIONS", 2)) as (port, _):
        first, second = (open_session(port) for _ in range(2))
        full = open_session(port)
        assert full.status == 503
        assert full.headers["Retry-After"] == "30"
        assert full.refusal == "Too many open sessions"
        assert ping(port, session_of(first)) == 200
        async with Client(f"http://127.0.0.1:{port}/mcp") as modern:  # which needs no session
            assert (await answered(modern, "lcm_sessions"))["total"] == 0
        assert knock(port, "DELETE", "/mcp", Mcp_Session_Id=session_of(second)).status == 200
        assert open_session(port).status == 200


def test_a_session_that_is_idle_ends_and_its_client_is_told_to_begin_again(store_path: Path) -> None:
    with serving(store_path, before=LIMITS.format("IDLE_S", 0.3)) as (port, _):
        opened = session_of(open_session(port))
        time.sleep(1)  # each request puts the end off, so asking again and again would never find it
        assert ping(port, opened) == 404


def test_a_stream_on_which_nothing_is_asked_ends(store_path: Path) -> None:
    with serving(store_path, before=LIMITS.format("STREAM_IDLE_S", 0.3)) as (port, running):
        with stream(port) as idle:
            assert idle.readline() == b"event: endpoint\r\n"
            assert idle.read().startswith(b"data: /messages/?session_id=")
        assert knock(port, "GET", "/health").status == 200
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def test_what_clients_send_wrong_is_told_to_them_and_not_to_the_log(store_path: Path) -> None:
    with serving(store_path) as (port, running):
        with stream(port) as sse:
            assert sse.readline() == b"event: endpoint\r\n"
            route = sse.readline().decode().removeprefix("data: ").strip()
            assert knock(port, "POST", route, b'{"secret": 1}').status == 400
            assert knock(port, "POST", "/mcp", b'{"secret": 1}').status == 400
            assert knock(port, "POST", route, b"secret", Host="secret.example").status == 421
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(b"secret\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        (b"[]", -32600, "Batches are not taken. Send each message in a request of its own."),
        (
            b' [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
            -32600,
            "Batches are not taken. Send each message in a request of its own.",
        ),
        (b'{"id": 1, "method": "ping"}', -32600, "The request's body is not a JSON-RPC 2.0 message."),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600, "The request's body is not a JSON-RPC 2.0 message."),
        (b"harbour", -32700, "The request's body cannot be read as JSON in UTF-8."),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}',
            -32700,
            "The request's body cannot be read as JSON in UTF-8.",
        ),
        (b"[" * 5_000, -32700, "The request's body cannot be read as JSON in UTF-8."),
    ],
)
def test_what_is_no_message_is_told_in_one_sentence_on_every_route(
    said: bytes, code: int, sentence: str, store_path: Path
) -> None:
    with serving(store_path) as (port, _), stream(port) as sse:
        assert sse.readline() == b"event: endpoint\r\n"
        route = sse.readline().decode().removeprefix("data: ").strip()
        in_session = {"Mcp_Session_Id": session_of(open_session(port))}
        modern = {"Mcp_Protocol_Version": "2026-07-28"}
        for answer in (
            knock(port, "POST", route, said),
            knock(port, "POST", "/mcp", said, **in_session),
            knock(port, "POST", "/mcp", said, **modern),
        ):
            assert answer.status == 400
            assert answer.refusal == sentence
            assert json.loads(answer.text)["error"]["code"] == code


def test_the_second_part_of_an_answer_does_not_wait_until_the_first_is_acknowledged() -> None:
    """Connections take the option over from the listener; a client that delays its nod does so for 40 ms."""
    with (
        listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()[:2]),
        listener.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_client_that_does_not_read_its_stream_is_left_once_too_much_waits_for_it(store_path: Path) -> None:
    long = {"role": "user", "content": "the harbour of Kyrenia " * 6_000}
    with (
        serving(store_path, before=LIMITS.format("MOST_UNREAD", 20)) as (port, running),
        stream(port, receive_bytes=4_000) as unread,
    ):
        route = posting_to(unread)
        said = [*OPENING.splitlines(), tool(1, "lcm_append", session="s", entries=[long] * 20)]
        for message in said:
            assert knock(port, "POST", route, message.encode()).status == 202
        asking = (tool(n, "lcm_expand", session="s", id="e1..e20", max_bytes=140_000) for n in range(2, 200))
        until(lambda: knock(port, "POST", route, next(asking).encode()).status == 404)
        with stream(port) as other:
            ping_there = knock(port, "POST", posting_to(other), line("ping", {}, 1).encode())
            assert ping_there.status == 202
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
