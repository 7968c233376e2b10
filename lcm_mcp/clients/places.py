"""The clients: where each keeps its list of MCP servers, and what an entry looks like there.

A client is a row of the table; its file depends on the system and on the variables that the client itself
obeys. Commands and stores are named by absolute paths, since some clients start servers without a PATH, a
working folder or a variable of the user's shell.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from lcm_mcp.errors import InstallRefused
from lcm_mcp.values import frozen

NAME: Final = "lcm"
"""What our entry is called in every client's list."""

Entry = Mapping[str, object]
Form = Literal["json", "toml"]


@frozen
class System:
    """What the place of a file depends on; platform as in sys.platform."""

    platform: str
    home: Path
    variables: Mapping[str, str]

    def folder(self, variable: str, default: Path) -> Path:
        """The folder that a variable names, else the default; an empty variable counts as unset."""
        return Path(self.variables.get(variable) or default)

    @property
    def config(self) -> Path:
        """Where programs with windows keep their settings."""
        if self.platform == "win32":
            return self.folder("APPDATA", self.home / "AppData" / "Roaming")
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME", self.home / ".config")


@frozen
class Place:
    """A client's file, and the folder without which the client was never here."""

    file: Path
    folder: Path


@frozen
class Client:
    """A program that starts MCP servers; key is the table of its file that lists them."""

    name: str
    title: str
    key: str
    toolset: Literal["read", "agent"]
    place: Callable[[System], Place]
    form: Form = "json"
    typed: bool = False
    """Whether an entry says that it is spoken to over stdio."""
    hooks: Callable[[System], Place] | None = None
    """Where it keeps the hooks that we write, if any."""


def _claude_desktop(system: System) -> Place:
    folder = system.config / "Claude"
    return Place(folder / "claude_desktop_config.json", folder)


def _claude_code(system: System) -> Place:
    # Without the variable the file stands beside the folder, with it inside.
    if named := system.variables.get("CLAUDE_CONFIG_DIR"):
        return Place(Path(named) / ".claude.json", Path(named))
    return Place(system.home / ".claude.json", system.home / ".claude")


def _claude_code_hooks(system: System) -> Place:
    folder = system.folder("CLAUDE_CONFIG_DIR", system.home / ".claude")
    return Place(folder / "settings.json", folder)


def _cursor(system: System) -> Place:
    folder = system.home / ".cursor"
    return Place(folder / "mcp.json", folder)


def _vscode(system: System) -> Place:
    folder = system.config / "Code"
    return Place(folder / "User" / "mcp.json", folder)


def _codex(system: System) -> Place:
    folder = system.folder("CODEX_HOME", system.home / ".codex")
    return Place(folder / "config.toml", folder)


def _zed(system: System) -> Place:
    match system.platform:
        case "win32":
            folder = system.config / "Zed"
        case "darwin":
            folder = system.home / ".config" / "zed"
        case _:
            folder = system.config / "zed"
    return Place(folder / "settings.json", folder)


# A chat must not change what is stored. A coding agent may append and compact; it is not given fork and
# rewind, which change histories that others may be in the middle of.
CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client("claude-desktop", "Claude Desktop", "mcpServers", "read", _claude_desktop),
        Client(
            *("claude-code", "Claude Code", "mcpServers", "agent", _claude_code),
            typed=True,
            hooks=_claude_code_hooks,
        ),
        Client("cursor", "Cursor", "mcpServers", "agent", _cursor),
        Client("vscode", "VS Code", "servers", "agent", _vscode, typed=True),
        Client("codex", "Codex", "mcp_servers", "agent", _codex, form="toml"),
        Client("zed", "Zed", "context_servers", "agent", _zed),
    )
}


def place(client: Client) -> Place:
    """Where the client's file is for this user, or would be."""
    return client.place(System(sys.platform, Path.home(), os.environ))


def hooks_place(client: Client) -> Place | None:
    """Where the client's hooks are for this user; None where we write none."""
    return None if client.hooks is None else client.hooks(System(sys.platform, Path.home(), os.environ))


def entry_for(client: Client, db: Path, session: str | None = None) -> Entry:
    """The entry that starts this very installation on that store; db is absolute.

    Raises InstallRefused where this installation may be gone tomorrow.
    """
    command, *before = _this_command()
    chosen = () if session is None else ("--session", session)
    arguments = [*before, "--db", str(db), *chosen, "serve", "--toolset", client.toolset]
    typed = {"type": "stdio"} if client.typed else {}
    return {**typed, "command": command, "args": arguments}


def hook_for(client: Client, db: Path) -> str:
    """The command line that a client's hooks run; db is absolute. Raises InstallRefused as entry_for does."""
    words = [*_this_command(), "hook", client.name, "--db", str(db)]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _this_command() -> list[str]:
    """How to start this installation from anywhere: its own command, else its python."""
    python = Path(sys.executable)  # not resolved: an environment's python links to the one it was made from
    if "archive-v0" in python.parts:
        raise InstallRefused(
            str(python),
            "this runs from uv's cache, which may be emptied at any time",
            "Install it first (uv tool install lcm-mcp), then run lcm-mcp install again.",
        )
    script = python.with_name("lcm-mcp.exe" if sys.platform == "win32" else "lcm-mcp")
    return [str(script)] if script.exists() else [str(python), "-m", "lcm_mcp"]
