"""Rows, units and rounds: what belongs together, what is one row, and what stands off the path."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import active_rows, add, database, draft, new_session, path_of
from wire_rows import call, result

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import store
from lcm_mcp.transcript.model import ROLES, Draft, Reasoning, ToolCall, ToolResult
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.path import Segment
from lcm_mcp.transcript.sealing import weigh
from lcm_mcp.transcript.units import Span, join, rounds, units, units_back

Ends = list[tuple[int, int]]


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def ends(spans: Sequence[Span]) -> Ends:
    return [(span.first, span.last) for span in spans]


def unit_ends(db: apsw.Connection, *drafts: Draft) -> Ends:
    """First and last row of each unit of a session of these rows."""
    session = new_session(db)
    add(db, session, *drafts)
    path = path_of(db, session)
    return ends(units(path.marks(Seq(1), path.leaf)))


def round_ends(db: apsw.Connection, *drafts: Draft) -> Ends:
    """First and last row of each round of the session's last unit."""
    session = new_session(db)
    add(db, session, *drafts)
    path = path_of(db, session)
    newest = units(path.marks(Seq(1), path.leaf))[-1]
    return ends(rounds(path.marks(newest.first, newest.last)))


# --- units


def test_a_user_row_opens_a_unit_and_what_follows_belongs_to_it(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("assistant", "a"),
        draft("user", "two"),
        draft("assistant", "b"),
        draft("assistant", "c"),
    ) == [(1, 2), (3, 5)]


def test_rows_before_the_first_user_row_are_a_unit(db: apsw.Connection) -> None:
    rows = [draft("system", "rules"), draft("assistant", "hello"), draft("user", "hi")]
    assert unit_ends(db, *rows) == [(1, 2), (3, 3)]


def test_a_user_row_with_a_result_opens_no_unit(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "go"),
        draft("assistant", call("c1")),
        draft("user", result("c1", "done"), "and now this"),
        draft("assistant", "ok"),
    ) == [(1, 4)]


def test_even_an_orphan_result_of_a_user_row_opens_no_unit(db: apsw.Connection) -> None:
    assert unit_ends(db, draft("user", "go"), draft("user", result("nowhere", "x")), draft("user", "on")) == [
        (1, 2),
        (3, 3),
    ]


def test_a_late_result_joins_the_units_between_it_and_its_call(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "before"),
        draft("user", "start the job"),
        draft("assistant", call("job")),
        draft("user", "meanwhile"),
        draft("assistant", "yes"),
        draft("user", "and this"),
        draft("tool", result("job", "finished")),
        draft("user", "after"),
    ) == [(1, 1), (2, 7), (8, 8)]


def test_parallel_results_that_come_apart_keep_their_units_together(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "both"),
        draft("assistant", call("a"), call("b")),
        draft("tool", result("b", "first")),
        draft("user", "waiting"),
        draft("tool", result("a", "second")),
        draft("user", "next"),
    ) == [(1, 5), (6, 6)]


def test_a_result_answers_the_nearest_unanswered_call_of_a_reused_id(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("assistant", call("same")),
        draft("user", "two"),
        draft("assistant", call("same")),
        draft("tool", result("same", "to the second")),
        draft("user", "three"),
    ) == [(1, 2), (3, 5), (6, 6)]


def test_a_second_result_of_a_reused_id_answers_the_call_still_open(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("assistant", call("same")),
        draft("user", "two"),
        draft("assistant", call("same")),
        draft("tool", result("same", "to the second")),
        draft("tool", result("same", "to the first")),
        draft("user", "three"),
    ) == [(1, 6), (7, 7)]


def test_a_result_given_twice_is_an_orphan_the_second_time(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("assistant", call("c")),
        draft("tool", result("c", "done")),
        draft("user", "two"),
        draft("tool", result("c", "done again")),
    ) == [(1, 3), (4, 5)]


def test_a_result_never_answers_a_call_that_comes_after_it(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("tool", result("c", "early")),
        draft("user", "two"),
        draft("assistant", call("c")),
    ) == [(1, 2), (3, 4)]


def test_units_are_the_same_however_the_rows_were_batched(db: apsw.Connection) -> None:
    rows = [
        draft("user", "one"),
        draft("assistant", call("a"), message_id="m"),
        draft("user", "two"),
        draft("assistant", "still m", message_id="m"),
        draft("tool", result("a", "late")),
        draft("assistant", call("b"), message_id="n"),
        draft("tool", result("b", "x")),
    ]
    one, many = new_session(db), new_session(db)
    add(db, one, *rows)
    for row in rows:
        add(db, many, row)
    marks = [path_of(db, each).marks(Seq(1), Seq(len(rows))) for each in (one, many)]
    assert marks[0] == marks[1]


# --- rounds


def test_a_round_is_a_model_message_and_its_results(db: apsw.Connection) -> None:
    assert round_ends(
        db,
        draft("user", "go"),
        draft("assistant", call("a"), call("b")),
        draft("tool", result("a", "1")),
        draft("tool", result("b", "2")),
        draft("assistant", "next", call("c")),
        draft("user", result("c", "3")),
        draft("assistant", "done"),
    ) == [(1, 1), (2, 4), (5, 6), (7, 7)]


def test_lines_that_share_a_message_id_are_one_round(db: apsw.Connection) -> None:
    assert round_ends(
        db,
        draft("user", "go"),
        draft("assistant", Reasoning("hm"), message_id="m1"),
        draft("assistant", call("a"), message_id="m1"),
        draft("tool", result("a", "1")),
        draft("assistant", call("b"), message_id="m1"),
        draft("tool", result("b", "2")),
        draft("assistant", "done", message_id="m2"),
    ) == [(1, 1), (2, 6), (7, 7)]


def test_a_result_that_comes_after_the_next_message_joins_their_rounds(db: apsw.Connection) -> None:
    assert round_ends(
        db,
        draft("user", "go"),
        draft("assistant", call("slow")),
        draft("assistant", call("quick")),
        draft("tool", result("quick", "1")),
        draft("tool", result("slow", "2")),
        draft("assistant", "done"),
    ) == [(1, 1), (2, 5), (6, 6)]


# --- rows off the path


def test_an_inactive_row_is_kept_and_readable_but_off_the_path(db: apsw.Connection) -> None:
    session = new_session(db)
    rows = [
        draft("user", "summary of before", active=False),
        draft("user", "one"),
        draft("assistant", "a"),
        draft("user", "a compact summary", active=False),
        draft("user", "another", active=False),
        draft("user", "two"),
    ]
    done = add(db, session, *rows)
    assert done.refs == (1, 2, 3, 4, 5, 6)
    assert done.leaf == 6
    path = path_of(db, session)
    assert active_rows(db, session) == [2, 3, 6]
    assert [Seq(seq) in path for seq in range(8)] == [False, False, True, True, False, False, True, False]
    assert list(path.segments()) == [Segment(Seq(6), Seq(6)), Segment(Seq(2), Seq(3))]
    assert [path.after(Seq(seq)) for seq in (0, 2, 3, 6)] == [2, 3, 6, None]
    assert [path.before(Seq(seq)) for seq in (2, 3, 6)] == [0, 2, 3]
    off = store.read_row(db, session, Seq(4))
    assert off is not None
    assert off.text == "a compact summary"
    assert ends(units(path.marks(Seq(1), path.leaf))) == [(2, 3), (6, 6)]


def test_a_session_that_ends_with_an_inactive_row_goes_on_behind_its_leaf(db: apsw.Connection) -> None:
    session = new_session(db)
    assert add(db, session, draft("user", "one"), draft("user", "off", active=False)).leaf == 1
    assert add(db, session, draft("assistant", "two")).refs == (3,)
    assert active_rows(db, session) == [1, 3]


def test_an_inactive_row_weighs_nothing_on_the_path(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, draft("user", "one"), draft("user", "x" * 999, active=False), draft("user", "two"))
    assert store.path_totals(db, session, Seq(3)) == Size(bytes=6, inputs=2)


def test_calls_and_results_of_inactive_rows_pair_with_none_of_the_path(db: apsw.Connection) -> None:
    assert unit_ends(
        db,
        draft("user", "one"),
        draft("assistant", call("c")),
        draft("user", "off the path", result("c", "copied"), active=False),
        draft("assistant", call("d"), active=False),
        draft("user", "two"),
        draft("tool", result("c", "done")),
        draft("user", "three"),
        draft("tool", result("d", "an orphan")),
    ) == [(1, 6), (7, 8)]


# --- laws over random histories

_IDS = st.sampled_from(["c1", "c2", "c3"])
_PARTS = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.builds(call, _IDS),
        st.builds(result, _IDS, st.text(max_size=20)),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    return draft(
        draw(st.sampled_from(ROLES)),
        *draw(_PARTS),
        message_id=draw(st.sampled_from([None, None, "m1", "m2"])),
        active=draw(st.sampled_from([True, True, True, True, False])),
    )


HISTORIES = st.lists(drafts(), max_size=30)


def pairs(rows: Sequence[tuple[Seq, Draft]]) -> list[tuple[Seq, Seq]]:
    """Rows of each call and of the result that answers it, the slow way."""
    still_open: list[tuple[str, Seq]] = []
    found: list[tuple[Seq, Seq]] = []
    for seq, row in rows:
        for part in row.parts:
            if isinstance(part, ToolResult):
                mine = [entry for entry in still_open if entry[0] == part.call_id and entry[1] != seq]
                if mine:
                    still_open.reverse()
                    still_open.remove(mine[-1])
                    still_open.reverse()
                    found.append((mine[-1][1], seq))
        still_open += [(part.call_id, seq) for part in row.parts if isinstance(part, ToolCall)]
    return found


def test_units_and_rounds_are_whole_and_divide_every_path(db: apsw.Connection) -> None:
    @settings(max_examples=80, deadline=None)
    @given(HISTORIES, st.integers(1, 4))
    def law(history: list[Draft], batch: int) -> None:
        session = new_session(db)
        for start in range(0, len(history), batch):
            add(db, session, *history[start : start + batch])
        check_path(db, session)
        rows = [(Seq(n), row) for n, row in enumerate(history, start=1) if row.active]
        assert active_rows(db, session) == [seq for seq, _ in rows]
        path = path_of(db, session)
        marks = path.marks(Seq(1), path.leaf)
        whole = units(marks)
        assert list(units_back(path.marks_back(batch=3)))[::-1] == whole
        assert [mark.size for mark in marks] == [weigh(row.parts) for _, row in rows]
        divided = [
            span
            for unit in whole
            for span in rounds([mark for mark in marks if unit.first <= mark.seq <= unit.last])
        ]
        for spans in (whole, divided):
            assert not rows or join(spans) == join(whole)
            assert [span.before for span in spans[1:]] == [span.last for span in spans[:-1]]
            for asked, answered in pairs(rows):
                assert not any(asked <= span.last < answered for span in spans)
        # A unit starts at the first row, and at each opener that no pair reaches across.
        openers = {seq for seq, row in rows[1:] if row.role == "user" and not has_result(row)}
        free = {seq for seq in openers if not any(asked < seq <= answered for asked, answered in pairs(rows))}
        assert {span.first for span in whole[1:]} == free

    law()


def has_result(row: Draft) -> bool:
    return any(isinstance(part, ToolResult) for part in row.parts)


def check_path(db: apsw.Connection, session: SessionId) -> None:
    """Walking by segments gives what following prev gives, from every row and to every row."""
    rows = active_rows(db, session)
    path = path_of(db, session)
    for before, after in zip([Seq(0), *rows], [*rows, None], strict=True):
        assert RowPath(db, session, path.leaf).after(before) == after
    parts = path.between(Seq(1), path.leaf)
    assert [seq for part in parts for seq in range(part.low, part.high + 1)] == rows
    assert [mark.seq for mark in path.marks(Seq(1), path.leaf)] == rows
