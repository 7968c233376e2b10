"""Wire formats by example: which calls and results are native, each labelled form, and the opening."""

from __future__ import annotations

import orjson
import pytest
from wire_rows import (
    assistant,
    bodies,
    call,
    function,
    rendered,
    result,
    say,
    text,
    tool_result,
    tool_use,
    user,
)

from lcm_mcp.projection.labels import (
    BEGINS_HERE,
    NOTHING_TO_SHOW,
)
from lcm_mcp.projection.model import FORMATS, Format, Notes, Rendered
from lcm_mcp.transcript.model import (
    Reasoning,
)

# --- pairing, by example


def test_parallel_calls_on_separate_lines_are_one_message_and_so_are_their_results() -> None:
    rows = (
        say("user", "go"),
        say("assistant", call("a"), message_id="msg1"),
        say("assistant", call("b"), message_id="msg1"),
        say("user", result("a", "one")),
        say("user", result("b", "two")),
    )
    answer = rendered("anthropic", *rows)
    assert [message.body for message in answer.messages] == [
        user(text("go")),
        assistant(tool_use("a"), tool_use("b")),
        user(tool_result("a", "one"), tool_result("b", "two")),
    ]
    assert [message.sources for message in answer.messages] == [("e1",), ("e2", "e3"), ("e4", "e5")]
    assert answer.notes == Notes()
    assert bodies("openai", *rows)[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [function("a"), function("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]


def test_a_call_answered_before_the_next_line_of_its_message_makes_two_groups() -> None:
    assert bodies(
        "anthropic",
        say("user", "go"),
        say("assistant", call("a"), message_id="msg1"),
        say("user", result("a", "one")),
        say("assistant", call("b"), message_id="msg1"),
        say("user", result("b", "two")),
    )[1:] == [
        assistant(tool_use("a")),
        user(tool_result("a", "one")),
        assistant(tool_use("b")),
        user(tool_result("b", "two")),
    ]


def test_a_result_whose_call_is_not_in_the_tail_is_labelled_text_in_its_place() -> None:
    answer = rendered(
        "anthropic", say("user", result("gone", "old news", is_error=True)), say("user", "and now?")
    )
    assert [message.body for message in answer.messages] == [
        user(text("[result of an earlier call gone, an error] old news"), text("and now?"))
    ]
    assert answer.notes == Notes(labelled_results=1)


def test_a_late_result_and_its_call_are_labelled_where_each_stands() -> None:
    rows = (
        say("user", "go"),
        say("assistant", "wait", call("toolu_1")),
        say("user", "never mind"),
        say("user", result("toolu_1", "done after all")),
    )
    answer = rendered("anthropic", *rows)
    assert [message.body for message in answer.messages][1:] == [
        assistant(text("wait"), text('[tool call Bash (toolu_1), unanswered here] {"command":"ls"}')),
        user(text("never mind"), text("[result of an earlier call toolu_1] done after all")),
    ]
    assert answer.notes == Notes(labelled_calls=1, labelled_results=1)


def test_of_parallel_calls_only_the_unanswered_one_is_labelled() -> None:
    assert bodies(
        "openai",
        say("user", "go"),
        say("assistant", call("a"), call("b")),
        say("tool", result("b", "two")),
        say("assistant", "enough"),
    )[1:3] == [
        {
            "role": "assistant",
            "content": '[tool call Bash (a), unanswered here] {"command":"ls"}',
            "tool_calls": [function("b")],
        },
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]


def test_a_result_given_twice_is_native_once_and_labelled_the_second_time() -> None:
    assert bodies(
        "anthropic",
        say("user", "go"),
        say("assistant", call("a"), call("b")),
        say("user", result("a", "one")),
        say("user", result("a", "one")),
        say("user", result("b", "two")),
    )[2] == user(tool_result("a", "one"), tool_result("b", "two"), text("[result of an earlier call a] one"))


def test_calls_still_pending_at_the_end_stay_native() -> None:
    answer = rendered(
        "anthropic",
        say("user", "go"),
        say("assistant", call("a"), call("b")),
        say("user", result("a", "one")),
    )
    assert [message.body for message in answer.messages][1:] == [
        assistant(tool_use("a"), tool_use("b")),
        user(tool_result("a", "one")),
    ]
    assert answer.notes == Notes()


def test_user_text_beside_results_follows_them() -> None:
    rows = (
        say("user", "go"),
        say("assistant", call("a"), call("b")),
        say("user", "hurry", result("a", "one")),
        say("user", result("b", "two")),
    )
    assert bodies("anthropic", *rows)[2] == user(
        tool_result("a", "one"), tool_result("b", "two"), text("hurry")
    )
    answer = rendered("openai", *rows)
    assert [message.role for message in answer.messages] == ["user", "assistant", "tool", "tool", "user"]
    assert [message.sources for message in answer.messages] == [("e1",), ("e2",), ("e3",), ("e4",), ()]


def test_system_and_empty_rows_between_a_call_and_its_result_do_not_part_them() -> None:
    rows = (
        say("user", "go"),
        say("assistant", call("a")),
        say("system", "hook ran"),
        say("user", ""),
        say("user", result("a", "one")),
    )
    assert bodies("anthropic", *rows)[1:] == [
        assistant(tool_use("a")),
        user(tool_result("a", "one"), text("[system message] hook ran")),
    ]
    assert [body["role"] for body in bodies("openai", *rows)] == ["user", "assistant", "tool", "system"]


def test_ids_used_again_answer_their_own_round_and_are_told_apart_for_anthropic() -> None:
    rows = [say("user", "go")]
    for answer in ("one", "two"):
        rows += [say("assistant", call("functions.Bash:0")), say("tool", result("functions.Bash:0", answer))]
    assert bodies("anthropic", *rows)[1:] == [
        assistant(tool_use("functions_Bash_0")),
        user(tool_result("functions_Bash_0", "one")),
        assistant(tool_use("functions_Bash_0_2")),
        user(tool_result("functions_Bash_0_2", "two")),
    ]
    assert [body.get("tool_call_id") for body in bodies("openai", *rows)][2::2] == ["functions.Bash:0"] * 2


def test_a_result_answers_the_nearest_waiting_call_of_its_id() -> None:
    first, second = call("x", arguments={"n": 1}), call("x", arguments={"n": 2})
    body = bodies(
        "openai", say("user", "go"), say("assistant", first, second), say("tool", result("x", "of 2"))
    )
    assert body[2]["tool_call_id"] == "x_2"
    later = bodies(
        "openai",
        say("user", "go"),
        say("assistant", first, second),
        say("tool", result("x", "of 2")),
        say("user", "stop"),
    )
    assert later[1] == {
        "role": "assistant",
        "content": '[tool call Bash (x), unanswered here] {"n":1}',
        "tool_calls": [function("x", '{"n":2}')],
    }


def test_calls_and_results_in_the_mouth_of_the_wrong_role_are_labelled() -> None:
    answer = rendered("messages", say("user", call("a")), say("assistant", result("a", "one")))
    assert answer.notes == Notes(labelled_calls=1, labelled_results=1)
    assert [message.role for message in answer.messages] == ["user", "assistant"]


# --- opening, history and rows that show nothing


def test_history_and_the_first_user_row_are_blocks_of_one_user_message() -> None:
    answer = rendered("anthropic", say("user", "and then?"), history="HISTORY")
    assert [message.body for message in answer.messages] == [user(text("HISTORY"), text("and then?"))]
    assert answer.messages[0].sources == ("e1",)


@pytest.mark.parametrize("form", FORMATS)
def test_history_alone_is_one_message_without_sources(form: Format) -> None:
    (message,) = rendered(form, history="HISTORY").messages
    assert (message.role, message.sources) == ("user", ())
    assert "HISTORY" in orjson.dumps(message.body).decode()


def test_a_tail_that_begins_with_the_assistant_follows_an_invented_user_message() -> None:
    answer = rendered("openai", say("system", "be brief"), say("assistant", "hello"))
    assert [message.body for message in answer.messages] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": BEGINS_HERE},
        {"role": "assistant", "content": "hello"},
    ]
    assert [message.sources for message in answer.messages] == [("e1",), (), ("e2",)]
    assert BEGINS_HERE not in str(bodies("openai", say("assistant", "hello"), history="HISTORY"))


def test_rows_that_show_nothing_are_accounted_for_by_a_neighbour() -> None:
    answer = rendered(
        "anthropic",
        say("user", " \n"),
        say("user", "go"),
        say("assistant", Reasoning("unsigned")),
        say("user", "on"),
        say("assistant"),
    )
    assert [message.body for message in answer.messages] == [user(text("go"), text("on"))]
    assert answer.messages[0].sources == ("e1", "e2", "e3", "e4", "e5")


@pytest.mark.parametrize("form", FORMATS)
def test_a_tail_with_nothing_to_show_says_so_and_keeps_its_refs(form: Format) -> None:
    (message,) = rendered(form, say("assistant", ""), say("user")).messages
    assert message.sources == ("e1", "e2")
    assert NOTHING_TO_SHOW in str(message.body)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_at_all_renders_no_message(form: Format) -> None:
    assert rendered(form) == Rendered((), Notes())
