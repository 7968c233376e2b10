"""Statistics: every figure is what the store's other answers say of the same session."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import anyio
import pytest
from asking import dump, expanded, nodes_of, same
from commands import Cli
from harbour import memory, talk
from transcripts import SAMPLES

from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery, Usage

# One pixel, so that it has a size in pixels as well as in bytes.
_IMAGE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _shown(text: str) -> dict[str, object]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(_IMAGE).decode()}
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image", "source": source}],
    }


async def lived(service: Service, key: str) -> None:
    """A session that was folded, cut by both strategies, measured, pinned, and holds one image twice."""
    await service.append(key, [*talk(40), _shown("the quay"), _shown("the quay, again")])
    query = PrepareQuery(key, window_tokens=6000)
    first = await service.prepare(PrepareQuery(key, strategy="lcm", compact="force", window_tokens=4000))
    usage = Usage(first.prepared, 3000, 1500)
    second = await service.prepare(PrepareQuery(key, window_tokens=6000, compact="never", usage=usage))
    await service.prepare(PrepareQuery(key, window_tokens=6000, usage=Usage(second.prepared, 1000)))
    await service.compact(key, "rolling")
    await service.prepare(query)
    await service.append(
        key, [{"role": "user", "content": "Ὕδρα?"}, {"role": "assistant", "content": "Ναί."}]
    )
    await service.pin(["e1", "e5"], key)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


async def test_every_figure_is_what_the_store_holds(store_path: Path) -> None:
    async with memory(store_path) as service:
        await lived(service, "harbour")
        await service.append("other", talk(3))
        stats = await service.stats("harbour")
        line = next(line for line in (await service.sessions()).sessions if line.key == "harbour")
        nodes = await nodes_of(service, "harbour")
        page = await service.list_nodes("harbour")
        rows = await expanded(service, "harbour", f"e1..e{line.rows}", 100_000)
        assert stats.rows == line.rows == sum(stats.rows_by_role.values())
        assert stats.rows_by_role == Counter(row.role for row in rows)
        assert (stats.removed_rows, stats.units, stats.tokens) == (0, 43, line.tokens)
        assert page.covered_end is not None
        assert stats.unsummarized_rows == line.rows - int(page.covered_end[1:])
        assert stats.nodes == len(nodes) > 2
        assert stats.nodes_by_depth == Counter(str(node.depth) for node in nodes)
        assert stats.nodes_by_level == Counter(str(node.level) for node in nodes)
        assert stats.frontier_tokens == sum(node.tokens for node in nodes if node.frontier)
        assert stats.frontier_tokens < stats.covered_tokens < stats.tokens
        assert stats.cuts == {"lcm": 1, "rolling": 1}
        assert (stats.observations, stats.measured_requests) == (5, 2)
        assert (stats.provider_input_tokens, stats.provider_cached_tokens) == (4000, 1500)
        assert stats.cached_share == 0.5  # of the one request whose provider told it
        assert stats.pins == 2
        assert stats.text_bytes == sum(len(row.text.encode()) for row in rows)
        assert (stats.images, stats.image_bytes) == (1, len(_IMAGE))
        assert 0 < stats.payload_bytes < stats.text_bytes
        texts = [(await service.describe(node.id, "harbour")).node for node in nodes]
        assert stats.summary_bytes >= sum(len(node.text.encode()) for node in texts if node is not None)
        assert stats.file_bytes >= store_path.stat().st_size


async def test_the_whole_store_is_the_sum_of_its_sessions(store_path: Path) -> None:
    async with memory(store_path) as service:
        await lived(service, "harbour")
        await service.append("other", [*talk(3), _shown("a third quay")])
        await service.append("third", talk(1))
        whole = await service.stats("*")
        each = [await service.stats(key) for key in ("harbour", "other", "third")]
        assert (whole.session, whole.strategy, whole.sessions) == (None, None, 3)
        for name in (
            "rows",
            "tokens",
            "units",
            "unsummarized_rows",
            "nodes",
            "covered_tokens",
            "frontier_tokens",
            "observations",
            "pins",
            "text_bytes",
            "summary_bytes",
            "payload_bytes",
        ):
            assert getattr(whole, name) == sum(getattr(one, name) for one in each), name
        assert [one.images for one in (*each, whole)] == [1, 1, 0, 1]
        roles = Counter[str]()
        for one in each:
            roles.update(one.rows_by_role)
        assert whole.rows_by_role == roles


async def test_rows_off_the_active_path_are_counted_as_such(store_path: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (SAMPLES / "tiny.jsonl").read_text().splitlines()]
    told = next(line for line in lines if line.get("type") == "user")
    summary = told | {"uuid": "a-summary", "parentUuid": lines[-1].get("uuid"), "isCompactSummary": True}
    file = tmp_path / "compacted.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, summary]))
    async with memory(store_path) as service:
        await service.import_file(file)
        stats = await service.stats()
        assert (stats.rows, stats.removed_rows) == (5, 1)
        assert (stats.units, stats.unsummarized_rows) == (1, 4)


async def test_figures_of_a_session_without_a_row_are_nothing(store_path: Path) -> None:
    async with memory(store_path) as service:
        whole = await service.stats("*")
        assert (whole.sessions, whole.rows, whole.units, whole.images) == (0, 0, 0, 0)
        assert (whole.rows_by_role, whole.nodes_by_depth, whole.cuts) == ({}, {}, {})
        assert whole.cached_share is None


async def test_counting_writes_nothing(store_path: Path) -> None:
    async with memory(store_path) as service:
        await lived(service, "harbour")
        before = await dump(service)
        await service.stats("harbour")
        await service.stats("*")
        assert await service.select("harbour") == await service.select("harbour")
        await same(service, before)


def test_it_reads_as_a_list_of_figures(cli: Cli) -> None:
    async def live() -> None:
        async with memory(cli.db) as service:
            await lived(service, "harbour")
            await service.append("other", talk(3))

    anyio.run(live)
    text = cli.done("stats", "--session", "harbour")
    assert text.startswith("harbour  rolling\n  rows        164: ")
    text = " ".join(text.split())
    for words in (
        " tokens (estimate) in 43 units ",
        " of depth 0",
        " of level ",
        ":1); ",
        " rows without a summary ",
        " cuts 1 lcm, 1 rolling ",
        " requests 5 observed, 2 measured: 4,000 tokens in, 50% cached ",
        " pins 2 ",
        f" images 1, {len(_IMAGE)} bytes ",
        " bytes (the whole store)",
    ):
        assert words in text, words
    assert cli.done("stats", "--all").startswith("2 sessions\n  rows        176: ")
