"""What a tool's answer, its failure and a refusal are on the wire, in every version of the protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Literal, Protocol

import pytest
from connecting import ENVELOPE, command, serving
from knocking import knock
from mcp_types.methods import parse_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from test_images import png

PICTURE = base64.b64encode(png(30, 20)).decode()
MODERN = MODERN_PROTOCOL_VERSIONS[-1]
SOURCE = {"type": "base64", "media_type": "image/png", "data": PICTURE}
ENTRIES = [
    {"role": "user", "content": [{"type": "text", "text": "a duck"}, {"type": "image", "source": SOURCE}]}
]


class Ask(Protocol):
    def __call__(self, method: str, number: object, **params: object) -> dict[str, Any]: ...


@contextmanager
def speaking(transport: Literal["stdio", "http"], version: str, db: Path) -> Generator[Ask]:
    """Requests by hand in one version of the protocol, and what comes back for each."""
    with over_stdio(db) if transport == "stdio" else over_http(db, version) as send:

        def ask(method: str, number: object, **params: object) -> dict[str, Any]:
            if version == MODERN:
                params["_meta"] = ENVELOPE
            reply = send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            assert reply is not None
            assert (reply["jsonrpc"], reply["id"]) == ("2.0", number)
            assert type(reply["id"]) is type(number)
            return reply

        if version != MODERN:
            told = ask(
                "initialize",
                "hello",
                protocolVersion=version,
                capabilities={},
                clientInfo={"name": "t", "version": "1"},
            )
            assert told["result"]["protocolVersion"] == version
            send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield ask


@contextmanager
def over_stdio(db: Path) -> Generator[Any]:
    with Popen(command(db), stdin=PIPE, stdout=PIPE) as running:
        stdin, stdout = running.stdin, running.stdout
        assert stdin is not None
        assert stdout is not None

        def send(message: dict[str, object]) -> dict[str, Any] | None:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
            return json.loads(stdout.readline()) if "id" in message else None

        try:
            yield send
        finally:
            running.kill()


@contextmanager
def over_http(db: Path, version: str) -> Generator[Any]:
    with serving(db) as (port, _):
        headers: dict[str, str] = {}

        def send(message: dict[str, Any]) -> dict[str, Any] | None:
            if version == MODERN:
                headers["Mcp-Method"] = message["method"]
                headers["Mcp-Name"] = message["params"].get("name", "")
            answer = knock(port, "POST", "/mcp", json.dumps(message).encode(), **headers)
            if "mcp-session-id" in answer.headers:
                headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
            headers["MCP-Protocol-Version"] = version
            said = [
                line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")
            ]
            return json.loads(said[-1] if said else answer.text) if "id" in message else None

        headers["MCP-Protocol-Version"] = version
        yield send


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_answers_failures_and_refusals_are_what_their_version_says(
    transport: Literal["stdio", "http"], version: str, store_path: Path
) -> None:
    def result_of(reply: dict[str, Any]) -> dict[str, Any]:
        """What has the shape of this version, and nothing of another one's."""
        result = reply["result"]
        parse_server_result("tools/call", version, result)
        assert result.get("resultType") == ("complete" if version == MODERN else None)
        assert set(result) <= {"content", "structuredContent", "isError", "resultType", "_meta"}
        assert ("_meta" in result) == (version == MODERN)
        return result

    def called(number: object, name: str, **arguments: object) -> dict[str, Any]:
        return result_of(ask("tools/call", number, name=name, arguments=arguments))

    with speaking(transport, version, store_path) as ask:
        appended = called(1, "lcm_append", session="s", entries=ENTRIES)
        assert appended["isError"] is False
        assert [block["type"] for block in appended["content"]] == ["text"]
        assert appended["structuredContent"]["refs"] == ["e1"]
        expanded = called("two", "lcm_expand", id="e1", session="s", include_payload=True)
        assert [block["type"] for block in expanded["content"]] == ["text", "image"]
        assert expanded["content"][1] == {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        assert PICTURE not in json.dumps([expanded["content"][0], expanded["structuredContent"]])
        wrong: dict[object, dict[str, object]] = {-3: {"id": "e99"}, 2**53: {"id": []}, "": {}}
        for number, arguments in wrong.items():
            failed = called(number, "lcm_expand", **arguments)
            assert failed["isError"] is True
            assert [block["type"] for block in failed["content"]] == ["text"]
            assert "structuredContent" not in failed
        refused = ask("tools/call", 0, name="lcm_nothing", arguments={})
        assert "result" not in refused
        assert refused["error"]["code"] == -32602
        assert refused["error"]["message"].startswith("There is no tool 'lcm_nothing'. The tools are ")
        assert called("again", "lcm_sessions")["structuredContent"]["total"] == 1
