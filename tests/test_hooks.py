"""The hooks of clients, played with the JSON that each client documents: they take in, and never harm."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Cli, Ended
from exported import written
from stores import database
from transcripts import SAMPLES

import lcm_mcp
from lcm_mcp.cli.hook import is_hook
from lcm_mcp.service import troubles
from lcm_mcp.service.answers import NodeLine, NodePage
from lcm_mcp.service.hooking import MAX_MAP_BYTES, map_of

DEMO = Path(lcm_mcp.__file__).parent / "demo" / "orphaned-sessions.jsonl.gz"


def told(name: str, transcript: Path | str | None, **more: object) -> dict[str, object]:
    """What clients tell every hook."""
    return {
        "session_id": "abc123",
        "transcript_path": None if transcript is None else str(transcript),
        "cwd": "/home/user/project",
        "hook_event_name": name,
        **more,
    }


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


def hook(cli: Cli, monkeypatch: pytest.MonkeyPatch, client: str, document: object) -> Ended:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    ended = cli("hook", client)
    assert (ended.code, ended.err) == (0, "")
    return ended


def line(role: str, text: str, uuid: str) -> str:
    message = {"role": role, "content": text}
    return json.dumps({"type": role, "uuid": uuid, "sessionId": "s-1", "message": message}) + "\n"


def rows(cli: Cli, session: str) -> list[str]:
    return [row["text"] for row in cli.answer("--session", session, "expand", "e1..e2")["rows"]]


CLAUDE_CODE: list[dict[str, Any]] = [
    {"name": "SessionStart", "source": "startup", "model": "claude-x"},
    {"name": "UserPromptSubmit", "prompt": "hello", "permission_mode": "default"},
    {"name": "PostToolUse", "tool_name": "Write", "tool_input": {}, "tool_response": {"success": True}},
    {"name": "PreCompact", "trigger": "auto", "custom_instructions": ""},
    {"name": "Stop", "stop_hook_active": False},
    {"name": "SessionEnd", "reason": "exit"},
]
CODEX: list[dict[str, Any]] = [
    {"name": "SessionStart", "source": "resume", "model": "gpt-x", "permission_mode": "default"},
    {"name": "Stop", "turn_id": "1", "stop_hook_active": False, "last_assistant_message": "done"},
]
GEMINI: list[dict[str, Any]] = [
    {"name": "SessionStart", "source": "startup", "timestamp": "2026-01-01T00:00:00Z"},
    {"name": "AfterAgent", "prompt": "hello", "prompt_response": "hi", "stop_hook_active": False},
    {"name": "PreCompress", "trigger": "auto"},
]
EVENTS = [
    pytest.param(client, event, id=f"{client} {event['name']}")
    for client, events in (("claude-code", CLAUDE_CODE), ("codex", CODEX), ("gemini", GEMINI))
    for event in events
]


@pytest.mark.parametrize(("client", "event"), EVENTS)
def test_at_every_event_what_is_new_is_taken_in_and_nothing_is_said(
    client: str, event: dict[str, Any], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "s-1.jsonl"
    path.write_text(line("user", "hello", "u1"))
    assert hook(cli, monkeypatch, client, told(transcript=path, **event)).out == ""
    with path.open("a") as file:
        file.write(line("assistant", "good day", "u2"))
    assert hook(cli, monkeypatch, client, told(transcript=path, **event)).out == ""
    path.unlink()  # what is read now was taken in by the hook, not by the read
    assert rows(cli, "s-1") == ["hello", "good day"]


def test_a_transcript_that_a_client_writes_anew_each_time_is_taken_in_too(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "s-1.json"
    talk = [{"role": "user", "content": "hello"}]
    for answer in ("good day", "bye"):
        talk.append({"role": "assistant", "content": answer})
        written(path, talk)
        hook(cli, monkeypatch, "gemini", told("AfterAgent", path))
    path.unlink()
    rows = cli.answer("--session", "s-1", "expand", "e1..e3")["rows"]
    assert [row["text"] for row in rows] == ["hello", "good day", "bye"]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_after_a_compaction_the_agent_is_told_where_every_word_is(
    client: str, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(gzip.decompress(DEMO.read_bytes()))
    said = ""
    while "#" not in said:  # a slow machine may need more than the time of one call
        said = hook(cli, monkeypatch, client, told("SessionStart", path, source="compact")).out
    assert len(said.encode()) <= MAX_MAP_BYTES
    nodes = cli.answer("list", "--frontier")["nodes"]
    assert [each["id"] for each in nodes] == [word.split()[0] for word in said.splitlines() if word[0] == "#"]
    assert "lcm_expand" in said
    session = cli.answer("sessions")["sessions"][0]["key"]
    assert session in said
    assert cli.answer("--session", session, "expand", nodes[0]["id"].replace("#", "n"))["rows"]


def test_a_map_of_many_nodes_keeps_to_its_room_and_shows_the_newest() -> None:
    nodes = tuple(
        NodeLine(f"#{n}", 0, (f"e{n}", f"e{n}"), 1, 5, 9, 0, True, False, "wörter\x1b[31m " * 20, "")
        for n in range(1, 301)
    )
    said = map_of(NodePage("k" * 200, nodes, 300, "e300", "e301", None, None))
    assert len(said.encode()) <= MAX_MAP_BYTES
    assert "#300 e300..e300 (1 row): wörter" in said
    assert "older ones: lcm_list)" in said
    assert "#1 " not in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("client", "document", "words"),
    [
        ("claude-code", b"", "not JSON"),
        ("claude-code", b"[1]", "no JSON object"),
        (
            "claude-code",
            b'{"transcript_path": "/nowhere/x.jsonl", "hook_event_name": "Stop"}',
            "no such file",
        ),
        ("vi", b"{}", "no hook of 'vi' is known"),
    ],
)
def test_trouble_is_silent_for_the_client_and_told_by_doctor_until_it_is_over(
    client: str, document: bytes, words: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hook(cli, monkeypatch, client, document).out == ""
    refusal = cli("doctor")
    assert refusal.code == 1
    assert words in " ".join(refusal.out.split())
    hook(cli, monkeypatch, "claude-code", told("Stop", None))
    healed = cli("doctor")
    assert healed.code == 0
    assert "well again since" in healed.out
    assert words in " ".join(healed.out.split())


def test_a_session_that_has_no_transcript_yet_is_no_trouble(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(cli, monkeypatch, "claude-code", told("SessionStart", "/nowhere/new.jsonl", source="startup"))
    assert "no hook has reported trouble" in cli.done("doctor")


def test_trouble_with_the_store_itself_is_kept_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.db.parent.mkdir(parents=True, exist_ok=True)
    cli.db.write_bytes(b"this is no database at all" * 100)
    assert hook(cli, monkeypatch, "claude-code", told("Stop", SAMPLES / "tiny.jsonl")).out == ""
    assert not troubles.told(cli.db)[0]
    assert "not a store" in troubles.told(cli.db)[1]
    assert troubles.place_of(cli.db).stat().st_mode & 0o077 == 0


def test_only_the_newest_trouble_is_kept(tmp_path: Path) -> None:
    db = tmp_path / "x.sqlite"
    for number in range(troubles.KEPT + 5):
        troubles.note(db, "claude-code", f"problem {number} " + "\udcff" * 2000)
    kept = troubles.kept(db)
    assert len(kept) == troubles.KEPT
    assert (kept[0].problem or "").startswith("problem 5 ")
    troubles.place_of(db).write_bytes(b'{"at": 1}\n\xff\n[]\n')
    assert troubles.kept(db) == []


@pytest.mark.parametrize(
    "arguments", [["hook"], ["hook", "claude-code", "--nonsense"], ["--db", "/", "hook", "x"]]
)
def test_wrong_usage_of_a_hook_is_no_veto(arguments: list[str], cli: Cli) -> None:
    assert cli(*arguments).code == 0


def test_other_commands_keep_their_codes(cli: Cli) -> None:
    assert is_hook(["--quiet", "--db", "a", "hook"])
    assert not is_hook(["grep", "hook"])
    assert cli("grep").code == 2


def test_a_hook_ends_by_itself_where_its_store_is_locked_or_its_client_never_ends_the_json(
    store_path: Path, cli: Cli, tmp_path: Path
) -> None:
    cli("sessions")  # makes the store
    path = tmp_path / "s-1.jsonl"
    path.write_text(line("user", "hello", "u1"))
    command = [sys.executable, "-m", "lcm_mcp", "--db", str(store_path), "hook", "claude-code"]
    with database(store_path) as db, subprocess.Popen(command, stdin=subprocess.PIPE) as waiting:
        db.execute("BEGIN IMMEDIATE")
        ended = subprocess.run(
            command, input=json.dumps(told("Stop", path)), text=True, capture_output=True, timeout=60
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert waiting.wait(timeout=60) == 0
        db.execute("ROLLBACK")
    problems = [each.problem or "" for each in troubles.kept(store_path)]
    assert len(problems) == 2
    assert any("did not come to an end" in each for each in problems)


def test_a_hook_ends_by_itself_where_there_is_far_more_than_its_time_is_enough_for(
    store_path: Path, cli: Cli, tmp_path: Path
) -> None:
    """A hundred thousand rows while another process imports as many, and what is left comes later."""
    ours, theirs = tmp_path / "s-1.jsonl", tmp_path / "other.jsonl"
    ours.write_text("".join(line("user", f"row {n}", f"u{n}") for n in range(100_000)))
    theirs.write_text(ours.read_text().replace('"s-1"', '"other"'))
    program = [sys.executable, "-m", "lcm_mcp", "--db", str(store_path)]
    importing = [*program, "import", "--no-fold", "--json", str(theirs)]
    with subprocess.Popen(importing, stdout=subprocess.DEVNULL) as other:
        ended = subprocess.run(
            [*program, "hook", "claude-code"],
            input=json.dumps(told("Stop", ours)),
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert other.wait(timeout=300) == 0
    problems = [each.problem for each in troubles.kept(store_path)]
    with database(store_path) as db:
        stored = dict(db.execute("SELECT key, next_seq - 1 FROM session"))
    assert stored["other"] == 100_000
    if stored.get("s-1") != 100_000:  # as on any machine so far
        assert "The next call goes on" in str(problems) or "did not come to an end" in str(problems)
    assert cli("import", "--no-fold", "--json", str(ours)).code == 0
    with database(store_path) as db:
        assert dict(db.execute("SELECT key, next_seq - 1 FROM session")) == {"other": 100_000, "s-1": 100_000}


def test_the_settings_that_the_documentation_shows_are_those_of_the_client() -> None:
    page = (Path(lcm_mcp.__file__).parents[1] / "docs" / "live.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert set(shown["hooks"]) == {"SessionStart", "PreCompact", "Stop"}
    commands = [hook for groups in shown["hooks"].values() for group in groups for hook in group["hooks"]]
    for each in commands:
        assert each["type"] == "command"
        assert each["command"].split()[1:] == ["hook", "claude-code"]
        assert each["timeout"] > 5
