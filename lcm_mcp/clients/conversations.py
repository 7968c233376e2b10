"""How the conversations of each program get into the store: what install says and docs/clients.md lists.

Live: its files are followed, and what they grow by is read on before the next answer. By import: they are
followed too, but read whole once they have changed. By export only: they are in no place that is known, and
what the program or its service hands out is imported. By append only: no importer knows its files. Nothing
is read or looked for here; tests hold the list against the importers and the places that are searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from lcm_mcp.values import frozen

Way = Literal["live", "by import", "by export only", "by append only"]


@frozen
class Conversations:
    """A program, the format of its files (None: no importer reads any), the way in, and how it is gone."""

    program: str
    title: str
    format: str | None
    way: Way
    how: str


_FOUND: Final = "lcm-mcp import --discover, and from then on before each read"
_HOOKED: Final = f"{_FOUND}; by hooks that are put in by hand"
_AGAIN: Final = "lcm-mcp import --discover; its database is read again once it has changed"
_RUNS: Final = "lcm-mcp import FILE, for each run"
_APPENDED: Final = "what its agent appends; none of its files are read"
CONVERSATIONS: Final[Mapping[str, Conversations]] = {
    each.program: each
    for each in (
        Conversations(
            *("claude-code", "Claude Code", "claude-code", "live"),
            "by its hooks, which install writes, and before each read; "
            "earlier ones by lcm-mcp import --discover",
        ),
        Conversations("codex", "Codex", "codex", "live", _HOOKED),
        Conversations(
            "gemini", "Gemini CLI", "gemini", "live", f"{_FOUND}; by hooks that are put in by hand"
        ),
        Conversations("pi", "Pi", "pi", "live", _FOUND),
        Conversations("cursor", "Cursor", "cursor", "by import", _AGAIN),
        Conversations("opencode", "OpenCode", "opencode", "by import", _AGAIN),
        Conversations(
            *("claude-desktop", "Claude Desktop", "claude-ai", "by export only"),
            "lcm-mcp import conversations.json, or the archive that claude.ai sends",
        ),
        Conversations(
            *("chatgpt", "ChatGPT", "chatgpt", "by export only"),
            "lcm-mcp import conversations.json, or the archive that it sends",
        ),
        Conversations("openhands", "OpenHands", "openhands", "by export only", _RUNS),
        Conversations("swe-agent", "SWE-agent", "swe-agent", "by export only", _RUNS),
        Conversations("vscode", "VS Code", None, "by append only", _APPENDED),
        Conversations("zed", "Zed", None, "by append only", _APPENDED),
    )
}
