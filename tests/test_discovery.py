"""Discovery, with made-up homes: what is there is shown, and imported on a yes, once."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from commands import Cli, Ended
from test_import_databases import MESSAGES, asked, opencode
from transcripts import SAMPLES

VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"),
    *("XDG_DATA_HOME", "XDG_CONFIG_HOME"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return made


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


def session(folder: Path, sample: str, age_s: int) -> Path:
    """A copy of a sample in a client's folder, last written so long ago."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / sample
    shutil.copyfile(SAMPLES / sample, path)
    now = path.stat().st_mtime
    os.utime(path, (now - age_s, now - age_s))
    return path


def discover(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: str, *options: str) -> Ended:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    return cli("import", "--discover", *options)


def test_what_is_there_is_shown_and_imported_on_a_yes_oldest_first_and_once(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".claude" / "projects" / "-home-user-p"
    session(folder, "tiny.jsonl", 10)
    session(folder, "interrupted.jsonl", 30)
    session(folder, "resumed.jsonl", 20)
    for no in ("", "n\n"):
        shown = discover(cli, monkeypatch, no)
        assert "3 files, 0.0 MB, 3 new" in shown.out
        assert "Import 3 files, oldest first?" in shown.err
        assert cli.answer("sessions")["sessions"] == []
    ended = discover(cli, monkeypatch, "y\n")
    assert ended.code == 0
    lines = [line.split()[3] for line in ended.out.splitlines() if " of 3 " in line]
    assert lines == ["interrupted.jsonl:", "resumed.jsonl:", "tiny.jsonl:"]
    rows = [each["rows"] for each in cli.answer("sessions", "--project", "*")["sessions"]]
    again = discover(cli, monkeypatch, "y\n")
    assert "3 files, 0.0 MB, 0 new" in again.out
    assert "Nothing is new." in again.out
    assert [each["rows"] for each in cli.answer("sessions", "--project", "*")["sessions"]] == rows


def test_an_import_that_was_stopped_goes_on_with_what_is_left(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".claude" / "projects" / "p"
    first = session(folder, "interrupted.jsonl", 30)
    session(folder, "resumed.jsonl", 20)
    cli.done("--quiet", "import", first)
    assert "2 files, 0.0 MB, 1 new" in discover(cli, monkeypatch, "y\n").out
    with first.open("a") as file:
        file.write("\n")
    assert "2 files, 0.0 MB, 1 new" in discover(cli, monkeypatch, "y\n").out


def test_new_sessions_of_a_discovered_client_are_known_to_the_next_read(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".claude" / "projects" / "p"
    session(folder, "interrupted.jsonl", 30)
    discover(cli, monkeypatch, "yes\n")
    session(folder, "tiny.jsonl", 0)
    assert len(cli.answer("sessions", "--project", "*")["sessions"]) == 2


@pytest.mark.parametrize(
    ("variable", "below"),
    [
        ("CLAUDE_CONFIG_DIR", "projects/p/s.jsonl"),
        ("CODEX_HOME", "sessions/2026/01/02/rollout-1.jsonl"),
        ("CODEX_HOME", "archived_sessions/rollout-1.jsonl"),
        ("PI_CODING_AGENT_DIR", "sessions/--p--/1.jsonl"),
        ("GEMINI_CLI_HOME", ".gemini/tmp/0abc/chats/session-1.json"),
        ("XDG_DATA_HOME", "opencode/opencode.db"),
        ("XDG_DATA_HOME", "opencode/storage/session/hash/ses_1.json"),
        pytest.param(
            "XDG_CONFIG_HOME",
            "Cursor/User/globalStorage/state.vscdb",
            marks=pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="it is elsewhere here"),
        ),
    ],
)
def test_a_client_that_was_moved_is_found_where_its_variable_says(
    variable: str,
    below: str,
    home: Path,
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "moved" / below
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    answer = discover(cli, monkeypatch, "", "--json").answer
    assert [each["files"] for each in answer["places"] if each["files"]] == [1]


def test_a_database_is_imported_and_followed_and_nothing_else_in_its_folder(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".local" / "share" / "opencode"
    (folder / "snapshot").mkdir(parents=True)
    opencode(folder / "opencode.db", MESSAGES[:2])
    assert "1 file, 0.0 MB, 1 new" in discover(cli, monkeypatch, "y\n").out
    session(folder / "snapshot", "tiny.jsonl", 0)
    (folder / "opencode.db").unlink()
    opencode(folder / "opencode.db", [*MESSAGES[:2], asked("z", "and now?")])
    while (page := cli.answer("sessions", "--project", "*"))["behind"]:
        pass
    stored = page["sessions"]
    assert {each["key"]: each["rows"] for each in stored} == {"ses_main": 7, "ses_child": 1}
    assert "1 file, 0.0 MB, 0 new" in discover(cli, monkeypatch, "n\n").out


def test_missing_folders_and_files_that_hold_no_conversation_are_said_plainly(
    home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = discover(cli, monkeypatch, "")
    assert refused.code == 1
    assert "no session file of a known client is on this machine" in refused.err
    assert refused.out.count("no such folder") == 8
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for name in "abcde":
        (folder / f"{name}.jsonl").write_bytes(b"")
    session(folder, "interrupted.jsonl", 30)
    ended = discover(cli, monkeypatch, "y\n")
    assert ended.code == 0
    assert ended.out.count("passed over") == 4
    assert "and 2 more files passed over" in ended.out


def test_paths_and_discovery_exclude_each_other(home: Path, cli: Cli, tmp_path: Path) -> None:
    assert "--discover alone" in cli.refusal("import", code=2)
    assert "--discover alone" in cli.refusal("import", "--discover", tmp_path, code=2)
