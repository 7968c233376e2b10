"""The newcomer's path in docs/getting-started.md, step by step, in a home with a history of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from connecting import answered
from knocking import knock
from mcp import Client, StdioServerParameters
from mcp_types import TextContent
from reference import DOCS

PAGE = (DOCS / "getting-started.md").read_text(encoding="utf-8")
STEPS = [
    line
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
WORDS = "the needle was in the eastern haystack"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which Claude Code was used once, and that has nothing of ours."""
    folder = tmp_path / ".claude" / "projects" / "-home-ada-farm"
    folder.mkdir(parents=True)
    (tmp_path / ".claude.json").write_text('{"numStartups": 3}')
    said = {"role": "user", "content": "Where was the needle?"}, {"role": "assistant", "content": WORDS}
    lines = [
        {
            "type": message["role"],
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "farm",
            "cwd": "/home/ada/farm",
            "timestamp": f"2026-01-31T10:00:0{number}.000Z",
            "message": message,
        }
        for number, message in enumerate(said)
    ]
    (folder / "farm.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def _variables(home: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LCM_", "XDG_", "CLAUDE_"))
    }
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), "COLUMNS": "80"}


def _command(step: str) -> list[str]:
    program, *words = shlex.split(step)
    assert program == ".venv/bin/lcm-mcp"
    return [sys.executable, "-m", "lcm_mcp", *words]


def _ended(step: str, home: Path, said: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        _command(step), input=said, env=_variables(home), cwd=home, capture_output=True, text=True, timeout=90
    )
    assert ended.returncode == code, ended.stderr
    return ended


def _done(step: str, home: Path, said: str = "") -> str:
    shown = _ended(step, home, said).stdout
    assert all(len(line) <= 80 for line in shown.splitlines() if str(home) not in line)
    return shown


async def test_from_no_store_to_an_answer_in_a_client(home: Path) -> None:
    assert STEPS[0] == "make demo"
    discover, sessions, grep, install, serve = STEPS[1:]
    assert "lcm-mcp import --discover" in _ended(sessions, home, code=1).stderr
    assert "1 file" in _done(discover, home, "y\n")
    assert "2 rows" in _done(sessions, home)
    assert WORDS in _done(grep, home)
    assert "Started as Claude Code starts it" in _done(install, home)
    entry: dict[str, Any] = json.loads((home / ".claude.json").read_text())["mcpServers"]["lcm"]
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env={"HOME": str(home)})
    async with Client(parameters) as client:
        (prompt,) = (await client.get_prompt("recall", {"question": "Where was the needle?"})).messages
        assert isinstance(prompt.content, TextContent)
        assert "lcm_grep" in prompt.content.text
        (hit, *_) = (await answered(client, "lcm_grep", pattern="eastern haystack", session="*"))["hits"]
        (row,) = (await answered(client, "lcm_expand", id=hit["ref"], session=hit["session"]))["rows"]
        assert row["text"] == WORDS
    assert _inspected(serve, home) == "farm"
    _done(f"{install} --undo", home)
    assert json.loads((home / ".claude.json").read_text()) == {"numStartups": 3}


def _inspected(serve: str, home: Path) -> str:
    """The first session that the page's server tells of."""
    run = [*_command(serve), "--port", "0"]
    with subprocess.Popen(run, env=_variables(home), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        found = re.search(r":(\d+)/mcp", running.stderr.readline())
        assert found is not None
        assert b"lcm-mcp" in knock(int(found[1]), "GET", "/").text.encode()
        told = knock(int(found[1]), "GET", "/inspect/lcm_sessions?project=*")
        running.terminate()
    return json.loads(told.text)["sessions"][0]["key"]
