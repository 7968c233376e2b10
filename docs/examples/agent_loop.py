"""An agent loop over lcm-mcp: the model is sent what fits its window, and a turn carries what is new.

With `lcm-mcp serve --transport http` running: `python agent_loop.py SESSION QUESTION…`. The session is in the
store alone and each entry has an id of its own, so the same command again goes on wherever it stopped.
"""

import asyncio
import hashlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent

MCP = os.environ.get("MCP_URL", "http://127.0.0.1:8765/mcp")
API = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
KEY = os.environ.get("ANTHROPIC_API_KEY", "")
MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")
TIMEOUT_S = float(os.environ.get("AGENT_TIMEOUT_S", "60"))
WINDOW = int(os.environ.get("AGENT_WINDOW_TOKENS", "200000"))
SYSTEM = "You are a helpful agent. What is only summarized can be found and read in full with your tools."


def tool(name: str, description: str, argument: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [
    tool("lcm_grep", "Find a text anywhere in this conversation.", "pattern"),
    tool("lcm_expand", "The original rows under an address: e104, e104..e238 or #12.", "id"),
]

Message = dict[str, Any]
Page = dict[str, Any]


@dataclass
class Held:
    """The messages of the request that was prepared under this name, and where its cache marks go."""

    prepared: str | None = None
    messages: list[Message] = field(default_factory=list[Message])
    marks: list[int] = field(default_factory=list[int])


# --- memory


def spliced(held: list[Message], pages: list[Page]) -> list[Message]:
    """Of what is held keep `keep` messages after the first `omit`; put each one given in at its place."""
    omit, keep = pages[0]["omit"], pages[0]["keep"]
    messages = held[omit : omit + keep]
    for index, message in given(pages):
        messages.insert(index, message)
    return messages


def given(pages: list[Page]) -> Iterator[tuple[int, Message]]:
    """Every message of the pages with its place; one too large for a page comes as pieces of its JSON."""
    pieces = ""
    for page in pages:
        for place, shown in enumerate(page["messages"], page["first_message"]):
            yield place, shown["message"]
        for shown in page["insert"]:
            yield shown["index"], shown["message"]
        if piece := page["fragment"]:
            pieces += piece["json"]
            if len(pieces) == piece["total"]:
                yield piece["index"], json.loads(pieces)
                pieces = ""


async def call(name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool until it is answered: the server may be gone, or gone before it could answer."""
    for pause in (0.5, 1, 2, 4, 8, 16):
        try:
            async with asyncio.timeout(TIMEOUT_S), Client(MCP) as lcm:
                result = await lcm.call_tool(name, arguments)
                assert isinstance(result, CallToolResult)
                return result
        except Exception as error:
            print(f"{name} is called again: {type(error).__name__}", file=sys.stderr)
            await asyncio.sleep(pause)
    raise TimeoutError(f"{name} was not answered; run the same command again to go on")


def text_of(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def prepare(arguments: dict[str, Any]) -> Page:
    result = await call("prepare_context", arguments)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(text_of(result))
    return result.structured_content


async def advance(session: str, held: Held, entry: Message, usage: Message | None = None) -> Held:
    """Append an entry, and hold the next request: what is held already, and what is new."""
    same = {"session": session, "format": "anthropic"}
    preamble = {"system": SYSTEM, "tools": TOOLS, "window_tokens": WINDOW, "model": MODEL}
    known = {"have": held.prepared, "after": held.prepared.split(".")[1]} if held.prepared else {}
    pages = [await prepare({**same, **preamble, **known, "append": [entry], "usage": usage})]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(await prepare({**same, "cursor": cursor}))
    return Held(pages[0]["prepared"], spliced(held.messages, pages), pages[0]["cache_breakpoints"])


# --- the model


def ask(held: Held) -> Message:
    """The model's reply to the request that is held."""
    messages = [*held.messages]
    for mark in held.marks:
        *others, last = messages[mark]["content"]
        cached = {**last, "cache_control": {"type": "ephemeral"}}
        messages[mark] = {**messages[mark], "content": [*others, cached]}
    body = {"model": MODEL, "max_tokens": 4096, "system": SYSTEM, "tools": TOOLS, "messages": messages}
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
    request = urllib.request.Request(f"{API}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


def usage_of(held: Held, counted: Message) -> Message:
    cached = counted.get("cache_read_input_tokens") or 0
    tokens = counted["input_tokens"] + cached + (counted.get("cache_creation_input_tokens") or 0)
    return {"prepared": held.prepared, "input_tokens": tokens, "cached_tokens": cached}


async def results_of(session: str, calls: list[Message]) -> Message:
    """Run the tools, and give their results as an entry."""
    content: list[Message] = []
    for made in calls:
        result = await call(made["name"], {"session": session, **made["input"]})
        block = {"type": "tool_result", "tool_use_id": made["id"], "content": text_of(result)}
        content.append({**block, "is_error": bool(result.is_error)})
    return {"role": "user", "content": content, "entry_id": f"{calls[0]['id']}-results"}


# --- the loop


async def turn(session: str, held: Held) -> Held:
    """Go on until the model has nothing more to call; what to do next is told by the last message alone."""
    while True:
        last = held.messages[-1]
        calls = [block for block in last["content"] if block["type"] == "tool_use"]
        if last["role"] == "user":
            reply = await asyncio.to_thread(ask, held)
            entry = {"role": "assistant", "content": reply["content"], "entry_id": reply["id"]}
            held = await advance(session, held, entry, usage_of(held, reply["usage"]))
        elif calls:
            held = await advance(session, held, await results_of(session, calls))
        else:
            return held


def id_of(number: int, question: str) -> str:
    """The same in the same command again, another one for what is asked in another command."""
    return f"q{number}-{hashlib.sha256(question.encode()).hexdigest()[:16]}"


async def main(session: str, questions: list[str]) -> None:
    held = Held()
    for number, question in enumerate(questions):
        asked = {"role": "user", "content": question, "entry_id": id_of(number, question)}
        held = await turn(session, await advance(session, held, asked))
        print(" ".join(block["text"] for block in held.messages[-1]["content"] if block["type"] == "text"))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(f"usage: python {sys.argv[0]} SESSION QUESTION…", file=sys.stderr)
        sys.exit(2)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
