"""Whatever a file in a known format holds, reading it ends in a report, or in words."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from imported import SHARED
from test_import_databases import BUBBLES, MESSAGES, cursor, exported, opencode
from test_importers import damaged

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import FORMATS, detect, tally
from lcm_mcp.transcript.importers.report import Entry
from lcm_mcp.transcript.sealing import seal

TEXT: list[Any] = [{"type": "text", "text": "t"}]
LINES: dict[str, list[Any]] = {
    "codex": [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/p", "source": {"subagent": {}}}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": TEXT}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "t", "images": []}},
        {"type": "response_item", "payload": {"type": "reasoning", "summary": TEXT, "content": TEXT}},
        {
            "type": "response_item",
            "payload": {"type": "function_call", "name": "spawn_agent", "call_id": "c"},
        },
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": {}}},
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        {"type": "compacted", "payload": {"message": "m", "replacement_history": TEXT}},
        {"type": "event_msg", "payload": {"type": "collab_agent_spawn_end", "call_id": "c"}},
    ],
    "pi": [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": TEXT}},
        {"type": "message", "id": "b", "parentId": "a", "message": {"role": "assistant", "content": TEXT}},
        {"type": "message", "id": "c", "parentId": "b", "message": {"role": "toolResult", "toolCallId": "x"}},
        {"type": "message", "id": "d", "parentId": "a", "message": {"role": "bashExecution", "command": "l"}},
        {"type": "compaction", "id": "e", "parentId": "d", "summary": "s", "tokensBefore": 1},
        {"type": "session_info", "id": "f", "parentId": "e", "name": "n"},
    ],
    "gemini": [
        {"sessionId": "s", "projectHash": "h", "kind": "main", "directories": ["/p"]},
        {"id": "a", "type": "user", "content": [{"text": "t"}], "timestamp": "2026-01-01T00:00:00Z"},
        {
            "id": "b",
            "type": "gemini",
            "content": "c",
            "thoughts": [{"subject": "s"}],
            "toolCalls": [{"id": "c"}],
        },
        {"$rewindTo": "b"},
        {"$set": {"messages": [{"id": "a", "type": "user", "content": "t"}]}},
    ],
    "claude-code": [
        {"type": "summary", "summary": "s", "leafUuid": "a"},
        {"type": "user", "uuid": "a", "sessionId": "s", "message": {"role": "user", "content": TEXT}},
        {"type": "attachment", "uuid": "b", "attachment": {"type": "queued_command", "prompt": TEXT}},
        {"type": "user", "uuid": "c", "toolUseResult": {"agentId": "x"}, "message": {"content": TEXT}},
    ],
    "neutral": [{"session": "s"}, {"role": "user", "content": TEXT}],
}
BOMB = b'{"type":"message","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1.5,
    10**30,
    "",
    "\ud800",
    [],
    {},
    [[]],
    [None, 7, "x", {}],
    {"type": 5},
)


def read_all(path: Path) -> None:
    """As every format, up to what would be stored."""
    with suppress(ImportRefused):
        detect(path)
    for known in FORMATS.values():
        events = list(known.read(path, None))
        for event in events:
            if isinstance(event, Entry):
                seal(event.draft)
        tally(str(path), known.name, events)


def lines_of(name: str, records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", LINES)
def test_damaged_lines_end_in_a_report(name: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{name}{seed}")
    path = tmp_path / "a.jsonl"
    path.write_bytes(damaged(lines_of(name, LINES[name]) * 2, chance))
    read_all(path)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", LINES)
def test_fields_of_any_type_end_in_a_report(name: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{name}{seed}")
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of(name, [twisted(record, chance) for record in LINES[name] * 3]))
    read_all(path)


def twisted(value: Any, chance: random.Random) -> Any:
    """The value with something in it replaced, taken out, or put into a list."""
    if chance.random() < 0.1:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if chance.random() > 0.05}  # pyright: ignore
        return {key: twisted(each, chance) for key, each in kept.items()}  # pyright: ignore
    if isinstance(value, list):
        return [twisted(each, chance) for each in value]  # pyright: ignore
    return value


@pytest.mark.parametrize("seed", range(12))
def test_documents_of_any_shape_end_in_a_report(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    export = json.loads(exported(tmp_path / "e.json").read_bytes())
    turns = [{"role": "user", "parts": [{"text": "t"}, {"functionCall": {"name": "n"}}]}]
    chat = {**LINES["gemini"][0], "messages": LINES["gemini"][1:]}
    for document in (export, turns, {"history": turns}, chat):
        path = tmp_path / "a.json"
        path.write_text(json.dumps(twisted(document, chance), indent=chance.choice([None, 1])))
        read_all(path)
        path.write_bytes(damaged(json.dumps(document, indent=1).encode(), chance))
        read_all(path)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_databases_end_in_a_report(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    twisted_messages = [(name, twisted(info, chance), parts) for name, info, parts in MESSAGES]
    one = opencode(tmp_path / "opencode.db", twisted_messages)
    two = cursor(tmp_path / "state.vscdb", *((key, twisted(value, chance)) for key, value in BUBBLES))
    for path in (one, two):
        read_all(path)
        path.write_bytes(damaged(path.read_bytes(), chance))
        read_all(path)


@pytest.mark.parametrize("content", [BOMB, BOMB.replace(b"\n", b""), b"[" * 500_000, b'[\n{"a":' * 100_000])
def test_depth_bombs_end_in_a_report(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of("pi", LINES["pi"]) + content)
    read_all(path)
    path.write_bytes(content)
    read_all(path)


@pytest.mark.parametrize("agent", ["codex", "gemini", "pi"])
def test_every_shared_file_survives_damage(agent: str, tmp_path: Path) -> None:
    sources = [each for each in sorted((SHARED / agent).rglob("*.json*")) if each.stat().st_size < 100_000]
    if not sources:
        pytest.skip(f"{SHARED} is absent")
    chance = random.Random(agent)
    for source in sources * 3:
        path = tmp_path / source.name
        path.write_bytes(damaged(source.read_bytes(), chance))
        read_all(path)
