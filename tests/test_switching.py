"""Switching by examples: one strategy at a time, what each reads of what the other left, and the tools.

The window is 2,000 tokens unless a test says otherwise. A history of nine turns of 200 tokens is at its
trigger; lcm makes three leaves of two turns each of it, and leaves three turns in the tail.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import dump, expanded, same
from turns import KEY, Writer, ask, blocks, plain, rows, said, shown, turns, using, words, work

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.summarizers.model import FoldSource

SMALL = {"lcm.leafChunkTokens": 512}


async def strategy_of(service: Service, key: str) -> tuple[Strategy, str]:
    selection = await service.select(key)
    return selection.strategy, selection.chosen_by


@pytest.mark.parametrize("strategy", ["rolling", "lcm"])
async def test_compaction_changes_no_row(store_path: Path, strategy: Strategy) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        await service.append(KEY, turns(1, 9))
        before = await dump(service)
        assert (await ask(service, strategy=strategy)).status == "compacted"
        after = await dump(service)
        assert after["row"] == before["row"]
        assert [row.text for row in await expanded(service, KEY, "e1..e18", 6000)] == plain(turns(1, 9))


# --- which is on


async def test_rolling_is_on_unless_another_is_chosen(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 1))
        assert view.observation.strategy == "rolling"
        assert await strategy_of(service, KEY) == ("rolling", "settings")
        assert (await ask(service, strategy="lcm")).observation.strategy == "lcm"
        assert (await ask(service)).observation.strategy == "lcm"
        assert await strategy_of(service, KEY) == ("lcm", "session")
        assert (await service.compact(KEY, "rolling")).strategy == "rolling"
        assert await strategy_of(service, KEY) == ("rolling", "session")


async def test_a_strategy_chosen_for_a_session_stays_when_the_default_changes(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        for key in ("first", "second", "third", "fourth"):
            await service.append(key, turns(1, 1))
        await service.select("first", "rolling")
        await service.select("second", "lcm")
        await service.select("third", "none")
    async with using(store_path, Writer(), settings={"strategy": "lcm"}) as service:
        assert await strategy_of(service, "first") == ("rolling", "session")
        assert await strategy_of(service, "second") == ("lcm", "session")
        assert await strategy_of(service, "third") == ("none", "session")
        assert await strategy_of(service, "fourth") == ("lcm", "settings")


async def test_only_the_strategy_that_is_on_shapes_the_request(store_path: Path) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        by_lcm = await ask(service, append=turns(1, 9), strategy="lcm")
        assert by_lcm.shown == ["#1", "#2", "#3"]
        by_rolling = await ask(service, strategy="rolling")
        assert by_rolling.shown == ["e1..e14"]
        assert "[lcm:summary #" not in shown(by_rolling)[0].partition("\n")[2]
        by_none = await ask(service, strategy="none")
        assert (by_none.cut, shown(by_none)) == (None, plain(turns(1, 9)))


async def test_with_none_nothing_is_compacted_and_a_forced_compaction_is_refused(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        view = await ask(service, append=turns(1, 9), strategy="none")
        assert (view.status, view.tokens, view.cut) == ("not_needed", 1800, None)
        over = await ask(service, append=turns(10, 11))
        assert (over.status, over.tail) == ("limited", rows(1, 22))
        assert over.notes == (
            "Over the window: 2200 tokens estimated (0 of them preamble), window 2000.",
            "This session's strategy is none: nothing is compacted.",
        )
        with pytest.raises(InvalidArgument, match="Give rolling or lcm to compact it"):
            await service.compact(KEY)
        assert writer.asked == []


# --- from lcm to rolling


async def test_rolling_reads_stored_nodes_and_the_rows_after_them_and_expands_nothing(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        await ask(service, append=turns(1, 9), strategy="lcm")
        writer.asked.clear()
        view = await ask(service, strategy="rolling")
        assert writer.sources == [["e1..e4", "e5..e8", "e9..e12", "e13", "e14"]]
        source = writer.asked[0].source
        assert isinstance(source, FoldSource)
        assert [child.text for child in source.children] == [words(f"summary {n}", 160) for n in (1, 2, 3)]
        assert [row.text for row in source.rows] == plain(turns(7, 7))
        assert view.shown == ["e1..e14"]
        assert view.tail == rows(15, 18)


async def test_a_unit_that_goes_on_after_the_covered_end_is_kept_whole_and_may_overlap(
    store_path: Path,
) -> None:
    writer = Writer()
    long = [said("user", "do it", 100), *(row for n in range(10) for row in work(n, 200))]
    settings = {**SMALL, "lcm.splitOversizedUnit": True}
    async with using(store_path, writer, settings=settings) as service:
        by_lcm = await ask(service, append=[*turns(1, 3), *long], strategy="lcm")
        first, second, *_ = (await service.list_nodes(KEY)).nodes
        # The third turn is too little for a leaf of its own, so the second leaf reaches into the long unit.
        assert (first.span, second.span) == (("e1", "e4"), ("e5", "e9"))
        assert by_lcm.tail == rows(24, 27)
        writer.asked.clear()
        view = await ask(service, 2900, strategy="rolling")
        assert writer.sources == [["e1..e4", "e5..e9"]]
        assert view.shown == ["e1..e9"]
        assert view.tail == rows(7, 27)


# --- from rolling to lcm


async def test_lcm_reads_the_transcript_and_never_the_summary_of_rolling(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        assert (await ask(service, append=turns(1, 9))).shown == ["e1..e14"]
        writer.asked.clear()
        view = await ask(service, strategy="lcm")
        assert writer.sources == [rows(1, 4), rows(5, 8), rows(9, 12)]
        assert view.shown == ["#1", "#2", "#3"]
        assert view.tail == rows(13, 18)


async def test_back_at_lcm_its_saved_nodes_are_shown_and_nothing_is_summarized_twice(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        first = await ask(service, append=turns(1, 9), strategy="lcm")
        await ask(service, strategy="rolling")
        writer.asked.clear()
        back = await ask(service, strategy="lcm")
        assert (back.prepared, back.messages) == (first.prepared, first.messages)
        assert writer.asked == []
        await ask(service, append=turns(10, 15))
        assert writer.sources == [rows(13, 16), rows(17, 20), rows(21, 24)]


async def test_a_switch_drops_the_summary_of_rolling_for_good(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        await ask(service, append=turns(1, 9))
        await ask(service, 8000, strategy="lcm")
        again = await ask(service, 8000, strategy="rolling")
        assert (again.cut, shown(again)) == (None, plain(turns(1, 9)))
        writer.asked.clear()
        assert "summary 2" in blocks(await ask(service))[1]
        assert writer.sources == [rows(1, 8), ["e1..e8", *rows(9, 14)]]


async def test_selecting_alone_makes_no_cut_and_calls_no_summarizer(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        await ask(service, append=turns(1, 9))
        calls = len(writer.asked)
        assert (await service.select(KEY, "lcm")).strategy == "lcm"
        before = await dump(service)
        assert len(before["cut"]) == 1
        assert (await ask(service, compact="never")).cut is None
        assert len(writer.asked) == calls
        await same(service, before)


# --- the read tools


@pytest.mark.parametrize("strategy", ["rolling", "lcm", "none"])
async def test_the_read_tools_reach_nodes_and_rows_whichever_strategy_is_on(
    store_path: Path, strategy: Strategy
) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        await ask(service, append=turns(1, 9), strategy="lcm")
        await ask(service, strategy=strategy)
        page = await service.list_nodes(KEY)
        assert [(node.id, node.span) for node in page.nodes] == [
            ("#1", ("e1", "e4")),
            ("#2", ("e5", "e8")),
            ("#3", ("e9", "e12")),
        ]
        assert page.covered_end == "e12"
        described = (await service.describe("#2", KEY)).node
        assert described is not None
        assert described.text == words("summary 2", 160)
        hits = (await service.grep(GrepQuery("turn 3 asked", session=KEY))).hits
        assert [(hit.ref, hit.node) for hit in hits] == [("e5", "#2")]
        summaries = (await service.grep(GrepQuery("summary 3", session=KEY))).hits
        assert [(hit.ref, hit.kind) for hit in summaries] == [("#3", "summary")]
        assert [row.text for row in await expanded(service, KEY, "#2", 6000)] == plain(turns(3, 4))


async def test_where_there_is_no_node_yet_the_list_says_how_to_make_some(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await ask(service, append=turns(1, 9))
        page = await service.list_nodes(KEY)
        assert (page.nodes, page.covered_end) == ((), None)
        assert page.note is not None
        assert page.note.startswith("This session has no summaries yet.")
