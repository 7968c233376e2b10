"""The end of a server over HTTP by a signal: calls in flight are answered, streams closed, nobody is left."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Literal

import anyio
import pytest
from connecting import ERAS, OPENING, Era, asked, serving, text, tool
from knocking import knock, open_session, posting_to, session_of, stream
from mcp import Client
from mcp.client.sse import sse_client

Leg = Literal["mcp", "sse"]
_SLOW = """
import anyio, sys
from lcm_mcp.server import limits
from lcm_mcp.service import Service
quick = Service.sessions
async def slow(*given, **named):
    sys.stderr.write("asked\\n")
    sys.stderr.flush()
    await anyio.sleep({})
    return await quick(*given, **named)
Service.sessions = slow
"""


def _ended(running: subprocess.Popen[str]) -> str:
    """What it still wrote to stderr, once it has ended as it should."""
    assert running.wait(timeout=20) == 0
    assert running.stderr is not None
    return running.stderr.read()


async def _asked_and_ended(port: int, running: subprocess.Popen[str], leg: Leg, era: Era, by: int) -> str:
    """The answer to a call that was in flight when the signal came."""
    address = f"http://127.0.0.1:{port}/{leg}"
    said = ""
    async with Client(sse_client(address) if leg == "sse" else address, mode=era) as client:

        async def ask() -> None:
            nonlocal said
            said = text(await asked(client, "lcm_sessions"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            assert running.stderr is not None
            assert await anyio.to_thread.run_sync(running.stderr.readline) == "asked\n"
            running.send_signal(by)
    return said


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("leg", ["mcp", "sse"])
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
async def test_a_call_in_flight_is_answered_before_the_end(
    leg: Leg, era: Era, by: int, store_path: Path
) -> None:
    with serving(store_path, before=_SLOW.format(1)) as (port, running):
        assert (await _asked_and_ended(port, running, leg, era, by)).startswith("0 sessions in ")
        assert await anyio.to_thread.run_sync(_ended, running) == ""


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("leg", ["mcp", "sse"])
async def test_a_call_that_the_end_cannot_wait_for_is_told_so(leg: Leg, era: Era, store_path: Path) -> None:
    with serving(store_path, before=_SLOW.format(600)) as (port, running):
        said = await _asked_and_ended(port, running, leg, era, signal.SIGTERM)
        assert said.startswith("lcm_sessions was stopped, since the server is ending. Ask for less, or try")
        assert await anyio.to_thread.run_sync(_ended, running) == ""


def test_open_streams_of_both_kinds_are_closed_and_nobody_new_is_taken(store_path: Path) -> None:
    with serving(store_path) as (port, running):
        session = session_of(open_session(port))
        with stream(port) as sse, stream(port, "/mcp", Mcp_Session_Id=session) as standing:
            assert sse.readline() == b"event: endpoint\r\n"
            assert standing.status == 200
            running.terminate()
            assert _ended(running) == ""
            assert sse.read().startswith(b"data: /messages/")
            assert standing.read() == b""
        with pytest.raises(ConnectionRefusedError), stream(port):
            pass


async def test_a_second_signal_does_not_wait(store_path: Path) -> None:
    with serving(store_path, before=_SLOW.format(600)) as (port, running), stream(port):
        running.terminate()
        time.sleep(0.3)
        running.terminate()
        assert _ended(running) == ""


def test_clients_that_do_not_read_or_write_on_are_dropped_without_a_trace(store_path: Path) -> None:
    long = {"role": "user", "content": "the harbour of Kyrenia " * 6_000}
    with (
        serving(store_path) as (port, running),
        stream(port, receive_bytes=4_000) as sse,
        socket.create_connection(("127.0.0.1", port), timeout=20) as halting,
    ):
        halting.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        route = posting_to(sse)
        said = [*OPENING.splitlines(), tool(1, "lcm_append", session="s", entries=[long] * 20)]
        asking = [tool(n, "lcm_expand", session="s", id="e1..e20", max_bytes=140_000) for n in range(2, 40)]
        for message in (*said, *asking):
            assert knock(port, "POST", route, message.encode()).status == 202
        running.terminate()
        assert _ended(running) == ""
