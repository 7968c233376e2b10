"""What a person meets on a terminal: a first run that leads on, help that fits, JSON where one reads."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import Cli
from harbour import call, memory
from test_cli_process import on_a_terminal, on_posix

from lcm_mcp.cli.entry import root
from lcm_mcp.errors import NoSession
from lcm_mcp.tools.toolsets import TOOLSETS

# What runs, writes files or answers in a form of its own; all others read.
_WITHOUT_JSON = {"serve", "watch", "hook", "install", "export", "demo", "completion"}
_READS = (
    ("list",),
    ("dag",),
    ("tree",),
    ("grep", "x"),
    ("describe", "e1"),
    ("expand", "e1"),
    ("context",),
    ("strategy",),
    ("stats",),
)


def _commands() -> list[tuple[str, click.Command]]:
    context = click.Context(root)
    found = [(name, root.get_command(context, name)) for name in root.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


def test_every_command_that_reads_answers_in_json_too() -> None:
    with_json = {
        name for name, command in _commands() if any("--json" in each.opts for each in command.params)
    }
    assert {name for name, _ in _commands()} - with_json == _WITHOUT_JSON


def test_every_help_fits_into_80_columns() -> None:
    for name, _ in [("", root), *_commands()]:
        ended = CliRunner().invoke(root, [*([name] if name else []), "--help"], terminal_width=80)
        assert ended.exit_code == 0
        assert [line for line in ended.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", _READS, ids=" ".join)
def test_every_read_of_an_empty_store_says_so_and_how_to_fill_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], store_path: Path
) -> None:
    assert Cli(capsys, store_path).refusal(*words) == f"lcm-mcp: {NoSession()}\n"


async def test_every_tool_that_reads_says_so_too(store_path: Path) -> None:
    arguments = {"lcm_grep": {"pattern": "x"}, "lcm_describe": {"id": "e1"}, "lcm_expand": {"id": "e1"}}
    async with memory(store_path) as service:
        sessions = await call(service, "lcm_sessions")
        assert "The store is empty. Import " in sessions.text
        for tool in TOOLSETS["read"]:
            if tool.name != "lcm_sessions":
                with pytest.raises(NoSession, match="lcm-mcp import --discover"):
                    await tool.call(service, arguments.get(tool.name, {}))


@on_posix
def test_a_first_run_says_what_there_is_to_read_in(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "farm"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.jsonl").touch()
    text = on_a_terminal(["--db", str(tmp_path / "s.sqlite")], NO_COLOR="1", HOME=str(tmp_path))
    assert "2 session files of claude-code" in text
    assert "lcm-mcp import --discover" in text
