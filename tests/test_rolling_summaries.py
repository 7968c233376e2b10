"""A running summary folded again and again: what stays, what thins out, and that nothing odd grows in it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from folds import (
    ROWS_OF_WORK,
    assert_sound,
    edit,
    facts_of,
    fold,
    folded,
    in_pieces,
    long_work,
    plan,
    quarters,
    real_rows,
    row,
    rows,
    run,
    say,
    told,
    work,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_extractive import TEXTS, row_lists

from lcm_mcp.summarizers.extractive import Extractive, extract
from lcm_mcp.summarizers.facts import CHANGED, COMMANDS, ERRORS, LAST, REQUESTS, SAID, parse, row_of
from lcm_mcp.summarizers.ladder import Task, climb, source_text
from lcm_mcp.summarizers.model import Child, FoldSource, Request, RowsSource
from lcm_mcp.tokens import TokenCount, text_tokens
from lcm_mcp.transcript.model import Row, Text

SESSIONS = ("three-compactions.jsonl", "fork-heavy-dangling-parents.jsonl", "late-timestamps.jsonl")
FOLDS = 20
LIMITS = (2048, 800)


# --- long conversations


@pytest.mark.parametrize("limit", LIMITS)
def test_after_twenty_folds_the_first_request_and_the_newest_work_are_there(limit: int) -> None:
    pieces = long_work(FOLDS)
    texts = folded(pieces, limit)
    for text, piece in zip(texts, pieces, strict=True):
        assert_sound(text, piece[-1].seq)
    requests = told(texts[-1], REQUESTS)
    assert requests[0].startswith("e1 Please port module number 0 of the harbour simulation")
    assert requests[-1].startswith("e134 Please port module number 19 of the harbour simulation")
    assert any("Module 19 failed" in line for line in told(texts[-1], LAST))


def test_the_smallest_limit_has_room_for_the_first_request_and_where_it_stands() -> None:
    pieces = long_work(FOLDS)
    for text, piece in zip(folded(pieces, 128), pieces, strict=True):
        assert_sound(text, piece[-1].seq)
        assert told(text, REQUESTS)[0].startswith("e1 Please port module number 0 of the harbour")
        assert told(text, LAST)[0].startswith(f"e{piece[-1].seq} assistant: Module")


@pytest.mark.parametrize("limit", LIMITS)
def test_the_last_tests_and_the_files_changed_last_are_told(limit: int) -> None:
    text = folded(long_work(FOLDS), limit)[-1]
    assert told(text, COMMANDS)[-1] == "e138 $ pytest tests/test_port_19.py ⇒ ok: 22 passed in 0.1s"
    assert told(text, CHANGED)[-1] == "e136 /harbour/src/port_19.py"


def test_early_details_thin_out_in_favour_of_recent_work() -> None:
    pieces = long_work(40)
    for limit in LIMITS:
        first, second, third, fourth = quarters(folded(pieces, limit)[-1], pieces[-1][-1].seq)
        assert 0 < first <= second <= third < fourth


def test_a_summary_is_told_anew_without_loss_where_all_has_room() -> None:
    text = folded(long_work(5))[-1]
    for number in range(5):
        assert f"port module number {number}" in text
        assert f"tide table number {number}" in text
        assert f"test_port_{number}.py ⇒ ok: {number + 3} passed" in text


def test_folding_again_without_new_rows_adds_nothing_and_loses_next_to_nothing() -> None:
    for limit in LIMITS:
        text = first = folded(long_work(FOLDS), limit)[-1]
        for _ in range(5):
            again = fold([Child("e1..e140", text)], [], limit)
            assert {*facts_of(again)} <= {*facts_of(text)}
            text = again
        assert len(text) > 0.9 * len(first)


# --- requests


def test_a_standing_requirement_deep_in_a_long_message_outlives_twenty_folds() -> None:
    message = (
        "Here is what I think about the harbour simulation after the long review of yesterday evening.\n"
        "It is slow, it is hard to read, and the captains complain about it nearly every single day.\n"
        "Never commit to the main branch without my word.\n"
        + "We talked about the weather then. "
        * 80
        + "\n"
        "Always run the linter before you say that you are done.\n"
        "Please do not worry about the lighthouse."
    )
    start = rows(1, say("user", "Let us begin."), say("assistant", "Yes."), say("user", message))
    pieces = [start, *(work(number, number * ROWS_OF_WORK + 4) for number in range(FOLDS))]
    requests = told(folded(pieces, 800)[-1], REQUESTS)
    assert "e3 Never commit to the main branch without my word." in requests
    assert "e3 Always run the linter before you say that you are done." in requests


def test_the_same_words_asked_again_are_one_request_and_the_first_stays_first() -> None:
    words = [
        "Build the harbour.",
        "go on, please",
        "go on, please",
        "Now paint it.",
        "go on, please",
    ]
    pieces = [rows(3 * at + 1, say("user", text), *run(f"make {at}", "")) for at, text in enumerate(words)]
    assert told(folded(pieces)[-1], REQUESTS) == [
        "e1 Build the harbour.",
        "e10 Now paint it.",
        "e13 go on, please",
    ]


def test_a_talk_without_tools_keeps_its_first_and_its_newest_question() -> None:
    def talk(number: int) -> list[Row]:
        question = f"Question {number}: how deep must the basin number {number} be, and why not deeper?"
        answer = f"Basin {number} needs {number + 4} metres, because ship class {number} draws that much. "
        return rows(2 * number + 1, say("user", question), say("assistant", answer * 12))

    requests = told(folded([talk(number) for number in range(FOLDS)], 300)[-1], REQUESTS)
    assert requests[0].startswith("e1 Question 0")
    assert requests[-1].startswith("e39 Question 19")


def test_the_requests_of_a_leaf_that_was_a_talk_are_found_again() -> None:
    source = RowsSource(
        rows(1, say("user", "Which pier is the oldest one?"), say("assistant", "Pier four is."))
    )
    leaf = extract(Request(source, 1, TokenCount(256), TokenCount(1024)))
    assert "Requests" not in leaf
    assert told(fold([Child("e1..e2", leaf)], work(1, 3)), REQUESTS)[0] == "e1 Which pier is the oldest one?"


# --- outcomes and state


def test_an_error_is_open_until_it_is_mended_in_a_later_fold() -> None:
    broken = rows(1, say("user", "test it"), *run("make test", "3 failed, 2 passed", is_error=True))
    other = rows(4, say("user", "go on"), *run("make docs", "ok"))
    mended = rows(7, say("user", "and now?"), *run("make test", "5 passed"))
    texts = folded([broken, other, mended])
    assert [told(text, ERRORS) for text in texts] == [["e2 $ make test ⇒ failed: 3 failed, 2 passed"]] * 2 + [
        []
    ]
    assert "- e8 $ make test ⇒ ok: 5 passed" in texts[-1]


def test_an_error_of_long_ago_gives_way_on_a_full_page() -> None:
    broken = rows(1, say("user", "Look it up."), *run("curl tides.example.org", "404", is_error=True))
    pieces = [broken, *(work(number, number * ROWS_OF_WORK + 4) for number in range(FOLDS))]
    texts = folded(pieces, 800)
    assert told(texts[0], ERRORS)
    assert told(texts[2], ERRORS)
    assert not told(texts[-1], ERRORS)


def test_a_file_changed_in_many_folds_stands_there_once_with_its_last_row() -> None:
    pieces = [
        rows(3 * at + 1, say("user", f"change it, round {at}"), *edit("/harbour/a.py")) for at in range(6)
    ]
    assert told(folded(pieces)[-1], CHANGED) == ["e17 /harbour/a.py"]


def test_the_call_it_stopped_at_is_told_once_and_is_an_outcome_later() -> None:
    first = rows(1, say("user", "build it"), say("assistant", "Building."), *run("make all", "done"))
    texts = folded([first, rows(5, say("user", "good"), *run("make install", "done"))])
    assert told(texts[0], LAST) == ["e2 assistant: Building.", "e3 $ make all ⇒ ok: done"]
    assert not told(texts[0], COMMANDS)
    assert told(texts[1], COMMANDS) == ["e3 $ make all ⇒ ok: done"]


def test_an_unfinished_plan_is_carried_on_and_a_finished_one_is_not() -> None:
    for status, kept in (("pending", ["e2 plan: 1 of 2 done; [pending] Paint"]), ("completed", [])):
        first = rows(1, say("user", "two steps"), *plan(Build="completed", Paint=status))
        text = folded(
            [first, rows(4, say("user", "go on"), *run("make", "done"), say("assistant", "Made."))]
        )[-1]
        assert told(text, LAST) == ["e7 assistant: Made.", *kept]


def test_where_new_rows_tell_no_state_the_last_one_stays() -> None:
    first = rows(1, say("user", "build it"), say("assistant", "The harbour is being built."))
    result = row(3, "assistant", Text("\x1b[0m"))
    assert told(folded([first, [result]])[-1], LAST) == ["e2 assistant: The harbour is being built."]


def test_files_left_out_again_and_again_are_not_counted_again_and_again() -> None:
    def round_of(at: int) -> list[Row]:
        changes = (step for number in range(40) for step in edit(f"/harbour/a/rather/long/path_{number}.py"))
        return rows(81 * at + 1, say("user", f"once more, number {at}"), *changes)

    for text in folded([round_of(at) for at in range(FOLDS)], 200)[1:]:
        parsed = parse(text, "e1")
        assert parsed is not None
        assert 0 < parsed.unshown["Changed"] <= 40


def test_requests_that_are_left_out_are_counted_exactly() -> None:
    text = folded(long_work(FOLDS), 300)[-1]
    parsed = parse(text, "e1")
    assert parsed is not None
    assert parsed.unshown["Requests"] + len(told(text, REQUESTS)) == FOLDS


# --- other sources


def test_rows_that_the_summary_covers_already_are_not_told_twice() -> None:
    pieces = long_work(6)
    before = folded(pieces)[-1]
    text = fold([Child("e1..e42", before)], [*pieces[4], *pieces[5], *work(6, 43)])
    assert_sound(text, 49)
    bodies = Counter(
        line.partition(" ")[2].partition(" ")[2] for line in text.split("\n") if line[:3] == "- e"
    )
    assert [body for body, count in bodies.items() if count > 1 and body] == []


def test_stored_nodes_and_newer_rows_make_a_first_summary() -> None:
    pieces = long_work(FOLDS)
    children = [
        Child(f"e{piece[0].seq}..e{piece[-1].seq}", extract(Request(RowsSource(piece), 1, target, target)))
        for piece in pieces[:12]
        if (target := TokenCount(400))
    ]
    text = fold(children, [one for piece in pieces[12:] for one in piece], 800)
    assert_sound(text, pieces[-1][-1].seq)
    assert told(text, REQUESTS)[0].startswith("e1 Please port module number 0")
    assert told(text, REQUESTS)[-1].startswith("e134 Please port module number 19")
    said = [row_of(line) for line in told(text, SAID)]
    assert sum(seq > 84 for seq in said) * 3 >= len(said) > 3


PROSE = """# Summary of the conversation

## What the user asked for
The user wants the harbour simulation ported. The user insists that the main branch must never be touched.

**Key decisions**
- The tide table is read lazily because the pilot boats report late.

## Current work
Porting the lighthouse, which still lacks a test."""


def test_a_models_prose_folds_too_and_its_wishes_are_requests() -> None:
    text = fold([Child("e1..e40", PROSE)], work(1, 41))
    assert told(text, REQUESTS)[:2] == [
        "e1..e40 The user wants the harbour simulation ported.",
        "e1..e40 The user insists that the main branch must never be touched.",
    ]
    assert "- e1..e40 The tide table is read lazily because the pilot boats report late." in text
    assert "- e1..e40 Porting the lighthouse, which still lacks a test." in text
    assert "Key decisions" not in text
    for number in range(2, FOLDS):
        first = ROWS_OF_WORK * number + 27
        text = fold([Child(f"e1..e{first - 1}", text)], work(number, first), 800)
    assert told(text, REQUESTS)[0] == "e1..e40 The user wants the harbour simulation ported."
    assert "The user insists that the main branch must never be touched." in text


def test_the_pointer_of_a_text_cut_mechanically_is_not_quoted() -> None:
    pointer = "[lcm:truncated] lcm_expand e1..e40 gives these rows word for word."
    cut = f"e1 user: build it\n{pointer}\nAll is well now."
    text = fold([Child("e1..e40", cut)], work(1, 41))
    assert "All is well now." in text
    assert "lcm_expand" not in text


# --- laws


def test_a_short_fold_is_smaller_than_its_source_at_once() -> None:
    pieces = long_work(8)
    for (before, text), piece in zip(pairwise(["", *folded(pieces)]), pieces, strict=True):
        children = [Child(f"e1..e{piece[0].seq - 1}", before)] if before else []
        source = FoldSource(children, piece)
        size = text_tokens(source_text(source))
        limit = TokenCount(2048)
        found = anyio.run(climb, [Extractive()], Task(source, size, limit, "[lcm:summary]", "e1..e9", limit))
        assert found is not None
        assert (found.primary.level, found.primary.text) == (1, text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.one_of(row_lists(), TEXTS), max_size=3),
    st.one_of(st.just([]), row_lists()),
    st.integers(16, 2000),
    st.sampled_from((1, 2)),
)
def test_any_summaries_and_rows_fold_within_the_limit_to_the_same_text(
    sources: list[list[Row] | str], new: list[Row], limit: int, level: int
) -> None:
    texts = [one if isinstance(one, str) else extract(_asked(RowsSource(one), 500)) for one in sources]
    children = [Child(f"e{at}0..e{at}9", text) for at, text in enumerate(texts, start=1)]
    request = _asked(FoldSource(children, new), limit, level)
    text = extract(request)
    assert text_tokens(text) <= limit
    assert bool(text) == bool(children or new)
    assert extract(request) == text
    assert "\n\n" not in text


def _asked(source: RowsSource | FoldSource, limit: int, level: int = 1) -> Request:
    return Request(source, 2 if level == 2 else 1, TokenCount(limit), TokenCount(limit))


# --- real conversations


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", SESSIONS)
def test_twenty_folds_of_a_real_session_stay_sound(name: str, limit: int, shared_data: Path) -> None:
    conversation = real_rows(shared_data / "claude-code" / name)
    pieces = in_pieces(conversation, FOLDS)
    texts = folded(pieces, limit)
    for text, piece in zip(texts, pieces, strict=True):
        assert_sound(text, piece[-1].seq)
    whole = fold([], conversation, 100_000)
    final = texts[-1]
    assert told(final, REQUESTS)[0][:80] == told(whole, REQUESTS)[0][:80]
    assert told(final, REQUESTS)[-1][:80] == told(whole, REQUESTS)[-1][:80]
    assert told(final, LAST)[0][:80] == told(whole, LAST)[0][:80]
    end = conversation[-1].seq
    late = {line.split(" ", 1)[1] for line in told(whole, CHANGED) if row_of(line) > end * 3 // 4}
    assert late <= {line.split(" ", 1)[1] for line in told(final, CHANGED)}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_real_session_is_told_the_more_the_newer_it_is(name: str, limit: int, shared_data: Path) -> None:
    conversation = real_rows(shared_data / "claude-code" / name)
    text = folded(in_pieces(conversation, FOLDS), limit)[-1]
    first, second, third, fourth = quarters(text, conversation[-1].seq)
    assert 0 < first < fourth
    assert max(second, third) <= fourth
