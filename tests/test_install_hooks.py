"""The hooks that `install claude-code` writes: beside those of others, and out again without a trace."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import Cli
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp import clients
from lcm_mcp.clients import CLIENTS, jsonc
from lcm_mcp.clients.hooks import EVENTS
from lcm_mcp.clients.installing import BEFORE
from lcm_mcp.errors import InstallRefused

CODE = CLIENTS["claude-code"]
THEIRS = """{
  // what I allow
  "permissions": { "allow": ["Bash(ls:*)"] },
  "hooks": {
    "Stop": [
      {
        "hooks": [{ "type": "command", "command": "say done" }] // my own
      },
      { "matcher": "x", "hooks": [{ "type": "command", "command": "lcm-mcp-like hook claude" }] },
    ],
    "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "check" }] }]
  }
}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (home / ".claude").mkdir(parents=True)
    return home


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    return Cli(capsys, tmp_path / "a store" / "lcm.sqlite")


def settings(home: Path, text: str | None = None) -> Path:
    file = home / ".claude" / "settings.json"
    if text is not None:
        file.write_bytes(text.encode())
    return file


def put(cli: Cli) -> str:
    """Write the hooks as install does, without the start that proves the entry."""
    command = clients.hook_for(CODE, cli.db)
    assert clients.install_hooks(CODE, command) is not None
    return command


@pytest.mark.parametrize(
    "text", [THEIRS, "{}", "", '{"hooks": {}, "model": "opus"}\n', THEIRS.replace("\n", "\r\n")]
)
def test_they_stand_at_the_end_of_each_event_and_undoing_gives_back_the_very_file(
    text: str, home: Path, cli: Cli
) -> None:
    file = settings(home, text)
    command = put(cli)
    written = file.read_bytes().decode()
    there, was = jsonc.load(written), jsonc.load(text)
    hooks: Any = there.pop("hooks")
    before: Any = was.pop("hooks", {})
    assert there == was
    for event in EVENTS:
        group = {"hooks": [{"type": "command", "command": command, "timeout": 10}]}
        assert hooks.pop(event) == [*before.pop(event, []), group]
    assert hooks == before
    assert ("// my own" in written) == ("// my own" in text)
    assert put(cli) == command
    assert file.read_bytes().decode() == written
    assert clients.undo_hooks(CODE) is not None
    assert (file.read_bytes().decode() if file.exists() else "") == (text if text.strip() else "")
    assert clients.undo_hooks(CODE) is None
    assert not file.with_name(file.name + BEFORE).exists()


def test_undoing_in_a_file_that_changed_since_takes_out_ours_alone(home: Path, cli: Cli) -> None:
    file = settings(home, THEIRS)
    put(cli)
    file.write_text(file.read_text().replace("say done", "say ready"))
    assert clients.undo_hooks(CODE) is not None
    assert jsonc.load(file.read_text()) == jsonc.load(THEIRS.replace("say done", "say ready"))
    assert "// my own" in file.read_text()


def test_another_store_takes_the_place_of_the_first(home: Path, cli: Cli, tmp_path: Path) -> None:
    file = settings(home, THEIRS)
    put(cli)
    other = clients.hook_for(CODE, tmp_path / "other.sqlite")
    assert clients.install_hooks(CODE, other) is not None
    assert file.read_text().count("hook claude-code") == len(EVENTS)
    assert file.read_text().count("other.sqlite") == len(EVENTS)
    assert clients.undo_hooks(CODE) is not None
    assert file.read_text() == THEIRS


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": {', "[1]"])
def test_a_file_of_another_shape_is_refused_and_left(text: str, home: Path, cli: Cli) -> None:
    file = settings(home, text)
    with pytest.raises(InstallRefused, match="It was not changed; docs"):
        put(cli)
    assert file.read_text() == text


def test_the_command_that_is_written_runs_and_takes_a_session_in(
    home: Path, cli: Cli, tmp_path: Path
) -> None:
    settings(home)
    cli.db.parent.mkdir()
    command = put(cli)
    transcript = tmp_path / "talk.jsonl"
    message = {"role": "user", "content": "from the hook"}
    line = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "message": message}
    transcript.write_text(json.dumps(line) + "\n")
    event = {"hook_event_name": "Stop", "transcript_path": str(transcript)}
    ended = subprocess.run(
        command, shell=True, input=json.dumps(event), capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert "from the hook" in cli.done("expand", "e1", "--session", "s")


def test_install_writes_them_and_undo_takes_them_out_with_the_entry(home: Path, cli: Cli) -> None:
    cli.db.parent.mkdir()
    file = settings(home)
    said = cli.done("install", "claude-code")
    assert f"{file} has the hooks for Claude Code." in said
    assert set(jsonc.load(file.read_text())) == {"hooks"}
    assert str(file) in cli("install", "claude-code", "--print").err
    said = cli.done("install", "claude-code", "--undo")
    assert f"{file} held nothing else and was removed." in said
    assert not file.exists()
    assert "nothing to undo" in cli.refusal("install", "claude-code", "--undo")


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    items=st.lists(_VALUES, max_size=4),
    others=st.dictionaries(st.text(max_size=4), _VALUES, max_size=3),
    value=_VALUES,
    indent=st.sampled_from([None, 1, "\t"]),
)
def test_an_item_is_pushed_to_the_end_of_a_list_and_pulled_from_any_place(
    items: list[Any], others: dict[str, Any], value: Any, indent: int | str | None
) -> None:
    whole = {**others, "k": {**others, "n": items}}
    text = json.dumps(whole, indent=indent)
    pushed = jsonc.push(text, "k", "n", value)
    assert jsonc.load(pushed) == {**whole, "k": {**others, "n": [*items, value]}}
    for index in range(len(items) + 1):
        left = [*items, value]
        del left[index]
        expected = (
            {**others, "n": left} if left else {name: each for name, each in others.items() if name != "n"}
        )
        assert jsonc.load(jsonc.pull(pushed, "k", "n", index)) == {**whole, "k": expected}
