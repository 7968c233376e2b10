"""An adapter's side of the pipe: what a library is asked to do, and how its answers are counted.

A line in, a line out, both JSON. Runs in the environment of any library, so it imports nothing but Python's
own modules. Times are taken around the adapter's calls, so they hold what it translates; counting is not in
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

Entry = dict[str, Any]
Message = dict[str, Any]

SUMMARY: Final = ("Work went on as before. " * 100)[:2_400]
"""What every library is given when it asks for a summary."""
BYTES_PER_TOKEN: Final = 4
LOOK_EVERY: Final = 25
"""Of so many requests in a loop one is counted, and the last."""
HITS: Final = 20


class Missing(Exception):
    """The library has nothing that does this."""


class Memory(Protocol):
    """A library with one session open. What it cannot do raises Missing."""

    async def open(self, folder: Path, window: int) -> None: ...

    async def ready(self) -> None:
        """Load what turns need, such as what calls a model; not in any time."""
        ...

    async def store(self, entries: Sequence[Entry]) -> None:
        """Take entries in without making a request, searchable after the call."""
        ...

    async def turn(self, entries: Sequence[Entry]) -> Sequence[Message]:
        """Take in what is new, compact where it is time; the next request, as OpenAI's messages."""
        ...

    async def settle(self) -> None:
        """Finish what the turns left for later."""
        ...

    async def resume(self, history: Sequence[Entry], new: Sequence[Entry]) -> None:
        """In a new process: what the host has, and what came since."""
        ...

    async def request(self) -> Sequence[Message]:
        """The next request out of what is stored."""
        ...

    async def find(self, text: str) -> Sequence[Any]:
        """What a literal search for the text gives, HITS hits at most."""
        ...

    async def hits(self, found: Sequence[Any]) -> Sequence[tuple[str, str]]:
        """Of each hit, the whole row with its calls, and the snippet that was shown."""
        ...

    async def stored(self) -> Sequence[str]:
        """Every text, tool result and tool argument that is stored, arguments as canonical JSON."""
        ...

    async def close(self) -> None: ...


def arguments_text(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def blocks_of(entry: Entry) -> list[dict[str, Any]]:
    content = entry["content"]
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def openai_messages(entry: Entry) -> list[Message]:
    """An entry as the messages of OpenAI's chat completions; content that is marked odd stays what it is."""
    if entry.get("odd"):
        return [{"role": entry["role"], "content": entry["content"]}]
    blocks = blocks_of(entry)
    results = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    calls = [_openai_call(block) for block in blocks if block["type"] == "tool_use"]
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    message: Message = {"role": entry["role"], "content": text}
    if calls:
        message["tool_calls"] = calls
    return [*results, message] if text or calls or not results else results


def _openai_call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block["name"], "arguments": arguments_text(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def shape(messages: Sequence[Message]) -> dict[str, int]:
    """Tokens of a request by bytes, and pairs it breaks: results without a call before them, calls before the
    last message without a result."""
    size = broken = 0
    waiting: set[str] = set()
    for message in messages:
        calls: list[Any] = message.get("tool_calls") or []
        told = [message.get("content") or "", *(call["function"] for call in calls)]
        size += sum(len(_bytes(piece)) for piece in told)
        if message["role"] == "tool":
            known = message.get("tool_call_id") in waiting
            broken += not known
            waiting.discard(message.get("tool_call_id") or "")
        waiting.update(call["id"] for call in calls)
    last: list[Any] = messages[-1].get("tool_calls") or [] if messages else []
    return {"tokens": size // BYTES_PER_TOKEN, "broken": broken + len(waiting) - len(last)}


def _bytes(piece: object) -> bytes:
    text = piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def peak_mb() -> float | None:
    """The most memory this process had resident; None where the system does not say."""
    status = Path("/proc/self/status")
    most = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8")) if status.exists() else None
    return None if most is None else int(most[1]) / 1024


def serve(memory: Memory, *, waits: bool = True) -> None:
    """Answer the driver until it hangs up. What a library prints goes to stderr.

    waits false is for a library that never waits and wants no event loop around it.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    serving = _serve(memory, answers)
    if waits:
        asyncio.run(serving)
    else:
        with suppress(StopIteration):
            serving.send(None)


async def _serve(memory: Memory, answers: TextIO) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = await _JOBS[asked.pop("do")](memory, **asked)
        except Missing:
            told = {"missing": True}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


async def _open(memory: Memory, folder: str, window: int) -> dict[str, Any]:
    await memory.open(Path(folder), window)
    return {}


async def _store(memory: Memory, entries: list[Entry]) -> dict[str, Any]:
    return {"seconds": await _timed(lambda: memory.store(entries))}


async def _turns(memory: Memory, turns: list[list[Entry]], budget: float) -> dict[str, Any]:
    """Turn after turn until the budget of seconds is spent; a turn that raises is counted and passed over."""
    await memory.ready()
    seconds, done, errors = 0.0, 0, list[str]()
    looks: list[dict[str, int]] = []
    for turn in turns:
        if seconds > budget:
            break
        request: Sequence[Message] = ()
        began = time.perf_counter()
        try:
            request = await memory.turn(turn)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:300])
        seconds += time.perf_counter() - began
        done += 1
        if request and (done % LOOK_EVERY == 0 or done == len(turns)):
            looks.append(shape(request))
    seconds += await _timed(memory.settle)
    most = {key: max((look[key] for look in looks), default=0) for key in ("tokens", "broken")}
    return {"done": done, "seconds": seconds, "errors": errors, "looks": len(looks), **most}


async def _resume(memory: Memory, history: list[Entry], new: list[Entry]) -> dict[str, Any]:
    await memory.ready()
    return {"seconds": await _timed(lambda: memory.resume(history, new))}


async def _request(memory: Memory) -> dict[str, Any]:
    before = peak_mb()
    began = time.perf_counter()
    messages = await memory.request()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "before_mb": before, "peak_mb": peak_mb(), **shape(messages)}


async def _find(memory: Memory, text: str) -> dict[str, Any]:
    began = time.perf_counter()
    found = await memory.find(text)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "hits": await memory.hits(found)}


async def _stored(memory: Memory) -> dict[str, Any]:
    return {"texts": await memory.stored()}


async def _close(memory: Memory) -> dict[str, Any]:
    await memory.close()
    return {}


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


_JOBS: Final[dict[str, Callable[..., Awaitable[dict[str, Any]]]]] = {
    "open": _open,
    "store": _store,
    "turns": _turns,
    "resume": _resume,
    "request": _request,
    "find": _find,
    "stored": _stored,
    "close": _close,
}
