"""The adapter of openlcm, as its README drives it: `messages = await engine.compress(messages)` each turn.

The host holds the list of messages, which the library gives back shortened; it is kept beside the database,
as a host that ends would. Bulk goes through MessageStore.append_batch, the library's fastest way in.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.speaking import HITS, SUMMARY, Entry, Message, arguments_text, openai_messages, serve

KEY: Final = "talk"
ENDLESS: Final = 10**9


async def summarize(prompt: str, max_tokens: int) -> str:
    return SUMMARY[: max_tokens * 4]


class OpenLcm:
    async def open(self, folder: Path, window: int) -> None:
        library: Any = importlib.import_module("openlcm")
        self._engine: Any = library.LCMEngine(summarize_fn=summarize, db_path=folder / "memory.db")
        self._engine.bind_session(KEY, context_length=window)
        stores: Any = importlib.import_module("openlcm.core.store")
        self._rows: Any = stores.MessageStore(folder / "memory.db")
        self._list = folder / "messages.json"
        kept = self._list.exists()
        self._held: list[Message] = json.loads(self._list.read_text("ascii")) if kept else []

    async def ready(self) -> None:
        pass

    async def store(self, entries: Sequence[Entry]) -> None:
        messages = [message for entry in entries for message in openai_messages(entry)]
        self._rows.append_batch(KEY, messages)
        self._held += messages

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        self._held += [message for entry in entries for message in openai_messages(entry)]
        self._held = await self._engine.compress(self._held)
        return self._held

    async def settle(self) -> None:
        pass

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        self._held = []
        await self.turn([*history, *new])

    async def request(self) -> Sequence[Message]:
        return await self.turn(())

    async def find(self, text: str) -> Sequence[Any]:
        told = self._engine.handle_tool_call("lcm_grep", {"query": text, "limit": HITS})
        return json.loads(told).get("results", [])

    async def hits(self, found: Sequence[Any]) -> Sequence[tuple[str, str]]:
        rows = [
            (self._rows.get(hit["store_id"]), hit["snippet"]) for hit in found if hit["type"] == "message"
        ]
        return [("\n".join(_pieces(row)), snippet) for row, snippet in rows]

    async def stored(self) -> Sequence[str]:
        rows = self._rows.get_session_messages(KEY, limit=ENDLESS)
        return [piece for row in rows for piece in _pieces(row)]

    async def close(self) -> None:
        self._list.write_text(json.dumps(self._held), "ascii")
        self._rows.close()


def _pieces(row: dict[str, Any]) -> Iterator[str]:
    yield row["content"] or ""
    calls: Any = row["tool_calls"] or []
    for call in json.loads(calls) if isinstance(calls, str) else calls:
        yield arguments_text(json.loads(call["function"]["arguments"]))


if __name__ == "__main__":
    serve(OpenLcm())
