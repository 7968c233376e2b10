"""How far a call is, told while it works; and compactions that go on beside the calls of a server."""

from __future__ import annotations

import json
import signal
from http.client import HTTPConnection, HTTPResponse
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from connecting import (
    ENVELOPE,
    ERAS,
    OPENING,
    TRANSPORTS,
    Era,
    Transport,
    answered,
    connected,
    line,
    piped,
    serving,
    tool,
)
from harbour import call, memory, talk
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextResourceContents

from lcm_mcp.service import background
from lcm_mcp.service.passes import Progress

PREPARE = {"window_tokens": 9000, "strategy": "lcm", "compact": "force", "format": "text"}


@pytest.fixture
async def large(store_path: Path) -> Path:
    """A store with a session far larger than the window it is prepared for."""
    async with memory(store_path) as service:
        await call(service, "lcm_append", session="harbour", entries=talk(500))
    return store_path


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_that_asks_is_told_how_far_a_compaction_is_and_then_gets_its_answer(
    transport: Transport, era: Era, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    monkeypatch.setattr(background, "REPORT_S", 0.01)  # reaches only the server of this process
    async with connected(transport, era, large) as client:
        result = await client.call_tool(
            "prepare_context", {"session": "harbour", **PREPARE}, progress_callback=hear
        )
    assert isinstance(result, CallToolResult)
    assert (result.structured_content or {})["status"] == "compacted"
    steps = [progress for progress, _, _ in told]
    assert len(steps) >= (2 if transport == "memory" else 1)
    assert all(earlier < later for earlier, later in pairwise(steps))
    _, total, message = told[-1]
    assert total is not None
    assert 0 < steps[-1] <= total
    assert message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("progress", "total", "line"),
    [
        (Progress(), None, "0 summaries made"),
        (Progress(written=1, planned_tokens=0), None, "1 summary made"),
        (Progress(written=1, folded_tokens=900), None, "900 tokens folded, 1 summary made"),
        (Progress(planned_tokens=9000), 9000, "0 of 9,000 tokens folded, 0 summaries made"),
    ],
)
def test_what_is_told_has_no_total_of_nothing_and_is_well_put(
    progress: Progress, total: int | None, line: str
) -> None:
    assert (progress.total, progress.line) == (total, line)


@pytest.mark.parametrize("modern", [False, True])
async def test_only_the_call_that_asked_is_told(modern: bool, large: Path) -> None:
    async with memory(large) as service:
        await call(service, "lcm_append", session="quay", entries=talk(500))

    def prepare(number: int, session: str, **meta: object) -> str:
        meta |= ENVELOPE if modern else {}
        params = {"name": "prepare_context", "arguments": {"session": session, **PREPARE}, "_meta": meta}
        return line("tools/call", params, number)

    script = prepare(1, "harbour", progressToken="far") + prepare(2, "quay")
    messages, ended = await anyio.to_thread.run_sync(piped, large, script if modern else OPENING + script)
    told = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    assert {each["progressToken"] for each in told} == {"far"}
    answers = {message["id"]: message["result"] for message in messages if message.get("id")}
    assert [answers[number]["structuredContent"]["status"] for number in (1, 2)] == ["compacted"] * 2
    assert ended.stderr == b""


async def test_a_client_that_went_away_while_it_was_told_does_not_end_the_work(large: Path) -> None:
    with serving(large) as (port, running):
        await anyio.to_thread.run_sync(ask_and_leave, port)
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            # Only against hanging for ever, as the time limits on processes are.
            with anyio.fail_after(60):
                while (seen := await observed(client)) is None:
                    await anyio.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
    assert seen["status"] == "compacted"


def ask_and_leave(port: int) -> None:
    """Call prepare_context as a client of the handshake era, and hang up at the first word of progress."""
    initialize, initialized = OPENING.splitlines()
    with post(port, initialize) as welcome:
        session = welcome.headers["mcp-session-id"]
    with post(port, initialized, session) as accepted:
        assert accepted.status == 202
    params = {"name": "prepare_context", "arguments": PREPARE, "_meta": {"progressToken": 1}}
    with post(port, line("tools/call", params, 1), session) as stream:
        while b"notifications/progress" not in (told := stream.readline()):
            assert told


def post(port: int, message: str, session: str | None = None) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    named = {} if session is None else {"Mcp-Session-Id": session}
    # So the response alone holds the connection, and closing it hangs up.
    connection.request("POST", "/mcp", message, {**headers, **named, "Connection": "close"})
    return connection.getresponse()


async def observed(client: Client) -> dict[str, object] | None:
    """What was prepared last; None where nothing was yet."""
    try:
        (contents,) = (await client.read_resource("lcm://session/s1/context")).contents
    except MCPError as error:
        if "nothing was prepared" not in error.error.message:
            raise
        return None
    assert isinstance(contents, TextResourceContents)
    return json.loads(contents.text)


# --- compactions beside the calls


@pytest.mark.parametrize("transport", ["stdio", "sse", "http"])
async def test_a_compaction_goes_on_after_its_call_as_long_as_the_server_serves(
    transport: Transport, large: Path
) -> None:
    async with connected(transport, "auto", large) as client:
        first = await answered(client, "prepare_context", **PREPARE, deadline_ms=1)
        assert first["status"] == "scheduled"
        now = first
        with anyio.fail_after(60):
            while not now["prepared"].startswith("c1."):
                await anyio.sleep(0.05)
                now = await answered(client, "prepare_context", **PREPARE | {"compact": "never"})
    assert now["estimated_input_tokens"] < first["estimated_input_tokens"]


async def test_a_compaction_under_way_does_not_keep_the_server_from_ending(large: Path) -> None:
    script = OPENING + tool(1, "prepare_context", **PREPARE, deadline_ms=1)
    messages, ended = await anyio.to_thread.run_sync(piped, large, script)
    assert messages[-1]["result"]["structuredContent"]["status"] == "scheduled"
    assert (ended.returncode, ended.stderr) == (0, b"")
