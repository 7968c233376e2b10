"""A foreign client with the configuration the README offers: what users' scripts do, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "tests" / "data" / "claude-code" / "tiny.jsonl"
BESIDE_PYTHON = Path(sys.executable).parent


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """The example configuration with its placeholders filled in, and a conversation in its store."""
    store = tmp_path / "lcm.sqlite"
    command = BESIDE_PYTHON / "lcm-mcp"
    example = (ROOT / "claude_desktop_config.example.json").read_text(encoding="utf-8")
    (server,) = json.loads(example)["mcpServers"].values()
    filled = example.replace(server["command"], str(command)).replace(
        "/absolute/path/to/lcm.sqlite", str(store)
    )
    path = tmp_path / "config.json"
    path.write_text(filled, encoding="utf-8")
    assert _run(command, "--db", store, "import", SAMPLE).returncode == 0
    return path


def test_fastmcp_finds_a_word_with_the_configuration_of_the_readme(configuration: Path) -> None:
    done = _run(BESIDE_PYTHON / "fastmcp", "call", configuration, "lcm_grep", "pattern=checkpoint", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [hit["ref"] for hit in answer["structured_content"]["hits"]] == [
        "e4",
        "e3",
        "e1",
    ]  # e2 is reasoning, which is kept but not searched
    assert answer["is_error"] is False


def test_fastmcp_fails_with_our_sentence_where_the_call_is_wrong(configuration: Path) -> None:
    done = _run(BESIDE_PYTHON / "fastmcp", "call", configuration, "lcm_expand", "id=e999")
    assert done.returncode == 1
    assert "e999 names nothing in session" in " ".join((done.stdout + done.stderr).split())
