"""A server over stdio in a process of its own: the wire, the end of it, signals, and the parent's death."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from connecting import ENVELOPE, OPENING, command, line, piped, tool
from harbour import talk

on_posix = pytest.mark.skipif(os.name != "posix", reason="signals and process ids are of POSIX systems")


@contextmanager
def running(db: Path) -> Generator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A server that has answered its first request, with its stdin and stdout."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command(db), stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(OPENING.encode())
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == 0
            yield server, server.stdin, server.stdout
        finally:
            server.kill()


def test_a_script_of_five_calls_and_an_end_gets_five_replies(store_path: Path) -> None:
    calls = [
        tool(1, "lcm_append", session="s", entries=talk(300)),
        tool(2, "lcm_grep", pattern="pier"),
        tool(3, "prepare_context", session="s", append=talk(5), compact="force", window_tokens=9000),
        tool(4, "lcm_sessions"),
        tool(5, "lcm_expand", id="e1", session="s"),
    ]
    messages, ended = piped(store_path, OPENING + "".join(calls))
    assert sorted(message["id"] for message in messages) == [0, 1, 2, 3, 4, 5]
    assert all("result" in message for message in messages)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_script_of_the_modern_era_needs_no_handshake(store_path: Path) -> None:
    script = "".join(
        line("tools/call", {"name": "lcm_sessions", "arguments": {}, "_meta": ENVELOPE}, number)
        for number in range(5)
    )
    messages, ended = piped(store_path, script)
    assert sorted(message["id"] for message in messages) == [0, 1, 2, 3, 4]
    assert all(message["result"]["structuredContent"]["total"] == 0 for message in messages)
    assert ended.returncode == 0


def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(store_path: Path) -> None:
    messages, ended = piped(store_path, f"\ufeff{OPENING}{tool(1, 'lcm_sessions')}")
    assert sorted(message["id"] for message in messages) == [0, 1]
    assert all("result" in message for message in messages)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_client_that_says_nothing_and_leaves_ends_the_server(store_path: Path) -> None:
    messages, ended = piped(store_path, "")
    assert (messages, ended.returncode, ended.stdout, ended.stderr) == ([], 0, b"", b"")


@pytest.mark.parametrize(("asked", "cancelled"), [("1", 1), ("1", "1"), ('"1"', 1)])
def test_a_cancelled_call_is_not_waited_for_at_the_end(
    asked: str, cancelled: object, store_path: Path
) -> None:
    call = tool(1, "lcm_sessions").replace('"id": 1', f'"id": {asked}')
    cancel = line("notifications/cancelled", {"requestId": cancelled})
    messages, ended = piped(store_path, OPENING + call + cancel + tool(2, "lcm_sessions"))
    assert {message["id"] for message in messages} >= {0, 2}
    assert ended.returncode == 0


def test_what_cancels_no_call_takes_no_reply_away(store_path: Path) -> None:
    cancel = "".join(
        line("notifications/cancelled", {"requestId": each}) for each in (True, 1.0, None, "one")
    )
    messages, ended = piped(store_path, OPENING + tool(1, "lcm_sessions") + cancel)
    assert [message["id"] for message in messages if message["id"] is not None] == [0, 1]
    assert ended.returncode == 0


def test_a_line_that_is_no_message_is_answered_and_the_rest_goes_on(store_path: Path) -> None:
    bad = 'nonsense\n\n[1]\n{"jsonrpc":"2.0"}\n'
    messages, ended = piped(store_path, OPENING + bad + tool(1, "lcm_sessions"))
    codes = [message["error"]["code"] for message in messages if message["id"] is None]
    assert codes == [-32700, -32600, -32600]
    assert messages[-1]["id"] == 1
    assert ended.stderr == b""


def test_a_request_of_an_id_that_none_may_have_is_answered(store_path: Path) -> None:
    bad = "".join(f'{{"jsonrpc":"2.0","id":{each},"method":"ping"}}\n' for each in ("1.5", "null", "[]"))
    notification = line("notifications/of_ours", {"id": 7})
    messages, _ = piped(store_path, OPENING + bad + notification + tool(1, "lcm_sessions"))
    assert [message["error"]["code"] for message in messages if message["id"] is None] == [-32600] * 3
    assert sorted(message["id"] for message in messages if message["id"] is not None) == [0, 1]


def test_half_of_a_surrogate_pair_does_not_lose_a_call(store_path: Path) -> None:
    entries = [{"role": "user", "content": "cut \ud83d here, whole \U0001f600, a \\ud83d in words"}]
    script = OPENING + tool(1, "lcm_append", session="s", entries=entries)
    piped(store_path, script)
    messages, _ = piped(store_path, OPENING + tool(1, "lcm_expand", id="e1", session="s"))
    (row,) = messages[-1]["result"]["structuredContent"]["rows"]
    assert row["text"] == "cut \ufffd here, whole \U0001f600, a \\ud83d in words"


@on_posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_it_while_stdin_is_open(store_path: Path, name: str) -> None:
    with running(store_path) as (server, _, stdout):
        server.send_signal(getattr(signal, name))
        assert server.wait(timeout=20) == 0
        assert server.stderr is not None
        assert server.stderr.read() == b""
        assert stdout.read() == b""


@on_posix
def test_a_signal_ends_it_while_lines_are_coming(store_path: Path) -> None:
    with running(store_path) as (server, stdin, _):
        stdin.write(line("notifications/initialized", {}).encode() * 500)
        stdin.flush()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 0
        assert server.stderr is not None
        assert server.stderr.read() == b""


@on_posix
def test_a_signal_ends_it_even_if_nobody_reads_its_replies(store_path: Path) -> None:
    with running(store_path) as (server, stdin, _):
        stdin.write(tool(1, "lcm_append", session="s", entries=talk(500)).encode())
        for number in range(2, 5):
            stdin.write(tool(number, "lcm_expand", id="e1..e2000", session="s", max_bytes=150_000).encode())
        stdin.flush()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) in (0, 1)


@on_posix
def test_what_was_acknowledged_is_there_after_a_signal(store_path: Path) -> None:
    with running(store_path) as (server, stdin, stdout):
        stdin.write(tool(1, "lcm_append", session="s", entries=talk(10)).encode())
        stdin.flush()
        assert json.loads(stdout.readline())["id"] == 1
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)
    messages, _ = piped(store_path, OPENING + tool(1, "lcm_sessions"))
    assert messages[-1]["result"]["structuredContent"]["sessions"][0]["rows"] == 40


@on_posix
def test_a_client_that_closes_its_end_is_no_fault(store_path: Path) -> None:
    with running(store_path) as (server, stdin, stdout):
        stdout.close()
        stdin.write(tool(1, "lcm_sessions").encode())
        stdin.flush()
        assert server.wait(timeout=20) == 0
        assert server.stderr is not None
        assert server.stderr.read() == b""


def test_a_client_that_reads_late_gets_every_reply_whole(store_path: Path) -> None:
    with running(store_path) as (_, stdin, stdout):
        stdin.write(tool(1, "lcm_append", session="s", entries=talk(500)).encode())
        stdin.flush()
        assert json.loads(stdout.readline())["id"] == 1
        for number in range(2, 6):  # each many times what a pipe holds
            stdin.write(tool(number, "lcm_expand", id="e1..e2000", session="s", max_bytes=90_000).encode())
        stdin.flush()
        time.sleep(1)
        replies = [json.loads(stdout.readline()) for _ in range(4)]
    assert sorted(reply["id"] for reply in replies) == [2, 3, 4, 5]
    (told,) = {json.dumps(reply["result"]) for reply in replies}
    assert len(told) > 150_000


@contextmanager
def on_a_terminal(db: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """A server with a terminal for its stdin and stdout, and the other end of it."""
    import tty  # Windows has none

    ours, theirs = os.openpty()
    tty.setraw(theirs)
    with subprocess.Popen(command(db), stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as server:
        os.close(theirs)
        try:
            os.write(ours, OPENING.encode())
            read_line(ours)
            yield server, ours
        finally:
            server.kill()


def read_line(terminal: int) -> bytes:
    read = b""
    while not read.endswith(b"\n"):
        read += os.read(terminal, 1)
    return read


@on_posix
def test_a_terminal_that_is_hung_up_ends_it(store_path: Path) -> None:
    with on_a_terminal(store_path) as (server, terminal):
        os.close(terminal)
        assert server.wait(timeout=20) == 0
        assert server.stderr is not None
        assert server.stderr.read() == b""


@on_posix
def test_a_signal_ends_it_though_a_terminal_takes_no_more(store_path: Path) -> None:
    with on_a_terminal(store_path) as (server, terminal):
        for number in range(20):  # a terminal takes few at a time
            said = [{"role": "user", "content": f"word {number} " * 300}]
            os.write(terminal, tool(number, "lcm_append", session="s", entries=said).encode())
            read_line(terminal)
        for number in range(50, 53):  # together more than a terminal holds
            asked = tool(number, "lcm_expand", id="e1..e20", session="s", max_bytes=150_000)
            os.write(terminal, asked.encode())
        time.sleep(2)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) in (0, 1)
        os.close(terminal)


@on_posix
@pytest.mark.parametrize("asked", [0, 1])
def test_a_client_that_dies_on_its_socket_with_replies_unread_is_no_fault(
    store_path: Path, asked: int
) -> None:
    ours, theirs = socket.socketpair()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(store_path), stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=pipe
    ) as server:
        try:
            theirs.close()
            ours.sendall((OPENING + tool(1, "lcm_sessions") * asked).encode())
            assert ours.recv(1) == b"{"
            ours.close()
            assert server.wait(timeout=20) == 0
            assert server.stderr is not None
            assert server.stderr.read() == b""
        finally:
            server.kill()


@on_posix
def test_pipes_that_do_not_wait_are_waited_for(store_path: Path) -> None:
    (given, giving), (told, telling) = os.pipe(), os.pipe()
    os.set_blocking(given, False)
    os.set_blocking(telling, False)
    with subprocess.Popen(command(store_path), stdin=given, stdout=telling) as server:
        os.close(given)
        os.close(telling)
        with open(giving, "wb") as stdin, open(told, "rb") as stdout:
            stdin.write((OPENING + tool(1, "lcm_append", session="s", entries=talk(500))).encode())
            stdin.flush()
            assert [json.loads(stdout.readline())["id"] for _ in range(2)] == [0, 1]
            stdin.write(tool(2, "lcm_expand", id="e1..e2000", session="s", max_bytes=150_000).encode())
            stdin.close()
            time.sleep(1)
            assert json.loads(stdout.readline())["id"] == 2
        assert server.wait(timeout=20) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is full, as Linux plays it")
def test_replies_that_a_full_disk_does_not_take_end_it_with_a_line_and_1(store_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command(store_path), input=OPENING.encode(), stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"lcm-mcp: The replies cannot be written (No space left on device). ")
    assert ended.stderr.count(b"\n") == 1


def test_what_is_printed_beside_the_replies_goes_to_stderr(store_path: Path) -> None:
    printing = (
        "import os, anyio\n"
        "from lcm_mcp.server import serve_stdio\n"
        "from lcm_mcp.service import Service\n"
        "from lcm_mcp.settings import Settings\n"
        "def opened():\n"
        "    print('a stray line', flush=True)\n"
        "    os.system('echo a child')\n"
        f"    return Service.open(Settings(db={str(store_path)!r}))\n"
        "anyio.run(serve_stdio, opened)"
    )
    given = (OPENING + tool(1, "lcm_sessions")).encode()
    ended = subprocess.run([sys.executable, "-c", printing], input=given, capture_output=True, timeout=60)
    assert [json.loads(each)["id"] for each in ended.stdout.splitlines()] == [0, 1]
    assert ended.stderr.split(b"\n") == [b"a stray line", b"a child", b""]


@on_posix
def test_it_ends_when_its_parent_dies_though_stdin_stays_open(store_path: Path) -> None:
    ours, theirs = os.pipe()  # both ends stay open here: the server never sees the end of its stdin
    alive, told = os.pipe()  # the server alone holds `told` once its parent is dead
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen({command(store_path)!r}, stdin={ours}, stdout={told}, pass_fds=[{told}])\n"
        "print('started', flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, pass_fds=(ours, told)
    ) as between:
        assert between.stdout is not None
        assert between.stdout.readline() == b"started\n"
        os.close(told)
        # It must be up before its parent goes, or it would take init for its parent.
        while not store_path.exists():
            time.sleep(0.02)
        between.kill()
    assert os.read(alive, 1) == b""  # returns only when the last holder is gone
    for descriptor in (ours, theirs, alive):
        os.close(descriptor)
