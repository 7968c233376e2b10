"""The adapter of this project: the use cases behind the tools, with the defaults, held as docs/agent-loops.md says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import apsw

from benchmarks.peers.speaking import HITS, SUMMARY, Entry, Message, arguments_text, serve
from lcm_mcp.ids import Seq
from lcm_mcp.service import Service
from lcm_mcp.service.answers import HitPage
from lcm_mcp.service.prepared import Prepared
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.model import Answer, Request
from lcm_mcp.tokens import BYTES_PER_TOKEN
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.model import Row, Text, ToolCall, ToolResult
from lcm_mcp.transcript.path import Path as RowPath

KEY: Final = "talk"
FORMAT: Final = "openai"


class Stub:
    """The summarizer that every library is given; never longer than was asked for."""

    name = "stub"

    async def summarize(self, request: Request) -> Answer:
        return Answer(SUMMARY[: request.target_tokens * BYTES_PER_TOKEN], self.name)


class Ours:
    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._open = AsyncExitStack()
        self._held: list[Message] = []
        self._name: str | None = None
        self._window = 0

    def open(self, folder: Path, window: int) -> None:
        self._window = window
        settings = Settings(db=folder / "memory.sqlite")
        self._service = Service(Workplace(Store.open(settings.db), settings, (Stub(),)))

    def ready(self) -> None:
        pass

    def store(self, entries: Sequence[Entry]) -> None:
        async def store() -> None:
            await self._service.append(KEY, _plain(entries))
            await self._service.index()

        self._run(store())

    def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        return self._run(self._advance(entries))

    def settle(self) -> None:
        self._run(self._service.index())

    def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        self.turn([*history, *new])

    def request(self) -> Sequence[Message]:
        self._name = None
        return self.turn(())

    def find(self, text: str) -> Sequence[HitPage]:
        return [self._run(self._service.grep(GrepQuery(text, session=KEY, limit=HITS)))]

    def hits(self, found: Sequence[HitPage]) -> Sequence[tuple[str, str]]:
        rows = [(int(hit.ref.removeprefix("e")), hit) for hit in found[0].hits if hit.kind == "row"]
        return [("\n".join(_pieces(self._rows(seq, seq)[0])), hit.snippet) for seq, hit in rows]

    def stored(self) -> Iterator[str]:
        for row in self._rows(1, None):
            yield from _pieces(row)

    def close(self) -> None:
        self._run(self._service.close())
        self._loop.close()

    async def _advance(self, entries: Sequence[Entry]) -> Sequence[Message]:
        """Append and prepare in one call, be given what is new, and put it to what is held."""
        query = PrepareQuery(
            KEY, append=_plain(entries), have=self._name, window_tokens=self._window, format=FORMAT
        )
        pages = [await self._service.prepare(query)]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await self._service.prepare(PrepareQuery(KEY, cursor=cursor, format=FORMAT)))
        self._name = pages[0].prepared
        messages = self._held[pages[0].omit : pages[0].omit + pages[0].keep]
        for index, message in _given(pages):
            messages.insert(index, message)
        self._held = messages
        return messages

    def _rows(self, first: int, last: int | None) -> Sequence[Row]:
        def read(db: apsw.Connection) -> Sequence[Row]:
            session = sessions.find_by_key(db, KEY)
            assert session is not None
            seqs = RowPath(db, session.id, session.leaf).between(Seq(first), Seq(last or session.leaf))
            return list(store.read_rows(db, session.id, seqs, images=False))

        return self._run(self._service.work.store.read(read))

    def _run(self, call: Any) -> Any:
        return self._loop.run(_awaited(call))


def _plain(entries: Sequence[Entry]) -> list[Entry]:
    """Without the driver's own mark."""
    return [{key: value for key, value in entry.items() if key != "odd"} for entry in entries]


async def _awaited(call: Awaitable[Any]) -> Any:
    return await call


def _given(pages: Sequence[Prepared]) -> Iterator[tuple[int, Message]]:
    """The messages of the pages with their places; one too large for a page comes in pieces of its JSON."""
    pieces = ""
    for page in pages:
        for place, shown in enumerate(page.messages, page.first_message):
            yield place, dict(shown.message)
        for shown in page.insert:
            yield shown.index, dict(shown.message)
        if page.fragment is not None:
            pieces += page.fragment.json
            if len(pieces) == page.fragment.total:
                yield page.fragment.index, json.loads(pieces)
                pieces = ""


def _pieces(row: Row) -> Iterator[str]:
    for part in row.parts:
        match part:
            case Text(text):
                yield text
            case ToolCall():
                yield arguments_text(part.arguments)
            case ToolResult(_, content):
                yield "\n".join(piece.text for piece in content if isinstance(piece, Text))
            case _:
                pass


if __name__ == "__main__":
    serve(Ours())
