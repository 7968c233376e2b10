"""The watch of clients' sessions, as a process: it tells what comes, and ends when it is asked to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import Cli
from stores import told


@contextmanager
def watching(db: Path, home: Path, *clients: str) -> Generator[subprocess.Popen[str]]:
    """The command with a made-up home; it does not outlive the block, nor a minute."""
    command = [sys.executable, "-m", "lcm_mcp", "--db", str(db), "watch", *clients]
    environment = {name: value for name, value in os.environ.items() if name != "CLAUDE_CONFIG_DIR"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "HOME": str(home), "PYTHONUNBUFFERED": "1"},
    ) as started:
        ending = threading.Timer(60, started.kill)
        ending.start()
        try:
            yield started
        finally:
            ending.cancel()
            started.kill()


def line(uuid: str, text: str) -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": uuid, "sessionId": "s-1", "message": message}) + "\n"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_what_comes_is_taken_in_and_told_until_it_is_stopped(
    end: signal.Signals, tmp_path: Path, store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ".claude" / "projects"
    folder.mkdir(parents=True)
    path = folder / "s-1.jsonl"
    path.write_text(line("u1", "before"))
    with watching(store_path, tmp_path, "claude-code") as process:
        assert told(process.stdout) == f"watching claude-code in {folder}"
        assert told(process.stdout) == "s-1: 1 new row"
        with path.open("a") as file:
            file.write(line("u2", "after"))
        assert told(process.stdout) == "s-1: 1 new row"
        process.send_signal(end)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    path.unlink()
    rows = Cli(capsys, store_path).answer("--session", "s-1", "expand", "e1..e2")["rows"]
    assert [row["text"] for row in rows] == ["before", "after"]


def test_in_json_each_line_is_a_document(tmp_path: Path, store_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects"
    folder.mkdir(parents=True)
    (folder / "s-1.jsonl").write_text(line("u1", "before"))
    with watching(store_path, tmp_path, "claude-code", "--json") as process:
        assert json.loads(told(process.stdout)) == {"watching": "claude-code", "folder": str(folder)}
        assert json.loads(told(process.stdout)) == {"session": "s-1", "rows_added": 1}


def test_missing_folders_and_unknown_clients_are_said_plainly(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    cli = Cli(capsys, store_path)
    ended = cli("watch", "claude-code")
    assert ended.code == 1
    assert f"claude-code: no such folder: {tmp_path / '.claude' / 'projects'}" in ended.err
    assert "there is nothing to watch" in ended.err
    assert "'emacs' is no client" in cli.refusal("watch", "emacs", code=2)
