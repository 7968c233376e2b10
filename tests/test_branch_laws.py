"""The laws of histories that branch: random appends, branches, rewinds, forks, pins and compactions.

After each deed every session is asked as a client would ask, and compared with a model of it (grove.py):
laws 1 and 2 over the active path, 3, 4 between two looks under one cut, 5, 7 and 8; law 11 as a fork is made.
LCM_LONG=1 tries many more histories, different each time.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
from asking import View, dump, expanded, look, nodes_of, same
from deeds import Settings
from grove import LOOK, Ask, Deed, Fork, Grove, Grow, Rewind, Stem, deeds
from histories import batches, long_work, oddly_answered, turns, work_done
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from lawbook import holds_everything_once, holds_memory
from moods import Watched
from test_laws import LONG
from viewbook import canonical, holds_fit, holds_order, holds_prefix
from world import opened

from lcm_mcp.projection.model import FORMATS, Format
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import GrepQuery


@dataclass(frozen=True, slots=True)
class Seen:
    """What a session showed when it was last looked at, and its path then."""

    path: list[int]
    views: dict[Format, View]


@dataclass(frozen=True, slots=True)
class History:
    strategy: Strategy
    settings: Settings
    deeds: list[Deed]


@st.composite
def histories(draw: st.DrawFn) -> History:
    strategy: Strategy = draw(st.sampled_from(["lcm", "lcm", "rolling", "none"]))
    split, chunk = draw(st.booleans()), draw(st.sampled_from([512, 1000, 6000]))
    chosen: Settings = {"lcm.leafChunkTokens": chunk, "lcm.leafTargetTokens": 128}
    chosen |= {f"{group}.splitOversizedUnit": split for group in ("lcm", "rolling")}
    size = draw(st.integers(4, 14))
    one = deeds(st.one_of(long_work, long_work, turns(), oddly_answered, batches))
    return History(strategy, chosen, draw(st.lists(one, min_size=size, max_size=size)))


BACK_AND_FORTH = History(
    "lcm",
    {},
    [
        Grow(0, work_done(8, 3), None),
        Ask(0, None, 3000, force=False),
        Rewind(0, 20, back=True),
        Rewind(0, 10, back=False),
        Grow(0, work_done(6, 4), None),
        Ask(0, None, 3000, force=False),
        Rewind(0, 45, back=False),
        Fork(0, None, marker=True),
        Grow(1, work_done(6, 5), None),
        Ask(1, None, 3000, force=True),
    ],
)
A_CUT_ON_EACH_BRANCH = History(
    "rolling",
    {},
    [
        Grow(0, work_done(8, 3), None),
        Ask(0, None, 3000, force=True),
        Rewind(0, 10, back=False),
        Grow(0, work_done(8, 6), None),
        Ask(0, "lcm", 3000, force=True),
        Ask(0, "rolling", 3000, force=True),
        Rewind(0, 30, back=False),
        Ask(0, "lcm", 3000, force=False),
    ],
)


@settings(
    max_examples=2000 if LONG else 25,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(history=histories())
@example(BACK_AND_FORTH)
@example(A_CUT_ON_EACH_BRANCH)
def test_every_law_holds_while_histories_branch_go_back_and_fork(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, history, Path(folder)))


async def live(history: History, folder: Path) -> None:
    summarizer = Watched()
    folder.mkdir(exist_ok=True)
    _, service = opened(folder, {**history.settings, "strategy": history.strategy}, [summarizer])
    grove = Grove(service, summarizer, [Stem("main", history.strategy)])
    try:
        await grove.do(Grow(0, work_done(2, 1), None))
        last: dict[str, Seen] = {}
        for number, deed in enumerate(history.deeds):
            note(f"deed {number}")
            await grove.do(deed)
            for stem in grove.stems:
                last[stem.key] = await check(grove.service, stem, last.get(stem.key))
    finally:
        await service.close()


async def check(service: Service, stem: Stem, last: Seen | None) -> Seen:
    """Everything that must hold for a session after a deed; law 8: looking at it writes nothing."""
    before = await dump(service)
    views = await look(service, replace(LOOK, session=stem.key))
    view, active = views["messages"], stem.active
    cut = stem.in_force(stem.leaf)
    assert view.cut == (None if cut is None else cut.name)
    holds_order(views)
    holds_fit(view.observation)
    shown = view.shown
    if cut is None:
        assert (shown, view.tail) == ([], [row.ref for row in active])
    elif stem.strategy == "rolling":
        # The running summary stands for all rows before the tail, on whatever branch it was written.
        shown = [f"{active[0].ref}..e{stem.prev[cut.tail_from]}"]
    await holds_everything_once(service, stem.key, shown, view.tail, active)
    await holds_memory(service, stem.key, active)
    await check_nodes(service, stem)
    path = stem.path(stem.leaf)
    if last is not None and path[: len(last.path)] == last.path and last.views["messages"].cut == view.cut:
        holds_prefix(last.views, views)
        if path == last.path:
            assert all(
                canonical(views[form].messages) == canonical(last.views[form].messages) for form in FORMATS
            )
    await check_reads(service, stem)
    await same(service, before)
    return Seen(path, views)


async def check_nodes(service: Service, stem: Stem) -> None:
    """Law 2 for every node, removed or not: its rows are the chain back from its last row to its first, its
    children's are neighbours; and it is removed exactly while its last row is off the path."""
    nodes = {node.id: node for node in await nodes_of(service, stem.key)}
    active = set(stem.path(stem.leaf))
    for node in nodes.values():
        first, last = (int(ref.removeprefix("e")) for ref in node.span)
        chain = stem.path(last)
        chain = chain[chain.index(first) :]
        assert node.rows == len(chain), node.id
        assert node.removed == (last not in active), node.id
        assert not (node.frontier and node.removed)
        described = (await service.describe(node.id, stem.key)).node
        assert described is not None
        assert described.removed == node.removed
        ends = [nodes[child].span for child in described.children]
        joined = [ref for one, other in pairwise(ends) for ref in (one[1], other[0])]
        assert joined == [f"e{seq}" for _, end in ends[:-1] for seq in chain[chain.index(_seq(end)) :][:2]], (
            node.id
        )
        assert not ends or (ends[0][0], ends[-1][1]) == node.span


def _seq(ref: str) -> int:
    return int(ref.removeprefix("e"))


async def check_reads(service: Service, stem: Stem) -> None:
    """Every row can be read by its address, marked where it is removed; search leaves removed rows out."""
    active = set(stem.path(stem.leaf))
    rows = sorted(stem.rows)
    for seq in {rows[0], rows[len(rows) // 2], rows[-1]}:
        (row,) = await expanded(service, stem.key, f"e{seq}", 20_000)
        assert (row.text, row.removed) == (stem.rows[seq].text, seq not in active)
        described = (await service.describe(f"e{seq}", stem.key)).row
        assert described is not None
        assert (described.removed, described.pinned) == (seq not in active, seq in stem.pinned)
    for include in (False, True):
        query = GrepQuery("found", session=stem.key, scope="rows", include_removed=include, limit=50)
        hits = (await service.grep(query)).hits
        assert all(hit.removed == (_seq(hit.ref) not in active) for hit in hits)
        wanted = [seq for seq in reversed(rows) if "found" in stem.rows[seq].text.casefold()]
        kept = [seq for seq in wanted if include or seq in active]
        assert [_seq(hit.ref) for hit in hits] == kept[:50]
    listed = {line.key: line for line in (await service.sessions(project="*")).sessions}
    assert listed[stem.key].rows == len(rows)
    if stem.opener is not None:
        line = listed[stem.key]
        assert (line.parent, line.link, line.opener) == (stem.opener[0], "fork", f"e{stem.opener[1]}")
