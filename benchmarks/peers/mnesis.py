"""The adapter of mnesis, for a host with a model of its own: `record`, then `context_for_next_turn`.

A turn of it is what a user said and all that followed, tool calls and their results among the answer's
parts; it is recorded when the next one begins. Bulk goes through its store, since `record` makes a context
every time. It has no search. Summaries are made by a model behind litellm, which is given one that answers
at once.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.speaking import SUMMARY, Entry, Message, Missing, arguments_text, blocks_of, serve

MODEL: Final = "anthropic/claude-sonnet-4-5"
STUB: Final = "stub/stub"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network for prices

Turn = tuple[list[Any], list[Any]]
"""What a user said and what followed, as the library's parts."""


class Mnesis:
    async def open(self, folder: Path, window: int) -> None:
        self._models: Any = importlib.import_module("mnesis.models.message")
        library: Any = importlib.import_module("mnesis")
        logs: Any = importlib.import_module("structlog")
        logs.configure(wrapper_class=logs.make_filtering_bound_logger(30))  # warnings and worse
        self._turn: Turn = ([], [])
        self._calls: dict[str, Any] = {}
        self._name = folder / "session"
        settings = library.MnesisConfig(
            compaction=library.CompactionConfig(compaction_model=STUB),
            file=library.FileConfig(storage_dir=str(folder / "files")),
            model_overrides={"context_limit": window},
        )
        opened = {"config": settings, "db_path": str(folder / "memory.db")}
        sessions = library.MnesisSession
        if self._name.exists():
            self._session: Any = await sessions.load(self._name.read_text("ascii"), **opened)
        else:
            self._session = await sessions.create(model=MODEL, **opened)
            self._name.write_text(self._session.id, "ascii")

    async def ready(self) -> None:
        """Give litellm a model that answers at once."""
        litellm: Any = importlib.import_module("litellm")

        class Stub(litellm.CustomLLM):
            async def acompletion(self, *_: Any, **asked: Any) -> Any:
                return litellm.completion(model="gpt-4o", messages=[], mock_response=SUMMARY)

        litellm.custom_provider_map = [{"provider": "stub", "custom_handler": Stub()}]

    async def store(self, entries: Sequence[Entry]) -> None:
        for said, followed in [*self._finished(entries), *self._rest()]:
            await self._append("user", said)
            await self._append("assistant", followed)

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        for said, followed in self._finished(entries):
            await self._session.record(said, followed)
        return await self._session.context_for_next_turn()

    async def settle(self) -> None:
        for said, followed in self._rest():
            await self._session.record(said, followed)

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        """A host loads the session and records what is new: the library is never told a history again."""
        await self.turn(new)
        await self.settle()

    async def request(self) -> Sequence[Message]:
        return await self._session.context_for_next_turn()

    async def find(self, text: str) -> Sequence[Any]:
        raise Missing

    async def hits(self, found: Sequence[Any]) -> Sequence[tuple[str, str]]:
        raise Missing

    async def stored(self) -> Sequence[str]:
        messages = await self._session.conversation_messages()
        return [piece for message in messages for part in message.parts for piece in _pieces(part)]

    async def close(self) -> None:
        await self._session.close()

    def _finished(self, entries: Sequence[Entry]) -> Iterator[Turn]:
        """The turns that end with these rows: each text of a user begins another."""
        for entry in entries:
            for block in blocks_of(entry):
                if block["type"] == "text" and entry["role"] == "user" and self._turn[1]:
                    yield from self._rest()
                self._add(entry["role"], block)

    def _rest(self) -> Iterator[Turn]:
        turn, self._turn, self._calls = self._turn, ([], []), {}
        if any(turn):
            yield turn

    def _add(self, role: str, block: dict[str, Any]) -> None:
        said, followed = self._turn
        if block["type"] == "tool_use":
            named = {"tool_name": block["name"], "tool_call_id": block["id"]}
            call = self._calls[block["id"]] = self._models.ToolPart(**named, input=block["input"])
            followed.append(call)
        elif block["type"] == "tool_result" and block["tool_use_id"] in self._calls:
            call = self._calls[block["tool_use_id"]]
            call.output, call.status.state = block["content"], "completed"
        else:
            part = self._models.TextPart(text=block.get("text") or block.get("content") or "")
            (said if block["type"] == "text" and role == "user" else followed).append(part)

    async def _append(self, role: str, parts: Sequence[Any]) -> None:
        """What `record` does, without the contexts it makes."""
        session: Any = importlib.import_module("mnesis.session")
        immutable: Any = importlib.import_module("mnesis.store.immutable")
        store = self._session._store
        message = self._models.Message(id=session.make_id("msg"), session_id=self._session.id, role=role)
        await store.append_message(message)
        for part in parts:
            raw = immutable.RawMessagePart(
                id=session.make_id("part"),
                message_id=message.id,
                session_id=self._session.id,
                part_type=part.type,
                content=json.dumps(part.model_dump()),
            )
            await store.append_part(raw)


def _pieces(part: Any) -> Sequence[str]:
    if part.type == "tool":
        return [arguments_text(part.input), part.output or ""]
    return [getattr(part, "text", "")]


if __name__ == "__main__":
    serve(Mnesis())
