"""Redo: a bad node is made again, requests show it from the next cut on, and the old text is kept."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from commands import Cli
from stores import assert_sound, serving

from lcm_mcp.errors import InvalidArgument, UnknownAddress
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.tools.lcm_redo import TOOL

BAD = "Nothing happened here, walrus."


async def filled(service: Service) -> None:
    rows = [
        {"role": ("user", "assistant")[n % 2], "content": f"Decision {n}: use port {8000 + n}. " * 20}
        for n in range(80)
    ]
    await service.append("s", rows)
    await service.compact("s", "lcm")


def spoil(db: apsw.Connection) -> None:
    """Let every node say something that is no good."""
    db.execute("UPDATE text SET body = ? WHERE id IN (SELECT text FROM tier)", (BAD,))
    db.execute("UPDATE tier SET model = 'careless'")


async def shown(service: Service, key: str = "s") -> object:
    query = PrepareQuery(key, strategy="lcm", window_tokens=200_000, compact="never")
    return (await service.prepare(query)).messages


async def test_the_new_text_stands_at_once_and_enters_requests_at_the_next_cut(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        await service.work.store.write(spoil)
        before = await shown(service)
        assert BAD in repr(before)
        nodes = await service.list_nodes("s", limit=100)
        for node in sorted(nodes.nodes, key=lambda node: node.depth):
            redone = await service.redo(node.id, "s")
            assert redone.changed
            assert redone.model != "careless"
        assert await shown(service) == before
        described = (await service.describe(nodes.nodes[0].id, "s")).node
        assert described is not None
        assert "Decision" in described.text
        assert [old.text for old in described.superseded] == [BAD]
        assert described.superseded[0].model == "careless"
        assert not (await service.redo(nodes.nodes[0].id, "s")).changed
        # A fork shows what its source shows, from the same cut.
        await service.fork("s", None, "branch")
        assert await shown(service, "branch") == before
        await service.append("s", [{"role": "user", "content": f"more {n} " * 200} for n in range(40)])
        await service.compact("s", "lcm")
        after = await shown(service)
        assert "Decision" in repr(after)
        assert (await service.doctor()).healthy
        await service.work.store.read(assert_sound)
        found = await service.grep(GrepQuery("walrus", session="s", scope="summaries"))
        gone = {node.id for node in nodes.nodes}
        assert not gone & {hit.ref for hit in found.hits}


async def test_what_is_no_node_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        with pytest.raises(InvalidArgument, match="not a node"):
            await service.redo("e1", "s")
        with pytest.raises(UnknownAddress):
            await service.redo("#999", "s")


async def test_the_tool_sends_nobody_to_two_texts_where_one_came_out(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        same = await service.redo("#1", "s")
        await service.work.store.write(spoil)
        changed = await service.redo("#1", "s")
    assert "came out the same" in TOOL.render(same)
    assert "both texts" not in TOOL.render(same)
    assert "Next: lcm_describe #1 for both texts." in TOOL.render(changed)


def test_redo_is_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import anyio

    async def fill() -> None:
        async with serving(tmp_path / "lcm.sqlite") as service:
            await filled(service)
            await service.work.store.write(spoil)

    anyio.run(fill)
    cli = Cli(capsys, tmp_path / "lcm.sqlite")
    assert "#1 of s: made again" in cli.done("redo", "n1")
    assert cli.answer("describe", "n1")["node"]["superseded"][0]["text"] == BAD
    assert BAD in cli.done("describe", "n1")
