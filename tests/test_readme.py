"""The README tells the truth: its commands run, its tools exist, its output is what is printed."""

from __future__ import annotations

import json
import os
import re

import click
import pytest
from reference import DOCS
from refresh_readme import README, refreshed

from lcm_mcp.cli.entry import root as command
from lcm_mcp.settings import KEYS, variable
from lcm_mcp.tools.toolsets import TOOLS

_ROOT = README.parent
_README = README.read_text(encoding="utf-8")
_BLOCKS = re.findall(r"^```\w*\n(.*?)^```", _README, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """Every lcm-mcp call in a page's blocks and inline code, options and all."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    inline = re.findall(r"`((?:\.venv/bin/)?lcm-mcp [^`]*)`", page)
    called = re.compile(r"^(?:\$ )?(?:LCM_\w+=\S+ )?(?:\.venv/bin/)?(lcm-mcp .*)")
    return [found[1] for line in (*lines, *inline) if (found := called.match(" ".join(line.split())))]


def test_two_commands_set_the_project_up() -> None:
    assert "make demo\nmake test\n" in _BLOCKS
    targets = re.findall(r"^(\w+):", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert re.search(r"^make test\b", (_ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert os.access(_ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{page.name}" for page in DOCS.glob("*.md"))])
def test_every_command_shown_exists_with_its_options(page: str) -> None:
    shown = commands((_ROOT / page).read_text(encoding="utf-8"))
    assert len(shown) > 5 or page != "README.md"
    context = click.Context(command)
    for line in shown:
        words = line.split(" #")[0].split()[1:]
        options = {option for each in command.params for option in each.opts}
        named = next((word for word in words if command.get_command(context, word)), None)
        assert named or words[0].startswith("-"), line
        if named is not None:
            options |= {option for each in known(named).params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= options | {"--help"}, line


def known(name: str) -> click.Command:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    return found


def test_every_command_there_is_is_named() -> None:
    for name in command.list_commands(click.Context(command)):
        assert re.search(rf"lcm-mcp {name}\b|`{name}\b", _README), name


def test_the_tool_table_is_the_tools() -> None:
    table = _README.partition("## Tools")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [tool.name for tool in TOOLS]


def test_the_settings_it_shows_are_settings() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(LCM_\w+)` \|", _README, re.MULTILINE)
    assert len(rows) > 5
    assert rows == [(key, variable(key)) for key in KEYS if (key, variable(key)) in rows]


def test_the_client_configuration_is_the_example_file() -> None:
    example = json.loads((_ROOT / "claude_desktop_config.example.json").read_text())
    assert example in [json.loads(block) for block in _BLOCKS if block.startswith("{")]
    entry = example["mcpServers"]["lcm"]
    assert entry["command"].startswith("/")
    assert "serve" in entry["args"]


def test_output_shown_is_what_the_demo_prints() -> None:
    assert refreshed(_README) == _README, "run `make readme`"
    assert sum(block.startswith("$ lcm-mcp") for block in _BLOCKS) >= 4
