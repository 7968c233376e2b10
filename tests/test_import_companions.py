"""What Claude Code keeps beside a session's file belongs to the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import Cli
from imported import entries, events_of, sessions, told, write
from stores import serving

from lcm_mcp.transcript.importers.claude_companions import MAX_OUTPUT_BYTES
from lcm_mcp.transcript.model import Text, ToolResult


def line(uuid: str, content: object, kind: str = "user", **more: Any) -> dict[str, object]:
    body = {"role": kind, "content": content}
    return {"type": kind, "uuid": uuid, "sessionId": "main", "cwd": "/p", "message": body, **more}


def call(uuid: str, call_id: str, prompt: str) -> dict[str, object]:
    block = {"type": "tool_use", "id": call_id, "name": "Agent", "input": {"prompt": prompt}}
    return line(uuid, [block], "assistant")


def result(uuid: str, call_id: str, content: object, **more: Any) -> dict[str, object]:
    return line(uuid, [{"type": "tool_result", "tool_use_id": call_id, "content": content}], **more)


def session_with_subagents(folder: Path) -> tuple[Path, Path]:
    main = write(
        folder / "main.jsonl",
        line("u1", "please look"),
        call("a1", "t1", "the same"),
        call("a2", "t2", "the same"),
        result("r2", "t2", "second", toolUseResult={"agentId": "two"}),
        result("r1", "t1", "first", toolUseResult={"agentId": "one"}),
    )
    agent = write(
        folder / "main" / "subagents" / "agent-two.jsonl",
        line("s1", "the same", isSidechain=True, agentId="two"),
        line("s2", "done", "assistant", isSidechain=True, agentId="two"),
    )
    return main, agent


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["session first", "subagent first"])
async def test_a_subagents_file_is_a_child_that_the_right_call_opened(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    files = session_with_subagents(tmp_path)
    async with serving(tmp_path / "lcm.sqlite") as service:
        for index in order:
            await service.import_file(files[index], fold=False)
        tree = await service.tree("main")
    assert [(begun.session, begun.link, begun.opener, begun.rows) for begun in tree.begun] == [
        ("main/two", "child", "e3", 2)
    ]


def test_a_subagent_without_a_file_is_not_told_of(tmp_path: Path) -> None:
    main, agent = session_with_subagents(tmp_path)
    agent.unlink()
    assert [found.key for found in sessions(events_of("claude-code", main))] == ["main"]


def test_the_command_takes_the_subagents_of_a_session_in_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, _ = session_with_subagents(tmp_path)
    answer = Cli(capsys, tmp_path / "lcm.sqlite").answer("import", main, "--no-fold")
    added = {kept["session"]: kept["rows_added"] for file in answer["files"] for kept in file["sessions"]}
    assert added == {"main": 5, "main/two": 2}


def persisted(name: str) -> str:
    return f"<persisted-output>\nOutput too large (9KB). Full output saved to: /x/{name}\n\nPre"


def test_an_output_that_was_too_long_is_whole_again(tmp_path: Path) -> None:
    path = write(
        tmp_path / "main.jsonl",
        result("r1", "t1", persisted("b1.txt")),
        result("r2", "t2", persisted("gone.txt")),
        result("r3", "t3", persisted("huge.txt")),
    )
    folder = tmp_path / "main" / "tool-results"
    folder.mkdir(parents=True)
    (folder / "b1.txt").write_bytes(b"all of it\xff")
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(MAX_OUTPUT_BYTES + 1)
    parts = [entry.draft.parts[0] for entry in entries(events_of("claude-code", path))]
    assert parts[0] == ToolResult("t1", (Text("all of it\ufffd", {"shown": persisted("b1.txt")}),))
    assert parts[1:] == [
        ToolResult("t2", (Text(persisted("gone.txt")),)),
        ToolResult("t3", (Text(persisted("huge.txt")),)),
    ]


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/hostname", "..", "x/../../../secret.txt"])
def test_no_other_file_is_read_than_one_in_the_folder_of_outputs(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "main.jsonl", result("r1", "t1", persisted(name)))
    (tmp_path / "main" / "tool-results").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    assert told(events_of("claude-code", path)) == [("user", f"[result]\n{persisted(name)}")]


def test_a_prompt_from_the_queue_is_a_message_once_it_was_given(tmp_path: Path) -> None:
    waiting = {"type": "queue-operation", "operation": "enqueue", "content": "and this"}
    command = {"type": "queued_command", "prompt": "and this", "commandMode": "prompt"}
    given = {
        "type": "attachment",
        "uuid": "q1",
        "parentUuid": "a1",
        "sessionId": "main",
        "attachment": command,
    }
    other = {"type": "attachment", "uuid": "q2", "attachment": {"type": "todo", "prompt": "no"}}
    path = write(tmp_path / "a.jsonl", line("u1", "one"), waiting, line("a1", "1", "assistant"), given, other)
    events = events_of("claude-code", path)
    assert told(events) == [("user", "one"), ("assistant", "1"), ("user", "and this")]
    assert entries(events)[2].draft.entry_id == "q1"


async def test_a_fork_has_the_rows_that_it_replays_as_its_own(tmp_path: Path) -> None:
    def forked(uuid: str, text: str) -> dict[str, object]:
        return {
            **line(uuid, text),
            "sessionId": "fork",
            "forkedFrom": {"sessionId": "main", "messageUuid": uuid},
        }

    main = write(tmp_path / "main.jsonl", line("u1", "one"), line("u2", "two"))
    fork = write(tmp_path / "fork.jsonl", forked("u1", "one"), {**line("u3", "other"), "sessionId": "fork"})
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path in (main, fork):
            await service.import_file(path, fold=False)
        found = {each.key: each.rows for each in (await service.sessions(project="*")).sessions}
    assert found == {"main": 2, "fork": 2}
