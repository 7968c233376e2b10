"""A conversation for tests of tools and servers: a harbour is measured, pier by pier, and folded."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lcm_mcp.service import Service
from lcm_mcp.settings import load_settings
from lcm_mcp.tools.tool import Answered
from lcm_mcp.tools.toolsets import TOOLS

TURNS = 40
BY_NAME = {tool.name: tool for tool in TOOLS}


@asynccontextmanager
async def memory(path: Path) -> AsyncGenerator[Service]:
    """A store at that path, open for as long as it is used."""
    opened = Service.open(load_settings({"db": path}))
    try:
        yield opened
    finally:
        await opened.close()


async def call(service: Service, name: str, **arguments: object) -> Answered:
    return await BY_NAME[name].call(service, arguments)


def talk(turns: int, filler: str = "the harbour of Kyrenia ") -> list[dict[str, object]]:
    """Turns of a user and an assistant who calls a tool."""
    entries: list[dict[str, object]] = []
    for turn in range(turns):
        told = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": f"measured {turn * 7} metres"}
        used = {"type": "tool_use", "id": f"c{turn}", "name": "measure", "input": {"pier": turn}}
        turned: list[dict[str, object]] = [
            {"role": "user", "content": f"question {turn}: {filler * 12}", "entry_id": f"u{turn}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"I measure pier {turn}."}, used]},
            {"role": "user", "content": [told]},
            {"role": "assistant", "content": f"Pier {turn} has {turn * 7} metres. {filler * 8}"},
        ]
        entries += turned
    return entries


async def folded(service: Service, key: str = "harbour", **options: Any) -> None:
    """A session with summaries in it."""
    await call(service, "lcm_append", session=key, entries=talk(TURNS, **options))
    prepare = {"strategy": "lcm", "compact": "force", "window_tokens": 4000}
    done = await call(service, "prepare_context", session=key, **prepare)
    assert done.structured["status"] == "compacted", done.text
