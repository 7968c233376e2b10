"""A request cramped by what stays whole: stored summaries give way to all of it, so that it fits its window.

The window is 4,000 tokens, of which the preamble takes 1,500 and the newest unit 900. Twenty summaries of 71
tokens fit what that leaves, with little beside them; they are too short to be shown shorter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import Entry
from turns import Writer, ask, kinds, said, turn, turns, using

SETTINGS = {"lcm.leafChunkTokens": 600, "pinnedRowsPercent": 10}
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
