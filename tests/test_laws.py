"""The laws of semantics.md §10 over random histories, on the real service and real files.

Every deed of a history is done to the service and to a model of it, and after each one all laws are
checked. LCM_LONG=1 (or HYPOTHESIS_PROFILE=long) tries many more, different each time.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from histories import Deed, Mood, Scripted, all_settings, deeds, moods, usual_windows
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from world import Counted, World, opened

LONG = "LCM_LONG" in os.environ or os.environ.get("HYPOTHESIS_PROFILE") == "long"
LAWS = settings(
    max_examples=3000 if LONG else 80,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True, slots=True)
class History:
    """moods None: the extractive summarizer; fallback: it comes after the scripted one."""

    window: int
    settings: dict[str, int]
    moods: list[Mood] | None
    fallback: bool
    deeds: list[Deed]


histories = st.builds(
    History,
    usual_windows,
    st.one_of(st.just(dict[str, int]()), all_settings),
    st.one_of(st.none(), moods),
    st.booleans(),
    st.integers(1, 16).flatmap(lambda size: st.lists(deeds, min_size=size, max_size=size)),
)


async def live(history: History, folder: Path) -> None:
    chain: list[Counted | Scripted] = [Counted()]
    if history.moods is not None:
        chain = [Scripted(history.moods), *(chain if history.fallback else ())]
    world = World(folder, history.window, history.settings, chain, opened(folder, history.settings, chain))
    try:
        await world.append([], named=False)
        for number, deed in enumerate(history.deeds):
            note(f"deed {number}")
            await world.do(deed)
            await world.check()
        await world.check_end()
    finally:
        await world.service.close()


@LAWS
@given(history=histories)
def test_every_law_holds_after_every_deed_of_a_random_history(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))
