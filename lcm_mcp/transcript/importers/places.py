"""Where the agents on a machine keep their sessions: a line a client, with the variable that moves the place.

A client's name is that of its format. A folder is named whether it is there or not, so that a missing one can
be said plainly. Nothing is opened here, and no folder is guessed that a client does not document.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from lcm_mcp.clients.places import System
from lcm_mcp.values import frozen


@frozen
class Client:
    """A client: its own folder below the home folder, the variable that names another one, the folders of its
    sessions below either, and how their files are called.

    in_config: its own folder is where programs with windows keep their settings. deep: there are files in
    folders below; where there are none, those may hold anything and are not looked into.
    """

    name: str
    home: str
    variable: str
    folders: tuple[str, ...]
    files: str
    in_config: bool = False
    deep: bool = True


CLIENTS: tuple[Client, ...] = (
    Client("claude-code", ".claude", "CLAUDE_CONFIG_DIR", ("projects",), "*.jsonl"),
    Client("codex", ".codex", "CODEX_HOME", ("sessions", "archived_sessions"), "rollout-*.jsonl*"),
    Client("pi", ".pi/agent", "PI_CODING_AGENT_DIR", ("sessions",), "*.jsonl"),
    Client("gemini", "", "GEMINI_CLI_HOME", (".gemini/tmp",), "chats/session-*.json*"),
    Client("opencode", ".local/share", "XDG_DATA_HOME", ("opencode",), "opencode*.db", deep=False),
    Client("opencode", ".local/share", "XDG_DATA_HOME", ("opencode/storage/session",), "ses_*.json"),
    Client("cursor", "", "", ("Cursor/User/globalStorage",), "state.vscdb", in_config=True, deep=False),
)


FILES = (
    *("*.jsonl", "*.jsonl.zst", "*.traj", "conversations*.json"),
    *("session-*.json", "ses_*.json", "opencode*.db", "state.vscdb"),
)
"""How the files are called that a folder stands for."""


def is_transcript(name: str) -> bool:
    """Whether a file in a folder may be a transcript, by its name."""
    return any(fnmatchcase(name, pattern) for pattern in FILES)


def folders_of(client: Client, home: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """The folders of a client's sessions; a variable that is set but empty counts as unset."""
    named = variables.get(client.variable)
    own = System(sys.platform, home, variables).config if client.in_config else home / client.home
    base = Path(named) if named else own
    return (base / folder for folder in client.folders)


def files_in(client: Client, folder: Path) -> Iterator[Path]:
    """A client's session files in a folder and below; what cannot be looked into is passed over."""
    found = folder.rglob(client.files) if client.deep else folder.glob(client.files)
    return (path for path in found if path.is_file())
