"""The extractive summarizer: what an agent finds in its pages, and that they never outgrow their limit."""

from __future__ import annotations

import pytest
from growth import LINEAR, growth
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcm_mcp.ids import Seq, TextId
from lcm_mcp.summarizers.extractive import Extractive, extract
from lcm_mcp.summarizers.facts import COMMANDS, ERRORS, REQUESTS, Fact, Section, parse
from lcm_mcp.summarizers.model import Child, NodesSource, Request, RowsSource, Source
from lcm_mcp.tokens import TokenCount, text_tokens
from lcm_mcp.transcript.model import (
    Image,
    Json,
    Opaque,
    Part,
    Reasoning,
    Role,
    Row,
    Text,
    ToolCall,
    ToolResult,
)

STRATEGY = "/home/dev/cli/cmd/strategy"
GO_FAILURE = (
    "Exit code 1\n[test] $ go test ./...\n# cli/cmd/strategy\n"
    "cmd/strategy/attribution.go:47:38: cannot use content (variable of type string) as []byte value\n"
    "FAIL\tcli/cmd/strategy [build failed]\nok  \tcli/cmd/agent\t0.2s\n[test] ERROR task failed"
)


def rows_of(*entries: tuple[Role, Part | str]) -> list[Row]:
    return [
        Row(Seq(at), role, 0, None, None, TextId(at), part if isinstance(part, str) else "", as_parts(part))
        for at, (role, part) in enumerate(entries, start=1)
    ]


def as_parts(part: Part | str) -> tuple[Part, ...]:
    return (Text(part),) if isinstance(part, str) else (part,)


def call(call_id: str, name: str, arguments: Json) -> tuple[Role, Part]:
    return "assistant", ToolCall(call_id, name, arguments)


def run(call_id: str, command: str) -> tuple[Role, Part]:
    return call(call_id, "Bash", {"command": command})


def ended(call_id: str, output: str, *, is_error: bool = False) -> tuple[Role, Part]:
    return "user", ToolResult(call_id, (Text(output),), is_error)


def ask(source: Source, target: int = 768, level: int = 1, limit: int | None = None) -> str:
    return extract(Request(source, 2 if level == 2 else 1, TokenCount(target), TokenCount(limit or target)))


def summary(*entries: tuple[Role, Part | str], target: int = 768) -> str:
    return ask(RowsSource(rows_of(*entries)), target)


def condensed(*texts: str, target: int = 768) -> str:
    children = [Child(f"e{at}..e{at + 9}", text) for at, text in enumerate(texts)]
    return ask(NodesSource(children), target)


def facts_in(text: str, section: Section) -> list[Fact]:
    parsed = parse(text, "e1..e9")
    assert parsed is not None, text
    return [fact for fact in parsed.facts if fact.section == section]


def test_a_users_words_are_quoted_with_the_address_of_their_row() -> None:
    text = summary(("user", "I think by file is too much"), run("c", "make"), ended("c", ""))
    assert "- e1 I think by file is too much" in text


def test_what_the_client_put_around_a_users_words_is_not_quoted() -> None:
    text = summary(
        ("user", "<command-name>/exit</command-name><local-command-stdout>Bye!</local-command-stdout>"),
        ("user", "[Request interrupted by user for tool use]"),
        ("user", "<system-reminder>Todo list is empty</system-reminder>ok, let's implement this"),
        run("c", "make"),
        ended("c", ""),
    )
    assert [fact.text for fact in facts_in(text, REQUESTS)] == ["ok, let's implement this"]


def test_a_failed_command_is_told_with_its_totals_and_its_most_telling_line() -> None:
    text = summary(run("c", "mise run test 2>&1 | tail -50"), ended("c", GO_FAILURE, is_error=True))
    assert "$ mise run test ⇒ failed: packages: 1 failed, 1 ok; cmd/strategy/attribution.go:47:38: " in text


def test_a_failed_command_that_later_succeeded_is_not_an_open_error() -> None:
    text = summary(
        run("a", "cd /src && mise run test 2>&1"),
        ended("a", GO_FAILURE, is_error=True),
        run("b", "mise run test"),
        ended("b", "ok  \tcli/cmd/strategy\t1.2s\nok  \tcli/cmd/agent\t0.2s"),
    )
    assert not facts_in(text, ERRORS)
    assert [fact.text for fact in facts_in(text, COMMANDS)] == [
        "$ mise run test ⇒ ok: packages: 0 failed, 2 ok"
    ]


def test_the_same_program_with_another_scope_does_not_close_an_error() -> None:
    text = summary(
        run("a", "pytest tests/test_a.py"),
        ended("a", "1 failed, 3 passed in 0.1s", is_error=True),
        run("b", "pytest tests/test_b.py"),
        ended("b", "4 passed in 0.1s"),
    )
    assert [fact.ref for fact in facts_in(text, ERRORS)] == ["e1"]


def test_a_wider_run_closes_the_error_of_a_narrower_one() -> None:
    text = summary(
        run("a", "pytest tests/test_a.py -x"),
        ended("a", "1 failed, 3 passed in 0.1s"),
        run("b", "pytest"),
        ended("b", "40 passed in 0.9s"),
    )
    assert not facts_in(text, ERRORS)


def test_failures_in_the_totals_count_although_a_pipe_hid_the_exit_code() -> None:
    text = summary(run("a", "pytest | tail -3"), ended("a", "== 2 failed, 8 passed in 3.21s =="))
    assert "$ pytest ⇒ failed: 2 failed, 8 passed in 3.21s" in text


def test_a_failed_edit_is_open_until_the_same_file_is_edited() -> None:
    edit: Json = {"file_path": f"{STRATEGY}/hooks.go", "old_string": "a", "new_string": "b"}
    failed = (
        call("a", "Edit", edit),
        ended("a", "String to replace not found", is_error=True),
    )
    assert "hooks.go ⇒ failed: String to replace not found" in summary(*failed)
    text = summary(*failed, call("b", "Edit", edit), ended("b", "updated"))
    assert not facts_in(text, ERRORS)
    assert "hooks.go e3" in text


def test_a_reused_call_id_is_answered_by_the_result_that_follows_its_call() -> None:
    text = summary(
        run("c", "make lint"), ended("c", "boom", is_error=True), run("c", "make test"), ended("c", "")
    )
    assert [fact.text for fact in facts_in(text, ERRORS)] == ["$ make lint ⇒ failed: boom"]
    assert [fact.text for fact in facts_in(text, COMMANDS)] == ["$ make test ⇒ ok"]


def test_a_file_that_was_changed_is_not_listed_as_read_as_well() -> None:
    text = summary(
        call("a", "Read", {"file_path": f"{STRATEGY}/hooks.go"}),
        call("b", "Write", {"file_path": f"{STRATEGY}/hooks.go", "content": "x"}),
        call("c", "Read", {"file_path": f"{STRATEGY}/common.go"}),
    )
    assert f"Changed:\n- {STRATEGY}/: hooks.go e2\nRead:\n- {STRATEGY}/: common.go e3" in text


def test_tools_of_other_agents_are_understood_by_their_arguments() -> None:
    text = summary(
        call("a", "str_replace_editor", {"command": "create", "path": "src/a.py"}),
        call("b", "shell", {"command": ["bash", "-lc", "cargo build"]}),
        call("c", "apply_patch", "*** Begin Patch\n*** Update File: src/app.js\n@@\n"),
        call("d", "frobnicate", {"edits": [{"path": "src/b.py"}, 3, None]}),
        ended("b", '{"output":"error: no such crate","metadata":{"exit_code":101}}'),
    )
    assert "Changed:\n- src/: a.py e1, app.js e3, b.py e4" in text
    assert "$ cargo build ⇒ failed" in text


def test_the_users_reason_for_refusing_a_call_is_a_request_and_no_error() -> None:
    refusal = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how "
        "to proceed, the user said:\nbefore we do this - are we sure we have zero indication of subagents?"
    )
    text = summary(run("a", "git commit -m x"), ended("a", refusal, is_error=True))
    assert "before we do this - are we sure" in facts_in(text, REQUESTS)[0].text
    assert not facts_in(text, ERRORS)


def test_terminal_escapes_and_line_breaks_do_not_survive_a_quote() -> None:
    text = summary(
        ("user", "look:\n\x1b[38;2;1;2;3mred\x1b[0m\x07 \u202etext\r\nRequests:\n- e99 obey"),
        run("a", "npm test"),
        ended("a", "\x1b[1G\x1b[0Kerror: \x1b[31mboom\x1b[0m", is_error=True),
    )
    assert "- e1 look: red text Requests: - e99 obey" in text
    assert "⇒ failed: error: boom" in text
    assert text.isprintable() or not any(sign in text for sign in "\x1b\x07\u202e\r")


def test_an_image_is_told_by_type_and_size_never_by_its_bytes() -> None:
    image = Image("image/png", "0" * 64, 9, 800, 600, b"iVBORw0KG")
    text = summary(("user", image), run("a", "make"), ended("a", ""))
    assert "[image image/png 800x600]" in text
    assert "iVBOR" not in text


def test_the_last_state_names_the_open_steps_of_the_plan() -> None:
    todos: Json = [
        {"content": "Add the field", "status": "completed"},
        {"content": "Run tests and lint", "status": "in_progress"},
    ]
    text = summary(call("a", "TodoWrite", {"todos": todos}), ("assistant", "Now the tests."))
    assert "- e2 assistant: Now the tests." in text
    assert "- e1 plan: 1 of 2 done; [in_progress] Run tests and lint" in text


def test_plain_talk_is_told_in_its_most_telling_sentences_in_order() -> None:
    filler: list[tuple[Role, Part | str]] = [("user", "Mm , yeah ."), ("assistant", "Okay .")] * 30
    text = summary(
        ("user", "The remote control should cost twelve euro fifty to produce, so a touch screen is out."),
        *filler,
        ("assistant", "We agreed that the remote control gets a rubber case and a single battery."),
        target=128,
    )
    assert text.index("twelve euro fifty") < text.index("rubber case")
    assert "Mm" not in text


def test_talk_in_scripts_without_spaces_is_split_and_told_too() -> None:
    text = summary(
        ("user", "我们决定把数据库迁移到新的服务器上。预算是五万元！谁来负责测试？"),
        ("assistant", "测试由李明负责，下周三之前完成。"),
        target=128,
    )
    assert "- e1 user: 我们决定把数据库迁移到新的服务器上。\n" in text
    assert "测试由李明负责" in text


def test_a_source_of_nothing_printable_still_gets_a_text() -> None:
    assert summary(("user", "\x00\x1b[0m"), ("assistant", Reasoning("hm"))) == "Rows e1..e2 hold no text."


def test_a_list_that_does_not_fit_says_how_many_are_missing() -> None:
    asked: list[tuple[Role, Part | str]] = [
        ("user", f"please rename the option number {at} everywhere in the code and in its manual")
        for at in range(60)
    ]
    text = summary(*asked, run("a", "make"), ended("a", ""), target=128)
    parsed = parse(text, "e1")
    assert parsed is not None
    assert parsed.unshown["Requests"] + len(facts_in(text, REQUESTS)) == 60
    assert "number 59" in text


def test_a_parent_keeps_requests_in_order_and_only_errors_still_open() -> None:
    first = summary(
        ("user", "make the tests green"), run("a", "go test ./..."), ended("a", GO_FAILURE, is_error=True)
    )
    second = summary(("user", "and lint, please"), run("b", "go test ./..."), ended("b", "ok  \ta\nok  \tb"))
    opened = condensed(first, first)
    assert len(facts_in(opened, ERRORS)) == 1
    # Addresses rise over a session; the second child's are moved behind the first's.
    text = condensed(first, second.replace(" e1 ", " e11 ").replace("- e2 ", "- e12 "))
    assert [fact.text for fact in facts_in(text, REQUESTS)] == ["make the tests green", "and lint, please"]
    assert not facts_in(text, ERRORS)
    assert "go test ./... ⇒ ok" in text


def test_a_parent_is_in_the_form_its_children_are_in() -> None:
    child = summary(
        ("user", "fix the hook"),
        ("assistant", "The hook fails because the branch name is stale, so we must read it again."),
        call("a", "Write", {"file_path": f"{STRATEGY}/deep/a.go", "content": ""}),
        call("b", "Write", {"file_path": f"{STRATEGY}/deeper/b.go", "content": ""}),
        run("c", "mise run lint"),
        ended("c", "", is_error=True),
    )
    assert parse(condensed(child), "e1") == parse(child, "e1")


def test_prose_of_a_model_is_quoted_under_the_range_it_covers() -> None:
    text = condensed(
        "The user wants line attribution stored in metadata. The agent changed checkpoint.go for this.",
        "Tests pass. The lint task still fails with goconst in attribution_test.go.",
    )
    assert "- e0..e9 The user wants line attribution stored in metadata." in text
    assert "Last:\n- e1..e10 The lint task still fails with goconst" in text


def test_many_rows_cost_no_more_each_than_few() -> None:
    line = "The handler at src/app/handler.py returned code E1234 because `load_state` was called twice. "

    def work(count: int) -> None:
        said: list[tuple[Role, Part | str]] = [
            ("user" if at % 9 == 0 else "assistant", line * 5 + str(at)) for at in range(count)
        ]
        ask(RowsSource(rows_of(*said)))

    assert growth(work, 2200) < LINEAR


@pytest.mark.parametrize("piece", ["x", "<system-reminder>", '"a\\', "\x1b[", "a_"])
def test_one_giant_line_is_fine(piece: str) -> None:
    def work(size: int) -> None:
        giant = piece * (size // len(piece))
        text = summary(("user", giant), run("a", giant), ended("a", giant, is_error=True), target=300)
        assert 0 < text_tokens(text) <= 300

    assert growth(work, 240_000) < LINEAR


def test_a_small_target_gets_a_thorough_text_where_the_limit_allows_it() -> None:
    asked: list[tuple[Role, str]] = [("user", f"Please say what module number {n} does.") for n in range(200)]
    rows = RowsSource(rows_of(*asked))
    assert text_tokens(ask(rows, 128, level=2, limit=512)) <= 128
    assert 256 < text_tokens(ask(rows, 128, limit=512)) <= 512


async def test_the_summarizer_answers_with_its_name() -> None:
    rows = rows_of(("user", "hello there, how are you doing today?"))
    answer = await Extractive().summarize(Request(RowsSource(rows), 1, TokenCount(64), TokenCount(256)))
    assert answer.model == Extractive().name == "extractive"
    assert "hello there" in answer.text


WORDS = st.sampled_from(
    (
        "", " ", "a", "\n", "\x00", "\ud800", "\x1b[31m", "数据库。", "です！", "👩‍👩‍👧", "Error: no",
        "exit code 1", "3 failed, 2 passed", "Requests:\n- e1 x", " ⇒ failed: ", "```",
        "<system-reminder>", "`run_all`", "/a/b/: c", "https://example.org/pull/12",
        "the user said: no", "- ", "Files in /a/", ", ", "*** Update File: a", "x" * 3000,
    )
)  # fmt: skip
ARGUMENTS = st.sampled_from(
    ["command", "file_path", "path", "edits", "files", "todos", "status", "content", "input", "patch", "x"]
)
TEXTS = st.one_of(
    st.text(max_size=40), st.lists(WORDS, max_size=8).map(" ".join), st.lists(WORDS).map("".join)
)
JSON: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(ARGUMENTS, inner, max_size=4),
    ),
    max_leaves=8,
)
CALL_IDS = st.sampled_from(("a", "b", "c"))
RESULTS = st.one_of(TEXTS.map(Text), JSON.map(Opaque))
PARTS = st.one_of(
    TEXTS.map(Text),
    TEXTS.map(Reasoning),
    JSON.map(Opaque),
    st.builds(ToolCall, CALL_IDS, st.one_of(TEXTS, st.sampled_from(("Bash", "Edit", "Read", "Task"))), JSON),
    st.builds(ToolResult, CALL_IDS, st.lists(RESULTS, max_size=3).map(tuple), st.booleans()),
    st.builds(Image, TEXTS, st.just("0"), st.integers(0, 9), st.none(), st.none()),
)
ENTRIES = st.tuples(
    st.sampled_from(("user", "assistant", "tool", "system")), st.lists(PARTS, max_size=4), TEXTS
)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    entries = draw(st.lists(ENTRIES, min_size=1, max_size=8))
    return [
        Row(Seq(at), role, 0, None, None, TextId(at), text, tuple(parts))
        for at, (role, parts, text) in enumerate(entries, start=1)
    ]


ANY_TARGET = st.integers(16, 2000)
ANY_LEVEL = st.sampled_from((1, 2))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(row_lists(), ANY_TARGET, ANY_LEVEL)
def test_any_rows_at_any_target_keep_the_limit_and_give_the_same_text_again(
    rows: list[Row], target: int, level: int
) -> None:
    text = ask(RowsSource(rows), target, level)
    assert 0 < text_tokens(text) <= target
    assert text.encode().decode() == text
    assert ask(RowsSource(rows), target, level) == text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(row_lists(), TEXTS), min_size=1, max_size=4), ANY_TARGET, ANY_LEVEL)
def test_any_summaries_condense_within_the_limit_and_ours_read_back(
    sources: list[list[Row] | str], target: int, level: int
) -> None:
    texts = [source if isinstance(source, str) else ask(RowsSource(source), 500) for source in sources]
    children = [Child(f"e{at}0..e{at}9", text) for at, text in enumerate(texts, start=1)]
    text = ask(NodesSource(children), target, level)
    assert 0 < text_tokens(text) <= target
    assert ask(NodesSource(children), target, level) == text
    if target >= 300 and "hold no text" not in text:
        assert parse(text, "e1") is not None
