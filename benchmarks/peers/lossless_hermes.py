"""The adapter of lossless-hermes-py, as its README drives it: `compress` once `should_compress` says so.

The host holds the list of messages and counts its tokens with the library's own estimate. What is not
compressed yet is stored when the session ends. A search that finds nothing is asked again in the library's
other mode.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.speaking import HITS, SUMMARY, Entry, Message, openai_messages, serve

KEY: Final = "talk"
_MODES: Final = ("full_text", "regex")


async def call_model(**asked: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": SUMMARY[: asked["max_tokens"] * 4]}}]}


class LosslessHermes:
    async def open(self, folder: Path, window: int) -> None:
        self._library: Any = importlib.import_module("lossless_hermes")
        settings = {"database_path": str(folder / "memory.db"), "large_files_dir": str(folder / "files")}
        self._engine: Any = self._library.LcmContextEngine(
            config_context_length=window, plugin_config=settings
        )
        self._engine.call_llm_fn = call_model
        self._engine.on_session_start(KEY)
        self._held: list[Message] = []
        self._tokens = 0

    async def ready(self) -> None:
        pass

    async def store(self, entries: Sequence[Entry]) -> None:
        self._engine.on_session_end(KEY, _messages(entries))
        self._engine.on_session_start(KEY)

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        new = _messages(entries)
        self._held += new
        self._tokens += self._library.estimate_messages_tokens(new)
        if self._engine.should_compress(self._tokens):
            self._held = self._engine.compress(self._held, self._tokens)
            self._tokens = self._library.estimate_messages_tokens(self._held)
        return self._held

    async def settle(self) -> None:
        self._engine.on_session_end(KEY, self._held)
        self._engine.on_session_start(KEY)

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        self._held = []
        await self.turn([*history, *new])
        await self.settle()

    async def request(self) -> Sequence[Message]:
        return self._engine.compress([], 0)

    async def find(self, text: str) -> Sequence[Any]:
        for mode in _MODES:
            asked = {"query": text, "limit": HITS, "mode": mode}
            found = json.loads(self._engine.handle_tool_call("lcm_grep", asked)).get("results", [])
            if found:
                return found
        return []

    async def hits(self, found: Sequence[Any]) -> Sequence[tuple[str, str]]:
        read = "SELECT content FROM messages WHERE message_id = ?"
        rows = self._engine.conversation_store.db
        return [
            (rows.execute(read, (int(hit["id"]),)).fetchone()[0], hit["snippet"])
            for hit in found
            if hit["type"] == "message"
        ]

    async def stored(self) -> Sequence[str]:
        store = self._engine.conversation_store
        rows = store.get_messages_by_conversation(self._engine.current_conversation_id)
        return [row.content for row in rows]

    async def close(self) -> None:
        self._library.close_database()


def _messages(entries: Sequence[Entry]) -> list[Message]:
    return [message for entry in entries for message in openai_messages(entry)]


if __name__ == "__main__":
    serve(LosslessHermes(), waits=False)
