"""Windows and sizes by examples: who says how large the window is, the fixed rule, and what providers count.

Ten rows of 352 bytes weigh 3,520 / 4 + 10 * 12 = 1,000 tokens.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from asking import dump, same
from genai_prices.data import providers
from histories import Block, Entry, a_call, a_result, entry, picture
from histories import said as text_block
from turns import KEY, Writer, ask, count, rows, turns, using, work

from lcm_mcp.service import Service
from lcm_mcp.service.prepared import Observation
from lcm_mcp.service.requests import Usage
from lcm_mcp.tokens import METHOD

MODEL = "claude-sonnet-4-5"
LISTED = next(
    model.context_window
    for provider in providers
    for model in provider.models
    if (provider.id, model.id) == ("anthropic", MODEL)
)


def source_of(seen: Observation) -> tuple[int | None, str]:
    return seen.window_tokens, seen.window_source


# --- who says how large it is


@pytest.mark.parametrize("strategy", ["rolling", "lcm"])
async def test_the_argument_goes_before_the_setting_and_the_setting_before_the_catalogue(
    store_path: Path, strategy: str
) -> None:
    settings = {"strategy": strategy, f"{strategy}.contextWindowTokens": 30_000}
    async with using(store_path, Writer(), settings=settings) as service:
        view = await ask(service, 9000, append=turns(1, 1), model=MODEL)
        assert source_of(view.observation) == (9000, "argument")
        assert source_of((await ask(service, None)).observation) == (30_000, "setting")
    async with using(store_path, Writer(), settings={"strategy": strategy}) as service:
        assert source_of((await ask(service, None)).observation) == (LISTED, "catalogue")


async def test_the_setting_of_one_strategy_is_not_lent_to_the_other(store_path: Path) -> None:
    settings = {"rolling.contextWindowTokens": 30_000, "lcm.contextWindowTokens": 20_000}
    async with using(store_path, Writer(), settings=settings) as service:
        assert source_of((await ask(service, None, append=turns(1, 1))).observation) == (30_000, "setting")
        assert source_of((await ask(service, None, strategy="lcm")).observation) == (20_000, "setting")


async def test_a_model_once_named_serves_later_calls(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, None, append=turns(1, 8), provider="ours", model="a model of ours[2k]")
        assert source_of(view.observation) == (2000, "catalogue")
    async with using(store_path, Writer()) as service:
        view = await ask(service, None, append=turns(9, 9))
        assert source_of(view.observation) == (2000, "catalogue")
        assert (view.observation.provider, view.observation.model) == ("ours", "a model of ours[2k]")
        assert view.status == "compacted"


@pytest.mark.parametrize(
    ("model", "note"),
    [
        (None, "The window is unknown: give window_tokens or the model's name, or set it."),
        ("nobodys-model", "The window is unknown, also for 'nobodys-model': give window_tokens or set it."),
    ],
)
@pytest.mark.parametrize("strategy", ["rolling", "lcm"])
async def test_with_an_unknown_window_nothing_is_compacted_by_itself(
    store_path: Path, strategy: str, model: str | None, note: str
) -> None:
    writer = Writer()
    async with using(store_path, writer, settings={"strategy": strategy}) as service:
        view = await ask(service, None, append=turns(1, 100), model=model)
        assert (view.status, view.notes, view.cut) == ("unknown_window", (note,), None)
        assert (view.tokens, len(view.tail)) == (20_000, 200)
        assert source_of(view.observation) == (None, "unknown")
        assert view.observation.trigger_tokens is None
        assert writer.asked == []


@pytest.mark.parametrize(
    ("strategy", "shown_as", "tail"), [("rolling", ["e1..e14"], 15), ("lcm", ["#1", "#2", "#3"], 13)]
)
async def test_a_forced_compaction_takes_the_present_size_for_an_unknown_window(
    store_path: Path, strategy: Any, shown_as: list[str], tail: int
) -> None:
    writer = Writer()
    settings = {"strategy": strategy, "lcm.leafChunkTokens": 512}
    async with using(store_path, writer, settings=settings) as service:
        await service.append(KEY, turns(1, 9))
        seen = await service.compact(KEY)
        assert (seen.status, *source_of(seen)) == ("compacted", 1800, "estimate")
        view = await ask(service, None)
        assert (view.status, view.shown, view.tail) == ("unknown_window", shown_as, rows(tail, 18))
        before, calls = await dump(service), len(writer.asked)
        assert (await service.compact(KEY)).status == "not_needed"
        await same(service, before)
        assert len(writer.asked) == calls


async def test_the_present_size_that_stands_for_the_window_is_the_estimate_to_the_token(
    store_path: Path,
) -> None:
    tools: list[Block] = [{"name": "Bash", "input_schema": {}}]  # 34 bytes, with the text no whole tokens
    async with using(store_path, Writer()) as service:
        forced = {"system": "s" * 101, "tools": tools, "compact": "force"}
        view = await ask(service, None, append=turns(1, 5), **forced)
        assert (view.observation.before.tokens, view.observation.window_tokens) == (1071, 1071)


async def test_a_forced_compaction_does_not_wait_for_the_trigger(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 5), compact="force")
        assert (view.observation.before.tokens, view.status, view.shown) == (1000, "compacted", ["e1..e6"])


# --- the fixed rule


def image(data: bytes) -> Block:
    return {"type": "image", "media_type": "image/png", "data": b64encode(data).decode()}


NOISE = picture(512)[:33] + Random(1).randbytes(1_000_000)
"""A header that says 512 by 512 pixels, and a megabyte."""


@pytest.mark.parametrize(
    ("rows_said", "tokens"),
    [
        ([entry("user", "a" * 400)], 100 + 12),
        ([entry("user", "a" * 401)], 101 + 12),
        ([entry("user", "a"), entry("assistant", "a")], 1 + 24),  # the bytes of all are rounded up once
        ([entry("user", "漢字" * 100)], 150 + 12),  # 600 bytes
        ([entry("user", [image(picture(600))])], 12 + 85 + 170 * 4 + 20),
        ([entry("user", [image(NOISE)])], 12 + 85 + 170 + 20),
        ([entry("user", [image(b"of no known size")])], 12 + 85 + 170 * 4 + 20),
        # 1 + 4 + len('{"command":"ls"}'), then 1 + len('"done"')
        (
            [
                entry("assistant", [a_call("c", {"command": "ls"})]),
                entry("tool", [a_result("c", [text_block("done")], False)]),
            ],
            24 + 7,
        ),
        (work(1, 200), 200),
    ],
)
async def test_a_row_weighs_its_bytes_by_four_and_twelve_and_an_image_its_pixels(
    store_path: Path, rows_said: list[Entry], tokens: int
) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=rows_said)
        assert view.tokens == tokens
        assert view.observation.estimate_method == METHOD


async def test_the_preamble_weighs_sixteen_its_text_and_twenty_a_tool(store_path: Path) -> None:
    tools: list[Block] = [{"name": "Bash", "input_schema": {}}]  # 34 bytes of JSON
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 5), system="s" * 101, tools=tools)
        assert [section.tokens for section in view.observation.sections] == [16 + 26 + 9 + 20, 1000]
        assert view.tokens == 1071
        assert (await ask(service, preamble_tokens=300)).tokens == 1300


# --- what a provider counts


LARGE = 8000


async def counted(service: Service, counts: Sequence[int], **more: Any) -> None:
    """Report these counts, each for a request that shows the same ten rows."""
    for input_tokens in counts:
        view = await ask(service, LARGE, **more)
        await ask(service, LARGE, usage=Usage(view.prepared, input_tokens), keep=False)


async def test_what_a_provider_counted_stands_beside_the_estimate_of_that_request(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 5))
        assert await service.last_observation(KEY) == view.observation
        assert view.observation.provider_input_tokens is None
        await ask(service, usage=Usage(view.prepared, 1880, 900), keep=False)
        seen = await service.last_observation(KEY)
        assert seen is not None
        assert (seen.provider_input_tokens, seen.provider_cached_tokens) == (1880, 900)
        assert (seen.estimated_input_tokens, seen.calibrated_input_tokens) == (1000, None)
        later = await ask(service)
        assert (later.tokens, later.observation.provider_input_tokens) == (1000, None)


async def test_a_count_that_comes_with_the_answer_stands_beside_the_last_request(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 5))
        receipt = await service.append(KEY, turns(6, 6), usage=Usage(view.prepared, 1880, 900))
        assert receipt.notes == ()
        seen = await service.last_observation(KEY)
        assert seen is not None
        assert (seen.prepared, seen.provider_input_tokens) == (view.prepared, 1880)
        wrong = await service.append(KEY, turns(7, 7), usage=Usage("c9.e10", 1880))
        assert (wrong.refs, len(wrong.notes)) == (("e13", "e14"), 1)
        assert wrong.notes[0].startswith("usage was not kept")


async def test_a_count_for_a_request_that_is_not_remembered_is_refused_in_a_note(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await ask(service, append=turns(1, 5))
        view = await ask(service, usage=Usage("c9.e10", 1880))
        assert view.notes[0].startswith("usage was not kept: no preparation of this session is remembered")


@pytest.mark.parametrize(
    ("counts", "calibrated"),
    [
        ([1880, 1880], None),  # 3,520 bytes are 1,760 tokens, and 120 for ten rows: two bytes a token, twice
        ([1880, 1880, 1880], 1880),
        ([560, 560, 560], 560),  # eight bytes a token
        ([3640, 3640, 3640], None),  # one byte a token is of something else
        ([1880, 1000, 560], None),  # 2, 4 and 8: no three within a quarter of the median
        ([1000, 1000, 3640, 1000], 1000),
        ([1880] * 9 + [1000] * 8, 1000),  # the newest eight
    ],
)
async def test_three_counts_that_agree_calibrate_a_third_figure(
    store_path: Path, counts: list[int], calibrated: int | None
) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 5))
        await counted(service, counts)
        view = await ask(service, LARGE)
        assert view.observation.calibrated_input_tokens == calibrated
        assert view.observation.estimated_input_tokens == 1000


async def test_trigger_and_fit_go_by_the_calibrated_figure(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 5))
        assert (await ask(service)).status == "not_needed"
        await counted(service, [1880, 1880])
        assert (await ask(service)).status == "not_needed"
        await counted(service, [1880])
        view = await ask(service)
        assert (view.status, view.observation.before.tokens) == ("compacted", 1880)
        assert view.observation.bytes_per_token == 2.0


async def test_another_models_counts_do_not_calibrate(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 5))
        await counted(service, [1880, 1880, 1880], model="one")
        assert (await ask(service, LARGE)).observation.calibrated_input_tokens == 1880
        assert (await ask(service, LARGE, model="other")).observation.calibrated_input_tokens is None


# --- what is observed


async def test_an_observation_describes_the_preparation_it_came_with(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 9), system="Be brief.")
        seen = view.observation
        assert (seen.prepared, seen.status, seen.strategy) == ("c1.e18", "compacted", "rolling")
        assert (seen.window_tokens, seen.trigger_tokens, seen.swap_tokens) == (2000, 1800, 1800)
        assert (seen.tail_tokens, seen.summary_tokens, seen.pin_tokens) == (500, 200, 40)
        assert (seen.before.summaries, seen.before.tail_rows) == (0, 18)
        assert (seen.after.summaries, seen.after.tail_rows) == (1, 4)
        assert (seen.before.tokens, seen.after.tokens) == (16 + 3 + 1800, view.tokens)
        assert sum(section.tokens for section in seen.sections) == view.tokens
        assert seen.done is not None
        assert (seen.done.written, seen.done.source_tokens, seen.done.levels) == (2, 1400, (1,))
        await service.append(KEY, turns(10, 10))
        assert await service.last_observation(KEY) == seen


async def test_a_forced_compaction_is_observed_with_an_estimate_alone(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await ask(service, append=turns(1, 9))
        seen = await service.compact(KEY)
        assert seen.estimated_input_tokens == sum(section.tokens for section in seen.sections)
        assert (seen.provider_input_tokens, seen.provider_cached_tokens) == (None, None)
        assert await service.last_observation(KEY) == seen


async def test_a_look_that_is_no_request_leaves_no_observation(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        view = await ask(service, append=turns(1, 2))
        await ask(service, 9000, compact="never", keep=False)
        assert await service.last_observation(KEY) == view.observation
        assert await count(service, "observation") == 1


# --- large results


async def test_a_tool_result_longer_than_the_setting_is_called_large(store_path: Path) -> None:
    talk = [
        entry("user", "go"),
        *(entry("tool", [a_result("c", [text_block(text)], False)]) for text in ("é" * 40, "é" * 41)),
    ]
    async with using(store_path, settings={"largeFileChars": 40}) as service:
        await service.append(KEY, talk)
        described = [(await service.describe(ref, KEY)).row for ref in ("e2", "e3")]
        assert [row and row.parts[0].detail for row in described] == [None, "large-inline"]
