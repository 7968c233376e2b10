"""Connections for tests: clients of the SDK on every transport in both eras, and scripts piped into stdio.

Every transport but memory has its server in a process of its own, where a warning is an error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from harbour import memory
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp_types import CallToolResult, TextContent

from lcm_mcp.server import build_server

Era = Literal["auto", "legacy"]
Transport = Literal["memory", "stdio", "sse", "http"]
ERAS: tuple[Era, ...] = ("auto", "legacy")
TRANSPORTS: tuple[Transport, ...] = ("memory", "stdio", "sse", "http")


def command(db: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "lcm_mcp", "--db", str(db), "serve", *arguments]


@contextmanager
def serving(
    db: Path, *arguments: str, before: str = "", **environment: str
) -> Generator[tuple[int, subprocess.Popen[str]]]:
    """A server over HTTP in a process of its own, and its port; before is Python that it runs first."""
    run = command(db, "--transport", "http", "--port", "0", *arguments)
    if before:
        program = f"{before}\nfrom lcm_mcp.cli import main\nmain({run[5:]!r})"
        run = [*run[:3], "-c", program]
    with subprocess.Popen(
        run, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as running:
        assert running.stderr is not None
        told = running.stderr.readline()
        found = re.search(r"http://[\d.]+:(\d+)/mcp", told)
        try:
            assert found is not None, told + running.stderr.read()
            yield int(found[1]), running
        finally:
            running.kill()


@asynccontextmanager
async def connected(transport: Transport, era: Era, db: Path) -> AsyncGenerator[Client]:
    match transport:
        case "memory":
            async with memory(db) as service, Client(build_server(service), mode=era) as client:
                yield client
        case "stdio":
            program, *arguments = command(db)
            async with Client(StdioServerParameters(command=program, args=arguments), mode=era) as client:
                yield client
        case "sse":
            with serving(db) as (port, _):
                async with Client(sse_client(f"http://127.0.0.1:{port}/sse"), mode=era) as client:
                    yield client
        case "http":
            with serving(db) as (port, _):
                async with Client(f"http://127.0.0.1:{port}/mcp", mode=era) as client:
                    yield client


async def asked(client: Client, name: str, **arguments: object) -> CallToolResult:
    result = await client.call_tool(name, dict(arguments))
    assert isinstance(result, CallToolResult)
    return result


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def answered(client: Client, name: str, **arguments: object) -> dict[str, Any]:
    result = await asked(client, name, **arguments)
    assert not result.is_error, text(result)
    assert text(result)
    return cast("dict[str, Any]", result.structured_content)


# --- the wire itself

_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def line(method: str, params: object, number: int | None = None) -> str:
    numbered = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **numbered}) + "\n"


OPENING = line("initialize", _HELLO, 0) + line("notifications/initialized", {})


def tool(number: int, name: str, **arguments: object) -> str:
    return line("tools/call", {"name": name, "arguments": arguments}, number)


def piped(
    db: Path, script: str, *arguments: str
) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[bytes]]:
    """Everything the server wrote, each line of stdout being a message, for a script that then ends."""
    ended = subprocess.run(command(db, *arguments), input=script.encode(), capture_output=True, timeout=60)
    messages = [json.loads(written) for written in ended.stdout.splitlines()]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return messages, ended
