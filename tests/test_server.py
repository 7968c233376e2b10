"""The server on every transport and in both protocol eras, with the SDK's own client."""

from __future__ import annotations

import http.client
import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from connecting import ERAS, TRANSPORTS, Era, Transport, answered, asked, command, connected, serving, text
from harbour import memory, talk
from mcp import Client
from mcp.client.sse import sse_client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from lcm_mcp import server
from lcm_mcp.server import limits
from lcm_mcp.service import Service, reading
from lcm_mcp.tools.toolsets import TOOLS

_COLLECTS_SPANS = """
import sys
from opentelemetry import trace

class Naming(trace.NoOpTracer):
    def start_as_current_span(self, name, *given, **named):
        print(name, file=sys.stderr, flush=True)
        return super().start_as_current_span(name, *given, **named)

class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *given, **named):
        return Naming()

trace.set_tracer_provider(Provider())
"""

# --- what each transport does in each era


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_session_is_kept_folded_searched_and_read_again(
    transport: Transport, era: Era, store_path: Path
) -> None:
    async with connected(transport, era, store_path) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in TOOLS]
        receipt = await answered(client, "lcm_append", session="harbour", entries=talk(40))
        assert receipt["last_seq"] == 160
        prepared = await answered(
            client,
            "prepare_context",
            session="harbour",
            window_tokens=4000,
            strategy="lcm",
            compact="force",
            format="anthropic",
        )
        assert prepared["status"] == "compacted"
        assert (await answered(client, "lcm_sessions"))["sessions"][0]["key"] == "harbour"
        nodes = (await answered(client, "lcm_list", session="harbour"))["nodes"]
        assert nodes[0]["id"] == "#1"
        hits = (await answered(client, "lcm_grep", pattern="PIER 17", scope="rows", order="oldest"))["hits"]
        assert hits[0]["snippet"].startswith("I measure pier 17.")
        described = await answered(client, "lcm_describe", id=hits[0]["node"], session="harbour")
        assert described["node"]["span"][0] == "e41"
        expanded = await answered(client, "lcm_expand", id="e69", session="harbour")
        assert expanded["rows"][0]["text"].startswith("question 17")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_wrong_call_is_an_error_result_of_one_sentence(
    transport: Transport, era: Era, store_path: Path
) -> None:
    async with connected(transport, era, store_path) as client:
        await answered(client, "lcm_append", session="s", entries=talk(1))
        wrong: list[tuple[str, dict[str, object], str]] = [
            *((tool.name, {"colour": 1}, "colour: there is no such argument. ") for tool in TOOLS),
            ("lcm_list", {"session": "nobody"}, "There is no session 'nobody'."),
            ("lcm_grep", {"pattern": ""}, "pattern: it has 0 characters. "),
            ("lcm_describe", {"id": "#7", "session": "s"}, "#7 names nothing in session 's'."),
            ("lcm_expand", {"id": "e1", "session": "s", "cursor": "x"}, "cursor: it does not belong"),
            ("lcm_append", {"session": "s", "entries": [1]}, "entries[0]: it is a number, not an object."),
            ("prepare_context", {"deadline_ms": 10**6}, "deadline_ms: it is 1000000. "),
        ]
        for name, arguments, sentence in wrong:
            result = await asked(client, name, **arguments)
            assert result.is_error
            assert text(result).startswith(sentence)
            assert "\n" not in text(result)
            assert result.structured_content is None
        assert (await answered(client, "lcm_sessions"))["sessions"][0]["rows"] == 4


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_does_not_exist_is_named_with_those_that_do(era: Era, store_path: Path) -> None:
    async with connected("memory", era, store_path) as client:
        with pytest.raises(MCPError, match=r"no tool 'lcm_drep'. The tools are lcm_sessions, "):
            await client.call_tool("lcm_drep", {})


# --- what is published


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_is_published_with_schemas_and_hints(era: Era, store_path: Path) -> None:
    async with connected("memory", era, store_path) as client:
        assert 500 < len((client.instructions or "").encode()) <= 2048
        for tool in (await client.list_tools()).tools:
            assert 0 < len((tool.description or "").encode()) <= 2048
            assert tool.input_schema["additionalProperties"] is False
            assert (tool.output_schema or {})["type"] == "object"
            hints = tool.annotations
            assert hints is not None
            assert hints.open_world_hint is False
            assert hints.destructive_hint is False
            assert hints.read_only_hint == (tool.name not in _WRITING)
            assert hints.idempotent_hint == (
                hints.read_only_hint or tool.name in ("lcm_rewind", "lcm_expand_query")
            )


_WRITING = (
    *("lcm_append", "lcm_compact", "lcm_next_summary", "lcm_submit_summary"),
    *("lcm_redo", "lcm_fork", "lcm_rewind", "prepare_context", "lcm_expand_query"),
)


# --- faults


async def test_an_unexpected_fault_is_one_line_for_the_client_and_a_traceback_for_the_log(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a detail of ours")

    monkeypatch.setattr(reading, "list_sessions", broken)
    async with connected("memory", "auto", store_path) as client:
        result = await asked(client, "lcm_sessions")
    assert result.is_error
    assert text(result).startswith("lcm_sessions failed unexpectedly (ZeroDivisionError).")
    assert "a detail of ours" not in text(result)
    assert "\n" not in text(result)
    out, err = capfd.readouterr()
    assert "a detail of ours" in err
    assert out == ""


async def test_a_store_that_cannot_be_used_is_said_as_it_is(store_path: Path) -> None:
    async with memory(store_path) as service, Client(server.build_server(service)) as client:
        await service.close()
        result = await asked(client, "lcm_sessions")
    assert result.is_error
    assert text(result).startswith("The store is closed.")


async def test_a_call_that_takes_too_long_is_ended_before_clients_give_up(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object, **__: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(limits, "CALL_LIMIT_S", 0.01)
    monkeypatch.setattr(Service, "sessions", endless)
    async with connected("memory", "auto", store_path) as client:
        result = await asked(client, "lcm_sessions")
    assert result.is_error
    assert "took longer than" in text(result)


# --- HTTP


def test_requests_that_name_another_site_are_refused_on_every_route(store_path: Path) -> None:
    routes = [("GET", "/health"), ("GET", "/sse"), ("POST", "/mcp"), ("POST", "/messages/")]
    with serving(store_path) as (port, _):
        assert status(port, "GET", "/health") == 200
        assert status(port, "GET", "/health", Host="localhost", Origin=f"http://localhost:{port}") == 200
        for method, route in routes:
            assert status(port, method, route, Host="evil.example") == 421
            assert status(port, method, route, Host=f"127.0.0.1.evil.example:{port}") == 421
            assert status(port, method, route, Origin="http://evil.example") == 403
            assert status(port, method, route, Host=f"localhost:{port}.evil.example") == 421
            assert status(port, method, route, Origin="null") == 403
            assert status(port, method, route, Origin=f"http://localhost:{port}.evil.example") == 403


def test_an_event_stream_is_opened_by_get_alone(store_path: Path) -> None:
    with serving(store_path) as (port, running):
        assert status(port, "HEAD", "/sse") == 405
        assert status(port, "POST", "/sse") == 405
        running.terminate()
        assert running.wait(20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def status(port: int, method: str, route: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, route, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("asked_to_end", [signal.SIGTERM, signal.SIGINT])
def test_an_open_event_stream_does_not_keep_the_server_from_ending(
    store_path: Path, asked_to_end: signal.Signals
) -> None:
    with serving(store_path) as (port, running):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/sse")
        stream = connection.getresponse()
        assert stream.readline() == b"event: endpoint\r\n"
        running.send_signal(asked_to_end)
        assert running.wait(timeout=20) == 0
        stream.close()
        connection.close()


async def test_connections_of_both_kinds_share_one_memory(store_path: Path) -> None:
    with serving(store_path) as (port, _):
        address = f"http://127.0.0.1:{port}"
        async with Client(sse_client(f"{address}/sse")) as one, Client(f"{address}/mcp") as other:
            async with Client(sse_client(f"{address}/sse"), mode="legacy") as third:
                await answered(one, "lcm_append", session="s", entries=talk(1))
                assert (await answered(other, "lcm_sessions"))["total"] == 1
                assert (await answered(third, "lcm_sessions"))["total"] == 1
            assert (await answered(one, "lcm_sessions"))["total"] == 1


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        (
            "0.0.0.0",
            "0",
            "host: '0.0.0.0' can be reached by others, and there is no token to ask them for. Set LCM_TOKEN,",
        ),
        ("example.org", "0", "host: 'example.org' can be reached by others"),
        ("127.0.0.1", "taken", "cannot be used (Address already in use). Choose another one."),
    ],
)
def test_a_place_where_it_may_not_or_cannot_serve_is_one_line_and_exit_1(
    store_path: Path, host: str, port: str, sentence: str
) -> None:
    with serving(store_path) as (taken, _):
        arguments = ["--transport", "sse", "--host", host, "--port", str(taken) if port == "taken" else port]
        ended = subprocess.run(command(store_path, *arguments), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


async def test_who_collects_spans_gets_one_of_each_request(store_path: Path) -> None:
    with serving(store_path, before=_COLLECTS_SPANS) as (port, process):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            await asked(client, "lcm_sessions")
        process.terminate()
        _, told = process.communicate()
        assert "tools/call lcm_sessions" in told.splitlines()


def test_the_sdk_wraps_requests_in_spans_and_in_nothing_else_that_would_be_left_out() -> None:
    assert [type(each).__name__ for each in Server("bare").middleware] == ["OpenTelemetryMiddleware"]
