"""How much of a store a literal search reads: what may match, and little beside it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
from stores import add, database, draft, new_session, path_of
from test_index import summarize

from lcm_mcp.search import index, streams
from lcm_mcp.search.match import literal
from lcm_mcp.search.scan import Wanted, scan
from lcm_mcp.search.streams import Scope


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
    scope = Scope({session: path_of(db, session).leaf})
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
    scope = Scope({session: path_of(db, session).leaf})
    for needle, seqs in (("zwieback", [3001]), ("quokka", [])):
        page = scan(db, scope, Wanted(literal(needle, case_sensitive=False)), 10, None, 60)
        assert [hit.seq for hit in page.found] == seqs
        assert (page.rows, page.summaries, page.more) == (len(seqs), 0, False)
