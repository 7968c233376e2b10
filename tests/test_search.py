"""Searching: literal in every language, every hit shown, nothing lost between pages, no untrue claims."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import apsw
import pytest
from crashing import conversation
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stores import NOW, add, database, draft, new_session, path_of, scope_of, serving
from wire_rows import call, result

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Summary, Tier
from lcm_mcp.errors import BadCursor
from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.search import scan as scanning
from lcm_mcp.search.match import MATCH_CHARACTERS, SNIPPET_CHARACTERS, Place, literal, snippet, words
from lcm_mcp.search.scan import Found, Scanned, Wanted, scan
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.streams import Position
from lcm_mcp.service import searching
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript.path import Segment
from lcm_mcp.transcript.units import Span


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def place(
    pattern: str, text: str, *, mode: Literal["literal", "words"] = "literal", case: bool = False
) -> str | None:
    """The piece of the text that is found."""
    make = literal if mode == "literal" else words
    found = make(pattern, case_sensitive=case).find(text)
    return None if found is None else text[found.start : found.end]


# --- one text


@pytest.mark.parametrize(
    "pattern", ["foo(", "[", "]", "a|b", ".*", "%", "_", "\\d", '"', "'", "*", "^$", " "]
)
def test_every_character_of_a_pattern_stands_for_itself(pattern: str) -> None:
    assert place(pattern, f"before {pattern} after") == pattern
    assert place(pattern, "neither-here-nor-there") is None


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        ("Straße", "in der STRASSE dort", "STRASSE"),
        ("strasse", "in der Straße dort", "Straße"),
        ("ẞ", "die straße", "ß"),
        ("ß", "die STRAẞE", "ẞ"),
        ("s", "ß", "ß"),
        ("İ", "das İstanbul", "İ"),
        ("i̇stanbul", "nach İSTANBUL", "İSTANBUL"),
        ("istanbul", "nach İstanbul", None),
        ("ΣΑΣ", "για σας", "σας"),
        ("ﬁn", "ENDE: FIN", "FIN"),
        ("fin", "der ﬁn", "ﬁn"),
        ("漢", "一個漢字", "漢"),
        ("字", "一個漢字", "字"),
        ("ключ", "КЛЮЧ найден", "КЛЮЧ"),
        ("🦆", "a 🦆 b", "🦆"),
    ],
)
def test_without_case_letters_match_as_unicode_folds_them(pattern: str, text: str, shown: str | None) -> None:
    assert place(pattern, text) == shown


def test_with_case_only_the_same_letters_match() -> None:
    assert place("Foo", "foo Foo", case=True) == "Foo"
    assert place("FOO", "foo Foo", case=True) is None
    assert place("ß", "STRASSE", case=True) is None


def test_words_may_stand_anywhere_and_in_any_order() -> None:
    assert place("parser config", "The config of the PARSER", mode="words") == "config"
    assert place("parser missing", "The config of the parser", mode="words") is None
    assert place("pars conf", "reconfigured, then parsed", mode="words") == "conf"
    assert place("字 漢", "一個漢字", mode="words") == "漢"
    assert place("  ", "no two blanks", mode="words") is None
    assert place("a A", "aha", mode="words") == "a"


TEXTS = st.text(st.sampled_from("aAbßẞİiıſsS漢ﬁ 🦆\u0307\n"), max_size=30)


@given(TEXTS, TEXTS.filter(bool), st.booleans())
@example("xß", "s", False)
@example("Sß", "ß", False)
def test_a_place_is_where_python_finds_it(text: str, pattern: str, case: bool) -> None:
    found = literal(pattern, case_sensitive=case).find(text)
    if case:
        assert (-1 if found is None else found.start) == text.find(pattern)
        return
    assert (found is not None) == (pattern.casefold() in text.casefold())
    if found is not None:
        shown = text[found.start : found.end]
        assert pattern.casefold() in shown.casefold()
        # No shorter piece of it would do: the offsets are those of the match itself.
        assert pattern.casefold() not in shown[1:].casefold()
        assert pattern.casefold() not in shown[:-1].casefold()


@given(st.text("ab漢ß\n", max_size=900), st.integers(0, 900), st.integers(1, 400))
def test_a_snippet_always_shows_the_match(text: str, start: int, length: int) -> None:
    found = Place(min(start, len(text)), min(start + length, len(text)))
    shown = snippet(text, found)
    assert text[found.start : min(found.end, found.start + MATCH_CHARACTERS)] in shown
    assert shown.strip("…") in text
    assert len(shown) <= SNIPPET_CHARACTERS + 2
    assert shown.startswith("…") or text.startswith(shown.removesuffix("…"))


# --- many texts


def find(
    db: apsw.Connection,
    scope: Scope,
    pattern: str,
    *,
    limit: int = 10_000,
    after: Position | None = None,
    seconds: float = 60,
    **options: object,
) -> Scanned:
    wanted = Wanted(literal(pattern, case_sensitive=False))
    return scan(db, scope, replace(wanted, **options), limit, after, seconds)  # pyright: ignore[reportArgumentType]


def refs(found: Scanned | tuple[Found, ...]) -> list[str]:
    hits = found.found if isinstance(found, Scanned) else found
    return [f"e{hit.seq}" if hit.kind == "row" else f"#{hit.node}" for hit in hits]


def summarize(
    db: apsw.Connection, session: SessionId, last: int, text: str, rich: str | None = None
) -> NodeId:
    """A leaf of the rows from the covered end to `last`."""
    path = path_of(db, session)
    end = dag.covered_end(db, session, path, path.leaf)
    first = path.after(end)
    assert first is not None
    thorough = None if not rich else Tier("rich", rich, TokenCount(20), 1, "test")
    summary = Summary(Tier("primary", text, TokenCount(10), 1, "test"), thorough)
    span = Span(first, Seq(last), end, last - end, Size(bytes=400))
    made = dag.commit_leaves(db, session, [(span, summary)], NOW)
    assert isinstance(made, list)
    return made[0].id


def test_a_summary_stands_right_after_the_last_row_it_covers(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, draft("user", "duck one"), draft("user", "no"), draft("user", "duck two"))
    summarize(db, session, 2, "about a duck")
    add(db, session, draft("user", "duck three"))
    summarize(db, session, 3, "nothing", rich="at length about a duck")
    scope = scope_of(db, session)
    newest = find(db, scope, "DUCK")
    assert refs(newest) == ["e4", "#2", "e3", "#1", "e1"]
    assert (newest.more, newest.finished, newest.rows, newest.summaries) == (False, True, 4, 2)
    assert refs(find(db, scope, "duck", newest_first=False)) == refs(newest)[::-1]
    assert refs(find(db, scope, "duck", summaries=False)) == ["e4", "e3", "e1"]
    assert refs(find(db, scope, "duck", rows=False)) == ["#2", "#1"]
    assert newest.found[1].text == "at length about a duck"


def test_tool_calls_and_results_are_searched_as_they_read(db: apsw.Connection) -> None:
    session = new_session(db)
    add(
        db,
        session,
        draft("assistant", call("c", "Bash", {"command": 'grep "foo(" src/*.py'})),
        draft("tool", result("c", "src/a.py: foo(1)\nsrc/b.py: [x]")),
    )
    scope = scope_of(db, session)
    assert refs(find(db, scope, 'grep "foo("')) == ["e1"]
    assert refs(find(db, scope, "foo(")) == ["e2", "e1"]
    assert refs(find(db, scope, ")\nsrc/b.py: [")) == ["e2"]


def test_filters_keep_what_they_name_ends_included(db: apsw.Connection) -> None:
    session = new_session(db)
    roles = ("user", "assistant", "tool", "system")
    add(db, session, *[draft(role, f"duck of {role}", at=n * 1000) for n, role in enumerate(roles, 1)])
    summarize(db, session, 2, "a duck")
    scope = scope_of(db, session)
    for n, role in enumerate(roles, 1):
        assert refs(find(db, scope, "duck", role=role)) == [f"e{n}"]
    # A summary has the time of the last row it covers.
    assert refs(find(db, scope, "duck", since=2000, until=3000)) == ["e3", "#1", "e2"]
    assert refs(find(db, scope, "duck", since=2001, until=2999)) == []
    assert refs(find(db, scope, "duck", until=1000)) == ["e1"]
    assert refs(find(db, scope, "duck", since=NOW)) == []


def test_rows_with_tool_results_are_the_tools_whatever_role_they_came_in(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, draft("user", "a duck?"), draft("user", result("c", "duck found")))
    scope = scope_of(db, session)
    assert refs(find(db, scope, "duck", role="user")) == ["e1"]
    assert refs(find(db, scope, "duck", role="tool")) == ["e2"]


def test_removed_rows_and_summaries_are_left_out_unless_asked_for(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, draft("user", "duck 1"), draft("user", "duck 2"), draft("user", "duck 3"))
    summarize(db, session, 2, "ducks")
    add(db, session, draft("user", "duck off", active=False))
    db.execute("UPDATE session SET leaf = 1 WHERE id = ?", (session,))
    add(db, session, draft("user", "duck again"))
    scope = scope_of(db, session)
    assert refs(find(db, scope, "duck")) == ["e5", "e1"]
    everything = find(db, scope, "duck", include_removed=True)
    assert refs(everything) == ["e5", "e4", "e3", "#1", "e2", "e1"]
    assert [hit.removed for hit in everything.found] == [False, True, True, True, True, False]


def test_inside_a_node_only_its_rows_and_the_named_summaries_are_searched(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", f"duck {n}") for n in range(1, 7)])
    one, two = summarize(db, session, 2, "duck A"), summarize(db, session, 4, "duck B")
    rows = [Segment(Seq(1), Seq(1)), Segment(Seq(3), Seq(4))]
    scope = scope_of(db, session, rows=rows, nodes=frozenset([two]))
    assert refs(find(db, scope, "duck")) == [f"#{two}", "e4", "e3", "e1"]
    assert refs(find(db, scope, "duck", newest_first=False)) == ["e1", "e3", "e4", f"#{two}"]
    assert one != two


def test_several_sessions_are_searched_as_one_and_others_are_not(db: apsw.Connection) -> None:
    one, two, other = (new_session(db) for _ in range(3))
    for n in range(3):
        for session in (one, two, other):
            add(db, session, draft("user", f"duck {n}"))
    summarize(db, other, 2, "duck")
    summarize(db, one, 1, "duck")
    found = find(db, scope_of(db, one, two), "duck", newest_first=False)
    assert [(hit.session, hit.kind) for hit in found.found] == [
        (one, "row"),
        (one, "summary"),
        (two, "row"),
        *[(session, "row") for _ in range(2) for session in (one, two)],
    ]


def every_page(db: apsw.Connection, scope: Scope, limit: int, seconds: float, **options: object) -> list[str]:
    """All hits by following the cursor as grep does, while the store goes on growing."""
    hits: list[str] = []
    after: Position | None = None
    for turn in range(500):
        page = find(db, scope, "duck", limit=limit, after=after, seconds=seconds, **options)
        hits += refs(page)
        if page.finished and not page.more:
            return hits
        # A page that is full goes on behind its last hit, one out of time behind the last text it read.
        after = page.found[-1].position if page.finished else page.last
        assert after is not None
        if turn < 5:
            for session in scope.numbers:
                add(db, session, draft("user", "a newer duck"))
    raise AssertionError("the pages come to no end")


@pytest.mark.parametrize("seconds", [60.0, -1.0])
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_lose_nothing_and_repeat_nothing_while_rows_are_appended(
    db: apsw.Connection, limit: int, seconds: float
) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", f"duck {n}" if n % 3 else "nothing") for n in range(1, 400)])
    scope = scope_of(db, session)
    wanted = refs(find(db, scope, "duck"))
    assert every_page(db, scope, limit, seconds) == wanted
    oldest_first = every_page(db, scope, limit, seconds, newest_first=False)
    assert oldest_first == refs(find(db, scope, "duck"))[::-1]
    assert oldest_first[: len(wanted)] == wanted[::-1]


def test_a_search_out_of_time_says_so_and_goes_on_where_it_stopped(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", "nothing") for _ in range(300)], draft("user", "duck"))
    scope = scope_of(db, session)
    stopped = find(db, scope, "duck", newest_first=False, seconds=-1)
    assert (stopped.found, stopped.finished, stopped.more) == ((), False, True)
    assert stopped.rows == scanning.CLOCK_EVERY
    gone_on = find(db, scope, "duck", newest_first=False, after=stopped.last)
    assert (refs(gone_on), gone_on.rows) == (["e301"], 301 - stopped.rows)


def test_a_scan_agrees_with_python_on_every_text(db: apsw.Connection) -> None:
    @settings(max_examples=40, deadline=None)
    @given(st.lists(TEXTS, max_size=12), TEXTS.filter(bool), st.booleans())
    def law(texts: list[str], pattern: str, case: bool) -> None:
        session = new_session(db)
        add(db, session, *[draft("user", text) for text in texts])
        wanted = Wanted(literal(pattern, case_sensitive=case), newest_first=False)
        found = scan(db, scope_of(db, session), wanted, 100, None, 60)
        folded = [(text if case else text.casefold()) for text in texts]
        needle = pattern if case else pattern.casefold()
        assert [hit.seq for hit in found.found] == [n for n, text in enumerate(folded, 1) if needle in text]

    law()


# --- the pages of lcm_grep


async def test_grep_pages_over_many_sessions_survive_what_is_appended_between_them(store_path: Path) -> None:
    async with serving(store_path) as service:
        for number in range(4):
            entries = [{"role": "user", "content": f"duck {number} {n}"} for n in range(10)]
            await service.append(f"s{number}", entries)
        query = GrepQuery("duck", limit=7)
        wanted = [hit.ref for hit in (await service.grep(replace(query, limit=100))).hits]
        assert len(wanted) == 40
        page = await service.grep(query)
        refs = [hit.ref for hit in page.hits]
        while page.next_cursor is not None:
            await service.append("s0", [{"role": "user", "content": "a newer duck"}])
            await service.append(f"new {len(refs)}", [{"role": "user", "content": "a newer duck"}])
            page = await service.grep(replace(query, cursor=page.next_cursor))
            refs += [hit.ref for hit in page.hits]
        assert refs == wanted
        assert (page.total, page.complete) == (40, True)


async def test_grep_out_of_time_is_told_and_its_cursor_loses_nothing(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SCAN_S", -1)
    async with serving(store_path) as service:
        entries = [{"role": "user", "content": "duck" if n % 50 == 0 else "nothing"} for n in range(300)]
        await service.append("s", entries)
        page = await service.grep(GrepQuery("duck"))
        assert (page.complete, page.total) == (False, None)
        assert page.reason is not None
        assert "next_cursor" in page.reason
        refs = [hit.ref for hit in page.hits]
        while page.next_cursor is not None:
            page = await service.grep(GrepQuery("duck", cursor=page.next_cursor))
            refs += [hit.ref for hit in page.hits]
        assert refs == [f"e{n + 1}" for n in range(299, -1, -1) if n % 50 == 0]
        assert (page.complete, page.total) == (True, 6)


async def test_a_cursor_of_another_query_is_refused(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": f"duck {n}"} for n in range(20)])
        page = await service.grep(GrepQuery("duck", limit=3))
        assert page.next_cursor is not None
        for other in (GrepQuery("goose"), GrepQuery("duck", order="oldest"), GrepQuery("duck", role="user")):
            with pytest.raises(BadCursor):
                await service.grep(replace(other, cursor=page.next_cursor))


async def test_a_hit_says_under_which_node_it_lies_and_where_in_its_text(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", conversation(60, "grep"))
        await service.prepare(PrepareQuery(session="s", strategy="lcm", window_tokens=4000, compact="force"))
        page = await service.grep(GrepQuery("GREP 3: ", scope="rows", order="oldest"))
        (hit,) = page.hits
        assert (hit.ref, hit.offset, hit.removed) == ("e4", 0, False)
        assert hit.node is not None
        assert (await service.describe(hit.node)).node is not None
        inside = await service.grep(GrepQuery("grep 3: ", node=hit.node, scope="rows"))
        assert [each.ref for each in inside.hits] == ["e4"]
        assert f"node {hit.node}" in inside.scope
        elsewhere = await service.grep(GrepQuery("grep 59: ", node=hit.node, scope="rows"))
        assert elsewhere.hits == ()
