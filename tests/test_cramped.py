"""A request cramped by what stays whole: stored summaries give way to all of it, so that it fits its window.

In the first test the window is 4,000 tokens, of which the preamble takes 1,500 and the newest unit 900.
Twenty summaries of 71 tokens fit what that leaves, with little beside them; they are too short to be shown
shorter.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from asking import View
from histories import Entry
from turns import Writer, ask, blocks, kinds, said, turn, turns, using, work

from lcm_mcp.service import Service

SETTINGS = {"lcm.leafChunkTokens": 600, "pinnedRowsPercent": 10}
LEAVES = {"lcm.leafChunkTokens": 512}
OLDER = turns(1, 20, 600)
NEWEST = turn("the newest", 900)
PINNED: Entry = {**said("user", "a long rule", 350), "pin": True}


@pytest.mark.parametrize(
    ("talk", "beside"),
    [
        ([*OLDER, *NEWEST], ["tail"]),
        ([PINNED, *OLDER[2:], *NEWEST], ["quotes", "tail"]),
        ([*OLDER, *turn("a small unit", 200), *NEWEST], ["tail"]),
    ],
    ids=["nothing beside", "a pinned row", "rows too few to fold"],
)
async def test_summaries_give_way_to_all_that_is_shown_beside_them(
    store_path: Path, talk: list[Entry], beside: list[str]
) -> None:
    async with using(store_path, Writer([60]), settings=SETTINGS) as service:
        view = await ask(service, 4000, append=talk, strategy="lcm", preamble_tokens=1500)
        assert (view.status, kinds(view)) == ("compacted", ["preamble", "summaries", *beside])
        assert view.tokens <= 4000


# --- under a tail that stays


async def grown(service: Service, last: int) -> list[tuple[int, View]]:
    """Older turns up to the last one, then a unit that grows by 100 tokens at a time until it is over the
    window of 2,000: what each request weighed before, and its view."""
    await ask(service, append=turns(1, last), strategy="lcm")
    await ask(service, append=[said("user", "the request", 300)])
    seen: list[tuple[int, View]] = []
    while not seen or seen[-1][1].status != "limited":
        view = await ask(service, append=work(len(seen) + 1, 100))
        seen.append((view.observation.before.tokens, view))
    return seen


def cuts_in_place(seen: list[tuple[int, View]]) -> list[tuple[int, View]]:
    """Where a new cut left the tail where it was."""
    return [
        (before, view)
        for (_, last), (before, view) in pairwise(seen)
        if view.cut != last.cut and view.tail[0] == last.tail[0]
    ]


async def test_a_cut_that_moves_no_tail_waits_until_it_ends_below_the_trigger_or_in_the_window(
    store_path: Path,
) -> None:
    async with using(store_path, Writer([60]), settings=LEAVES) as service:
        seen = await grown(service, 8)
    ((before, view),) = cuts_in_place(seen)
    assert before > 2000 >= view.tokens >= 1800
    above = [view.status for _, view in seen if 1800 <= view.tokens <= 2000]
    assert above == ["not_needed", "not_needed", "compacted"]


async def test_under_a_tail_that_stays_all_summaries_are_shortened_in_one_step(store_path: Path) -> None:
    writer = Writer([200])
    async with using(store_path, writer, settings=LEAVES) as service:
        seen = await grown(service, 10)
    (before, view), *later = cuts_in_place(seen)
    assert (before > 2000, view.tokens < 1800) == (True, True)
    assert all("[shortened: " in block for block in blocks(view) if block.startswith("[lcm:summary"))
    assert len(view.shown) == 3
    assert len(later) == 1
