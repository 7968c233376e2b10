"""A model's endpoint on this machine: it speaks the providers' wire formats, and their faults.

Each request is answered by the next mood of the script, the last one again and again. Everything that was
sent is kept, so that tests can say what left and how often.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

KEY = "sk-test-7f3a91c0d2e4b6f8"
SUMMARY = "- the harbour was measured pier by pier (e1..e9)\n- the tide table is still wrong"


@dataclass
class Endpoint:
    """What it was asked, and how it answers; `moods` are words such as "good", "429 after 1", "half"."""

    moods: list[str] = field(default_factory=lambda: ["good"])
    text: str = SUMMARY
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])
    left: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)
    usage: tuple[int, int] | None = None
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def entry(self, kind: str, **more: object) -> dict[str, object]:
        """It as an entry of the setting `summarizers`."""
        base = self.address if kind == "anthropic" else f"{self.address}/v1"
        own = {"kind": kind, "model": "loopback-1", "baseUrl": base, "keyVariable": "LOOPBACK_KEY"}
        return {**own, **more}

    def next_mood(self) -> str:
        return self.moods.pop(0) if len(self.moods) > 1 else self.moods[0]

    def counted(self, body: Mapping[str, Any]) -> tuple[int, int]:
        if self.usage is not None:
            return self.usage
        return len(json.dumps(body, ensure_ascii=False).encode()) // 4, len(self.text.encode()) // 4 + 1


@contextmanager
def endpoint(*moods: str, text: str = SUMMARY) -> Generator[Endpoint]:
    """The endpoint, for as long as the block runs."""
    found = Endpoint(list(moods) or ["good"], text)

    async def messages(request: Request) -> Response:
        return await _answer(found, request, _Anthropic())

    async def completions(request: Request) -> Response:
        return await _answer(found, request, _Openai())

    app = Starlette(
        routes=[
            Route("/v1/messages", messages, methods=["POST"]),
            Route("/v1/chat/completions", completions, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="endpoint")
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        found.port = server.servers[0].sockets[0].getsockname()[1]
        yield found
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


async def _answer(found: Endpoint, request: Request, form: _Anthropic | _Openai) -> Response:
    body = json.loads(await request.body())
    found.asked.append(body)
    found.headers.append(dict(request.headers))
    mood, _, after = found.next_mood().partition(" after ")
    if mood != "stuck":
        found.arrived.set()
    fault = await _fault(found, request, form, mood, after)
    if fault is not None:
        return fault
    text, reasoning, reason = _said(found, request, mood)
    usage = found.counted(body)
    if body.get("stream"):
        events = form.events(text, reasoning, reason, usage)
        return StreamingResponse(_stream(events, mood, found), media_type="text/event-stream")
    if mood in ("half", "stuck"):
        whole = json.dumps(form.whole(text, reasoning, reason, usage)).encode()
        return StreamingResponse(_stream([whole[:40]], mood, found), media_type="application/json")
    return JSONResponse(form.whole(text, reasoning, reason, usage))


async def _fault(
    found: Endpoint, request: Request, form: _Anthropic | _Openai, mood: str, after: str
) -> Response | None:
    if mood.isdigit():
        headers = {"retry-after": after} if after else {}
        told = f"no, {request.headers.get('x-api-key', '')}{request.headers.get('authorization', '')}"
        return JSONResponse(form.error(told), int(mood), headers)
    if mood == "redirect":
        return RedirectResponse(f"{found.address}/elsewhere", 307)
    if mood == "silent":
        with anyio.move_on_after(30):
            while not await request.is_disconnected():
                await anyio.sleep(0.02)
            found.left.set()
    if mood == "malformed":
        return Response(b'{"content": [{"type": "te', media_type="application/json")
    if mood == "odd":
        return JSONResponse({"choices": [], "content": 7, "usage": None, "stop_reason": "end_turn"})
    return None


def _said(found: Endpoint, request: Request, mood: str) -> tuple[str, str, str]:
    """The text, the reasoning and how it ended."""
    reasoning = "First I look at the piers." if mood in ("reasoning", "thoughtful") else ""
    if mood in ("reasoning", "empty", "refuses"):
        return "", reasoning, "refusal" if mood == "refuses" else "end"
    if mood == "echo":
        return f"{found.text} {request.headers}", reasoning, "end"
    return found.text, reasoning, "room" if mood == "cut" else "end"


async def _stream(events: list[bytes], mood: str, found: Endpoint) -> AsyncGenerator[bytes]:
    if mood in ("half", "stuck", "ended early"):
        events = events[: max(1, len(events) // 2)]
    for event in events:
        yield event
        await anyio.sleep(0)
    if mood == "stuck":
        found.arrived.set()
        try:
            await anyio.sleep(30)
        finally:
            found.left.set()
    if mood == "half":
        raise ConnectionResetError


def _sse(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class _Anthropic:
    """The Messages API."""

    reasons: ClassVar = {"end": "end_turn", "room": "max_tokens", "refusal": "refusal"}

    def error(self, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "some_error", "message": message}}

    def whole(self, text: str, reasoning: str, reason: str, usage: tuple[int, int]) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if reasoning:
            content.append({"type": "thinking", "thinking": reasoning, "signature": "c2lnbmVk"})
        if text:
            content.append({"type": "text", "text": text})
        return {**self._frame(usage[0], usage[1]), "content": content, "stop_reason": self.reasons[reason]}

    def _frame(self, given: int, taken: int) -> dict[str, Any]:
        frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": "loopback-1"}
        usage = {"input_tokens": given, "output_tokens": taken}
        return {**frame, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def events(self, text: str, reasoning: str, reason: str, usage: tuple[int, int]) -> list[bytes]:
        events = [_sse("message_start", {"type": "message_start", "message": self._frame(usage[0], 1)})]
        events.append(_sse("ping", {"type": "ping"}))
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if reasoning:
            deltas = [
                {"type": "thinking_delta", "thinking": reasoning},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ]
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
        if text:
            middle = len(text) // 2
            halves = [{"type": "text_delta", "text": part} for part in (text[:middle], text[middle:])]
            blocks.append(({"type": "text", "text": ""}, halves))
        for index, (block, deltas) in enumerate(blocks):
            opened = {"type": "content_block_start", "index": index, "content_block": block}
            events.append(_sse("content_block_start", opened))
            for delta in deltas:
                told = {"type": "content_block_delta", "index": index, "delta": delta}
                events.append(_sse("content_block_delta", told))
            events.append(_sse("content_block_stop", {"type": "content_block_stop", "index": index}))
        delta = {"stop_reason": self.reasons[reason], "stop_sequence": None}
        counted = {"output_tokens": usage[1]}
        events.append(_sse("message_delta", {"type": "message_delta", "delta": delta, "usage": counted}))
        return [*events, _sse("message_stop", {"type": "message_stop"})]


class _Openai:
    """Chat completions."""

    reasons: ClassVar = {"end": "stop", "room": "length", "refusal": "content_filter"}

    def error(self, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "some_error", "param": None, "code": None}}

    def whole(self, text: str, reasoning: str, reason: str, usage: tuple[int, int]) -> dict[str, Any]:
        message = {"role": "assistant", "content": text or None, "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.reasons[reason]}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage(usage)}

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1_760_000_000, "model": "loopback-1"}

    def _usage(self, usage: tuple[int, int]) -> dict[str, int]:
        given, taken = usage
        return {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}

    def events(self, text: str, reasoning: str, reason: str, usage: tuple[int, int]) -> list[bytes]:
        middle = len(text) // 2
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": reasoning}] if reasoning else []
        deltas += [{"content": part} for part in (text[:middle], text[middle:]) if part]
        chunks: list[dict[str, Any]] = [
            {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
        ]
        chunks.append({"index": 0, "delta": {}, "finish_reason": self.reasons[reason]})
        frame = self._frame("chat.completion.chunk")
        events: list[Any] = [{**frame, "choices": [chunk], "usage": None} for chunk in chunks]
        events.append({**frame, "choices": [], "usage": self._usage(usage)})
        return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]
