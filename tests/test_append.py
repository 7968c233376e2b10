"""What is one row: identity by the source's own id, conflicts kept beside the first, images stored once."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores import active_rows, add, database, draft, new_session
from wire_rows import PICTURE, call, result

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.transcript import store
from lcm_mcp.transcript.model import ROLES, Draft, Image
from lcm_mcp.transcript.path import Segment


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def test_the_same_entry_again_changes_nothing_and_names_its_row(db: apsw.Connection) -> None:
    session = new_session(db)
    rows = [draft("user", "one", id="a"), draft("assistant", "two", call("c"), id="b")]
    assert add(db, session, *rows).refs == (1, 2)
    before = db.total_changes()
    again = add(db, session, *rows)
    assert (again.refs, again.duplicates, again.conflicts, again.added) == ((1, 2), (1, 2), (), 0)
    assert db.total_changes() == before


def test_an_entry_twice_in_one_batch_is_one_row(db: apsw.Connection) -> None:
    session = new_session(db)
    done = add(db, session, *[draft("user", "one", id="a"), draft("user", "one", id="a")] * 2)
    assert (done.refs, done.added) == ((1, 1, 1, 1), 1)


def test_two_identical_turns_without_ids_are_two_rows(db: apsw.Connection) -> None:
    session = new_session(db)
    assert add(db, session, draft("user", "yes"), draft("user", "yes")).refs == (1, 2)


def test_an_entry_id_is_one_session_s_own(db: apsw.Connection) -> None:
    for _ in range(2):
        done = add(db, new_session(db), draft("user", "one", id="a"))
        assert (done.refs, done.duplicates) == ((1,), ())


@pytest.mark.parametrize(
    "other",
    [
        draft("user", "other words", id="a"),
        draft("assistant", "the first", id="a"),
        draft("user", "the first", "and more", id="a"),
        draft("user", "the first", PICTURE, id="a"),
    ],
)
def test_other_content_under_a_known_id_is_kept_beside_the_first(db: apsw.Connection, other: Draft) -> None:
    session = new_session(db)
    add(db, session, draft("user", "the first", id="a"))
    for _ in range(2):  # the same conflict again is reported again and kept once
        done = add(db, session, other, draft("user", "new", id="b"))
        assert (done.refs, done.conflicts) == ((1, 2), (1,))
    assert store.count_variants(db, session, Seq(1)) == 1
    add(db, session, draft("user", "a third", id="a"))
    assert store.count_variants(db, session, Seq(1)) == 2
    row = store.read_row(db, session, Seq(1))
    assert row is not None
    assert row.text == "the first"


def test_a_failed_batch_leaves_no_row(db: apsw.Connection) -> None:
    session = new_session(db)

    def fail_half_way() -> None:
        with db:
            add(db, session, draft("user", "one", id="a"))
            raise LookupError

    with pytest.raises(LookupError):
        fail_half_way()
    assert active_rows(db, session) == []
    assert add(db, session, draft("user", "two", id="a")).refs == (1,)


def test_an_image_is_stored_once_whoever_shows_it(db: apsw.Connection) -> None:
    session, other = new_session(db), new_session(db)
    shown = draft("user", "look", PICTURE, id="a")
    for each in (session, other, session):
        add(db, each, shown, draft("tool", result("c", PICTURE, "a screenshot")))
    assert db.execute("SELECT count(*), max(length(data)) FROM image").get == (1, PICTURE.size_bytes)
    first = [Segment(Seq(1), Seq(1))]
    for images, data in ((False, None), (True, PICTURE.data)):
        (row,) = store.read_rows(db, session, first, images=images)
        assert [part.data for part in row.parts if isinstance(part, Image)] == [data]


def test_results_whose_ids_are_stored_as_one_each_answer_a_call_of_their_own(db: apsw.Connection) -> None:
    """SQLite holds no lone surrogate, so these ids differ no longer once they are stored."""
    session = new_session(db)
    add(db, session, draft("assistant", call("a\ud800"), call("a\ud801")))
    add(db, session, draft("user", result("a\ud800", "one"), result("a\ud801", "two")))
    again = new_session(db)
    add(db, again, draft("assistant", call("a\ud800")))
    add(db, again, draft("user", result("a\ud800", "one"), result("a\ud801", "an orphan")))
    answers = "SELECT session, call_seq, call_n, seq FROM answer ORDER BY session, call_n"
    assert list(db.execute(answers)) == [(session, 1, 0, 2), (session, 1, 1, 2), (again, 1, 0, 2)]


@pytest.mark.parametrize("link", [{"parent": "q1"}, {"parent": "e1", "branch": True}, {"prompt_under": "q1"}])
def test_an_inactive_entry_hangs_under_the_row_it_names_and_leaves_the_path_as_it_is(
    db: apsw.Connection, link: dict[str, Any]
) -> None:
    session = new_session(db)
    add(db, session, draft("user", "one", id="q1"), draft("user", "two"), draft("assistant", call("c")))
    beside = replace(draft("user", "a summary", active=False), **link)
    done = add(db, session, beside, draft("tool", result("c", "found")))
    assert (done.refs, done.leaf) == ((4, 5), 5)
    assert active_rows(db, session) == [1, 2, 3, 5]
    assert db.execute("SELECT prev FROM row WHERE seq = 4").get == 1
    assert list(db.execute("SELECT call_seq, seq FROM answer")) == [(3, 5)]
    assert add(db, session, beside).leaf == 5


# --- rows that wait together

_NAMES = st.sampled_from([f"r{n}" for n in range(8)])
_IDS = st.sampled_from(["c1", "c2", "c\ud800"])


@st.composite
def _drafts(draw: st.DrawFn) -> Draft:
    parts = st.one_of(
        st.sampled_from(["", "said", "x" * 70]),
        st.builds(call, _IDS),
        st.builds(result, _IDS, st.just("y" * 90)),
        st.just(PICTURE),
    )
    made = draft(
        draw(st.sampled_from(ROLES)),
        *draw(st.lists(parts, min_size=1, max_size=3)),
        id=draw(st.one_of(st.none(), _NAMES)),
        message_id=draw(st.sampled_from([None, None, "m1", "m2"])),
        active=draw(st.sampled_from([True, True, True, False])),
    )
    links = {"parent": st.one_of(_NAMES, st.just("e0")), "prompt_under": _NAMES, "pin": st.just(True)}
    link = draw(st.sampled_from([None, None, *links]))
    return made if link is None else replace(made, **{link: draw(links[link]), "branch": draw(st.booleans())})


def _stored(db: apsw.Connection, session: SessionId) -> list[list[tuple[object, ...]]]:
    """All that a session has in its tables, but for the numbers of the session and of its texts."""
    row = """SELECT row.seq, prev, unit, round, row.role, entry_id, message_id, row.at, results, row.digest,
        bytes, fixed, cum_bytes, cum_inputs, cum_fixed, text.body, payload.parts
        FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
        WHERE session = ?"""
    beside = (
        "SELECT id, seq, n FROM call WHERE session = ?",
        "SELECT id, call_seq, call_n, seq FROM answer WHERE session = ?",
        "SELECT seq, digest, content FROM variant WHERE session = ?",
        "SELECT seq FROM pin WHERE session = ?",
        "SELECT leaf, next_seq, active_at FROM session WHERE id = ?",
    )
    return [list(db.execute(query, (session,))) for query in (row, *beside)]


@given(history=st.lists(_drafts(), max_size=25))
def test_entries_that_come_together_are_stored_as_if_they_came_one_by_one(history: list[Draft]) -> None:
    with database(Path(":memory:")) as db:
        together, singly = new_session(db), new_session(db)
        done = add(db, together, *history)
        steps = [add(db, singly, each) for each in history]
        assert _stored(db, together) == _stored(db, singly)
        assert done.refs == tuple(ref for step in steps for ref in step.refs)
        assert done.lost == tuple(n for n, step in enumerate(steps) if step.lost)
