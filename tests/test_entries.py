"""Entries and messages as clients send them become drafts, or are refused with the reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.errors import MalformedEntry
from lcm_mcp.transcript.entries import Problem, parse_entry, read_entry, read_instant
from lcm_mcp.transcript.model import Draft, Json, Opaque, Reasoning, Text, ToolCall, ToolResult


def refusal(value: object, index: int = 0) -> str:
    with pytest.raises(MalformedEntry) as caught:
        parse_entry(value, index)
    return str(caught.value)


def test_a_neutral_entry_is_read_with_its_identity_and_time() -> None:
    entry = {"role": "user", "content": "hi", "entry_id": "e-1", "at": "2026-01-13T00:00:39.236Z"}
    assert parse_entry(entry, 0) == Draft("user", (Text("hi"),), entry_id="e-1", at=1_768_262_439_236)


@pytest.mark.parametrize(("value", "pinned"), [(True, True), (False, False), (None, False)])
def test_an_entry_may_say_whether_it_is_pinned(value: bool | None, pinned: bool) -> None:
    entry = {"role": "user", "content": "never touch prod", "pin": value}
    assert parse_entry(entry, 0) == Draft("user", (Text("never touch prod"),), pin=pinned)


def test_an_anthropic_response_is_accepted_whole_and_its_id_names_the_message() -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "some-model",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1},
    }
    parts = (Reasoning("hm", {"signature": "s"}), ToolCall("t1", "Read", {"path": "a"}))
    assert parse_entry(message, 0) == Draft("assistant", parts, message_id="msg_1")


def test_an_anthropic_user_message_of_tool_results_stays_a_user_entry() -> None:
    message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
    assert parse_entry(message, 0) == Draft("user", (ToolResult("t1", (Text("ok"),)),))


def test_an_openai_assistant_message_with_calls_has_no_need_of_content() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    expected = (ToolCall("c1", "f", {"a": 1}),)
    for message in (
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "annotations": []},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "tool_calls": [call]},
    ):
        assert parse_entry(message, 0).parts == expected
    assert parse_entry({"role": "assistant", "content": "so", "tool_calls": [call]}, 0).parts == (
        Text("so"),
        *expected,
    )


def test_an_openai_tool_message_is_one_result_under_its_call_id() -> None:
    message = {"role": "tool", "tool_call_id": "c1", "content": "42", "name": "f"}
    assert parse_entry(message, 0) == Draft("tool", (ToolResult("c1", (Text("42"),), extra={"name": "f"}),))
    listed = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]}
    assert parse_entry(listed, 0).parts == (ToolResult("c1", (Text("42"),)),)


def test_a_neutral_tool_entry_holds_several_results() -> None:
    results = [{"type": "tool_result", "call_id": name, "content": name} for name in ("a", "b")]
    entry = {"role": "tool", "content": results}
    assert parse_entry(entry, 0).parts == (ToolResult("a", (Text("a"),)), ToolResult("b", (Text("b"),)))


def test_the_developer_role_is_the_system_role() -> None:
    assert parse_entry({"role": "developer", "content": "be brief"}, 0).role == "system"


def test_what_openai_puts_beside_the_content_is_kept() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "no"}
    assert parse_entry(refused, 0).parts == (Opaque({"type": "refusal", "refusal": "no"}),)
    thought = {"role": "assistant", "content": None, "reasoning_content": "hm"}
    assert parse_entry(thought, 0).parts == (Reasoning("hm"),)
    named = {"role": "user", "content": "hi", "name": "ann"}
    assert parse_entry(named, 0).parts == (Text("hi", {"name": "ann"}),)


def test_a_block_that_is_not_understood_is_no_reason_to_refuse_the_entry() -> None:
    odd: list[Json] = [3, None, {"type": "new_thing"}, {"type": "text"}]
    assert parse_entry({"role": "user", "content": odd}, 0).parts == tuple(Opaque(block) for block in odd)


def test_null_stands_for_an_absent_key() -> None:
    entry = {"role": "user", "content": "a", "entry_id": None, "at": None, "tool_calls": None, "id": None}
    assert parse_entry(entry, 0) == Draft("user", (Text("a"),))


WRONG: list[tuple[object, str]] = [
    ("hi", "a text, not an object"),
    (None, "null, not an object"),
    ([1], "a list, not an object"),
    ({}, "role is missing"),
    ({"content": "a"}, "role is missing"),
    ({"role": "function", "content": "a"}, "'function' is not one of user, assistant, tool, system"),
    ({"role": 7, "content": "a"}, "role: 7 is not one of"),
    ({"role": 10**5000, "content": "a"}, "role: a number is not one of"),
    ({"role": "user"}, "content is missing"),
    ({"role": "user", "content": None}, "content is missing"),
    ({"role": "user", "content": 5}, "content: it is a number"),
    ({"role": "user", "content": {"type": "text", "text": "a"}}, "content: it is an object"),
    ({"role": "user", "content": "a", "colour": 1}, "unknown key colour"),
    ({"role": "user", "content": "a", "x": 1, "b": 2}, "unknown keys b, x"),
    ({"role": "user", "content": "a", "parent": 1}, "parent: it is a number, not a text"),
    ({"role": "user", "content": "a", "pin": "true"}, "pin: it is a text, neither true nor false"),
    ({"role": "user", "content": "a", "pin": 1}, "pin: it is a number, neither true nor false"),
    ({"role": "user", "content": "a", "pin": []}, "pin: it is a list, neither true nor false"),
    ({"role": "user", "content": "a", "outcome_of": []}, "outcome_of: it is a list, not a text"),
    ({"role": "user", "content": "a", "at": "yesterday"}, "at: 'yesterday' is neither"),
    ({"role": "user", "content": "a", "at": True}, "at: True is neither"),
    ({"role": "user", "content": "a", "at": 10**400}, "at: a number is neither"),
    ({"role": "user", "content": "a", "at": float("inf")}, "at: inf is neither"),
    ({"role": "user", "content": "a", "at": {}}, "at: an object is neither"),
    ({"role": "user", "content": "a", "entry_id": ""}, "entry_id: it has 0 characters"),
    ({"role": "user", "content": "a", "entry_id": "x" * 201}, "entry_id: it has 201 characters"),
    ({"role": "user", "content": "a", "entry_id": 5}, "entry_id: it is a number, not a text"),
    ({"role": "user", "content": "a", "message_id": []}, "message_id: it is a list, not a text"),
    ({"role": "user", "content": "a", "type": "function_call"}, "'function_call' is not a message"),
    ({"role": "user", "content": "a", "tool_call_id": "c"}, "tool_call_id: it belongs to"),
    ({"role": "user", "content": "a", "tool_calls": []}, "tool_calls: it is a list, and belongs"),
    ({"role": "assistant", "content": "a", "tool_calls": {}}, "tool_calls: it is a list, and belongs"),
    ({"role": "tool", "content": "a"}, "needs tool_call_id"),
    ({"role": "tool", "content": "a", "tool_call_id": 4}, "needs tool_call_id"),
    ({"role": "tool", "tool_call_id": "c"}, "content is missing"),
    ({"role": "tool", "content": "a", "tool_call_id": "c", "tool_calls": [{}]}, "tool_calls: it belongs"),
]


@pytest.mark.parametrize(("value", "words"), WRONG)
def test_a_wrong_entry_is_refused_with_what_is_wrong(value: object, words: str) -> None:
    message = refusal(value, 3)
    assert message.startswith("entries[3]: ")
    assert words in message
    assert len(message) < 600


def test_content_nested_too_deep_is_refused() -> None:
    content: object = "a"
    for _ in range(5000):
        content = [content]
    assert "nested more than" in refusal({"role": "user", "content": content})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T02:00:01+02:00", 1000),
        (" 1970-01-01 ", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        (1_768_262_439_236, 1_768_262_439_236),
        (1000.7, 1000),
        ("0001-01-01T00:00:00+23:59", None),
        ("", None),
        (float("nan"), None),
        (False, None),
        (None, None),
    ],
)
def test_times_are_read_as_milliseconds_and_naive_ones_as_utc(value: object, expected: int | None) -> None:
    assert read_instant(value) == expected


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_iso_time_is_read_to_the_millisecond(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert read_instant(moment.isoformat()) == expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
loose_entries = st.dictionaries(
    st.sampled_from(
        ["role", "content", "entry_id", "at", "pin", "id", "name", "tool_calls", "tool_call_id", "type"]
    ),
    anything | st.sampled_from(["user", "assistant", "tool", "message"]),
)


@given(loose_entries | anything)
def test_any_json_value_is_a_draft_or_a_problem(value: object) -> None:
    found = read_entry(json.loads(json.dumps(value)))
    assert isinstance(found, (Draft, Problem))
