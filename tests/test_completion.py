"""Completion: what a shell offers at a Tab, and the scripts that let it ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from commands import Cli
from harbour import memory, talk

from lcm_mcp.cli.completion import SHELLS, VARIABLE


@pytest.fixture
def store(store_path: Path) -> Path:
    async def fill() -> None:
        async with memory(store_path) as service:
            for key in ("harbour", "harvest", "moor"):
                await service.append(key, talk(1))

    anyio.run(fill)
    return store_path


def offered(words: str, db: Path) -> list[str]:
    """What bash is given for the last of these words."""
    ended = subprocess.run(
        [sys.executable, "-m", "lcm_mcp"],
        env={**os.environ, VARIABLE: "bash_complete", "COMP_WORDS": words, "LCM_DB": str(db)}
        | {"COMP_CWORD": str(words.count(" "))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stderr == ""
    return [line.partition(",")[2] for line in ended.stdout.splitlines() if line]


def test_commands_options_choices_and_sessions_are_offered(store: Path, tmp_path: Path) -> None:
    assert offered("lcm-mcp co", store) == ["context", "compact", "completion"]
    assert "--frontier" in offered("lcm-mcp list --", store)
    assert offered("lcm-mcp install c", store) == ["claude-desktop", "claude-code", "cursor", "codex"]
    assert offered("lcm-mcp tree --session har", store) == ["harvest", "harbour"]
    assert offered("lcm-mcp --session m", store) == ["moor"]
    assert offered(f"lcm-mcp --db {store} list --session m", tmp_path / "none") == ["moor"]


def test_where_nothing_can_be_read_no_session_is_offered_and_nothing_is_said(tmp_path: Path) -> None:
    assert offered("lcm-mcp tree --session h", tmp_path / "none.sqlite") == []
    assert not (tmp_path / "none.sqlite").exists()
    other = tmp_path / "other.sqlite"
    other.write_text("no store at all")
    assert offered("lcm-mcp tree --session h", other) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(shell: str, capsys: pytest.CaptureFixture[str], store_path: Path) -> None:
    script = Cli(capsys, store_path).done("completion", shell)
    assert f"{VARIABLE}={shell}_complete" in script
    assert not store_path.exists()


_ASKED = {
    "bash": (
        ["bash", "--norc", "-c"],
        "COMP_WORDS=(lcm-mcp tree --session har); COMP_CWORD=3; _lcm_mcp_completion lcm-mcp\n"
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ),
    # Outside of its line editor zsh has no compadd; what the script would add is printed instead.
    "zsh": (
        ["zsh", "-f", "-c"],
        "words=(lcm-mcp tree --session har); CURRENT=4; compadd() { print -l $completions }\n"
        "_lcm_mcp_completion",
    ),
    "fish": (["fish", "--no-config", "-c"], "complete -C 'lcm-mcp tree --session har'"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_with_the_script_as_printed(
    shell: str, store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    run, asked = _ASKED[shell]
    script = Cli(capsys, store).done("completion", shell)
    program = tmp_path / "lcm-mcp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lcm_mcp "$@"\n')
    program.chmod(0o755)
    ended = subprocess.run(
        [*run, f"{'compdef() {}' if shell == 'zsh' else ''}\n{script}\n{asked}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LCM_DB": str(store)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (sorted(ended.stdout.split()), ended.stderr) == (["harbour", "harvest"], "")
