"""The laws over sessions of images and of large files, real and made up, like random histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from deeds import Append, Prepare, Settings
from doing import do
from histories import Entry
from looking import check, check_end, check_rebuilt
from moods import Watched
from test_files import fifty
from test_images import pi_entries
from world import World, opened

from lcm_mcp.service.answers import Strategy
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.importers import FORMATS
from lcm_mcp.transcript.importers import Entry as Read

DEFAULT_LARGE_CHARACTERS = 32_000


def claude_code(path: Path) -> list[Entry]:
    """A Claude Code file's messages as neutral entries."""
    events = FORMATS["claude-code"].read(path, None)
    drafts = [event.draft for event in events if isinstance(event, Read)]
    return [
        {"role": draft.role, "content": [part_to_json(part) for part in draft.parts]}
        for draft in drafts
        if draft.active
    ]


def asked(strategy: Strategy, window: int, entries: Sequence[Mapping[str, object]]) -> Prepare:
    return Prepare(cast("list[Entry]", entries), window, 200, "force", strategy, "anthropic")


@pytest.mark.parametrize("session", ["an image twice in a line", "pi's images", "fifty files"])
async def test_every_law_holds_over_images_and_large_files(
    session: str, shared_data: Path, tmp_path: Path
) -> None:
    entries: Sequence[Mapping[str, object]]
    match session:
        case "an image twice in a line":
            entries = claude_code(shared_data / "claude-code" / "image-twice-961kb-line.jsonl")
        case "pi's images":
            entries, _ = pi_entries((shared_data / "pi" / "images-glued-line-v1.jsonl").read_text("utf-8"))
        case _:
            entries = fifty()
    half = len(entries) // 2
    deeds = [
        asked("lcm", 12_000, entries[:half]),
        asked("rolling", 12_000, entries[half:]),
    ]
    chosen: Settings = {"strategy": "lcm", "largeFileChars": DEFAULT_LARGE_CHARACTERS}
    chain = [Watched()]
    store, service = opened(tmp_path / "life1", chosen, chain)
    world = World(tmp_path / "life1", 12_000, chosen, chain, store, service)
    try:
        await world.append(Append([], named=False))
        for deed in deeds:
            await do(world, deed)
            await check(world)
        await check_end(world)
        await check_rebuilt(world)
    finally:
        await world.service.close()
