"""Gemini CLI chats are read in all their forms, and as they stand after rewinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported import entries, events_of, report_of, sessions, shared_file, told, write
from stores import serving

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import SessionFound, detect
from lcm_mcp.transcript.model import BEGINNING, Image, Opaque, Reasoning, Text, ToolCall, ToolResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HEADER = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "kind": "main"}


def said(name: str, content: object, kind: str = "user", **more: object) -> dict[str, object]:
    return {"id": name, "timestamp": "2026-01-01T00:00:00Z", "type": kind, "content": content, **more}


def called(status: str, **more: object) -> dict[str, object]:
    return {"id": "c1", "name": "ls", "args": {"p": "."}, "status": status, **more}


@pytest.mark.parametrize(
    ("name", "user", "assistant", "tool", "reasoning"),
    [
        ("series-growing/1", 1, 3, 1, 3),
        ("series-growing/2", 1, 9, 4, 7),
        ("series-growing/3", 1, 19, 9, 15),
        ("thoughts", 2, 6, 2, 6),
        ("warning-only", 0, 0, 0, 0),
    ],
)
def test_a_real_chat_gives_all_it_holds(
    name: str, user: int, assistant: int, tool: int, reasoning: int
) -> None:
    path = shared_file(f"gemini/{name}.json")
    assert detect(path) == "gemini"
    report = report_of("gemini", path)
    assert (report.user, report.assistant, report.tool, report.reasoning) == (
        user,
        assistant,
        tool,
        reasoning,
    )
    assert (report.unanswered, report.orphans, report.bad_lines, report.glued) == (0, 0, 0, 0)
    assert report.objects == len(json.loads(path.read_bytes())["messages"])


@pytest.mark.parametrize("order", ["123", "321", "213", "3"])
async def test_a_chat_that_grew_is_the_same_in_whatever_order_its_versions_come(
    order: str, tmp_path: Path
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        for number in order:
            await service.import_file(shared_file(f"gemini/series-growing/{number}.json"), fold=False)
        (found,) = (await service.sessions(project="*")).sessions
        tree = await service.tree(found.key)
    assert (found.rows, len(tree.branches)) == (29, 1)


def test_a_message_that_is_written_again_adds_what_is_new(tmp_path: Path) -> None:
    answer = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.txt"}}}]
    path = write(
        tmp_path / "session-1.jsonl",
        HEADER,
        said("u1", [{"text": "list"}]),
        said("m1", "I look", "gemini", thoughts=[{"subject": "S", "description": "D"}]),
        said("m1", "I look", "gemini", thoughts=[{"subject": "S", "description": "D"}], tokens={"total": 5}),
        said(
            "m1",
            "I look",
            "gemini",
            thoughts=[{"subject": "S", "description": "D"}],
            toolCalls=[called("executing")],
        ),
        said(
            "m1",
            "I look",
            "gemini",
            thoughts=[{"subject": "S", "description": "D"}],
            toolCalls=[called("success", result=answer)],
        ),
        {"$set": {"lastUpdated": "x"}},
        said("n1", "careful", "warning"),
    )
    assert detect(path) == "gemini"
    events = events_of("gemini", path)
    assert [entry.draft.parts for entry in entries(events)] == [
        (Text("list"),),
        (Reasoning("S\nD"), Text("I look")),
        (ToolCall("c1", "ls", {"p": "."}),),
        (ToolResult("c1", (Text("a.txt"),)),),
    ]
    assert sessions(events) == [SessionFound("s", "list", None)]
    report = report_of("gemini", path)
    assert report.other == {"$set": 1, "header": 1, "repeated": 1, "warning": 1}
    assert (report.objects, report.glued) == (8, 0)


def test_what_follows_a_rewind_hangs_before_the_message_that_it_names(tmp_path: Path) -> None:
    path = write(
        tmp_path / "session-1.jsonl",
        HEADER,
        said("u1", "one"),
        said("m1", "1", "gemini"),
        said("u2", "two"),
        said("m2", "2", "gemini"),
        {"$rewindTo": "u2"},
        said("u3", "three"),
        {"$rewindTo": "u1"},
        said("u4", "four"),
        {"$set": {"messages": [said("u4", "four"), said("m4", "4", "gemini")]}},
    )
    drafts = [entry.draft for entry in entries(events_of("gemini", path))]
    assert [draft.parent for draft in drafts] == [None] * 4 + ["m1", BEGINNING, None]
    assert drafts[-1].entry_id == "m4"


def test_parts_and_calls_of_every_kind_are_kept(tmp_path: Path) -> None:
    content = [
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"fileData": {"fileUri": "gs://x"}},
        {"text": "hm", "thought": True},
        "bare",
    ]
    path = write(
        tmp_path / "session-1.jsonl",
        HEADER,
        said("u1", content),
        said("m1", "", "gemini", toolCalls=[called("error", resultDisplay="no such folder"), 7, {"id": "x"}]),
        said("m2", {"text": "new"}, "oracle"),
    )
    parts = [entry.draft.parts for entry in entries(events_of("gemini", path))]
    assert [type(part) for part in parts[0]] == [Text, Image, Opaque, Reasoning, Text]
    assert parts[1:] == [
        (ToolCall("c1", "ls", {"p": "."}),),
        (Opaque({"id": "x"}),),
        (ToolResult("c1", (Text("no such folder"),), True),),
        (Text("new"),),
    ]


def test_a_subagents_chat_is_a_child_and_the_project_is_what_the_client_noted(tmp_path: Path) -> None:
    (tmp_path / ".project_root").write_text("/home/p\n")
    path = write(
        tmp_path / "chats" / "main" / "sub.jsonl", {**HEADER, "kind": "subagent"}, said("u1", "do it")
    )
    assert sessions(events_of("gemini", path)) == [SessionFound("s", "do it", "/home/p", "main")]


@pytest.mark.parametrize("bare", [True, False])
def test_a_saved_checkpoint_is_a_session_of_its_own(bare: bool, tmp_path: Path) -> None:
    turns: list[object] = [
        {"role": "user", "parts": [{"text": "list"}]},
        {"role": "model", "parts": [{"text": "ok"}, {"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"error": "no"}}}]},
    ]
    path = tmp_path / "checkpoint-mine.json"
    path.write_text(json.dumps(turns if bare else {"history": turns}, indent=1))
    assert detect(path) == "gemini"
    events = events_of("gemini", path)
    assert told(events)[0] == ("user", "list")
    assert entries(events)[1].draft.parts[1] == ToolCall("@2/1", "ls", {})
    assert entries(events)[2].draft.parts == (ToolResult("@2/1", (Text("no"),), True, {"name": "ls"}),)
    assert report_of("gemini", path).unanswered == 0
    assert sessions(events)[0].native_id == str(path)


def test_a_document_that_was_cut_short_or_is_another_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps({**HEADER, "messages": [said("u1", "one")]}, indent=1)[:-9])
    with pytest.raises(ImportRefused, match="one JSON document"):
        detect(path)
    assert report_of("gemini", path).bad_lines == 1
    path.write_text('{\n"messages": []\n}')
    with pytest.raises(ImportRefused, match="one JSON document"):
        detect(path)
