"""Rolling by examples: when it compacts, what a request shows then, what its summarizer is asked.

Every figure is worked out from the sizes the rows were made with. Unless a test says otherwise the window
is 2,000 tokens: compaction starts at 1,800, the tail may take 500, the summary 200.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import fields
from pathlib import Path

import pytest
from asking import dump, same
from histories import PICTURES, Block, Entry, entry
from histories import said as text_block
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
    work,
)

from lcm_mcp.summarizers.model import FoldSource, Request
from lcm_mcp.transcript.model import Image


def folded(request: Request) -> FoldSource:
    assert isinstance(request.source, FoldSource)
    return request.source


# --- when


async def test_below_the_trigger_the_plain_history_is_shown_and_no_summarizer_called(
    store_path: Path,
) -> None:
    writer = Writer()
    talk = [*turns(1, 8), said("user", "turn 9 asked", 100), said("assistant", "turn 9 answered", 99)]
    async with using(store_path, writer) as service:
        view = await ask(service, append=talk)
        assert (view.status, view.tokens, view.cut) == ("not_needed", 1799, None)
        assert shown(view) == plain(talk)
        assert view.observation.regime == "passive"
        assert view.observation.done is None
        assert writer.asked == []


@pytest.mark.parametrize(
    ("window", "tokens", "compacts"),
    [
        (2000, 1799, False),
        (2000, 1800, True),
        (1999, 1799, False),  # 90% are 1,799.1 tokens
        (1999, 1800, True),
        (2001, 1800, False),  # 1,800.9
        (2001, 1801, True),
    ],
)
async def test_it_compacts_exactly_at_the_trigger(
    store_path: Path, window: int, tokens: int, compacts: bool
) -> None:
    async with using(store_path, Writer()) as service:
        talk = [*turns(1, 8), said("user", "turn 9 asked", 100)]
        view = await ask(service, window, append=[*talk, said("assistant", "so it is", tokens - 1700)])
        assert view.observation.before.tokens == tokens
        assert (view.status == "compacted") is compacts


@pytest.mark.parametrize(("preamble", "compacts"), [(199, False), (200, True)])
async def test_the_preamble_counts_and_the_percentage_is_a_setting(
    store_path: Path, preamble: int, compacts: bool
) -> None:
    async with using(store_path, Writer(), settings={"rolling.triggerPercent": 60}) as service:
        view = await ask(service, append=turns(1, 5), preamble_tokens=preamble)
        assert view.observation.trigger_tokens == 1200
        assert (view.status == "compacted") is compacts


# --- what is shown


async def test_a_compacted_request_has_four_parts_in_order(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 9), system="Be brief. " * 4)
        assert view.status == "compacted"
        assert kinds(view) == ["preamble", "summaries", "quotes", "tail"]
        sources = [section.sources for section in view.observation.sections]
        assert sources == [(), ("e1..e14",), ("e9", "e11", "e13"), ("e15..e18",)]
        opens, *parts, closes = blocks(view)
        assert opens.startswith("[lcm:history] What follows is one summary")
        assert parts == [
            "[lcm:summary rolling span e1..e14]\n" + words("summary 2", 160),
            "[lcm:quote e9 user]\n" + words("turn 5 asked", 352),
            "[lcm:quote e11 user]\n" + words("turn 6 asked", 352),
            "[lcm:quote e13 user]\n" + words("turn 7 asked", 352),
        ]
        assert closes.startswith("[lcm:history ends]")
        assert shown(view)[1:] == plain(turns(8, 9))
        preamble = 16 + 10
        history = -(-len(shown(view)[0]) // 4) + 12
        assert view.tokens == preamble + history + 400


@pytest.mark.parametrize(
    ("percent", "first"),
    [
        (25, "e15"),  # 500 tokens: two turns of 200
        (30, "e13"),  # 600: three
        (10, "e17"),  # 200: exactly one
        (9, "e17"),  # 180: the newest unit all the same
    ],
)
async def test_the_tail_is_the_newest_whole_units_that_fit_its_share(
    store_path: Path, percent: int, first: str
) -> None:
    async with using(store_path, Writer(), settings={"rolling.tailPercent": percent}) as service:
        view = await ask(service, append=turns(1, 9))
        assert view.tail == rows(int(first[1:]), 18)


async def test_a_cut_lies_between_units_so_a_call_keeps_its_result(store_path: Path) -> None:
    newest = [said("user", "do it", 100), *work(1, 200), *work(2, 200), *work(3, 200)]
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=[*turns(1, 6), *newest])
        assert view.observation.before.tokens == 1900
        assert view.tail == rows(13, 19)  # 700 tokens, and not a round less
        assert view.notes == ()


async def test_between_compactions_nothing_before_the_tails_end_changes(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        before = await ask(service, append=turns(1, 9), format="openai")
        after = await ask(service, append=turns(10, 13), format="openai")
        assert (before.prepared, after.prepared) == ("c1.e18", "c1.e26")
        assert after.messages[: len(before.messages)] == before.messages
        assert after.observation.prefix_sha256 == before.observation.prefix_sha256


# --- what the summarizer is asked


async def test_a_long_eviction_goes_in_chunks_of_at_most_half_the_window_with_the_summary_so_far(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        view = await ask(service, append=turns(1, 14))
        assert view.tail == rows(25, 28)
        # A summary may take 200 tokens, so 800 are left of half the window: four turns.
        assert writer.sources == [rows(1, 8), ["e1..e8", *rows(9, 16)], ["e1..e16", *rows(17, 24)]]
        assert [request.limit_tokens for request in writer.asked] == [200, 200, 200]
        texts = [child.text for request in writer.asked for child in folded(request).children]
        assert texts == [words("summary 1", 160), words("summary 2", 160)]


async def test_a_later_compaction_replaces_the_summary_by_one_of_it_and_what_was_evicted_since(
    store_path: Path,
) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        await ask(service, append=turns(1, 9))
        view = await ask(service, append=turns(10, 14))
        assert view.observation.before.tokens == 828 + 1000
        assert (view.status, view.cut) == ("compacted", "c2")
        # 1,000 tokens were evicted since: four turns and one, each call with the summary so far.
        assert writer.sources[2:] == [["e1..e14", *rows(15, 22)], ["e1..e22", *rows(23, 24)]]
        assert folded(writer.asked[2]).children[0].text == words("summary 2", 160)
        assert blocks(view)[1] == "[lcm:summary rolling span e1..e24]\n" + words("summary 4", 160)
        assert "summary 2" not in shown(view)[0]
        assert view.tail == rows(25, 28)


def test_a_summarizer_is_given_the_source_and_sizes_and_no_tools() -> None:
    assert [field.name for field in fields(Request)] == [
        "source",
        "level",
        "target_tokens",
        "limit_tokens",
        "draft",
    ]


@pytest.mark.parametrize(
    ("window", "limit"), [(1000, 128), (1500, 150), (2000, 200), (20_000, 2000), (40_000, 2048)]
)
async def test_the_summary_may_take_a_tenth_of_the_window_between_128_and_2048_tokens(
    store_path: Path, window: int, limit: int
) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        await ask(service, window, append=turns(1, 10, tokens=window // 10))
        assert writer.asked[0].limit_tokens == limit


# --- the recap


async def test_the_recap_quotes_the_last_three_user_rows_by_400_characters(store_path: Path) -> None:
    long = said("user", "a long wish", 250)
    talk = [*turns(1, 4), long, said("assistant", "yes", 50), *turns(5, 8)]
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=talk)
        text = plain([long])[0]
        assert len(text) == 952
        quotes = [block.split("\n") for block in blocks(view)[2:-1]]
        assert quotes == [
            ["[lcm:quote e9 user, its beginning]", f"{text[:400]}…"],
            ["[lcm:quote e11 user]", words("turn 5 asked", 352)],
            ["[lcm:quote e13 user]", words("turn 6 asked", 352)],
        ]


async def test_a_pinned_row_counts_among_the_last_three_though_shown_as_a_pin(store_path: Path) -> None:
    talk = turns(1, 9)
    talk[12] = {**talk[12], "pin": True}
    more = [said("user", "turn 10 asked", 100), said("assistant", "turn 10 answered", 1100)]
    first, then = ["pinned e13", "quote e9", "quote e11"], ["pinned e13", "quote e15", "quote e17"]
    async with using(store_path, Writer(), settings={"pinnedRowsPercent": 10}) as service:
        for entries, labels in ((talk, first), (more, then)):
            view = await ask(service, append=entries)
            assert view.status == "compacted"
            quotes = [block for block in blocks(view) if block.startswith(("[lcm:quote", "[lcm:pinned"))]
            assert [block.partition(" user")[0].removeprefix("[lcm:") for block in quotes] == labels


def picture() -> Entry:
    image: Block = {"type": "image", "media_type": "image/png", "data": PICTURES[1]}
    return entry("user", [text_block("Look at this."), image])


async def test_neither_recap_nor_summarizer_sees_the_bytes_of_an_image(store_path: Path) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        view = await ask(
            service, append=[picture(), said("assistant", "I see", 50), *turns(2, 5, tokens=250)]
        )
        assert view.tail == rows(7, 10)
        text = f"Look at this.\n[image image/png, 600x600 px, {len(b64decode(PICTURES[1]))} bytes]"
        assert blocks(view)[2] == f"[lcm:quote e1 user]\n{text}"
        seen = [row for request in writer.asked for row in folded(request).rows]
        assert seen[0].text == text
        assert [part.data for row in seen for part in row.parts if isinstance(part, Image)] == [None]
        assert PICTURES[1] not in repr((writer.asked, view.messages))


async def test_an_image_stays_as_it_is_while_its_unit_is_in_the_tail(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, format="anthropic", append=[*turns(1, 6), picture()])
        assert (view.status, view.tail) == ("compacted", ["e13"])
        source: Block = {"type": "base64", "media_type": "image/png", "data": PICTURES[1]}
        assert view.messages[-1].body["content"] == [
            text_block(shown(view)[0]),
            text_block("Look at this."),
            {"type": "image", "source": source},
        ]


# --- failure


@pytest.mark.parametrize("fails", [1, 2])
async def test_a_failure_leaves_projection_and_store_as_they_were_and_the_next_call_works(
    store_path: Path, fails: int
) -> None:
    writer = Writer(failing={fails})
    async with using(store_path, writer) as service:
        await service.append(KEY, turns(1, 9))
        before = await dump(service)
        view = await ask(service)
        assert (view.status, view.cut, view.tokens) == ("failed", None, 1800)
        assert shown(view) == plain(turns(1, 9))
        assert view.notes == (
            "Summarizer writer failed: no network. The last cut is shown; nothing was lost.",
        )
        await same(service, before)
        assert await count(service, "lease") == 0
        again = await ask(service)
        assert (again.status, again.cut) == ("compacted", "c1")
        # Nothing of the failed pass was kept: the oldest rows were asked for once more.
        assert writer.sources[fails:] == [rows(1, 8), ["e1..e8", *rows(9, 14)]]


async def test_a_failure_after_a_cut_shows_that_cut(store_path: Path) -> None:
    async with using(store_path, Writer(failing={3})) as service:
        first = await ask(service, append=turns(1, 9), format="openai")
        view = await ask(service, append=turns(10, 14), format="openai")
        assert (view.status, view.prepared, view.tokens) == ("failed", "c1.e28", 1828)
        assert view.messages[: len(first.messages)] == first.messages
        assert view.tail == rows(15, 28)


# --- another provider or model


@pytest.mark.parametrize(("provider", "model"), [(None, "gpt-5"), ("openai", None)])
async def test_another_provider_or_model_starts_without_the_summary(
    store_path: Path, provider: str | None, model: str | None
) -> None:
    writer = Writer()
    async with using(store_path, writer) as service:
        first = await ask(service, append=turns(1, 9), provider="anthropic", model="claude")
        assert first.cut == "c1"
        view = await ask(service, 4000, provider=provider, model=model)
        assert (view.status, view.prepared, view.cut) == ("not_needed", "c0.e18", None)
        assert shown(view) == plain(turns(1, 9))
        back = await ask(service, 4000, provider="anthropic", model="claude")
        assert back.cut is None
        anew = await ask(service, 2000)
        assert (anew.status, anew.cut) == ("compacted", "c2")
        assert writer.sources[2:] == [rows(1, 8), ["e1..e8", *rows(9, 14)]]


async def test_naming_the_model_for_the_first_time_or_the_same_one_again_keeps_the_summary(
    store_path: Path,
) -> None:
    async with using(store_path, Writer()) as service:
        assert (await ask(service, append=turns(1, 9))).cut == "c1"
        for provider, model in ((None, "claude"), ("anthropic", "claude"), (None, None)):
            assert (await ask(service, provider=provider, model=model)).cut == "c1"


async def test_a_look_for_another_model_changes_nothing(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await ask(service, append=turns(1, 9), model="claude")
        before = await dump(service)
        assert (await ask(service, model="gpt-5", compact="never")).cut == "c1"
        await same(service, before)
