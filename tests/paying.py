"""A service whose models are endpoints of the tests, and what it says of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from turns import KEY as TALK
from turns import ask, turns

from lcm_mcp.service import Service
from lcm_mcp.service.answers import NodeDescription, Strategy
from lcm_mcp.settings import load_settings


@asynccontextmanager
async def using(path: Path, *entries: dict[str, object], **settings: object) -> AsyncGenerator[Service]:
    """The use cases over the store at that path, with these models."""
    small = {"lcm.leafChunkTokens": 512, "lcm.leafTargetTokens": 128}
    service = Service.open(
        load_settings({"db": str(path), "summarizers": [*entries], **small, **settings}, {})
    )
    try:
        yield service
    finally:
        await service.close()


async def told(service: Service, last: int = 20) -> None:
    await service.append(TALK, turns(1, last))


async def force(service: Service, strategy: Strategy = "lcm") -> Any:
    """Compact now, and give the observation."""
    return (await ask(service, compact="force", strategy=strategy)).observation


async def node(service: Service, id: str = "#1") -> NodeDescription:
    found = (await service.describe(id, TALK)).node
    assert found is not None
    return found


def lines(notes: Sequence[str], word: str) -> list[str]:
    return [note for note in notes if word in note]
