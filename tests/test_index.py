"""The literal index: it spares reading and never costs a hit, whatever is in it and whatever is not yet."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Literal, cast

import anyio
import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stores import NOW, add, database, draft, new_session, path_of, scope_of, serving

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Summary, Tier
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.search import index, scope, streams
from lcm_mcp.search.match import Matcher, literal, words
from lcm_mcp.search.regex import expression
from lcm_mcp.search.scan import Found, Wanted, scan
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.streams import Position
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript.path import FIRST, Segment
from lcm_mcp.transcript.units import Span

LETTERS = 'abAB ßẞİſ漢字語🦆\n"*%_.(é\x1a\ufffd\uffff'
TEXT = st.text(st.sampled_from(LETTERS), max_size=24)
Mode = Literal["literal", "words", "regex"]


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


@contextmanager
def sizes(
    *,
    small: int,
    head: int,
    worthwhile: int,
    sifted: int = 0,
    few: int = 0,
    looks: int = 2,
    sparse: int = 1_000_000,
) -> Generator[None]:
    """Where reading ends and the index begins: for a large `small` only where one of the `looks` at trigrams
    finds no more than `few` texts, at once for 0; up to where SQLite sifts, and from which share of the store
    on a project is read in the store's order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "SMALL_ROWS", small)
        patch.setattr(streams, "SMALL_NODES", small)
        patch.setattr(streams, "HEAD_ROWS", head)
        patch.setattr(streams, "HEAD_SUMMARIES", head)
        patch.setattr(streams, "WORTHWHILE", worthwhile)
        patch.setattr(streams, "SIFTED_ROWS", sifted)
        patch.setattr(streams, "SIFTED_SHARE", 0.01)
        patch.setattr(scope, "SPARSE", sparse)
        patch.setattr(index, "FEW_TEXTS", few)
        patch.setattr(index, "LOOKS", looks)
        yield


def summarize(db: apsw.Connection, session: SessionId, text: str, rich: str) -> None:
    """A leaf over all rows that none covers yet."""
    path = path_of(db, session)
    end = dag.covered_end(db, session, path, path.leaf)
    first = path.after(end)
    if first is None:
        return
    thorough = Tier("rich", rich, TokenCount(20), 1, "test") if rich else None
    summary = Summary(Tier("primary", text, TokenCount(10), 1, "test"), thorough)
    rows = path.leaf - end
    made = dag.commit_leaves(
        db, session, [(Span(first, path.leaf, end, rows, Size(bytes=400)), summary)], NOW
    )
    assert isinstance(made, list)


def matcher(mode: Mode, pattern: str, case: bool) -> Matcher:
    make = {"literal": literal, "words": words, "regex": expression}[mode]
    return make(pattern, case_sensitive=case)


def every_hit(db: apsw.Connection, scope: Scope, wanted: Wanted, limit: int) -> list[Found]:
    hits: list[Found] = []
    after: Position | None = None
    while True:
        page = scan(db, scope, wanted, limit, after, 60)
        hits += page.found
        if not page.more:
            return hits
        after = page.found[-1].position


def shown(hits: Sequence[Found]) -> list[tuple[SessionId, str, int, int]]:
    return [
        (hit.session, f"#{hit.node}" if hit.node else f"e{hit.seq}", hit.place.start, hit.place.end)
        for hit in hits
    ]


# A deed: rows for a session, a summary of a session's newest rows, or a slice for the index.
DEED = st.one_of(
    st.tuples(st.just("rows"), st.integers(0, 2), st.lists(TEXT, min_size=1, max_size=5)),
    st.tuples(st.just("summary"), st.integers(0, 2), st.tuples(TEXT, TEXT)),
    st.tuples(st.just("feed"), st.integers(1, 60), st.none()),
    st.tuples(st.just("rewind"), st.integers(0, 2), st.none()),
)
QUERY = st.tuples(
    st.sampled_from(["literal", "words", "literal", "words", "regex"]),
    st.text(st.sampled_from(LETTERS.replace("(", "").replace("*", "")), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.integers(1, 8),
)
WAYS = (
    {"small": -1, "worthwhile": 1},
    {"small": -1, "worthwhile": 4},
    {"small": -1, "worthwhile": 4, "sparse": 0},
    {"small": -1, "worthwhile": 1, "sifted": 1000},
    {"small": -1, "worthwhile": 1, "few": 2},
    {"small": -1, "worthwhile": 4, "few": 1000},
    {"small": 1_000_000, "worthwhile": 1, "few": 2},
    {"small": 1_000_000, "worthwhile": 1, "sparse": 0},
)


def test_the_index_finds_what_reading_finds_after_any_history(db: apsw.Connection) -> None:
    @settings(max_examples=120, deadline=None)
    @given(st.lists(DEED, max_size=25), st.lists(QUERY, min_size=1, max_size=4), st.integers(0, 3))
    @example([("rows", 0, ["aß"]), ("feed", 60, None)], [("literal", "ss", False, True, 1)], 0)
    @example([("rows", 0, ["xab"]), ("feed", 60, None)], [("literal", "b", True, True, 1)], 0)
    @example([("rows", 0, ["ab" * 40]), ("feed", 7, None)], [("literal", "bab", True, True, 1)], 0)
    def law(
        deeds: list[tuple[str, int, object]], queries: list[tuple[Mode, str, bool, bool, int]], head: int
    ) -> None:
        sessions = [new_session(db) for _ in range(3)]
        for deed in deeds:
            _do(db, sessions, deed)
        whole, one = scope_of(db, *sessions), scope_of(db, sessions[0])
        rows = [Segment(FIRST, Seq(2)), Segment(Seq(4), Seq(9))]
        part = scope_of(db, sessions[0], rows=rows, nodes=frozenset())
        for mode, pattern, case, newest, limit in queries:
            wanted = Wanted(matcher(mode, pattern, case), newest_first=newest, include_removed=limit % 2 == 0)
            for where in (whole, one, part):
                with sizes(small=1_000_000, head=0, worthwhile=1, looks=0):
                    read = shown(every_hit(db, where, wanted, 1000))
                for way in WAYS:
                    with sizes(head=head, **way):
                        assert shown(every_hit(db, where, wanted, limit)) == read

    law()


def _do(db: apsw.Connection, sessions: Sequence[SessionId], deed: tuple[str, int, object]) -> None:
    match deed:
        case ("rows", which, texts):
            add(db, sessions[which], *[draft("user", text) for text in cast("list[str]", texts)])
        case ("summary", which, (str(text), str(rich))):
            summarize(db, sessions[which], text, rich)
        case ("rewind", which, None):
            db.execute(
                "UPDATE session SET leaf = max(leaf - 2, min(leaf, 1)) WHERE id = ?", (sessions[which],)
            )
        case ("feed", size, None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(index, "SLICE_BYTES", size)
                index.feed(db)
        case _:
            raise AssertionError(deed)


def test_rows_not_yet_indexed_are_read_and_found(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", f"old row {n}") for n in range(2000)])
    while index.feed(db):
        pass
    assert not index.behind(db)
    add(db, session, draft("user", "a needle"), draft("user", "nothing"))
    assert (index.behind(db), index.unindexed(db)) == (True, 2)
    page = scan(db, scope_of(db, session), Wanted(literal("needle", case_sensitive=True)), 9, None, 60)
    assert [hit.seq for hit in page.found] == [2001]


def test_a_text_longer_than_a_slice_is_indexed_piece_by_piece(
    db: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "SLICE_BYTES", 100)
    session = new_session(db)
    text = "".join(Random(1).choice("abcdefghij漢字") for _ in range(2000))
    add(db, session, draft("user", "before"), draft("user", text), draft("user", "after"))
    slices = 1
    while index.feed(db):
        slices += 1
    assert slices > 10
    where = scope_of(db, session)
    with sizes(small=-1, head=0, worthwhile=1):
        for start in range(0, 1990, 7):
            needle = text[start : start + 5]
            page = scan(db, where, Wanted(literal(needle, case_sensitive=True)), 9, None, 60)
            assert [hit.seq for hit in page.found] == [2], needle
            assert page.rows == 1


def test_an_index_folded_by_another_unicode_is_used_where_both_fold_alike(
    db: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = new_session(db)
    add(db, session, draft("user", "straße, and ꟁ"))
    index.feed(db)
    monkeypatch.setattr("unicodedata.unidata_version", "99.0")
    assert index.clue(db, ["strasse"]) is not None
    assert index.clue(db, ["漢字"]) is not None
    assert index.clue(db, ["\ua7c1"]) is None  # newer than the Unicode that all versions share
    add(db, session, draft("user", "more"))
    index.feed(db)
    assert db.execute("SELECT unicode FROM gram_state").get == "mixed"
    monkeypatch.undo()
    assert index.clue(db, ["\ua7c1"]) is None


@pytest.mark.parametrize("newest_first", [True, False])
def test_no_search_sorts_what_it_reads(db: apsw.Connection, newest_first: bool) -> None:
    """Each walk is along an index, so a page costs what it reads."""
    one, two = new_session(db), new_session(db)
    for session in (one, two):
        add(db, session, *[draft("user", f"duck {n}") for n in range(5)])
        summarize(db, session, "a duck", "")
    index.feed(db)
    plans: list[str] = []
    seen: list[str] = []

    def explain(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if sql not in seen and not sql.startswith("EXPLAIN") and "FROM" in sql:
            seen.append(sql)
            for *_, detail in db.execute(
                "EXPLAIN QUERY PLAN " + sql, cast("tuple[int | str, ...]", bindings)
            ):
                plans.append(f"{detail} | {sql}")
        return True

    scopes = [scope_of(db, one), scope_of(db, one, two)]
    with sizes(small=-1, head=2, worthwhile=1):
        db.exec_trace = explain
        for where in scopes:
            for needle in ("duck", "d"):
                wanted = Wanted(literal(needle, case_sensitive=False), newest_first=newest_first)
                every_hit(db, where, wanted, 3)
        db.exec_trace = None
    assert len(seen) > 8
    sorts = [plan for plan in plans if "B-TREE" in plan]
    # The nodes that end at one row are put in order among themselves, the few grams' texts are made one set.
    assert [
        plan for plan in sorts if "LAST TERM OF ORDER BY" not in plan and "gram_instance" not in plan
    ] == []
    assert [
        plan
        for plan in plans
        if plan.startswith("SCAN")
        and "VIRTUAL TABLE" not in plan
        and "json" not in plan
        and "gram_state" not in plan
        and "LIMIT ?)" not in plan  # a count that ends where it is enough
        and "LIMIT 64)" not in plan
        and "INDEX" not in plan
    ] == []


# --- regular expressions


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "(?=x)", r"(a)\1", "*", "\\"])
async def test_a_wrong_regular_expression_is_an_error_that_says_why(store_path: Path, pattern: str) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": pattern}])
        with pytest.raises(InvalidArgument, match="no regular expression") as told:
            await service.grep(GrepQuery(pattern, mode="regex"))
        assert "mode literal" in str(told.value)
        assert len((await service.grep(GrepQuery(pattern))).hits) == 1


@pytest.mark.parametrize(
    ("pattern", "case", "found"),
    [
        (r"err(or)?s? \d+", False, "Error 17"),
        (r"err(or)?s? \d+", True, None),
        (r"^line two$", False, None),
        (r"(?m)^line two$", False, "line two"),
        (r"é+", True, "éé"),
        (r"日本.", True, "日本語"),
        (r"a|b", True, "a"),
    ],
)
def test_an_expression_matches_as_re2_says(pattern: str, case: bool, found: str | None) -> None:
    text = "Error 17 at caféé\nline two\n日本語"
    place = expression(pattern, case_sensitive=case).find(text)
    assert (None if place is None else text[place.start : place.end]) == found


def test_what_an_expression_begins_with_is_asked_of_the_index() -> None:
    def required(pattern: str) -> list[str]:
        return list(expression(pattern, case_sensitive=False).required)

    assert required(r"Foo_bar\(\d+\)") == ["foo_bar("]
    assert required(r"日本.") == ["日本"]
    assert required(r"[xy]z") == required(r".*foo") == required(r"(?i)foo") == []


async def test_a_hostile_expression_takes_no_longer_than_a_plain_one(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": "a" * 5000 + "!"}])
        with anyio.fail_after(20):  # a backtracking matcher would need years
            page = await service.grep(GrepQuery(r"(a+)+$", mode="regex"))
        assert page.hits == ()


# --- kept fed


async def test_a_server_indexes_what_is_appended_and_what_another_left(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": f"left behind {n}"} for n in range(50)])
    async with serving(store_path) as service, service.running():
        with anyio.fail_after(20):
            while await service.work.store.read(index.behind):
                await anyio.sleep(0.01)
            await service.append("s", [{"role": "user", "content": "and one more"}])
            while await service.work.store.read(index.behind):
                await anyio.sleep(0.01)
    with database(store_path) as db:
        assert index.indexed_upto(db) == 51


async def test_searching_while_two_services_append_and_index_loses_no_hit(store_path: Path) -> None:
    with sizes(small=-1, head=0, worthwhile=1):
        async with serving(store_path) as one, serving(store_path) as two, anyio.create_task_group() as tasks:
            said: list[str] = []

            async def talk(service: object, name: str) -> None:
                for n in range(40):
                    await one.append(name, [{"role": "user", "content": f"needle {name}-{n} " + "hay " * 50}])
                    said.append(f"{name}-{n} ")

            async def feed() -> None:
                while len(said) < 80:
                    await two.index()
                    await anyio.sleep(0.001)

            tasks.start_soon(talk, one, "a")
            tasks.start_soon(talk, two, "b")
            tasks.start_soon(feed)
            luck = Random(3)
            while len(said) < 80:
                await anyio.sleep(0.001)
                if said:
                    known = luck.choice(said)
                    page = await two.grep(GrepQuery(f"needle {known}", session="*"))
                    assert [hit.snippet[: len(known) + 7] for hit in page.hits] == [f"needle {known}"]
