"""The adapter of this project: the use cases behind the tools, by default settings, in the loop of docs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

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
        self._held: list[Message] = []
        self._name: str | None = None
        self._window = 0

    async def open(self, folder: Path, window: int) -> None:
        self._window = window
        settings = Settings(db=folder / "memory.sqlite")
        self._service = Service(Workplace(Store.open(settings.db), settings, (Stub(),)))

    async def ready(self) -> None:
        pass

    async def store(self, entries: Sequence[Entry]) -> None:
        await self._service.append(KEY, _plain(entries))
        await self._service.index()

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        return await self._advance(entries)

    async def settle(self) -> None:
        await self._service.index()

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        await self.turn([*history, *new])

    async def request(self) -> Sequence[Message]:
        self._name = None
        return await self.turn(())

    async def find(self, text: str) -> Sequence[HitPage]:
        return [await self._service.grep(GrepQuery(text, session=KEY, limit=HITS))]

    async def hits(self, found: Sequence[HitPage]) -> Sequence[tuple[str, str]]:
        rows = [(int(hit.ref.removeprefix("e")), hit) for hit in found[0].hits if hit.kind == "row"]
        return [("\n".join(_pieces((await self._rows(seq, seq))[0])), hit.snippet) for seq, hit in rows]

    async def stored(self) -> Sequence[str]:
        return [piece for row in await self._rows(1, None) for piece in _pieces(row)]

    async def close(self) -> None:
        await self._service.close()

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

    async def _rows(self, first: int, last: int | None) -> Sequence[Row]:
        def read(db: apsw.Connection) -> Sequence[Row]:
            session = sessions.find_by_key(db, KEY)
            assert session is not None
            seqs = RowPath(db, session.id, session.leaf).between(Seq(first), Seq(last or session.leaf))
            return list(store.read_rows(db, session.id, seqs, images=False))

        return await self._service.work.store.read(read)


def _plain(entries: Sequence[Entry]) -> list[Entry]:
    """Without the driver's own mark."""
    return [{key: value for key, value in entry.items() if key != "odd"} for entry in entries]


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
