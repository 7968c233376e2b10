"""OpenCode and Cursor keep conversations in databases, which are read and left as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest
from imported import entries, events_of, report_of, sessions, told
from stores import serving

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import SessionFound, Trouble, can_follow, detect
from lcm_mcp.transcript.model import Image, Opaque, Reasoning, Text, ToolCall, ToolResult

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DONE = {"created": 1_700_000_000_000, "completed": 1_700_000_001_000}
MESSAGES: list[tuple[str, dict[str, object], list[dict[str, object]]]] = [
    (
        "msg_1",
        {"role": "user", "time": DONE},
        [
            {"id": "prt_1", "type": "text", "text": "look"},
            {"id": "prt_2", "type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PIXEL}"},
        ],
    ),
    (
        "msg_2",
        {"role": "assistant", "time": DONE, "parentID": "msg_1"},
        [
            {"id": "prt_3", "type": "step-start"},
            {"id": "prt_4", "type": "reasoning", "text": "hm", "metadata": {"k": 1}},
            {
                "id": "prt_5",
                "type": "tool",
                "callID": "c1",
                "tool": "task",
                "state": {
                    "status": "completed",
                    "input": {"prompt": "dig"},
                    "output": "found",
                    "metadata": {"sessionId": "ses_child"},
                },
            },
            {"id": "prt_6", "type": "text", "text": "done"},
            {"id": "prt_7", "type": "from-the-future", "x": 1},
        ],
    ),
    ("msg_3", {"role": "user", "time": DONE}, [{"id": "prt_8", "type": "compaction", "auto": True}]),
    (
        "msg_4",
        {"role": "assistant", "summary": True, "time": DONE},
        [{"id": "prt_9", "type": "text", "text": "sum"}],
    ),
    (
        "msg_5",
        {"role": "assistant", "time": {"created": 1}},
        [
            {"id": "prt_a", "type": "text", "text": "half"},
            {"id": "prt_b", "type": "tool", "callID": "c2", "tool": "bash", "state": {"status": "running"}},
            {"id": "prt_c", "type": "tool", "callID": "c3", "tool": "bash", "state": {"status": "pending"}},
        ],
    ),
]
TOLD: list[tuple[Any, ...]] = [
    (Text("look"), Image),
    (Reasoning("hm", {"metadata": {"k": 1}}),),
    (ToolCall("c1", "task", {"prompt": "dig"}),),
    (ToolResult("c1", (Text("found"),), extra={"name": "task"}),),
    (Text("done"),),
    (Opaque({"id": "prt_7", "type": "from-the-future", "x": 1}),),
    (Text("sum"),),
    (ToolCall("c2", "bash", None),),
]


def opencode(path: Path, messages: Iterable[tuple[str, object, list[dict[str, object]]]]) -> Path:
    db = apsw.Connection(str(path))
    for statement in (
        "CREATE TABLE project(id TEXT PRIMARY KEY, worktree TEXT)",
        """CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
            title TEXT, time_created INTEGER)""",
        "CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)",
        "CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)",
        "INSERT INTO session VALUES('ses_main', 'p', NULL, '/p', 'Looking', 1)",
        "INSERT INTO session VALUES('ses_child', 'p', 'ses_main', '/p', 'Digging', 2)",
        """INSERT INTO message VALUES('msg_x', 'ses_child', 1, '{"role":"user"}')""",
        """INSERT INTO part VALUES('prt_x', 'msg_x', 'ses_child', '{"type":"text","text":"dig"}')""",
    ):
        db.execute(statement)
    for number, (name, info, parts) in enumerate(messages):
        db.execute("INSERT INTO message VALUES(?, 'ses_main', ?, ?)", (name, number, json.dumps(info)))
        for part in parts:
            data = json.dumps({key: value for key, value in part.items() if key != "id"})
            db.execute("INSERT INTO part VALUES(?, ?, 'ses_main', ?)", (str(part["id"]), name, data))
    db.close()
    return path


def exported(path: Path) -> Path:
    messages = [{"info": {"id": name, **info}, "parts": parts} for name, info, parts in MESSAGES]
    info = {"id": "ses_main", "title": "Looking", "directory": "/p"}
    path.write_text(json.dumps({"info": info, "messages": messages}, indent=1))
    return path


def in_folder(storage: Path) -> Path:
    def put(name: str, value: object) -> Path:
        path = storage / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1))
        return path

    for name, info, parts in MESSAGES:
        put(f"message/ses_main/{name}", {"id": name, **info})
        for part in parts:
            put(f"part/{name}/{part['id']}", part)
    main: dict[str, object] = {"id": "ses_main", "title": "Looking", "directory": "/p", "time": {}}
    return put("session/hash/ses_main", main)


@pytest.mark.parametrize("form", ["database", "export", "folder"])
def test_an_opencode_session_says_the_same_in_all_three_forms(form: str, tmp_path: Path) -> None:
    path = (
        opencode(tmp_path / "opencode.db", MESSAGES)
        if form == "database"
        else exported(tmp_path / "export.json")
        if form == "export"
        else in_folder(tmp_path / "storage")
    )
    assert detect(path) == "opencode"
    assert not can_follow(path, "opencode")
    events = events_of("opencode", path)
    assert sessions(events)[0] == SessionFound("ses_main", "Looking", "/p")
    drafts = [entry.draft for entry in entries(events) if entry.session_key == "ses_main"]
    wanted: list[list[Any]] = [list(parts) for parts in TOLD]
    assert isinstance(drafts[0].parts[1], Image)
    wanted[0] = list(drafts[0].parts)
    assert [list(draft.parts) for draft in drafts] == wanted
    assert [draft.active for draft in drafts] == [True] * 6 + [False, True]
    report = report_of("opencode", path)
    assert (report.bad_lines, report.glued, report.other) == (0, 0, {"compaction": 1})


def test_a_subagent_of_a_database_hangs_on_the_call_that_started_it(tmp_path: Path) -> None:
    found = sessions(events_of("opencode", opencode(tmp_path / "opencode.db", MESSAGES)))
    assert found[1] == SessionFound("ses_child", "Digging", "/p", "ses_main", "prt_5")
    assert len(found) == 2


async def test_a_database_imported_again_adds_what_has_ended_since(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    added: list[int] = []
    async with serving(tmp_path / "lcm.sqlite") as service:
        for messages in (MESSAGES[:2], MESSAGES[:2], MESSAGES, [*MESSAGES, asked("z", "more")], MESSAGES[:4]):
            path.unlink(missing_ok=True)
            outcome = await service.import_file(opencode(path, messages), fold=False)
            added.append(outcome.report.rows_added)
    assert added == [7, 0, 2, 1, 0]


async def test_a_prompt_in_the_place_of_one_that_was_taken_back_makes_a_branch(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    async with serving(tmp_path / "lcm.sqlite") as service:
        for last in ("so", "else"):
            path.unlink(missing_ok=True)
            await service.import_file(opencode(path, [*MESSAGES[:2], asked(last, last)]), fold=False)
        tree = await service.tree("ses_main")
    assert [branch.rows for branch in tree.branches] == [7, 1]


def asked(name: str, text: str) -> tuple[str, dict[str, object], list[dict[str, object]]]:
    return f"msg_{name}", {"role": "user"}, [{"id": f"prt_{name}", "type": "text", "text": text}]


# Cursor


def cursor(path: Path, *records: tuple[str, object]) -> Path:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE ItemTable(key TEXT, value BLOB)")
    db.execute("CREATE TABLE cursorDiskKV(key TEXT PRIMARY KEY, value BLOB)")
    for key, value in records:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        db.execute("INSERT INTO cursorDiskKV VALUES(?, ?)", (key, content))
    db.close()
    return path


CALL = {"toolCallId": "c1", "name": "read", "rawArgs": '{"p": 1}', "status": "completed", "result": "text"}
COMPOSER = {
    "name": "Looking",
    "workspaceIdentifier": {"uri": {"fsPath": "/p"}},
    "fullConversationHeadersOnly": [{"bubbleId": name} for name in ("b1", "b2", "b3", "gone")],
}
BUBBLES: tuple[tuple[str, Any], ...] = (
    ("composerData:one", COMPOSER),
    ("bubbleId:one:b1", {"type": 1, "text": "look", "createdAt": "2026-01-01T00:00:00Z"}),
    ("bubbleId:one:b2", {"type": 2, "thinking": {"text": "hm", "signature": "S"}, "toolFormerData": CALL}),
    ("bubbleId:one:b3", {"type": 2, "text": "done"}),
    ("bubbleId:one:deleted", {"type": 1, "text": "never"}),
    (
        "composerData:two",
        {"conversation": [{"type": 1, "bubbleId": "x", "text": "old"}], "subagentInfo": None},
    ),
    ("composerData:zzz", {"fullConversationHeadersOnly": []}),
)


def test_cursors_conversations_are_read_in_the_order_that_they_list(tmp_path: Path) -> None:
    path = cursor(tmp_path / "state.vscdb", *BUBBLES)
    assert detect(path) == "cursor"
    events = events_of("cursor", path)
    assert sessions(events) == [SessionFound("one", "Looking", "/p"), SessionFound("two", None, None)]
    assert [entry.draft.parts for entry in entries(events)] == [
        (Text("look"),),
        (Reasoning("hm", {"signature": "S"}),),
        (ToolCall("c1", "read", {"p": 1}),),
        (ToolResult("c1", (Text("text"),), extra={"name": "read"}),),
        (Text("done"),),
        (Text("old"),),
    ]
    assert [event.problem for event in events if isinstance(event, Trouble)] == [
        "a message is missing or cannot be read"
    ]


def test_a_conversation_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    path = cursor(tmp_path / "state.vscdb", ("composerData:a", b"\xff{"), *BUBBLES)
    assert [text for _, text in told(events_of("cursor", path))][-1] == "old"
    assert report_of("cursor", path).bad_lines == 2


# Any database


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_nothing_is_written_beside_a_database_that_is_read(mode: str, tmp_path: Path) -> None:
    path = cursor(tmp_path / "state.vscdb", *BUBBLES)
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    db.execute("INSERT INTO ItemTable VALUES('a', 'b')")
    db.close()
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    assert len(entries(events_of("cursor", path))) == 6
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_what_a_program_wrote_to_its_open_database_is_read(tmp_path: Path) -> None:
    path = cursor(tmp_path / "state.vscdb", *BUBBLES[:-2])
    live = apsw.Connection(str(path))
    live.execute("PRAGMA journal_mode = wal").fetchall()
    live.execute(
        "INSERT INTO cursorDiskKV VALUES(?, ?)", (BUBBLES[-2][0], json.dumps(BUBBLES[-2][1]).encode())
    )
    assert told(events_of("cursor", path))[-1] == ("user", "old")
    live.execute("DELETE FROM cursorDiskKV")
    live.close()


async def test_another_programs_database_is_refused_as_one(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        with pytest.raises(ImportRefused, match="an SQLite database"):
            await service.import_file(tmp_path / "lcm.sqlite")
        with pytest.raises(ImportRefused, match="an SQLite database"):
            await service.import_file(tmp_path / "lcm.sqlite", format="codex")


@pytest.mark.parametrize("keep", [100, 4_000, 9_000])
def test_a_damaged_database_gives_what_can_be_read_of_it(keep: int, tmp_path: Path) -> None:
    path = opencode(tmp_path / "opencode.db", MESSAGES)
    path.write_bytes(path.read_bytes()[:keep])
    for name in ("opencode", "cursor"):
        events = events_of(name, path)
        assert any(isinstance(event, Trouble) for event in events)
