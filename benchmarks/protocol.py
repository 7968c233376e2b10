"""What the tools add to a call of a tool that does nothing, on every transport; cold start; memory.

The no-op stands in a server of the SDK that has nothing else, in a process like ours, and is called in turns
with the tool. So is a tool that gives the very answer and does nothing for it: what carrying and checking an
answer costs is the SDK's and the client's. Times are the client's, from the call to the answer. All calls
are gone through several times, and of each counts the time in which the no-op was fastest: a shared machine
may be half as fast a minute later. A cold start is from the start of the process to the list of its tools, as
clients ask for it; CPU stands beside it.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp_types import CallToolResult

from benchmarks.building import LEAF_TOKENS, Corpus
from benchmarks.empty import NO_OP, Canned, canned_name, empty_server, write_canned
from benchmarks.filling import serving
from benchmarks.generating import IDENTIFIER, WHALE
from benchmarks.table import Figure, Floor, Table
from lcm_mcp.server import build_server

Transport = Literal["memory", "stdio", "sse", "http"]
TRANSPORTS: Final[tuple[Transport, ...]] = ("memory", "stdio", "sse", "http")
STRETCHES: Final = 5
"""How often all calls are gone through."""
MOST_ADDED_MS: Final = 1.0
MOST_RESIDENT_MB: Final = 150.0
_HELLO: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "b", "version": "1"},
}
_EMPTY: Final = [sys.executable, "-m", "benchmarks.empty"]

Call = tuple[str, str, Mapping[str, object], float | None]
"""What a call is called, its tool, its arguments, and the most milliseconds it may add."""
Pair = tuple[float, float]
"""Milliseconds of a tool and of its floor."""


def calls(newest: str) -> Sequence[Call]:
    everywhere = {"session": "*"}
    return (
        ("lcm_grep, rare", "lcm_grep", {"pattern": WHALE, **everywhere}, MOST_ADDED_MS),
        ("lcm_grep, identifier", "lcm_grep", {"pattern": IDENTIFIER, **everywhere}, MOST_ADDED_MS),
        ("lcm_grep, common", "lcm_grep", {"pattern": "the ", **everywhere}, MOST_ADDED_MS),
        ("lcm_expand, a row", "lcm_expand", {"id": "e100", "session": newest}, MOST_ADDED_MS),
        ("lcm_describe, a row", "lcm_describe", {"id": "e100", "session": newest}, MOST_ADDED_MS),
        ("lcm_list", "lcm_list", {"session": newest, "limit": 10}, MOST_ADDED_MS),
        ("lcm_sessions", "lcm_sessions", {"project": "*", "limit": 10}, MOST_ADDED_MS),
    )


async def round_trips(table: Table, corpus: Corpus, rounds: int) -> None:
    """Each reading tool on each transport, in turns with its answer and the no-op."""
    every = calls(corpus.newest)
    for transport in TRANSPORTS:
        async with _ours(transport, corpus.db) as client:
            answers = [await client.call_tool(tool, dict(given)) for _, tool, given, _ in every]
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            canned = [(listed[tool], answer) for (_, tool, _, _), answer in zip(every, answers, strict=True)]
            async with _empty(transport, canned) as empty:
                taken = [
                    [
                        await _beside(client, empty, place, call, max(1, rounds // 2))
                        for place, call in enumerate(every)
                    ]
                    for _ in range(STRETCHES)
                ]
        for (name, _, _, most), stretches in zip(every, zip(*taken, strict=True), strict=True):
            fastest = min(stretches, key=lambda pairs: pairs[0][1])
            for floor, (ours, least) in zip(("a no-op", "its answer"), fastest, strict=True):
                told, added = f"{transport}: {name} adds", max(0.0, ours - least)
                beside = Floor(f"{floor}'s round trip", least)
                table.add(Figure(told, corpus.rows, added, "ms", beside, most))


async def _beside(client: Client, empty: Client, place: int, call: Call, rounds: int) -> Sequence[Pair]:
    """A tool beside the no-op, and beside its answer: a third call in turns would warm the caches for one of
    the two alone."""
    ours = _call(client, call[1], call[2])
    return [await _in_turns(rounds, ours, _call(empty, name, {})) for name in (NO_OP, canned_name(place))]


def cold_start(table: Table, corpus: Corpus, rounds: int) -> None:
    """From nothing to the list of tools, and to a first call's answer, beside an empty server of the SDK."""
    commands = _command(corpus.db, stdio=True), _EMPTY
    for name, calls, most in (
        ("cold start", (None, None), 1.15),
        ("cold start and a call", ("lcm_sessions", NO_OP), None),
    ):
        taken: tuple[list[float], list[float]] = ([], [])
        spent: tuple[list[float], list[float]] = ([], [])
        for turn in range(rounds + 1):
            for place, command in enumerate(commands):
                began, before = time.perf_counter(), _children_s()
                _greet(command, calls[place])
                if turn:
                    taken[place].append((time.perf_counter() - began) * 1000)
                    spent[place].append((_children_s() - before) * 1000)
        for told, (ours, least) in ((name, taken), (f"{name}, CPU", spent)):
            floor = Floor("empty server of the SDK", median(least), most)
            table.add(Figure(told, corpus.rows, median(ours), "ms", floor))


async def memory(table: Table, corpus: Corpus, rounds: int) -> None:
    """The most memory that a server over HTTP had, after every reading tool was called again and again."""
    with _process(_command(corpus.db)) as (port, process):
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            for _ in range(rounds):
                for _, tool, arguments, _ in calls(corpus.newest):
                    await _call(client, tool, arguments)()
        status = Path(f"/proc/{process.pid}/status")
        if status.exists():
            most = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
            assert most is not None
            table.add(
                Figure("resident memory", corpus.rows, int(most[1]) / 1024, "MB", None, MOST_RESIDENT_MB)
            )


@asynccontextmanager
async def _ours(transport: Transport, db: Path) -> AsyncGenerator[Client]:
    if transport == "memory":
        async with serving(db, LEAF_TOKENS) as service, Client(build_server(service)) as client:
            yield client
    else:
        async with _connected(transport, _command(db, stdio=transport == "stdio")) as client:
            yield client


@asynccontextmanager
async def _empty(transport: Transport, canned: Canned) -> AsyncGenerator[Client]:
    """A client of a server that has the no-op and these answers."""
    if transport == "memory":
        async with Client(empty_server(canned)) as client:
            yield client
        return
    with TemporaryDirectory() as folder:
        kept = Path(folder) / "canned.json"
        write_canned(kept, canned)
        how = "stdio" if transport == "stdio" else "http"
        async with _connected(transport, [*_EMPTY, how, str(kept)]) as client:
            yield client


@asynccontextmanager
async def _connected(transport: Transport, command: Sequence[str]) -> AsyncGenerator[Client]:
    if transport == "stdio":
        program, *arguments = command
        async with Client(StdioServerParameters(command=program, args=arguments)) as client:
            yield client
        return
    with _process(command) as (port, _):
        at = f"http://127.0.0.1:{port}"
        async with Client(sse_client(f"{at}/sse") if transport == "sse" else f"{at}/mcp") as client:
            yield client


@contextmanager
def _process(command: Sequence[str]) -> Generator[tuple[int, subprocess.Popen[str]]]:
    """A server over HTTP, and the port that it names."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://[\d.]+:(\d+)/mcp", process.stderr.readline())
            assert found is not None
            yield int(found[1]), process
        finally:
            process.kill()


def _command(db: Path, *, stdio: bool = False) -> list[str]:
    run = [sys.executable, "-m", "lcm_mcp", "--db", str(db), "serve"]
    return run if stdio else [*run, "--transport", "http", "--port", "0"]


def _greet(command: Sequence[str], tool: str | None) -> None:
    """Start a server, as clients do: initialize, the list of its tools, and one of them where it is named."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        _ask(process, "initialize", _HELLO)
        _ask(process, "tools/list", {})
        if tool is not None:
            _ask(process, "tools/call", {"name": tool, "arguments": {}})
        process.kill()


def _ask(process: subprocess.Popen[bytes], method: str, params: Mapping[str, object]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    asked = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    assert "result" in json.loads(process.stdout.readline())


def _call(client: Client, tool: str, arguments: Mapping[str, object]) -> Callable[[], Awaitable[None]]:
    given: dict[str, Any] = dict(arguments)

    async def call() -> None:
        result = await client.call_tool(tool, given)
        assert isinstance(result, CallToolResult)
        assert not result.is_error

    return call


async def _in_turns(rounds: int, *calls: Callable[[], Awaitable[None]]) -> Pair:
    """Median milliseconds of two calls, after one round unmeasured."""
    taken: Final[tuple[list[float], list[float]]] = ([], [])
    for turn in range(rounds + 1):
        for times, call in zip(taken, calls, strict=True):
            began = time.perf_counter()
            await call()
            if turn:
                times.append((time.perf_counter() - began) * 1000)
    return median(taken[0]), median(taken[1])


def _children_s() -> float:
    """CPU seconds of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
