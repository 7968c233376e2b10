"""What an agent loop talks to, played on loopback: a model's endpoint, and a way to the server that can fail.

The model speaks Anthropic's messages API and refuses what the real one would. The way passes calls on to a
real server in a process of its own, and loses answers where a test says so.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, Literal

from connecting import command
from wire_order import check_order

from lcm_mcp.projection.model import Message

SAID = "and so on, at some length, as models do; "


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what went wrong is in the test's own words."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _listening(handler: type[_Handler]) -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


# --- the model


@dataclass
class Model:
    """Asked to look for something it calls lcm_grep; else it answers at length. failing: requests, from 1."""

    failing: set[int] = field(default_factory=set[int])
    asked: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    refused: list[str] = field(default_factory=list[str])
    marks: list[list[int]] = field(default_factory=list[list[int]])
    numbers: Any = field(default_factory=count)

    def reply(self, body: dict[str, Any]) -> dict[str, Any] | None:
        messages: list[dict[str, Any]] = body["messages"]
        self.marks.append(_take_marks(messages))
        self.refused += check_order(
            [Message(message["role"], message, ()) for message in messages], "anthropic"
        )
        self.asked.append(messages)
        if len(self.asked) in self.failing:
            return None
        number = next(self.numbers)
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [_said(messages[-1]["content"][-1], number)],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": len(str(messages)) // 4},
        }


def _said(last: dict[str, Any], number: int) -> dict[str, Any]:
    if last["type"] == "tool_result":
        return {"type": "text", "text": f"It is there. {SAID * 5}"}
    wanted = re.search(r"look for (\w+)", last["text"])
    if wanted is None:
        return {"type": "text", "text": f"As to {last['text']!r}: {SAID * 40}"}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "lcm_grep", "input": {"pattern": wanted[1]}}


def _take_marks(messages: list[dict[str, Any]]) -> list[int]:
    """Where the cache marks stand; they are no part of what was said."""
    blocks = [(place, block) for place, message in enumerate(messages) for block in message["content"]]
    return [place for place, block in blocks if block.pop("cache_control", None) is not None]


@contextmanager
def playing(model: Model) -> Generator[str]:
    """The model's address for as long as the block runs."""

    class Handler(_Handler):
        def do_POST(self) -> None:
            assert self.path == "/v1/messages"
            reply = model.reply(json.loads(self.body()))
            if reply is None:
                self.answer(500, b'{"type": "error"}')
            else:
                self.answer(200, json.dumps(reply).encode())

    with _listening(Handler) as url:
        yield url


# --- the way to the server

Fault = Literal["hangs", "dies"]


@dataclass
class Way:
    """Calls of prepare_context that append, as they were answered: what changed, and the bytes of the answer.

    faults: of which of them, from 1, the answer is lost, because the server hangs then or because it dies.
    """

    db: Path
    faults: dict[int, Fault] = field(default_factory=dict[int, "Fault"])
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sizes: list[int] = field(default_factory=list[int])
    over: threading.Event = field(default_factory=threading.Event)
    server: subprocess.Popen[str] | None = None
    port: int = 0

    def start(self) -> None:
        self.server = subprocess.Popen(
            command(self.db, "--transport", "http", "--port", "0"), stderr=subprocess.PIPE, text=True
        )
        assert self.server.stderr is not None
        told = self.server.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", told)
        assert found is not None, told
        self.port = int(found[1])

    def kill(self) -> None:
        assert self.server is not None
        assert self.server.stderr is not None
        self.server.kill()
        self.server.wait()
        self.server.stderr.close()

    def passed_on(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/mcp", body, headers | {"Host": f"127.0.0.1:{self.port}"})
            response = connection.getresponse()
            return response.status, response.read(), response.headers.get("content-type", "application/json")
        finally:
            connection.close()

    def is_lost(self, body: bytes, answer: bytes) -> bool:
        """Note an append's answer; whether it is lost on the way. A server that dies is up again after it."""
        asked = json.loads(body)
        if asked.get("method") != "tools/call" or not asked["params"]["arguments"].get("append"):
            return False
        self.answers.append(json.loads(answer)["result"]["structuredContent"])
        self.sizes.append(len(answer))
        fault = self.faults.get(len(self.answers))
        if fault == "hangs":
            self.over.wait(60)
        elif fault == "dies":
            self.kill()
            self.start()
        return fault is not None


@contextmanager
def reaching(way: Way) -> Generator[str]:
    """The address under which a server over the way's store is reached for as long as the block runs."""

    class Handler(_Handler):
        def do_POST(self) -> None:
            body = self.body()
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            try:
                status, answer, kind = way.passed_on(body, headers)
            except OSError:  # between two servers
                self.close_connection = True
                return
            if way.is_lost(body, answer):
                self.close_connection = True
            else:
                self.answer(status, answer, kind)

    way.start()
    try:
        with _listening(Handler) as url:
            yield f"{url}/mcp"
            way.over.set()
    finally:
        way.over.set()
        way.kill()
