"""One store under load: servers on stdio and one over HTTP, each in a process of its own, and their clients.

`python -m benchmarks.load [--minutes M] [--calls N] [--seed S] [--json FILE]` fills a store, lets all
clients append, search and prepare at once, as fast as they are answered (or with a pause between calls),
and then reads the file: what was acknowledged must be there once and in order. It prints tables in
Markdown. A call that failed, a row that is lost and a doctor that finds fault end it with exit code 1;
times are only told.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from anyio.abc import TaskStatus
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

from benchmarks.building import LEAF_TOKENS
from benchmarks.filling import serving
from benchmarks.generating import key_of, write_sessions
from benchmarks.held import check
from benchmarks.loading import Loader, Told, Way
from benchmarks.tallying import Report, tables
from benchmarks.watching import Watch, children_serving
from lcm_mcp.service.memory import fold_memory
from lcm_mcp.transcript import sessions

STARTING_S: Final = 60.0
LOOKS: Final = 300
_MANY: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much load: the clients of each way, the calls that each makes at most, and for how long."""

    stdio: int
    connections: int
    rows: int
    seed: int
    minutes: float
    calls: int
    pause: float

    @property
    def ways(self) -> list[Way]:
        """Each client's way, in the order of their numbers."""
        over_http: tuple[Way, Way] = ("sse", "http")
        stdio: list[Way] = ["stdio"] * self.stdio
        return [*stdio, *(over_http[number % 2] for number in range(self.connections))]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Load one store through several servers at once.")
    parser.add_argument("--stdio", type=int, default=4, help="servers on stdio, each with its client")
    parser.add_argument("--connections", type=int, default=50, help="to one HTTP server, SSE and streamable")
    parser.add_argument("--rows", type=int, default=20_000, help="stored before")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--calls", type=int, default=_MANY, help="of each client, at most")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a client thinks after a call")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="on the disk that is meant; a temporary one otherwise")
    parser.add_argument("--json", type=Path, help="where the figures are written too")
    asked = parser.parse_args(arguments)
    plan = Plan(
        asked.stdio, asked.connections, asked.rows, asked.seed, asked.minutes, asked.calls, asked.pause
    )
    with TemporaryDirectory(prefix="lcm-load-", dir=asked.folder) as folder:
        report = anyio.run(load, plan, Path(folder))
    print(*tables(report), sep="\n")
    if asked.json is not None:
        asked.json.write_text(json.dumps(report.for_a_program(), indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if report.held else 1)


async def load(plan: Plan, folder: Path) -> Report:
    """Fill a store in this folder, load it, end every server, and read what is there."""
    db = folder / "loaded.sqlite"
    stored = await _filled(db, plan.rows, plan.seed)
    told = [Told(way) for way in plan.ways]
    began = ended = time.monotonic()
    watch = Watch(db, {})
    with _http_server(db, folder / "http.log") as (at, server):
        async with anyio.create_task_group() as clients:
            loaders = [
                await clients.start(_client, plan, number, each, at, db, stored)
                for number, each in enumerate(told)
            ]
            watch = Watch(db, _names(db, server.pid))
            began = time.monotonic()
            async with anyio.create_task_group() as looking:
                looking.start_soon(watch.look_on, max(0.2, plan.minutes * 60 / LOOKS))
                async with anyio.create_task_group() as working:
                    for loader in loaders:
                        working.start_soon(loader.work, plan.calls, began + plan.minutes * 60, plan.pause)
                ended = time.monotonic()
                watch.look()
                looking.cancel_scope.cancel()
            for loader in loaders:
                loader.leave.set()
        server.send_signal(signal.SIGTERM)
        code = await anyio.to_thread.run_sync(server.wait)
    logs = "".join(log.read_text(encoding="utf-8") for log in sorted(folder.glob("*.log")))
    held = await check(db, told)
    return Report(told, began, ended, watch, held, code, _faults_in(logs))


async def _filled(db: Path, rows: int, seed: int) -> list[str]:
    """A store of so many imported, indexed rows; the keys of its sessions."""
    async with serving(db, LEAF_TOKENS) as service:
        with TemporaryDirectory(prefix="lcm-load-") as folder:
            for file in write_sessions(Path(folder), rows, seed):
                await service.import_file(file, "neutral", fold=False, follow=False)
        found = await service.work.store.read(sessions.find_by_key, key_of(0))
        assert found is not None
        await fold_memory(service.work, found.id)
        await service.index()
        every = await service.work.store.read(lambda db: list(sessions.every(db)))
        return [session.key for session in every]


async def _client(
    plan: Plan,
    number: int,
    told: Told,
    at: str,
    db: Path,
    stored: list[str],
    *,
    task_status: TaskStatus[Loader],
) -> None:
    """Be connected until the loader is told to leave."""
    with anyio.fail_after(STARTING_S) as starting:
        async with _connected(told.way, at, db, number) as client:
            starting.deadline = float("inf")
            loader = Loader(number, client, told, plan.seed, stored)
            task_status.started(loader)
            await loader.leave.wait()


@asynccontextmanager
async def _connected(way: Way, at: str, db: Path, number: int) -> AsyncGenerator[Client]:
    match way:
        case "stdio":
            program, *arguments = _command(db)
            served = StdioServerParameters(command=program, args=arguments)
            with db.with_name(f"stdio-{number}.log").open("w", encoding="utf-8") as log:
                async with Client(stdio_client(served, errlog=log)) as client:
                    yield client
        case "sse":
            async with Client(sse_client(f"{at}/sse")) as client:
                yield client
        case "http":
            async with Client(f"{at}/mcp") as client:
                yield client


@contextmanager
def _http_server(db: Path, log: Path) -> Generator[tuple[str, Popen[bytes]]]:
    """A server over HTTP in a process of its own, and where it is."""
    command = [*_command(db), "--transport", "http", "--port", "0"]
    with log.open("wb") as errors, Popen(command, stdin=DEVNULL, stderr=errors) as server:
        try:
            until = time.monotonic() + STARTING_S
            while "/mcp" not in (said := log.read_text(encoding="utf-8")):
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"The server did not start: {said}")
                time.sleep(0.05)
            yield said.partition("serves ")[2].partition("/mcp")[0], server
        finally:
            server.kill()


def _command(db: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "lcm_mcp", "--db", str(db), "serve"]


def _names(db: Path, http: int) -> dict[int, str]:
    """The servers by their process."""
    others = [each for each in children_serving(db) if each != http]
    return {**{each: f"stdio {number}" for number, each in enumerate(others, 1)}, http: "HTTP"}


def _faults_in(logs: str) -> list[str]:
    """What the servers said on stderr beside their greeting."""
    return [line for line in logs.splitlines() if line and not line.startswith("lcm-mcp serves http://")]


if __name__ == "__main__":
    main()
