"""Codex rollouts are read as their sessions, whatever Codex notes beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from imported import entries, events_of, report_of, sessions, shared_file, told, write

from lcm_mcp.transcript.importers import Other, SessionFound, detect
from lcm_mcp.transcript.model import BEGINNING, Image, Json, Opaque, Reasoning, Text, ToolCall, ToolResult

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OLD = "019b64e5-57fa-7463-b644-fba7e456f905"
NEW = "019fbcca-9fd4-7d20-83dc-0762b2f839b3"
NEWER = "019fbcca-afd4-7d20-83dc-0762b2f839b3"


def line(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "payload": payload}


def meta(name: str, **more: object) -> dict[str, object]:
    return line("session_meta", id=name, cwd="/p", **more)


def user(text: str) -> dict[str, object]:
    return line("response_item", type="message", role="user", content=[{"type": "input_text", "text": text}])


def answer(text: str) -> dict[str, object]:
    content = [{"type": "output_text", "text": text}]
    return line("response_item", type="message", role="assistant", content=content)


def item(kind: str, **fields: object) -> dict[str, object]:
    return line("response_item", type=kind, **fields)


def note(kind: str, **fields: object) -> dict[str, object]:
    return line("event_msg", type=kind, **fields)


@pytest.mark.parametrize(
    ("name", "user", "assistant", "tool", "calls", "unanswered"),
    [
        ("edges", 4, 9, 0, 1, 1),
        ("patch", 3, 7, 4, 4, 0),
        ("rollout-subagent", 1, 6, 3, 3, 0),
        ("sample", 3, 0, 0, 0, 0),
    ],
)
def test_a_real_rollout_gives_all_its_items(
    name: str, user: int, assistant: int, tool: int, calls: int, unanswered: int
) -> None:
    path = shared_file(f"codex/{name}.jsonl")
    assert detect(path) == "codex"
    report = report_of("codex", path)
    assert (report.user, report.assistant, report.tool) == (user, assistant, tool)
    assert (report.tool_calls, report.unanswered, report.orphans) == (calls, unanswered, 0)
    assert (report.bad_lines, report.opaque) == (0, 0)


def test_a_prompt_is_one_row_whether_an_item_or_a_note_or_both_tell_it(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        meta("s"),
        user("<environment_context>x</environment_context>"),
        user("first"),
        note("user_message", message="first"),
        answer("a"),
        note("agent_message", message="a"),
        note("user_message", message="second"),
        answer("b"),
        note("user_message", message="third"),
        user("third"),
    )
    events = events_of("codex", path)
    assert [text for _, text in told(events)] == [
        "<environment_context>x</environment_context>",
        "first",
        "a",
        "second",
        "b",
        "third",
    ]
    assert sessions(events) == [SessionFound("s", "first", "/p")]


def test_items_keep_what_they_say(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        meta("s"),
        item("message", role="developer", content=[{"type": "input_text", "text": "rules"}]),
        item("reasoning", summary=[{"type": "summary_text", "text": "short"}], encrypted_content="XX"),
        item("function_call", name="sh", arguments='{"a": 1}', call_id="c1", namespace="n"),
        item("function_call_output", call_id="c1", output={"content": "no", "success": False}),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        item("custom_tool_call_output", call_id="c2", output={"output": "ok", "metadata": {"exit_code": 0}}),
        item("local_shell_call", call_id="c3", status="completed", action={"command": ["ls"]}),
        item("web_search_call", status="completed", action={"query": "q"}),
        item("image_generation_call", id="i", result=PIXEL),
        item("function_call", name="sh", arguments="not json", call_id="c4"),
        item("function_call", arguments="{}"),
        item("from_the_future", text="?"),
        item("ghost_snapshot", ghost_commit={}),
    )
    events = events_of("codex", path)
    parts = [entry.draft.parts[0] for entry in entries(events)]
    assert [entry.draft.role for entry in entries(events)][:4] == ["system", "assistant", "assistant", "tool"]
    assert parts[1] == Reasoning("short", {"encrypted_content": "XX"})
    assert parts[2] == ToolCall("c1", "sh", {"a": 1}, {"namespace": "n"})
    assert parts[3] == ToolResult("c1", (Text("no"),), True)
    assert parts[4] == ToolCall("c2", "apply_patch", "*** Begin", {"type": "custom"})
    assert parts[5] == ToolResult("c2", (Text("ok"),), False, {"metadata": {"exit_code": 0}})
    assert parts[6] == ToolCall("c3", "local_shell", {"command": ["ls"]}, {"status": "completed"})
    assert isinstance(parts[7], Opaque)
    assert isinstance(parts[8], Image)
    assert parts[9] == ToolCall("c4", "sh", "not json")
    assert [part.kind for part in parts[10:] if isinstance(part, Opaque)] == [
        "function_call",
        "from_the_future",
    ]
    assert events[-1] == Other("ghost_snapshot", 14)


def test_turns_that_were_rolled_back_leave_the_path(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        meta("s"),
        user("one"),
        answer("1"),
        user("two"),
        answer("2"),
        user("three"),
        answer("3"),
        note("thread_rolled_back", num_turns=2),
        user("four"),
        note("thread_rolled_back", num_turns=9),
        user("five"),
    )
    drafts = [entry.draft for entry in entries(events_of("codex", path))]
    assert [draft.parent for draft in drafts] == [None] * 6 + ["line:3", BEGINNING]


def test_a_compaction_is_kept_off_the_path_and_repeats_no_row(tmp_path: Path) -> None:
    kept: dict[str, Json] = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "one"}],
    }
    sealed: dict[str, Json] = {"type": "compaction", "encrypted_content": "YY"}
    path = write(
        tmp_path / "r.jsonl",
        meta("s"),
        user("one"),
        line("compacted", message="a summary", replacement_history=[kept]),
        line("compacted", message="", replacement_history=[kept, sealed]),
        user("two"),
    )
    drafts = [entry.draft for entry in entries(events_of("codex", path))]
    assert [draft.active for draft in drafts] == [True, False, False, True]
    assert (drafts[1].parts, drafts[2].parts) == ((Text("a summary"),), (Opaque(sealed),))


def test_a_fork_has_its_parents_rows_under_its_own_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl", meta(NEW, forked_from_id=OLD), meta(OLD), user("one"), answer("1"), user("mine")
    )
    events = events_of("codex", path)
    assert sessions(events) == [SessionFound(NEW, "one", "/p", OLD, link="fork")]
    assert [text for _, text in told(events)] == ["one", "1", "mine"]


def test_a_subagent_is_its_parents_child_and_leaves_out_what_it_replays(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": OLD, "depth": 1}}}
    path = write(
        tmp_path / "r.jsonl",
        meta(NEW, source=source),
        meta(OLD),
        note("task_started", turn_id=OLD),
        user("the parent's"),
        note("task_started", turn_id=NEWER),
        user("do it"),
    )
    events = events_of("codex", path)
    assert [text for _, text in told(events)] == ["do it"]
    assert [(found.key, found.parent_key) for found in sessions(events)] == [(NEW, OLD)]
    nameless = write(
        tmp_path / "n.jsonl", meta(NEW, source=source), meta(OLD), note("task_started"), user("maybe mine")
    )
    assert [text for _, text in told(events_of("codex", nameless))] == ["maybe mine"]
    grandchild = write(
        tmp_path / "g.jsonl",
        meta(NEWER, source={"subagent": {"thread_spawn": {"parent_thread_id": NEW}}}),
        meta(NEW, source=source),
        meta(OLD),
        user("the grandparent's"),
        note("task_started", turn_id=NEW),
        user("the parent's"),
        line("turn_context", turn_id=NEWER),
        user("mine"),
    )
    assert [text for _, text in told(events_of("codex", grandchild))] == ["mine"]
    alone = write(
        tmp_path / "a.jsonl", meta(NEW, source=source), note("task_started", turn_id="1"), user("x")
    )
    assert [text for _, text in told(events_of("codex", alone))] == ["x"]


def test_the_row_that_started_a_subagent_is_known_from_its_parents_file() -> None:
    found = sessions(events_of("codex", shared_file("codex/rollout-subagent.jsonl")))
    assert found[1].key == "019fbcd0-1111-7000-8000-000000000001"
    assert (found[1].parent_key, found[1].opener_entry_id) == (found[0].key, "line:8")


def test_old_rollouts_are_items_line_by_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        {"id": "s", "timestamp": "2025-06-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "name": "sh", "arguments": "{}", "call_id": "c"},
    )
    assert detect(path) == "codex"
    assert told(events_of("codex", path))[0] == ("user", "hi")
    assert report_of("codex", path).tool_calls == 1


def test_a_compressed_rollout_is_read_as_the_plain_one(tmp_path: Path) -> None:
    plain = write(tmp_path / "r.jsonl", meta("s"), user("one"), answer("two"))
    packed = tmp_path / "r.jsonl.zst"
    packed.write_bytes(zstd.compress(plain.read_bytes()))
    assert detect(packed) == "codex"
    assert events_of("codex", packed) == events_of("codex", plain)
