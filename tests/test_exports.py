"""Exports of chat services and message arrays: every message is stored once, in its place, branches apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from exported import ANTHROPIC, OPENAI, TREE, Node, archive, chatgpt, claude_ai, written
from stores import serving

from lcm_mcp.service import Service
from lcm_mcp.transcript.importers import FORMATS, Entry, detect, tally
from lcm_mcp.transcript.model import Image, Opaque, Reasoning, Text, ToolCall, ToolResult

REAL = Path(__file__).parents[2] / "shared" / "data"


async def texts(service: Service, session: str, removed: bool = False) -> list[str]:
    tree = await service.tree(session)
    units = [unit for branch in tree.branches if branch.active is not removed for unit in branch.units]
    rows = [
        row for unit in units for row in (await service.expand(f"{unit.first}..{unit.last}", session)).rows
    ]
    return [row.text for row in rows]


def entries(path: Path, format: str, key: str | None = None) -> list[Entry]:
    return [event for event in FORMATS[format].read(path, key) if isinstance(event, Entry)]


def parts(path: Path, format: str) -> list[Any]:
    return [part for entry in entries(path, format) for part in entry.draft.parts]


# --- ChatGPT


async def test_a_chatgpt_tree_is_the_path_to_its_current_node_and_removed_branches(
    tmp_path: Path, store_path: Path
) -> None:
    for current, active, removed in (
        ("a2", ["what is a monad?", "a burrito", "no, really", "a monoid"], ["a box", "thanks"]),
        ("u2b", ["what is a monad?", "a box", "thanks"], ["a burrito", "no, really", "a monoid"]),
    ):
        path = written(tmp_path / f"{current}.json", [chatgpt(current, TREE, current)])
        async with serving(store_path) as service:
            report = (await service.import_file(path)).report
            assert (report.format, report.rows_added, report.other) == ("chatgpt", 6, {"empty message": 1})
            assert await texts(service, current) == active
            assert await texts(service, current, removed=True) == removed
            again = (await service.import_file(path)).report
            assert (again.rows_added, again.duplicates, again.conflicts) == (0, 6, ())
            assert await texts(service, current) == active


async def test_a_later_export_moves_the_path_to_where_the_conversation_is_now(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    async with serving(store_path) as service:
        for nodes, current, end in (
            (TREE[:6], "a2", "a monoid"),
            (TREE, "a2", "a monoid"),  # rows of another branch are new, and the path stays
            (TREE, "u2b", "thanks"),  # nothing is new, and the path moves
            ([*TREE, ("a3", "u2b", "assistant", "welcome")], "a3", "welcome"),
        ):
            written(path, [chatgpt("c", nodes, current)])
            await service.import_file(path)
            assert (await texts(service, "c"))[-1] == end
        await service.append("c", [{"role": "user", "content": "and on"}])
        await service.import_file(path)  # what was appended here stays
        assert (await texts(service, "c"))[-1] == "and on"


def test_missing_times_are_those_of_the_message_above(tmp_path: Path) -> None:
    times = {"u1": 1_700_000_100.0, "u2": 1_700_000_300.0}
    found = entries(written(tmp_path / "c.json", [chatgpt("c", TREE, "a2", times)]), "chatgpt")
    at = {entry.draft.entry_id: entry.draft.at for entry in found}
    assert at["a1"] == at["u1"] == 1_700_000_100_000
    assert at["a2"] == at["u2"] == 1_700_000_300_000


def test_calls_reasoning_voice_pictures_and_the_unknown_are_kept_in_chatgpt_exports(tmp_path: Path) -> None:
    contents: list[dict[str, Any]] = [
        {
            "content_type": "multimodal_text",
            "parts": ["see", {"content_type": "image_asset_pointer", "x": 1}],
        },
        {"content_type": "thoughts", "thoughts": [{"summary": "Hm", "content": "let me see"}]},
        {"content_type": "code", "language": "python", "text": '{"code": "1 + 1"}'},
        {"content_type": "execution_output", "text": "2"},
        {"content_type": "tether_quote", "url": "http://x", "text": "a page"},
        {"content_type": "new_thing", "payload": [1, 2]},
        {
            "content_type": "multimodal_text",
            "parts": [{"content_type": "audio_transcription", "text": "heard"}],
        },
    ]
    roles = ["user", "assistant", "assistant", "tool", "tool", "assistant", "user"]
    nodes: list[Node] = [(f"n{n}", f"n{n - 1}" if n else None, roles[n], "") for n in range(len(roles))]
    made = chatgpt("c", nodes, "n6")
    for n, content in enumerate(contents):
        made["mapping"][f"n{n}"]["message"]["content"] = content
    made["mapping"]["n2"]["message"]["recipient"] = "python"
    made["mapping"]["n3"]["message"]["author"]["name"] = "python"
    path = written(tmp_path / "c.json", made)  # a single conversation, not in a list
    found = parts(path, detect(path))
    assert found[0] == Text("see")
    assert found[1] == Opaque({"content_type": "image_asset_pointer", "x": 1})
    assert found[2] == Reasoning("Hm\nlet me see")
    assert found[3] == ToolCall("n2", "python", {"code": "1 + 1"})
    assert isinstance(found[4], ToolResult)
    assert (found[4].call_id, found[4].content[0].text) == ("n2", "2")  # type: ignore[union-attr]
    assert isinstance(found[5], ToolResult)
    assert found[5].call_id == "n2"
    assert found[6] == Opaque(contents[5])
    assert found[7] == Text("heard", {"content_type": "audio_transcription"})


async def test_archives_and_numbered_parts_hold_many_sessions(tmp_path: Path, store_path: Path) -> None:
    path = archive(
        tmp_path / "export.zip",
        conversations_001=[chatgpt("c2", TREE[:4], "a1"), {"title": "broken"}],
        conversations_000=[chatgpt("c1", TREE[:4], "a1")],
    )
    async with serving(store_path) as service:
        outcome = await service.import_file(path)
        assert [each.session for each in outcome.sessions] == ["c1", "c2"]
        assert outcome.report.bad_lines == 1
        assert "conversation 2: it is no conversation" in outcome.report.bad[0][1]
        assert [each.title for each in (await service.sessions(project="*")).sessions] == [
            "About c2",
            "About c1",
        ]


# --- Claude.ai


async def test_a_claude_ai_export_keeps_calls_answers_attachments_and_branches(
    tmp_path: Path, store_path: Path
) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    answer: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "start_timestamp": "x", "citations": None},
        {"type": "text", "text": "I look.", "citations": []},
        {"type": "tool_use", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "found"}]},
        {"type": "text", "text": "There it is."},
    ]
    attachment = {"file_name": "a.txt", "file_size": 3, "extracted_content": "attached text"}
    talk = claude_ai(
        "k",
        {
            "uuid": "m1",
            "sender": "human",
            "text": "find x",
            "attachments": [attachment],
            "files": [{"file_name": "p.png"}],
            "parent_message_uuid": root,
        },
        {"uuid": "m2", "sender": "assistant", "text": "", "content": answer, "parent_message_uuid": "m1"},
        {"uuid": "m3", "sender": "human", "text": "thanks", "parent_message_uuid": "m2"},
        {"uuid": "m4", "sender": "human", "text": "", "parent_message_uuid": "m2"},
        {"uuid": "m5", "sender": "human", "text": "more", "parent_message_uuid": "m2"},
    )
    path = written(tmp_path / "conversations.json", [talk])
    assert detect(path) == "claude-ai"
    found = entries(path, "claude-ai")
    assert [entry.draft.role for entry in found] == ["user", "assistant", "tool", "assistant", "user", "user"]
    kinds = [type(part).__name__ for entry in found for part in entry.draft.parts]
    assert kinds == ["Text", "Text", "Opaque", "Reasoning", "Text", "ToolCall", "ToolResult", *["Text"] * 3]
    async with serving(store_path) as service:
        report = (await service.import_file(path)).report
        assert (report.rows_added, report.tool_calls, report.unanswered, report.orphans) == (6, 1, 0, 0)
        assert (await texts(service, "k"))[-2:] == ["There it is.", "more"]
        assert await texts(service, "k", removed=True) == ["thanks"]
        assert (await service.import_file(path)).report.rows_added == 0


# --- arrays of messages


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "roles", "other"),
    [
        (OPENAI, (1, 2, 1, 1), {}),
        ({"model": "gpt-x", "messages": OPENAI, "tools": []}, (1, 2, 1, 1), {"model": 1, "tools": 1}),
        (ANTHROPIC, (2, 2, 0, 1), {"model": 1, "max_tokens": 1, "tools": 1}),
    ],
)
async def test_message_arrays_are_sessions_and_grow(
    indent: int | None,
    document: Any,
    roles: tuple[int, ...],
    other: dict[str, int],
    tmp_path: Path,
    store_path: Path,
) -> None:
    path = written(tmp_path / "talk.json", document, indent)
    async with serving(store_path) as service:
        report = (await service.import_file(path)).report
        assert report.format == "messages"
        assert (report.user, report.assistant, report.tool, report.system) == roles
        assert (report.tool_calls, report.tool_results, report.unanswered, report.reasoning) == (1, 1, 0, 1)
        assert report.other == other
        assert (report.opaque, report.bad_lines, report.glued) == (0, 0, 0)
        (session,) = (await service.sessions(project="*")).sessions
        assert (session.key, session.title) == ("talk", "weather?")
        grown: Any = json.loads(json.dumps(document))
        messages: Any = grown["messages"] if "model" in grown else grown
        messages.append({"role": "user", "content": "and now?"})
        written(path, grown, indent)
        report = (await service.import_file(path)).report
        assert (report.rows_added, report.conflicts) == (1, ())
        assert (await service.import_file(path)).report.rows_added == 0


def test_messages_of_strange_shapes_are_kept_and_those_of_no_role_are_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "odd.json",
        [
            {"role": "user", "content": {"strange": 1}},
            {"role": "function", "name": "f", "content": "old"},
            {"role": "judge", "content": "x"},
            5,
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
        ],
    )
    events = list(FORMATS["messages"].read(path, "k"))
    report = tally("odd", "messages", events)
    assert (report.user, report.assistant, report.tool, report.opaque) == (1, 1, 1, 3)
    assert [line for line, _ in report.bad] == [3, 4]
    assert not [part for part in parts(path, "messages") if isinstance(part, Image)]


# --- agents' runs


@pytest.mark.skipif(not REAL.is_dir(), reason="the real conversations are not beside the clone")
@pytest.mark.parametrize(
    ("name", "format", "figures"),
    [
        ("swe-agent/marshmallow.traj", "swe-agent", (1, 13, 13, 1, 13, 13, 0, 0)),
        ("openhands/goal-events.jsonl", "openhands", (0, 2, 3, 0, 2, 3, 0, 1)),
    ],
)
async def test_real_runs_give_their_figures_and_nothing_the_second_time(
    name: str, format: str, figures: tuple[int, ...], store_path: Path
) -> None:
    async with serving(store_path) as service:
        report = (await service.import_file(REAL / name)).report
        counted = (report.user, report.assistant, report.tool, report.system)
        calls = (report.tool_calls, report.tool_results, report.unanswered, report.orphans)
        assert (report.format, counted + calls) == (format, figures)
        assert report.rows_added == sum(counted)
        assert (report.bad_lines, report.opaque) == (0, 0)
        again = (await service.import_file(REAL / name)).report
        assert (again.rows_added, again.conflicts) == (0, ())


def test_a_trajectory_without_a_history_is_read_from_its_steps(tmp_path: Path) -> None:
    step = {"action": "ls", "observation": "a b", "response": "I look.\nls", "thought": "I look."}
    path = written(tmp_path / "run.traj", {"trajectory": [step, step], "info": {}, "environment": "x"})
    assert detect(path) == "swe-agent"
    assert [part.text for part in parts(path, "swe-agent")] == ["I look.\nls", "a b"] * 2


def test_openhands_messages_summaries_and_failures_are_told_apart(tmp_path: Path) -> None:
    base = {"timestamp": "2026-01-01T00:00:00", "source": "user"}
    text = [{"type": "text", "text": "do it", "cache_prompt": False}]
    lines: list[dict[str, Any]] = [
        {"id": "1", "kind": "SystemPromptEvent", "system_prompt": text[0], "tools": [], **base},
        {"id": "2", "kind": "MessageEvent", "llm_message": {"role": "user", "content": text}, **base},
        {"id": "3", "kind": "AgentErrorEvent", "error": "no", "tool_call_id": "c", **base},
        {"id": "4", "kind": "Condensation", "summary": "so far", "forgotten_event_ids": ["2"], **base},
        {"id": "5", "kind": "PauseEvent", **base},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert detect(path) == "openhands"
    found = entries(path, "openhands")
    assert [(entry.draft.role, entry.draft.active) for entry in found] == [
        ("system", True),
        ("user", True),
        ("tool", True),
        ("user", False),
    ]
    assert found[1].draft.parts == (Text("do it"),)
