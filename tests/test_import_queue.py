"""Prompts that waited in Claude Code's queue: what was said stays said, once, whatever lines tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stores import serving
from test_importers import data_file

from lcm_mcp.transcript.importers import Entry, claude_code, tally
from lcm_mcp.transcript.importers.fields import plain_text


def message(uuid: str, text: str, role: str = "user", id: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}]}
    if role == "assistant":
        told["id"] = id or uuid
    return {
        "type": role,
        "uuid": uuid,
        "sessionId": "s",
        "message": told,
        "timestamp": "2026-02-15T04:00:00Z",
    }


def queue(operation: str, content: str | None = None, **more: str) -> dict[str, Any]:
    told = {} if content is None else {"content": content}
    return {
        "type": "queue-operation",
        "operation": operation,
        "timestamp": "2026-02-15T04:00:01Z",
        **told,
        **more,
    }


def attached(uuid: str, prompt: str) -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
    return {"type": "attachment", "uuid": uuid, "sessionId": "s", "attachment": attachment}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def told(path: Path) -> list[tuple[str, str]]:
    events = [event for event in claude_code.read(path) if isinstance(event, Entry)]
    return [(event.draft.entry_id or "", plain_text(event.draft.parts)) for event in events]


FIRST, LAST = message("u1", "go"), message("a9", "done", "assistant")
STEP = message("a1", "step", "assistant")


@pytest.mark.parametrize(
    "leaving",
    [
        [queue("remove")],
        [queue("remove", "and this")],
        [queue("remove", "and this", reason="absorbed_mid_turn")],
        [queue("dequeue")],
    ],
)
def test_a_prompt_that_only_the_queue_tells_is_a_row_before_the_model_goes_on(
    leaving: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = write(tmp_path / "s.jsonl", FIRST, STEP, queue("enqueue", "and this"), *leaving, LAST)
    assert told(path) == [("u1", "go"), ("a1", "step"), ("line:4", "and this"), ("a9", "done")]
    report = tally(str(path), "claude-code", claude_code.read(path))
    assert (report.user, report.queued, report.other["queue-operation"]) == (1, 1, 2)


@pytest.mark.parametrize(
    "lines",
    [
        [queue("dequeue"), message("u2", "and this")],
        [queue("remove"), attached("u2", "and this")],
        [queue("remove", "and this"), message("u2", "before\nand this\nafter")],
    ],
)
def test_a_prompt_that_a_message_tells_is_that_message_alone(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = write(tmp_path / "s.jsonl", FIRST, queue("enqueue", "and this"), *lines, LAST)
    assert [name for name, _ in told(path)] == ["u1", "u2", "a9"]


@pytest.mark.parametrize(
    "lines",
    [
        [queue("enqueue", "and this"), queue("popAll", "and this")],
        [queue("enqueue", "and this")],
        [queue("enqueue", "and this"), queue("remove", "and this", reason="cancelled")],
        [queue("enqueue", "<task-notification>done</task-notification>"), queue("remove")],
        [queue("enqueue", "/exit"), queue("remove")],
        [queue("enqueue"), queue("remove")],
        [queue("remove"), queue("dequeue"), queue("popAll")],
    ],
)
def test_what_the_model_was_not_given_or_nobody_said_is_no_row(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = write(tmp_path / "s.jsonl", FIRST, *lines, LAST)
    assert [name for name, _ in told(path)] == ["u1", "a9"]


def test_several_leave_in_order_and_never_within_a_model_message(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        FIRST,
        message("a1", "one", "assistant", "m1"),
        queue("enqueue", "first"),
        queue("enqueue", "second"),
        queue("remove"),
        message("a2", "two", "assistant", "m1"),
        queue("remove"),
        message("u2", "second"),
        LAST,
    )
    assert [text for _, text in told(path)] == ["go", "one", "two", "second", "first", "done"]


async def test_a_followed_file_remembers_its_queue_and_a_repeat_adds_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", FIRST, STEP, queue("enqueue", "and this"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(path, fold=False)
        for line in (queue("remove"), LAST):
            with path.open("a") as more:
                more.write(json.dumps(line) + "\n")
            page = await service.expand("e1..e2", "s")
        page = await service.expand("e1..e4", "s")
        assert [row.text for row in page.rows] == ["go", "step", "and this", "done"]
        assert page.rows[2].role == "user"
        again = await service.import_file(path, fold=False)
        assert (again.sessions[0].rows_added, again.sessions[0].conflicts) == (0, ())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("late-timestamps.jsonl", ["logs were running default in the test repo", "try again now"]),
        ("image-twice-961kb-line.jsonl", ["context: the screenshot", "I've also seen", "I've also seen"]),
        ("fork-heavy-dangling-parents.jsonl", ["were we including the tool responses"]),
    ],
)
def test_real_files_tell_of_prompts_that_way(name: str, said: list[str]) -> None:
    path = data_file(name)
    found = [event for event in claude_code.read(path) if isinstance(event, Entry) and event.queued]
    texts = [plain_text(event.draft.parts) for event in found]
    assert [text.startswith(start) for text, start in zip(texts, said, strict=True)] == [True] * len(said)
