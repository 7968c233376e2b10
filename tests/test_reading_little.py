"""How much of a store a literal search reads: what may match, and little beside it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import apsw
import pytest
from counting import Counted, counting
from stores import add, database, draft, new_session, scope_of
from test_index import summarize

from lcm_mcp.search import index, streams
from lcm_mcp.search.match import literal
from lcm_mcp.search.scan import Wanted, scan
from lcm_mcp.search.scope import Scope
from lcm_mcp.transcript import followed
from lcm_mcp.transcript.followed import Followed, Wish
from lcm_mcp.transcript.sessions import describe


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def test_only_what_may_match_is_read(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", f"nothing to see in row {n}") for n in range(3000)])
    add(db, session, draft("user", "the Needle"))
    add(db, session, *[draft("user", f"nothing to see in row {n}") for n in range(1000)])
    while index.feed(db):
        pass
    scope = scope_of(db, session)
    for newest in (True, False):
        page = scan(
            db, scope, Wanted(literal("needle", case_sensitive=False), newest_first=newest), 10, None, 60
        )
        assert [hit.seq for hit in page.found] == [3001]
        assert page.rows == streams.HEAD_ROWS + 1
    absent = scan(db, scope, Wanted(literal("neodle", case_sensitive=False)), 10, None, 60)
    assert (absent.found, absent.rows, absent.more) == ((), streams.HEAD_ROWS, False)


def test_what_a_look_at_the_index_tells_to_be_rare_is_read_and_nothing_else(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", f"nothing to see in row {n}") for n in range(3000)])
    add(db, session, draft("user", "a Zwieback"))
    add(db, session, *[draft("user", f"nothing to see in row {n}") for n in range(1000)])
    for number in range(200):
        summarize(db, session, f"summary {number}", "of nothing")
        add(db, session, draft("user", f"and row {number}"))
    while index.feed(db):
        pass
    scope = scope_of(db, session)
    for needle, seqs in (("zwieback", [3001]), ("quokka", [])):
        page = scan(db, scope, Wanted(literal(needle, case_sensitive=False)), 10, None, 60)
        assert [hit.seq for hit in page.found] == seqs
        assert (page.rows, page.summaries, page.more) == (len(seqs), 0, False)


def store_of(db: apsw.Connection, sessions: int, rows: int) -> Scope:
    """A project of three sessions, one of them summarized, beside a long one and others of another project;
    all is indexed but the last rows."""
    ours = [new_session(db) for _ in range(3)]
    for session in ours:
        add(db, session, draft("user", "we spoke of the harbour"), draft("assistant", "and of the Needle"))
    summarize(db, ours[0], "the harbour, the needle", "")
    others = [new_session(db) for _ in range(sessions)]
    scope_of(db, *others)
    add(db, others[0], *[draft("user", f"the harbour again, the pier, day {n}") for n in range(rows)])
    for session in others:
        add(db, session, draft("user", "of the harbour"))
    while index.feed(db):
        pass
    add(db, ours[1], draft("user", "one more of the harbour"))
    return scope_of(db, *ours)


def costs(db: apsw.Connection, counted: Counted, where: Scope) -> Iterator[int]:
    for needle in ("needle", "harbour", "the", "e", "day of the", "quokka", "the harbour, again"):
        for newest in (True, False):
            counted.steps = 0
            wanted = Wanted(literal(needle, case_sensitive=False), newest_first=newest)
            scope = Scope(db, where.project)
            page = scan(db, scope, wanted, 10, None, 60)
            assert {hit.session for hit in page.found} <= set(scope.numbers)
            assert len(page.found) == {"needle": 4, "harbour": 5, "the": 8, "e": 8}.get(needle, 0)
            yield counted.steps


def test_a_project_is_searched_at_the_same_cost_whatever_else_the_store_holds(tmp_path: Path) -> None:
    taken: list[list[int]] = []
    for name, sessions, rows in (("few", 20, 200), ("many", 800, 8_000)):
        with counting() as counted, database(tmp_path / name) as db:
            where = store_of(db, sessions, rows)
            taken.append(list(costs(db, counted, where)))
    few, many = taken
    assert all(0 < more < 2 * less + 500 for less, more in zip(few, many, strict=True)), taken


def test_of_thousands_of_sessions_those_are_read_in_which_something_is_found(tmp_path: Path) -> None:
    taken: list[int] = []
    for sessions in (80, 1_600):
        with counting() as counted, database(tmp_path / str(sessions)) as db:
            for _ in range(sessions):
                add(db, new_session(db), draft("user", "of the harbour"), draft("user", "and so on"))
            while index.feed(db):
                pass
            for needle, hits in (("harbour", 10), ("quokka", 0)):
                counted.steps = 0
                page = scan(db, Scope(db), Wanted(literal(needle, case_sensitive=False)), 10, None, 60)
                assert len(page.found) == hits
                taken.append(counted.steps)
    assert all(0 < more < 2 * less for less, more in zip(taken[:2], taken[2:], strict=True)), taken


def test_a_read_looks_at_its_projects_files_and_at_those_that_feed_none_and_passes_others_by(
    tmp_path: Path,
) -> None:
    taken: list[int] = []
    for number_of_others in (20, 2_000):
        with counting() as counted, database(tmp_path / str(number_of_others)) as db:
            ours, theirs = new_session(db), new_session(db)
            describe(db, ours, None, "ours")
            for number in range(number_of_others):
                followed.feed(db, follow(db, f"theirs {number}"), theirs)
            for name in ("one", "two"):
                followed.feed(db, follow(db, name), ours)
            follow(db, "feeds none yet")
            counted.steps = 0
            found = followed.of_project(db, "ours")
            taken.append(counted.steps)
            assert [file.path for file in found] == ["one", "two", "feeds none yet"]
            db.execute("DELETE FROM followed_session WHERE session = ? AND file = 1", (theirs,))
            assert followed.of_project(db, "ours")[0].path == "theirs 0"
    assert 0 < taken[1] < 2 * taken[0], taken


def follow(db: apsw.Connection, name: str) -> Followed:
    return followed.follow(db, Path(name), Wish("neutral", "", fold=False))
