"""A memory for the benchmark of memories to see through.

It knows texts by their content, finds no CJK, ends at a NUL, and gives results without their calls.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.speaking import Entry, Message, Missing, openai_messages, serve


class Forgetful:
    async def open(self, folder: Path, window: int) -> None:
        self._file = folder / "memory"
        self._texts = self._file.read_text("utf-8").split("\0") if self._file.exists() else []

    async def ready(self) -> None:
        pass

    async def store(self, entries: Sequence[Entry]) -> None:
        for message in (message for entry in entries for message in openai_messages(entry)):
            text = str(message["content"])
            if "\0" in text:
                os._exit(1)
            if text not in self._texts:
                self._texts.append(text)

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        await self.store(entries)
        return await self.request()

    async def settle(self) -> None:
        pass

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        self._texts += [str(message["content"]) for entry in history for message in openai_messages(entry)]

    async def request(self) -> Sequence[Message]:
        return [{"role": "tool", "tool_call_id": "gone", "content": self._texts[-1][:4]}]

    async def find(self, text: str) -> Sequence[str]:
        if text == "the":
            raise Missing
        return [each for each in self._texts if text in each and text.isascii()][:20]

    async def hits(self, found: Sequence[str]) -> Sequence[tuple[str, str]]:
        return [(text, text[:5]) for text in found]

    async def stored(self) -> Sequence[str]:
        return self._texts

    async def close(self) -> None:
        self._file.write_text("\0".join(self._texts), "utf-8", errors="replace")


if __name__ == "__main__":
    serve(Forgetful())
