"""lcm by examples: when it folds and cuts, what stays as it is between cuts, and how long a call takes.

Every figure is worked out from the sizes the rows were made with. A leaf takes up to 512 tokens, so of turns
of 200 tokens two make a leaf. Unless a test says otherwise the window is 2,000 tokens, with the trigger at
1,800 and a tail of up to 500.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from asking import View, dump, expanded, same
from turns import (
    KEY,
    Writer,
    ask,
    blocks,
    count,
    kinds,
    plain,
    rows,
    said,
    shown,
    turns,
    using,
    words,
)

from lcm_mcp.service import Service, background, preparing
from lcm_mcp.transcript import sessions

LCM = {"strategy": "lcm", "lcm.leafChunkTokens": 512}
ASYNC = {**LCM, "lcm.swapPercent": 60}


async def spans(service: Service) -> list[tuple[str, int, tuple[str, str]]]:
    return [(node.id, node.depth, node.span) for node in (await service.list_nodes(KEY, limit=100)).nodes]


async def pass_of(service: Service) -> background.Pass:
    """The pass under way."""
    session = await service.work.store.read(sessions.find_by_key, KEY)
    assert session is not None
    found = service.background.at_work(session.id)
    assert found is not None
    return found


def telling(waits: anyio.Event) -> background.Report:
    """A report that sets the event once its call waits for a pass."""

    async def told(_done: float, _total: float | None, _line: str) -> None:
        waits.set()

    return told


# --- passive, and blocking at the trigger


async def test_until_the_trigger_a_request_shows_ordinary_history_and_nothing_is_called(
    store_path: Path,
) -> None:
    writer = Writer()
    talk = [*turns(1, 8), said("user", "turn 9 asked", 100), said("assistant", "turn 9 answered", 99)]
    async with using(store_path, writer, settings=LCM) as service:
        view = await ask(service, append=talk)
        assert (view.status, view.tokens, view.cut) == ("not_needed", 1799, None)
        assert (view.observation.regime, shown(view)) == ("passive", plain(talk))
        assert (writer.asked, await spans(service)) == ([], [])


async def test_at_the_trigger_older_units_are_folded_in_chunks_and_shown_as_nodes_before_the_tail(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=LCM) as service:
        view = await ask(service, append=turns(1, 9))
        assert (view.status, view.observation.regime) == ("compacted", "blocking")
        assert writer.sources == [rows(1, 4), rows(5, 8), rows(9, 12)]
        assert kinds(view) == ["summaries", "tail"]
        assert blocks(view)[1:-1] == [
            "[lcm:summary #1 depth 0 span e1..e4]\n" + words("summary 1", 160),
            "[lcm:summary #2 depth 0 span e5..e8]\n" + words("summary 2", 160),
            "[lcm:summary #3 depth 0 span e9..e12]\n" + words("summary 3", 160),
        ]
        # Two turns fit the tail; the third is too little for a leaf and stays with them.
        assert view.tail == rows(13, 18)
        assert shown(view)[1:] == plain(turns(7, 9))
        assert view.tokens == -(-len(shown(view)[0]) // 4) + 12 + 600


async def test_a_leaf_takes_at_most_half_the_window(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer, settings={"strategy": "lcm"}) as service:
        await ask(service, 1000, append=turns(1, 5))
        assert writer.sources == [rows(1, 4), rows(5, 8)]


async def test_crowded_nodes_are_joined_into_a_parent_and_kept_below_it(store_path: Path) -> None:
    writer = Writer(tokens=(230,))
    async with using(store_path, writer, settings=LCM) as service:
        view = await ask(service, 5000, append=turns(1, 20, tokens=250))
        # Seven leaves of 242 are more than 1,536, which is room for twelve of 128; joining the oldest four
        # leaves half of it in use.
        assert writer.sources[7:] == [["e1..e4", "e5..e8", "e9..e12", "e13..e16"]]
        assert view.shown == ["#8", "#5", "#6", "#7"]
        leaves = [(f"#{n}", 0, (f"e{4 * n - 3}", f"e{4 * n}")) for n in range(1, 8)]
        assert await spans(service) == [("#8", 1, ("e1", "e16")), *leaves]
        parent = (await service.describe("#8", KEY)).node
        assert parent is not None
        assert parent.children == ("#1", "#2", "#3", "#4")
        assert [row.text for row in await expanded(service, KEY, "#8", 6000)] == plain(turns(1, 8, 250))


async def test_a_failed_summary_does_not_advance_what_is_covered(store_path: Path) -> None:
    writer = Writer(failing={2})
    async with using(store_path, writer, settings=LCM) as service:
        view = await ask(service, append=turns(1, 9))
        assert (view.status, view.cut, shown(view)) == ("failed", None, plain(turns(1, 9)))
        assert (await service.list_nodes(KEY)).covered_end == "e4"
        again = await ask(service)
        assert (again.status, again.shown) == ("compacted", ["#1", "#2", "#3"])
        assert writer.sources[2:] == [rows(5, 8), rows(9, 12)]


async def test_summaries_larger_than_their_source_give_way_to_a_short_pointer(store_path: Path) -> None:
    writer = Writer(tokens=(3000,))
    async with using(store_path, writer, settings=LCM) as service:
        view = await ask(service, append=turns(1, 9))
        # Of 400 tokens: first up to four targets of 128, then up to half of the source.
        assert [(r.level, r.limit_tokens) for r in writer.asked] == [(1, 512), (2, 200)] * 3
        nodes = (await service.list_nodes(KEY)).nodes
        assert [(node.level, node.source_tokens) for node in nodes] == [(3, 400)] * 3
        assert all(node.tokens <= 200 for node in nodes)
        pointer = "[lcm:truncated] lcm_expand e1..e4 gives these rows word for word."
        assert pointer in shown(view)[0].split("\n")
        assert [row.text for row in await expanded(service, KEY, "#1", 6000)] == plain(turns(1, 2))


def tier_of(block: str, leaf: int) -> str:
    """How a leaf of two calls is shown: summary 1, 3 … is the rich text, summary 2, 4 … the terse one."""
    header = f"[lcm:summary #{leaf} depth 0 span e{4 * leaf - 3}..e{4 * leaf}]"
    rich, terse = words(f"summary {2 * leaf - 1}", 1800), words(f"summary {2 * leaf}", 800)
    stub = f"{terse[:200]}…\n[shortened: lcm_describe #{leaf} gives the whole summary]"
    tiers = {f"{header}\n{rich}": "rich", f"{header}\n{terse}": "terse", f"{header}\n{stub}": "stub"}
    return tiers[block]


@pytest.mark.parametrize(
    ("leaves", "newest", "tiers"),
    [
        (3, 2100, ["rich", "rich", "rich"]),
        (3, 2600, ["terse", "rich", "rich"]),
        (3, 2900, ["terse", "terse", "rich"]),
        (1, 3500, ["terse"]),
        (1, 3700, ["stub"]),
    ],
)
async def test_a_node_shows_the_richest_text_that_fits_and_the_oldest_give_way_first(
    store_path: Path, leaves: int, newest: int, tiers: list[str]
) -> None:
    talk = [*turns(1, 2 * leaves, tokens=250), said("user", "now", newest)]
    async with using(store_path, Writer(tokens=(450, 200)), settings=LCM) as service:
        view = await ask(service, 4000, append=talk)
        told = blocks(view)[1:-1]
        assert [tier_of(block, leaf) for leaf, block in enumerate(told, 1)] == tiers
        # What does not fit and cannot be joined is reported and shown shorter, never left out.
        stalled = any(note.startswith("condensation-stalled: no run") for note in view.notes)
        assert stalled is ("stub" in tiers)
        described = (await service.describe("#1", KEY)).node
        assert described is not None
        assert described.text == words("summary 1", 1800)
        assert [tier.kind for tier in described.tiers] == ["primary", "rich"]


# --- between cuts


async def test_between_cuts_a_request_only_grows_at_its_end(store_path: Path) -> None:
    async with using(store_path, Writer(), settings=LCM) as service:
        before = await ask(service, append=turns(1, 9), format="openai")
        after = await ask(service, append=turns(10, 13), format="openai")
        assert (before.prepared, after.prepared) == ("c1.e18", "c1.e26")
        assert after.messages[: len(before.messages)] == before.messages
        assert after.observation.prefix_sha256 == before.observation.prefix_sha256


async def test_a_larger_window_never_undoes_a_cut_and_a_smaller_one_cuts_further(store_path: Path) -> None:
    async with using(store_path, Writer(), settings=LCM) as service:
        first = await ask(service, append=turns(1, 9))
        assert (await ask(service, 100_000)).messages == first.messages
        smaller = await ask(service, 900)
        assert (smaller.cut, smaller.shown) == ("c2", ["#1", "#2", "#3", "#4"])
        assert smaller.tail == rows(17, 18)
        assert (await ask(service)).messages == smaller.messages


async def test_a_request_above_the_trigger_with_nothing_left_to_fold_says_so_and_calls_nothing(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=LCM) as service:
        await ask(service, append=[*turns(1, 4), said("user", "the newest unit", 1600)])
        calls, before = len(writer.asked), await dump(service)
        view = await ask(service)
        assert (view.status, view.observation.regime) == ("not_needed", "blocking")
        assert view.notes[-1] == (
            "The request is above the trigger and nothing is left to fold; it fits the window."
        )
        assert len(writer.asked) == calls
        await same(service, before)


# --- beside the requests


async def test_between_swap_and_trigger_a_request_is_answered_at_once_and_the_next_shows_the_cut(
    store_path: Path,
) -> None:
    gate = anyio.Event()
    writer = Writer(gate=gate)
    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        view = await ask(service, 4000, append=turns(1, 12))
        assert (view.observation.swap_tokens, view.tokens) == (2400, 2400)
        assert (view.status, view.observation.regime) == ("scheduled", "async")
        assert shown(view) == plain(turns(1, 12))
        under_way = await pass_of(service)
        assert (await ask(service, 4000)).status == "scheduled"
        assert await pass_of(service) is under_way
        gate.set()
        await under_way.ended.wait()
        after = await ask(service, 4000)
        assert (after.status, after.prepared) == ("not_needed", "c1.e24")
        assert (after.shown, after.tail) == (["#1", "#2", "#3"], rows(13, 24))
        assert writer.sources == [rows(1, 4), rows(5, 8), rows(9, 12)]


async def test_just_below_the_swap_point_no_pass_is_started(store_path: Path) -> None:
    writer = Writer()
    talk = [*turns(1, 11), said("user", "turn 12 asked", 100), said("assistant", "turn 12 answered", 99)]
    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        view = await ask(service, 4000, append=talk)
        assert (view.status, view.observation.regime, view.tokens) == ("not_needed", "passive", 2399)
    assert writer.asked == []


@pytest.mark.parametrize(("tokens", "regime"), [(3599, "async"), (3600, "blocking")])
async def test_a_request_waits_exactly_from_the_trigger_on(
    store_path: Path, tokens: int, regime: str
) -> None:
    talk = [*turns(1, 17), said("user", "turn 18 asked", tokens - 3400)]
    async with using(store_path, Writer(), settings=ASYNC) as service, service.background.running():
        view = await ask(service, 3999, append=talk)  # 90% are 3,599.1 tokens
        assert view.observation.before.tokens == tokens
        assert view.observation.regime == regime


async def test_without_a_swap_point_nothing_is_done_ahead_of_the_trigger(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=LCM) as service, service.background.running():
        view = await ask(service, 4000, append=turns(1, 17))
        assert (view.status, view.observation.swap_tokens, view.tokens) == ("not_needed", 3600, 3400)
    assert writer.asked == []


async def test_past_the_swap_line_there_is_one_further_cut_per_crossing(store_path: Path) -> None:
    async with using(store_path, Writer(), settings=ASYNC) as service, service.background.running():
        cuts: list[str | None] = []
        for number in range(1, 40):
            if (await ask(service, 4000, append=turns(number, number))).status == "scheduled":
                await (await pass_of(service)).ended.wait()
                cuts.append((await ask(service, 4000)).cut)
                assert (await ask(service, 4000)).status == "not_needed"
        assert cuts == [f"c{number}" for number in range(1, len(cuts) + 1)]
        assert len(cuts) == await count(service, "cut") > 2


async def test_a_call_with_no_background_does_the_work_itself(store_path: Path) -> None:
    async with using(store_path, Writer(), settings=ASYNC) as service:
        view = await ask(service, 4000, append=turns(1, 12))
        assert (view.status, view.observation.regime, view.cut) == ("compacted", "blocking", "c1")


async def test_at_the_trigger_a_request_waits_for_the_pass_under_way(store_path: Path) -> None:
    gate, waits = anyio.Event(), anyio.Event()
    writer = Writer(gate=gate)
    views: list[View] = []

    async def over_the_trigger(service: Service) -> None:
        views.append(await ask(service.reporting(telling(waits)), 4000, append=turns(13, 18)))

    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        assert (await ask(service, 4000, append=turns(1, 12))).status == "scheduled"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(over_the_trigger, service)
            await waits.wait()
            gate.set()
    assert (views[0].status, views[0].observation.regime) == ("compacted", "blocking")
    assert views[0].observation.before.tokens == 3600
    assert writer.sources == [rows(1, 4), rows(5, 8), rows(9, 12)]


async def test_a_pass_is_cancelled_at_shutdown_and_leaves_no_lease_and_no_half_cut(store_path: Path) -> None:
    writer = Writer(gate=anyio.Event())
    async with using(store_path, writer, settings=ASYNC) as service:
        async with service.background.running():
            assert (await ask(service, 4000, append=turns(1, 12))).status == "scheduled"
            under_way = await pass_of(service)
            await writer.reached.wait()
            assert await count(service, "lease") == 1
        assert under_way.ended.is_set()
        assert under_way.outcome is None
        assert [await count(service, table) for table in ("lease", "cut", "node")] == [0, 0, 0]


# --- time


async def test_when_the_time_of_a_call_is_over_the_work_goes_on_and_the_next_call_shows_it(
    store_path: Path,
) -> None:
    gate = anyio.Event()
    async with using(store_path, Writer(gate=gate), settings=LCM) as service, service.background.running():
        view = await ask(service, append=turns(1, 9), deadline_ms=1)
        assert (view.status, view.observation.regime) == ("scheduled", "blocking")
        assert view.notes == (
            "The time for this call was over: what was made is kept, and the rest is gone on with.",
        )
        assert shown(view) == plain(turns(1, 9))
        under_way = await pass_of(service)
        gate.set()
        await under_way.ended.wait()
        after = await ask(service)
        assert (after.status, after.shown, after.tail) == ("not_needed", ["#1", "#2", "#3"], rows(13, 18))


@pytest.mark.parametrize(("strategy", "calls"), [("lcm", 4), ("rolling", 2)])
async def test_without_a_background_what_was_made_in_time_stays_and_the_next_call_goes_on(
    store_path: Path, strategy: str, calls: int
) -> None:
    writer = Writer()
    settings = {**LCM, "strategy": strategy}
    async with using(store_path, writer, settings=settings) as service:
        await service.append(KEY, turns(1, 14))
        views: list[View] = []
        deadline_ms = 50
        while not views or views[-1].status == "scheduled":
            writer.seconds = deadline_ms / 1000 + 0.01  # so a call has time for one summary at most
            views.append(await ask(service, deadline_ms=deadline_ms))
            deadline_ms *= 2
        assert views[0].status == "scheduled"
        assert views[-1].tokens < 1800
        ends = [f"e{4 * n}" for n in range(1, 5)] if strategy == "lcm" else ["e8", "e16"]
        assert [source[-1] for source in writer.sources] == ends
        assert len(writer.asked) == calls


def test_no_call_waits_50_seconds_for_a_compaction() -> None:
    assert preparing.COMPACTION_S + background.GRACE_S < 50


# --- several at once


async def test_two_services_on_one_file_that_compact_at_once_make_one_cut(store_path: Path) -> None:
    gate, waits = anyio.Event(), anyio.Event()
    first, second = Writer(gate=gate), Writer()
    views: list[View] = []

    async def prepare(service: Service) -> None:
        views.append(await ask(service))

    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(using(store_path, first, settings=LCM))
        two = await stack.enter_async_context(using(store_path, second, settings=LCM))
        await one.append(KEY, turns(1, 9))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prepare, one)
            await first.reached.wait()
            tasks.start_soon(prepare, two.reporting(telling(waits)))
            await waits.wait()
            gate.set()
        assert {view.prepared for view in views} == {"c1.e18"}
        assert sorted(view.status for view in views) == ["compacted", "not_needed"]
        assert second.asked == []
        assert [await count(one, table) for table in ("cut", "node", "lease")] == [1, 3, 0]
