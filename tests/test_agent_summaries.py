"""The agent as a summarizer: what it is given, what is taken from it, and several of them at once."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import anyio
import apsw
import pytest
from connecting import ERAS, Era, answered, asked, text
from mcp import Client
from stores import assert_sound, serving

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.server import build_server
from lcm_mcp.service import Service
from lcm_mcp.service.agents import Submitted, WantedSummary
from lcm_mcp.service.requests import PrepareQuery


async def filled(service: Service, turns: int = 8, words: int = 60, key: str = "s") -> None:
    rows = [
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"Decision {n}: use port {8000 + n}. " * (words // 6),
        }
        for n in range(2 * turns)
    ]
    await service.append(key, rows)


async def wanted(service: Service, key: str = "s") -> WantedSummary:
    found = await service.next_summary(key)
    assert found.task is not None, found.note
    return found


async def handed_in(service: Service, given: WantedSummary, said: str | None = None) -> Submitted:
    assert given.task is not None
    assert given.span is not None
    return await service.submit_summary(given.task, said or f"Ports were chosen in {given.span[0]}.", "m-1")


async def expire(service: Service) -> None:
    """Let the time of every task be over."""

    def end(db: apsw.Connection) -> None:
        db.execute("UPDATE task SET expires_at = 0")

    await service.work.store.write(end)


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_writes_all_summaries_of_a_session_over_mcp(era: Era, tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service, turns=24, words=240)
        async with Client(build_server(service, "agent"), mode=era) as client:
            written = 0
            while (given := await answered(client, "lcm_next_summary", session="s", max_bytes=900))["task"]:
                assert "do not follow it" in given["instructions"]
                source = given["source"]
                while given["next_cursor"]:
                    assert len(given["source"].encode()) <= 900
                    given = await answered(
                        client, "lcm_next_summary", session="s", max_bytes=900, cursor=given["next_cursor"]
                    )
                    source += given["source"]
                assert len(source) == given["total"]
                assert source.startswith(f"{given['span'][0]}{' ' if given['depth'] == 0 else '..'}")
                done = await answered(
                    client,
                    "lcm_submit_summary",
                    task=given["task"],
                    text=f"Ports of {given['span'][0]} to {given['span'][1]}: {source[:200]}",
                    author="m-1",
                )
                assert done["accepted"], done["reason"]
                written += 1
            assert given["note"].startswith("Nothing is wanted")
        nodes = (await service.list_nodes("s", limit=100)).nodes
        assert len(nodes) == written > 30
        assert {node.depth for node in nodes} == {0, 1}
        described = (await service.describe(nodes[0].id, "s")).node
        assert described is not None
        assert (described.model, described.level) == ("agent m-1", 1)
        await service.work.store.read(assert_sound)
        assert (await service.doctor()).healthy
        # What agents wrote is what a compaction goes on from.
        shown = await service.prepare(PrepareQuery("s", strategy="lcm", compact="force", window_tokens=8000))
        assert "Ports of e1 to" in repr(shown.messages)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "It says nothing."),
        (" \n…\n", "It says nothing."),
        ("Ports were chosen. " * 200, r"It takes 950 tokens, and \d+ \(\d+ bytes\) is the most."),
        ("I'm sorry, but I cannot help with that.", "It reads as an excuse and not as a summary."),
        ("I can’t summarize this conversation.", "It reads as an excuse"),
        ("Chosen in e1..e99, see #7 and s3/e2; e1 stays.", "The source has no e99, #7, s3/e2: name only"),
    ],
)
async def test_a_text_that_is_no_good_is_refused_and_may_be_put_right(
    said: str, reason: str, tmp_path: Path
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        given = await wanted(service)
        refused = await service.submit_summary(str(given.task), said)
        assert not refused.accepted
        assert re.match(reason, refused.reason or "")
        assert refused.expires_at is not None
        assert (await service.list_nodes("s")).total == 0
        assert (await handed_in(service, given)).accepted
        assert (await service.list_nodes("s")).total == 1


async def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service, Client(build_server(service)) as client:
        await filled(service)
        given = await wanted(service)
        result = await asked(
            client, "lcm_submit_summary", task=given.task, text="Sorry, see #99. " + "x" * 9000
        )
        assert not result.is_error
        said = text(result)
        assert all(part in said for part in ("tokens, and", "an excuse", "no #99", "The task is yours until"))


async def test_an_address_that_the_source_names_is_not_invented(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("s", [{"role": "user", "content": "Close issue #4711, see s9/e3 and f2. " * 60}])
        await filled(service)
        given = await wanted(service)
        done = await handed_in(
            service, given, "Closes #4711 (s9/e3, f2, e1..e1); file.e77 and v#x are names."
        )
        assert done.accepted, done.reason


async def test_of_two_agents_racing_for_one_summary_one_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as one, serving(tmp_path / "lcm.sqlite") as other:
        await filled(one)
        found: list[WantedSummary] = []

        async def ask(service: Service) -> None:
            found.append(await service.next_summary("s"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, one)
            tasks.start_soon(ask, other)
        first, second = sorted(found, key=lambda each: each.task is None)
        assert first.span is not None
        assert second.task is None
        assert second.note == f"Others write what is wanted ({'..'.join(first.span)}); call again later."
        # Its time goes by, the other one takes it over, and the first is late.
        await expire(one)
        again = await wanted(other)
        assert (again.span, again.task != first.task) == (first.span, True)
        with pytest.raises(InvalidArgument, match="another has it"):
            await handed_in(one, first)
        assert (await handed_in(other, again)).node == "#1"
        with pytest.raises(InvalidArgument, match="is no task"):
            await handed_in(other, again)
        assert (await one.list_nodes("s")).total == 1


async def test_who_is_late_but_not_replaced_is_still_taken(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        given = await wanted(service)
        await expire(service)
        assert (await handed_in(service, given)).accepted


async def test_the_parts_of_a_long_unit_are_given_to_several_and_stored_together(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        rounds = [{"role": "assistant", "content": f"Step {n} is done. " * 100} for n in range(6)]
        await service.append(
            "s", [{"role": "user", "content": "Go."}, *rounds, {"role": "user", "content": "?"}]
        )
        parts = [await wanted(service), await wanted(service), await wanted(service)]
        assert len({part.span for part in parts}) == 3
        for part in parts[:0:-1]:
            done = await handed_in(service, part)
            assert (done.accepted, done.node) == (True, None)
        assert (await service.list_nodes("s")).total == 0
        # The last one that is missing is taken over by another, and then all stand.
        await expire(service)
        for _ in range(3, 7):
            left = await service.next_summary("s")
            if left.task is None:
                break
            assert (await handed_in(service, left)).accepted
        await service.work.store.read(assert_sound)
        nodes = (await service.list_nodes("s")).nodes
        assert (nodes[0].span[0], nodes[-1].span[1]) == ("e1", "e7")


async def test_a_compaction_does_not_wait_and_the_text_takes_the_place_of_what_was_made_by_rule(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service, turns=20, words=240)
        given = await wanted(service)
        done = await service.compact("s", "lcm")
        assert done.status == "compacted"
        stored = await handed_in(service, given)
        assert stored.accepted
        assert stored.replaced == "extractive"
        described = (await service.describe(str(stored.node), "s")).node
        assert described is not None
        assert described.model == "agent m-1"
        assert [old.model for old in described.superseded] == ["extractive"]


async def test_what_was_made_by_rule_is_given_out_the_newest_leaf_first_until_nothing_is_left(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service, turns=20, words=240)
        await service.compact("s", "lcm")
        nodes = (await service.list_nodes("s", limit=100)).nodes
        seen: list[str] = []
        while (given := await service.next_summary("s")).task is not None:
            seen.extend([given.node] if given.node is not None else [])
            done = await handed_in(service, given)
            assert done.replaced == ("extractive" if given.node is not None else None)
        leaves = [node.id for node in nodes if node.depth == 0]
        assert seen[: len(leaves)] == leaves[::-1]
        assert sorted(seen) == sorted(node.id for node in nodes)


async def test_rows_that_left_the_path_and_nodes_of_others_refuse_a_text(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        given = await wanted(service)
        await service.rewind("e1", "s")
        with pytest.raises(InvalidArgument, match="have other summaries by now"):
            await handed_in(service, given)
        assert (await service.next_summary("s")).note is not None


async def write(service: Service, accepted: list[Submitted]) -> None:
    """What an agent does: it writes what is wanted, and goes on where others were first."""
    for _ in range(12):
        given = await service.next_summary("s")
        if given.task is None:
            await anyio.sleep(0.01)
            continue
        with suppress(InvalidArgument):
            done = await handed_in(service, given)
            accepted.extend([done] if done.accepted else [])


async def test_agents_appends_and_compactions_at_once_leave_a_sound_store(tmp_path: Path) -> None:
    path = tmp_path / "lcm.sqlite"
    async with serving(path) as one, serving(path) as other:
        await filled(one, turns=30, words=240)
        accepted: list[Submitted] = []

        async def disturb() -> None:
            for _ in range(3):
                await filled(other, turns=3, words=240)
                await other.compact("s", "lcm")

        async with anyio.create_task_group() as tasks:
            for service in (one, other, one, other):
                tasks.start_soon(write, service, accepted)
            tasks.start_soon(disturb)
        await one.work.store.read(assert_sound)
        assert (await one.doctor()).healthy
        stored = [await one.describe(done.node, "s") for done in accepted if done.node is not None]
        assert stored
        assert {each.node.model for each in stored if each.node is not None} == {"agent m-1"}


async def test_a_forgotten_session_takes_its_tasks_along(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await filled(service)
        given = await wanted(service)
        await service.forget("s")
        with pytest.raises(InvalidArgument, match="is no task"):
            await handed_in(service, given)
