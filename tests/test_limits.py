"""Limits by examples: what does not fit a window and how it is said, units that are divided, pinned rows.

The window is 2,000 tokens: compaction starts at 1,800, the tail may take 500, pinned rows 40.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import Block, Entry, a_call, a_result, entry
from histories import said as text_block
from turns import KEY, Writer, ask, blocks, kinds, plain, rows, said, shown, turns, using, words, work

from lcm_mcp.service.answers import Strategy

BOTH = pytest.mark.parametrize("strategy", ["rolling", "lcm"])
SMALL = {"lcm.leafChunkTokens": 512}
SPLIT = {**SMALL, "rolling.splitOversizedUnit": True, "lcm.splitOversizedUnit": True}


def long_unit(rounds: int) -> list[Entry]:
    """A request of 100 tokens and rounds of 200: row 1, then rows 2n and 2n+1 for round n."""
    return [said("user", "the request", 100), *(row for n in range(1, rounds + 1) for row in work(n, 200))]


# --- over the window


@BOTH
async def test_the_newest_unit_over_the_window_stays_whole_and_the_limit_is_reported(
    store_path: Path, strategy: Strategy
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SMALL) as service:
        view = await ask(service, append=long_unit(12), strategy=strategy)
        assert (view.status, view.tokens, view.tail) == ("limited", 2500, rows(1, 25))
        assert view.notes == (
            "Over the window: 2500 tokens estimated (0 of them preamble), window 2000.",
            "The newest unit stays whole and nothing of it was discarded; use a larger window or a smaller "
            f"preamble, or set {strategy}.splitOversizedUnit to fold its older rounds.",
        )
        assert writer.asked == []


@BOTH
async def test_what_is_older_than_a_unit_over_the_window_is_folded_all_the_same(
    store_path: Path, strategy: Strategy
) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        view = await ask(service, append=[*turns(1, 6), *long_unit(12)], strategy=strategy)
        assert (view.status, view.tail) == ("limited", rows(13, 37))
        assert kinds(view)[0] == "summaries"
        assert 2500 < view.tokens < view.observation.before.tokens == 3700


@BOTH
async def test_a_preamble_over_the_window_is_reported_with_both_figures(
    store_path: Path, strategy: Strategy
) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        view = await ask(service, append=turns(1, 1), strategy=strategy, preamble_tokens=2500)
        assert (view.status, view.tail) == ("limited", rows(1, 2))
        assert view.notes[0] == "Over the window: 2700 tokens estimated (2500 of them preamble), window 2000."


@BOTH
async def test_a_large_preamble_takes_its_room_from_the_tail(store_path: Path, strategy: Strategy) -> None:
    async with using(store_path, Writer(), settings=SMALL) as service:
        view = await ask(service, append=turns(1, 5), strategy=strategy, preamble_tokens=1200)
        assert (view.status, view.tail) == ("compacted", rows(9, 10))  # without it, two turns or three
        assert view.tokens < 2000


async def test_a_look_that_may_not_compact_says_so_where_it_is_over_the_window(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await ask(service, 8000, append=turns(1, 12))
        view = await ask(service, compact="never")
        assert (view.status, view.cut) == ("limited", None)
        assert view.notes[-1] == "Compaction was not allowed (compact: never)."


# --- dividing the newest unit


@pytest.mark.parametrize(
    ("strategy", "sources", "shown_as"),
    [
        ("lcm", [rows(1, 5), *(rows(n, n + 3) for n in (6, 10, 14, 18))], [f"#{n}" for n in range(1, 6)]),
        ("rolling", [rows(1, 7), ["e1..e7", *rows(8, 15)], ["e1..e15", *rows(16, 21)]], ["e1..e21"]),
    ],
)
async def test_split_oversized_unit_folds_older_rounds_and_quotes_the_request(
    store_path: Path, strategy: Strategy, sources: list[list[str]], shown_as: list[str]
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings=SPLIT) as service:
        view = await ask(service, append=long_unit(12), strategy=strategy)
        assert (view.status, view.notes[1:]) == ("compacted", ())
        assert writer.sources == sources
        assert (view.shown, view.tail) == (shown_as, rows(22, 25))  # two rounds fit the tail
        assert kinds(view) == ["summaries", "quotes", "tail"]
        asked = "[lcm:request e1 user, still being worked on]\n" + words("the request", 352)
        assert blocks(view)[-2] == asked
        assert view.tokens < 1800


@BOTH
async def test_a_divided_units_request_is_quoted_until_the_unit_is_complete(
    store_path: Path, strategy: Strategy
) -> None:
    async with using(store_path, Writer(), settings=SPLIT) as service:
        await ask(service, append=long_unit(12), strategy=strategy)
        more = await ask(service, append=[row for n in range(13, 19) for row in work(n, 200)])
        assert (more.cut, more.tail) == ("c2", rows(34, 37))
        assert blocks(more)[-2].startswith("[lcm:request e1 user, still being worked on]\n")
        complete = await ask(service, append=turns(20, 26))
        assert complete.cut == "c3"
        assert "still being worked on" not in shown(complete)[0]


@BOTH
async def test_the_newest_round_stays_whole_and_as_it_was_signed(
    store_path: Path, strategy: Strategy
) -> None:
    thought: Block = {"type": "thinking", "thinking": "First the index.", "signature": "c2ln"}
    newest = [
        entry("assistant", [thought, a_call("last", {"command": "ls"})]),
        entry("tool", [a_result("last", [text_block(words("a long output", 3000))], False)]),
    ]
    async with using(store_path, Writer(), settings=SPLIT) as service:
        view = await ask(service, append=[*long_unit(8), *newest], strategy=strategy, format="anthropic")
        assert (view.status, view.tail) == ("compacted", rows(18, 19))
        assert view.tokens < 2000
        answer = view.messages[-2].body["content"]
        assert isinstance(answer, list)
        assert answer[0] == thought


@BOTH
async def test_a_unit_that_fits_is_never_divided(store_path: Path, strategy: Strategy) -> None:
    async with using(store_path, Writer(), settings=SPLIT) as service:
        view = await ask(service, append=[*turns(1, 6), *long_unit(6)], strategy=strategy)
        assert (view.status, view.tail) == ("compacted", rows(13, 25))


@BOTH
async def test_a_round_over_the_window_is_reported_with_dividing_on_too(
    store_path: Path, strategy: Strategy
) -> None:
    async with using(store_path, Writer(), settings=SPLIT) as service:
        talk = [said("user", "the request", 100), *work(1, 2400)]
        view = await ask(service, append=talk, strategy=strategy)
        assert (view.status, view.tail[-2:]) == ("limited", rows(2, 3))
        assert view.notes[-1] == (
            "The newest round stays whole and nothing of it was discarded; use a larger window or a smaller "
            "preamble."
        )


# --- pinned rows


def rule(text: str = "Never touch prod.") -> Entry:
    return {**entry("user", text), "pin": True}


@BOTH
async def test_pinned_rows_are_quoted_whole_once_the_tail_no_longer_shows_them(
    store_path: Path, strategy: Strategy
) -> None:
    talk = [rule(), said("assistant", "never", 183), *turns(2, 9)]
    async with using(store_path, Writer(), settings=SMALL) as service:
        assert kinds(await ask(service, 8000, append=talk, strategy=strategy)) == ["tail"]
        view = await ask(service, append=turns(10, 10))
        assert view.status == "compacted"
        assert "[lcm:pinned e1 user]\nNever touch prod." in blocks(view)
        (quotes,) = [section for section in view.observation.sections if section.kind == "quotes"]
        assert quotes.sources[0] == "e1"


@BOTH
async def test_pins_that_find_no_room_are_named(store_path: Path, strategy: Strategy) -> None:
    talk = [rule(), rule(words("a long rule", 352)), said("assistant", "never", 83), *turns(3, 10)]
    async with using(store_path, Writer(), settings=SMALL) as service:
        view = await ask(service, append=talk, strategy=strategy)
        pinned = [block.split("\n")[0] for block in blocks(view) if block.startswith("[lcm:pinned")]
        assert pinned == ["[lcm:pinned e1 user]"]
        assert "1 pinned row found no room within pinnedRowsPercent: e2." in view.notes
    async with using(store_path, Writer(), settings={**SMALL, "pinnedRowsPercent": 10}) as service:
        view = await ask(service, append=turns(11, 16))
        pinned = [block for block in blocks(view) if block.startswith("[lcm:pinned")]
        assert pinned[1] == "[lcm:pinned e2 user]\n" + words("a long rule", 352)
        assert not any("pinned rows" in note for note in view.notes)


@BOTH
async def test_a_pin_set_or_taken_shows_from_the_next_cut_on(store_path: Path, strategy: Strategy) -> None:
    settings = {**SMALL, "pinnedRowsPercent": 10}
    async with using(store_path, Writer(), settings=settings) as service:
        first = await ask(service, append=turns(1, 9), strategy=strategy)
        await service.pin(["e2"], KEY)
        assert (await ask(service)).messages == first.messages
        second = await ask(service, append=turns(10, 15))
        assert "[lcm:pinned e2 assistant]\n" + plain(turns(1, 1))[1] in blocks(second)
        await service.pin(["e2"], KEY, off=True)
        assert (await ask(service)).messages == second.messages
        third = await ask(service, append=turns(16, 22))
        assert "[lcm:pinned" not in shown(third)[0]
        assert [view.cut for view in (first, second, third)] == ["c1", "c2", "c3"]
