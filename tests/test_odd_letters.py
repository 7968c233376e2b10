"""Letters that SQLite reads in other ways than Python are found all the same."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
from stores import add, database, draft, new_session, scope_of
from test_index import sizes

from lcm_mcp.search import index
from lcm_mcp.search.match import literal
from lcm_mcp.search.scan import Wanted, scan


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def test_a_small_part_of_a_large_store_is_sifted_by_sqlite_in_any_case_and_across_odd_characters(
    db: apsw.Connection,
) -> None:
    big, small = new_session(db), new_session(db)
    add(db, big, *[draft("user", f"nothing to see in row {n}") for n in range(3000)])
    while index.feed(db):
        pass
    said = (
        "the Needle",
        "nothing",
        "a NEEDLE\0",
        "\0needle",
        "漢字 nEEdle",
        "a \u212aey, ma\ufb00s",
        "a key",
    )
    add(db, small, *[draft("user", text) for text in said])
    where = scope_of(db, small)

    def found(needle: str, case: bool) -> tuple[list[int | None], int]:
        with sizes(small=0, head=0, worthwhile=1, sifted=100):
            page = scan(
                db, where, Wanted(literal(needle, case_sensitive=case), newest_first=False), 9, None, 60
            )
        return [hit.seq for hit in page.found], page.rows

    assert found("needle", case=False) == ([1, 3, 4, 5], 5)
    assert found("Needle", case=True)[0] == [1]
    assert found("key", case=False)[0] == [6, 7]
    assert found("MAFFS", case=False)[0] == [6]


def test_what_unicode_has_no_character_for_is_found_and_no_fault_of_the_index(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *[draft("user", text) for text in ("\ufffdab \uffffab", "ab\ufffe", "a\uffff", "ab")])
    while index.feed(db):
        pass
    assert index.faults(db, 100) == []
    where = scope_of(db, session)

    def found(needle: str) -> list[int | None]:
        with sizes(small=-1, head=0, worthwhile=1):
            wanted = Wanted(literal(needle, case_sensitive=False), newest_first=False)
            return [hit.seq for hit in scan(db, where, wanted, 9, None, 60).found]

    assert found("\uffff") == [1, 3]
    assert found("B\ufffe") == [2]
    assert found("\ufffdab") == found("\uffffab") == [1]
