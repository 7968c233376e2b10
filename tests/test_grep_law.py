"""lcm_grep finds what Python finds in the rows and summaries of its scope, each once, on pages of any size.

Regular expressions, times, nodes, odd letters, indexes fed in part and in pieces, forks and rewinds; and
while the pages are asked for, rows come and sessions are forked, through two services of one file. LCM_LONG=1
tries many more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from past import START, History, Thing, everything, inside_node
from stores import serving

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.search import index, scan, scope, streams
from lcm_mcp.search.regex import expression
from lcm_mcp.service import searching
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.transcript.sealing import readable

KINDRED = (
    "aAbB",
    "sSßſẞ",
    "kK\u212a",
    "iIİı\u0307",
    "σςΣ",
    "éÉe\u0301",
    "fﬁi",
    "漢字語",
    "\ufffd\ufffe\uffff\ud800",
    "\x00\u2400\x1a",
    " \nab",
    "🦆🐓",
)
"""Letters that are easily taken for one another; a history has those of a group or two."""
EXPRESSIONS = (".", "a*", "b+", "[ab]", "[^a]", "(?i:k)", "^", "$", "\\b", "a|s", "ß?", "\\x{17f}")
WAYS = st.fixed_dictionaries(
    {
        "SPARSE": st.sampled_from([0, 2, 10**9]),
        "SMALL_ROWS": st.sampled_from([-1, 3, 10**6]),
        "SMALL_NODES": st.sampled_from([-1, 1, 10**6]),
        "HEAD_ROWS": st.sampled_from([0, 2, 48]),
        "HEAD_SUMMARIES": st.sampled_from([0, 1]),
        "WORTHWHILE": st.sampled_from([1, 8]),
        "SIFTED_ROWS": st.sampled_from([0, 4000]),
        "SIFTED_SHARE": st.sampled_from([0.01, 32]),
        "FEW_TEXTS": st.sampled_from([0, 1, 32]),
        "LOOKS": st.sampled_from([0, 2]),
        "CLOCK_EVERY": st.sampled_from([1, 2, 64]),
        "SCAN_S": st.sampled_from([60, 60, -1]),
    }
)
"""Every way in which what matches can be got, whatever the store's size."""
TIME = st.one_of(st.none(), st.none(), st.integers(-1, 60))


class Story(NamedTuple):
    """Sessions of these projects, what is done to them, what is asked, and what is done between its pages."""

    projects: list[str | None]
    deeds: list[Any]
    queries: list[dict[str, Any]]
    between: list[Any]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    letters = st.sampled_from("".join(draw(st.lists(st.sampled_from(KINDRED), min_size=1, max_size=2))))
    said = st.text(letters, min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
    which = st.integers(0, 9)
    written = st.tuples(st.just("say"), which, st.lists(said, min_size=1, max_size=4))
    forked = st.tuples(st.just("fork"), which, st.integers(0, 6))
    fed = st.tuples(st.just("feed"), st.integers(4, 60), st.none())
    joined = st.tuples(st.just("join"), st.none(), st.none())
    happened = st.one_of(
        written,
        forked,
        fed,
        joined,
        st.tuples(st.just("fold"), which, st.tuples(said, st.one_of(st.just(""), said))),
        st.tuples(st.just("over"), which, said),
        st.tuples(st.just("rewind"), which, st.integers(0, 6)),
    )
    patterns = st.one_of(
        st.tuples(st.sampled_from(["literal", "words"]), st.text(letters, min_size=1, max_size=4)),
        st.tuples(
            st.just("regex"),
            st.lists(st.one_of(letters, st.sampled_from(EXPRESSIONS)), min_size=1, max_size=4).map("".join),
        ),
    )
    asked = st.fixed_dictionaries(
        {
            "pattern": patterns,
            "scope": st.sampled_from(["all", "rows", "summaries"]),
            "role": st.sampled_from([None, None, None, "user", "assistant"]),
            "since": TIME,
            "until": TIME,
            "case_sensitive": st.booleans(),
            "include_removed": st.booleans(),
            "order": st.sampled_from(["newest", "oldest"]),
            "limit": st.integers(1, 3),
        }
    )
    return Story(
        draw(st.lists(st.sampled_from([None, "here", "there"]), min_size=1, max_size=4)),
        draw(st.lists(happened, min_size=1, max_size=14)),
        draw(st.lists(asked, min_size=1, max_size=4)),
        # So that it can still be said what the pages must hold.
        draw(st.lists(st.one_of(written, forked, fed, joined), max_size=5)),
    )


def finder(asked: dict[str, Any]) -> Callable[[str], bool]:
    """Whether a text matches, as Python or RE2 itself says. Raises InvalidArgument."""
    mode, pattern = asked["pattern"]
    pattern, exact = readable(pattern), asked["case_sensitive"]
    if mode == "regex":
        compiled = expression(pattern, case_sensitive=exact)
        return lambda text: compiled.find(text) is not None

    def as_compared(text: str) -> str:
        return text if exact else text.casefold()

    wanted = as_compared(pattern)
    pieces = (wanted.split() or [wanted]) if mode == "words" else [wanted]
    return lambda text: all(piece in as_compared(text) for piece in pieces)


def time_of(minutes: int | None) -> str | None:
    return None if minutes is None else (START + timedelta(minutes=minutes)).isoformat()


def expected(
    things: list[Thing], asked: dict[str, Any], finds: Callable[[str], bool]
) -> list[tuple[int, str]]:
    """What is to be found: of a text that several hold, the first session that has it on its path; with the
    text, which says that no other is shown in its stead."""
    since, until = (
        None if asked[end] is None else (START + timedelta(minutes=asked[end])).timestamp() * 1000
        for end in ("since", "until")
    )
    best: dict[int, Thing] = {}
    for thing in sorted(things, key=lambda thing: (thing.removed, thing.session)):
        if (
            asked["role"] in (None, thing.speaker)
            and asked["scope"] in ("all", "summaries" if thing.node else "rows")
            and (asked["include_removed"] or not thing.removed)
            and (since is None or thing.at >= since)
            and (until is None or thing.at <= until)
            and any(map(finds, thing.texts))
        ):
            best.setdefault(thing.text, thing)
    order = sorted(best.values(), reverse=asked["order"] == "newest")
    return [(thing.text, f"{thing.key} {thing.ref}{' removed' * thing.removed}") for thing in order]


async def found(
    history: History, asked: dict[str, Any], session: str | None, node: str | None, between: Sequence[Any]
) -> list[tuple[str, str]]:
    """Every page of it, and after each a deed, as long as there are some: key and ref, then as shown."""
    hits: list[tuple[str, str]] = []
    deeds = list(between)
    cursor: str | None = None
    mode, pattern = asked["pattern"]
    query: dict[str, Any] = {
        **asked,
        "pattern": pattern,
        "mode": mode,
        "since": time_of(asked["since"]),
        "until": time_of(asked["until"]),
    }
    for _ in range(1000):
        page = await history.service.grep(GrepQuery(**query, session=session, node=node, cursor=cursor))
        for hit in page.hits:
            ref = hit.ref.rpartition("/")[2]
            hits.append((f"{hit.session} {ref}", f"{hit.session} {ref}{' removed' * hit.removed}"))
        cursor = page.next_cursor
        if cursor is None:
            assert (page.total, page.complete) == (len(hits), True)
            return hits
        assert page.at_least >= len(hits)
        if deeds:
            await history.do(deeds.pop(0))
    raise AssertionError("no end")


async def holds(folder: Path, story: Story) -> None:
    async with serving(folder / "s") as one, serving(folder / "s") as other:
        history = History([one, other])
        await history.begin([str(folder) if project == "here" else project for project in story.projects])
        for deed in story.deeds:
            await history.do(deed)
        for asked in story.queries:
            try:
                finds = finder(asked)
            except InvalidArgument:
                continue
            things = await one.work.store.read(everything)
            nodes = [thing for thing in things if thing.node][-2:]
            places = [("*", None), (None, None), *((key, None) for key in history.keys[-2:])]
            for session, node in [*places, *((thing.key, thing.ref) for thing in nodes)]:
                inside = await one.work.store.read(within, folder, session, node)
                assert [shown for _, shown in await found(history, asked, session, node, ())] == [
                    shown for _, shown in expected(inside, asked, finds)
                ], (session, node)
            await stays_whole(history, asked, finds, folder, story.between)


def within(db: apsw.Connection, folder: Path, session: str | None, node: str | None) -> list[Thing]:
    """What is in scope."""
    things = everything(db)
    if node is not None:
        number = next(db.execute("SELECT id FROM session WHERE key = ?", (session,)))[0]
        refs = inside_node(db, number, int(node[1:]))
        return [thing for thing in things if thing.key == session and thing.ref in refs]
    ours = any(thing.project == str(folder) for thing in things)
    return [
        thing
        for thing in things
        if session in ("*", thing.key) or (session is None and (not ours or thing.project == str(folder)))
    ]


async def stays_whole(
    history: History,
    asked: dict[str, Any],
    finds: Callable[[str], bool],
    folder: Path,
    between: Sequence[Any],
) -> None:
    """Pages between which something happens hold each text once: going back those that were there at first,
    going on also those that came."""
    read = history.services[0].work.store.read
    before = expected(await read(within, folder, "*", None), asked, finds)
    hits = await found(history, asked, "*", None, between)
    things = await read(within, folder, "*", None)
    after = expected(things, asked, finds)
    texts = {f"{thing.key} {thing.ref}": thing.text for thing in things}
    told = [texts[key] for key, _ in hits]
    if asked["order"] == "newest":
        assert told == [text for text, _ in before]
    else:
        assert told == [text for text, _ in after][: len(told)]
        assert set(told) >= {text for text, _ in before}


@settings(max_examples=2000 if "LCM_LONG" in os.environ else 40, deadline=None)
@given(stories(), WAYS)
def test_every_page_holds_what_python_finds(
    tmp_path_factory: pytest.TempPathFactory, story: Story, ways: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in ways.items():
            owner = next(owner for owner in (streams, index, scope, scan, searching) if hasattr(owner, name))
            patch.setattr(owner, name, value)
        anyio.run(holds, folder, story)
