"""What was made by rule is written again by models, within caps and within the model's own window."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from commands import Cli
from endpoint import KEY, endpoint
from paying import TALK, force, lines, node, told, using
from stores import assert_sound

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service import Service


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", KEY)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


async def by_rule(path: Path) -> int:
    """A session whose nodes were made by rule; how many there are."""
    async with using(path) as service:
        await told(service, 60)
        await force(service)
        return (await service.list_nodes(TALK, limit=100)).total


async def writers(service: Service) -> list[str]:
    nodes = (await service.list_nodes(TALK, limit=100)).nodes
    return [(await node(service, each.id)).model for each in nodes]


async def test_all_nodes_made_by_rule_are_written_by_the_model_leaves_first_and_only_once(
    store_path: Path,
) -> None:
    made = await by_rule(store_path)
    with endpoint() as found:
        async with using(store_path, found.entry("openai")) as service:
            done = await service.upgrade(TALK)
            assert (done.rewritten, done.kept, done.left, done.failed) == (made, 0, 0, None)
            assert set(await writers(service)) == {"loopback-1"}
            assert (done.calls, len(found.asked)) == (made, made)
            again = await service.upgrade("*")
            assert (again.rewritten, again.calls) == (0, 0)
            await service.work.store.read(assert_sound)
            assert (await service.doctor()).healthy
        # A parent is made of what the model wrote below it.
        assert found.text in found.asked[-1]["messages"][1]["content"]


async def test_a_cap_ends_it_and_what_is_left_keeps_its_text(store_path: Path) -> None:
    made = await by_rule(store_path)
    with endpoint() as found:
        found.usage = (5000, 100)
        async with using(store_path, found.entry("openai"), summarizerPassTokens=16_000) as service:
            done = await service.upgrade(TALK)
            assert done.rewritten == 2
            assert done.left == made - 2
            assert "beyond summarizerPassTokens (16,000)" in (done.failed or "")
            assert sorted(set(await writers(service))) == ["extractive", "loopback-1"]
            # The next run goes on where that one ended.
            assert (await service.upgrade(TALK)).rewritten == 2


async def test_an_answer_that_is_no_good_leaves_the_node_as_it_was(store_path: Path) -> None:
    made = await by_rule(store_path)
    with endpoint("empty") as found:
        async with using(store_path, found.entry("anthropic")) as service:
            done = await service.upgrade(TALK)
            assert (done.rewritten, done.kept) == (0, made)
            assert set(await writers(service)) == {"extractive"}


async def test_without_a_model_there_is_nothing_to_write_them(store_path: Path) -> None:
    await by_rule(store_path)
    async with using(store_path) as service:
        with pytest.raises(InvalidArgument, match="no model is configured"):
            await service.upgrade(TALK)


def test_it_is_a_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made = anyio.run(by_rule, cli.db)
    with endpoint("good", "good", "401") as found:
        monkeypatch.setenv("LCM_SUMMARIZERS", json.dumps([found.entry("openai")]))
        failed = cli("redo", "--extractive")
    assert failed.code == 1
    said = " ".join(failed.out.split())
    assert f"2 summaries written by models, 0 kept as they were, {made - 2} left; 3 calls" in said
    assert "so it is left alone until" in failed.err
    assert cli("redo").code == 2


# --- the model's own window


async def test_leaves_are_no_larger_than_the_models_window_allows(store_path: Path) -> None:
    with endpoint() as found:
        entry = found.entry("openai", contextWindowTokens=7000, reasoningTokens=0)
        settings = {"lcm.leafChunkTokens": 6000, "lcm.contextWindowTokens": 60_000}
        async with using(store_path, entry, **settings) as service:
            await told(service, 60)
            await force(service)
            nodes = (await service.list_nodes(TALK, depth=0, limit=100)).nodes
        assert max(each.source_tokens for each in nodes) <= 3500
        assert all(len(json.dumps(asked)) // 4 < 7000 for asked in found.asked)


async def test_a_source_too_long_for_a_models_window_is_not_sent_to_it(store_path: Path) -> None:
    long = [{"role": "user", "content": "so it went on. " * 3000}, {"role": "user", "content": "and then?"}]
    with endpoint() as found:
        async with using(store_path, found.entry("openai", contextWindowTokens=8000)) as service:
            await service.append(TALK, long)
            seen = await force(service)
        assert all(len(json.dumps(asked)) < 4 * 8000 for asked in found.asked)
    assert lines(seen.notes, "prompt and answer could take")
    assert lines(seen.notes, "its window has 8,000")


async def test_a_running_summary_is_made_in_pieces_that_fit_the_models_window(store_path: Path) -> None:
    with endpoint() as found:
        entry = found.entry("openai", contextWindowTokens=7000, reasoningTokens=0)
        async with using(store_path, entry, **{"rolling.contextWindowTokens": 60_000}) as service:
            await told(service, 60)
            seen = await force(service, "rolling")
        assert seen.status == "compacted"
        assert len(found.asked) > 1
        assert all(len(json.dumps(asked)) // 4 < 7000 for asked in found.asked)
