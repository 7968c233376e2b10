"""The laws of semantics.md §10 over random histories, on the real service and real files.

Every deed of a history is done to the service and to a model of it, and after each one all laws are
checked: deeds.py says what is done, judging.py what a request has to come to, looking.py which laws hold
after each deed, dying.py and doing.py how a process dies. LCM_LONG=1 (or HYPOTHESIS_PROFILE=long) tries many
more histories, different each time.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import pytest
from asking import prepared
from deeds import (
    Append,
    Deed,
    Prepare,
    Settings,
    all_settings,
    asides,
    crashes,
    deeds,
    requests,
    strategies,
    swapping,
    switches,
    usual_windows,
    wanderings,
)
from doing import do
from histories import Entry, crossed_rounds, crossed_units, entry, late_call, late_result, work_done
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from looking import check, check_end, check_exported, check_rebuilt
from moods import Mood, Watched, chain_of, moods
from world import LARGE_CHARACTERS, World, opened

from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import PrepareQuery

LONG = "LCM_LONG" in os.environ or os.environ.get("HYPOTHESIS_PROFILE") == "long"


pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def laws(examples: int) -> settings:
    return settings(
        max_examples=examples * 50 if LONG else examples,
        derandomize=not LONG,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True, slots=True)
class History:
    """moods None: the extractive summarizer; fallback: it comes after the scripted one."""

    window: int
    strategy: Strategy
    settings: Settings
    moods: list[Mood] | None
    fallback: bool
    deeds: list[Deed]


any_settings = st.one_of(st.just(Settings()), all_settings())


def histories(
    doing: st.SearchStrategy[list[Deed]],
    strategy: st.SearchStrategy[Strategy] = strategies,
    settings: st.SearchStrategy[Settings] = any_settings,
) -> st.SearchStrategy[History]:
    return st.builds(
        History,
        usual_windows,
        strategy,
        settings,
        st.one_of(st.none(), moods),
        st.booleans(),
        doing,
    )


def some(one: st.SearchStrategy[Deed], least: int, most: int) -> st.SearchStrategy[list[Deed]]:
    """Lists of every length alike: Hypothesis by itself prefers short ones."""
    return st.integers(least, most).flatmap(lambda size: st.lists(one, min_size=size, max_size=size))


async def live(history: History, folder: Path, rebuild: bool = False) -> None:
    chain = chain_of(history.moods, fallback=history.fallback)
    chosen: Settings = {**history.settings, "strategy": history.strategy, "largeFileChars": LARGE_CHARACTERS}
    store, service = opened(folder / "life1", chosen, chain)
    world = World(folder / "life1", history.window, chosen, chain, store, service)
    try:
        await world.append(Append([], named=False))
        for number, deed in enumerate(history.deeds):
            note(f"deed {number}")
            await do(world, deed)
            await check(world)
        await check_end(world)
        if rebuild:
            await check_rebuilt(world)
            await check_exported(world)
    finally:
        await world.service.close()


@laws(46)
@given(history=histories(some(deeds, 1, 16)))
def test_every_law_holds_after_every_deed_of_a_random_history(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


@laws(20)
@given(history=histories(some(st.one_of(crashes, crashes, deeds), 1, 10)))
def test_every_law_holds_when_the_process_dies_in_one_deed_after_another(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


@laws(20)
@given(history=histories(some(switches, 4, 14)))
def test_every_law_holds_while_strategies_providers_and_models_change(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


@laws(20)
@given(history=histories(some(asides, 2, 10), st.just("lcm"), swapping()))
def test_every_law_holds_while_passes_work_beside_the_requests(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


@laws(20)
@given(history=histories(some(wanderings, 4, 16)))
def test_every_law_holds_while_a_history_moves_back_sideways_into_forks_and_out_of_the_store(
    history: History,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder), rebuild=True))


def sent(entries: list[Entry], preamble: int = 200) -> Prepare:
    return Prepare(entries, "usual", preamble, "auto", None, "messages")


LATE_RESULT_ACROSS_A_CUT = History(
    window=3000,
    strategy="lcm",
    settings={},
    moods=["fails", "joined"],
    fallback=False,
    deeds=[
        sent(late_call(22)),
        sent(late_result(11)),
        sent(late_call(44)),
        sent(crossed_rounds(2), preamble=1500),
        sent(work_done(2, 12), preamble=0),
        sent(late_call(18), preamble=0),
        sent(work_done(1, 25), preamble=0),
        sent(late_result(24)),
    ],
)
"""The newest unit begins before the tail of the cut in force, which could be shown with less before it."""
A_REQUEST_WORKED_ON_THEN_RECALLED = History(
    window=2000,
    strategy="rolling",
    settings={"rolling.splitOversizedUnit": True, "rolling.triggerPercent": 70},
    moods=None,
    fallback=False,
    deeds=[Prepare(crossed_units(45), "between", 300, "auto", None, "messages") for _ in range(2)],
)
"""The first cut divides a unit and quotes its request apart; the next one's recap has it in its place."""


@laws(16)
@given(history=histories(some(requests(), 8, 20)))
@example(LATE_RESULT_ACROSS_A_CUT)
@example(A_REQUEST_WORKED_ON_THEN_RECALLED)
def test_every_law_holds_turn_by_turn_while_an_agent_fills_its_window_again_and_again(
    history: History,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


async def test_a_large_preamble_takes_its_room_from_the_tail(store_path: Path) -> None:
    _, service = opened(store_path.parent, {"strategy": "lcm"}, [Watched()])
    try:
        for size in (1000, 130, 130, 20):
            await service.append("main", [entry("user", "x y z " * size), entry("assistant", "ok")])
        view = await prepared(service, PrepareQuery("main", window_tokens=2000, preamble_tokens=1500))
        assert (view.status, view.tail[0]) == ("compacted", "e7")
    finally:
        await service.close()
