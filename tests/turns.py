"""Conversations of exact sizes, and a summarizer whose every call is known, for examples of compaction.

A row weighs a quarter of its bytes and 12 tokens. All rows made here have whole tokens, so the size of a
history is the sum of the figures it was made with.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import apsw
from asking import View, prepared
from histories import Entry, a_call, a_result, entry
from histories import said as text_block

from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.settings import load_settings
from lcm_mcp.summarizers.model import Answer, FoldSource, NodesSource, Request, RowsSource, Summarizer

KEY = "talk"
INPUT = 12
CALL = 18
"""Tokens of a call made by `work`."""


def words(name: str, size: int) -> str:
    """A text of exactly so many bytes that begins with its name."""
    assert size > len(name)
    return (f"{name} " + "so it was said, " * (size // 16 + 1))[: size - 1] + "."


def said(role: str, name: str, tokens: int) -> Entry:
    return entry(role, words(name, 4 * (tokens - INPUT)))


def turn(name: str, tokens: int = 200) -> list[Entry]:
    """A request and an answer, half of the tokens each."""
    return [said("user", f"{name} asked", tokens // 2), said("assistant", f"{name} answered", tokens // 2)]


def turns(first: int, last: int, tokens: int = 200) -> list[Entry]:
    """Turns by their numbers, both included; turn n is rows 2n-1 and 2n where nothing else was said."""
    return [row for number in range(first, last + 1) for row in turn(f"turn {number}", tokens)]


def work(number: int, tokens: int) -> list[Entry]:
    """A round: a call and its result."""
    call_id = f"c{number:03}"
    output = words(f"output {number}", 4 * (tokens - CALL - INPUT) - len(call_id) - 2)
    return [
        entry("assistant", [a_call(call_id, {"command": "ls"})]),
        entry("tool", [a_result(call_id, [text_block(output)], False)]),
    ]


@dataclass(slots=True)
class Writer:
    """Writes "summary 1 …", "summary 2 …", of these sizes in turn (in tokens); keeps what it was asked.

    The calls numbered in `failing` fail; each call waits for `gate` and `seconds` once it has told `reached`.
    """

    tokens: Sequence[int] = (40,)
    failing: Container[int] = ()
    gate: anyio.Event | None = None
    seconds: float = 0
    reached: anyio.Event = field(default_factory=anyio.Event)
    asked: list[Request] = field(default_factory=list[Request])
    name: str = "writer"

    async def summarize(self, request: Request) -> Answer:
        self.asked.append(request)
        number = len(self.asked)
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        await anyio.sleep(self.seconds)
        if number in self.failing:
            raise SummarizerFailed(self.name, "no network")
        size = self.tokens[(number - 1) % len(self.tokens)]
        return Answer(words(f"summary {number}", 4 * size), self.name)

    @property
    def sources(self) -> list[list[str]]:
        """What each call was given: spans of summaries, then rows by their address."""
        return [_addresses(request) for request in self.asked]


def _addresses(request: Request) -> list[str]:
    match request.source:
        case RowsSource(rows):
            return [f"e{row.seq}" for row in rows]
        case NodesSource(children):
            return [child.span for child in children]
        case FoldSource(children, rows):
            return [*(child.span for child in children), *(f"e{row.seq}" for row in rows)]


def rows(first: int, last: int) -> list[str]:
    return [f"e{seq}" for seq in range(first, last + 1)]


@asynccontextmanager
async def using(
    path: Path, *chain: Summarizer, settings: Mapping[str, object] | None = None
) -> AsyncGenerator[Service]:
    """The use cases over the store at that path, with these summarizers."""
    made = Service.open(load_settings({"db": str(path), **(settings or {})}, {}))
    try:
        yield Service(replace(made.work, chain=chain))
    finally:
        await made.close()


async def ask(service: Service, window: int | None = 2000, **more: Any) -> View:
    """Prepare the next request of the one session."""
    return await prepared(service, PrepareQuery(KEY, window_tokens=window, **more))


def shown(view: View) -> list[str]:
    """Every text of the request, in order."""
    blocks = [block for message in view.messages for block in _list(message.body["content"])]
    return [str(block.get("text", block)) for block in blocks]


def _list(content: Any) -> list[dict[str, object]]:
    return [{"text": content}] if isinstance(content, str) else content


def blocks(view: View) -> list[str]:
    """What stands before the tail, block by block: how it opens, what is told, how it closes."""
    return shown(view)[0].split("\n\n")


def kinds(view: View) -> list[str]:
    return [section.kind for section in view.observation.sections]


async def count(service: Service, table: str) -> int:
    def read(db: apsw.Connection) -> int:
        found: int = db.execute(f"SELECT count(*) FROM {table}").get
        return found

    return await service.work.store.read(read)


def plain(entries: Sequence[Entry]) -> list[str]:
    """The texts of rows as they were said."""
    return [str(made["content"]) for made in entries]
