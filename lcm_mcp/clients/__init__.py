"""Where MCP clients keep their servers, and how our entry gets into such a file and out again.

The files belong to others: what stands in them besides our entry stays as it is, byte for byte, comments
included. A file that cannot be changed that way is not changed. Nothing here starts a client or a server.
"""

from __future__ import annotations

from lcm_mcp.clients.conversations import CONVERSATIONS, Conversations
from lcm_mcp.clients.hooks import install_hooks, undo_hooks
from lcm_mcp.clients.installing import Installed, entry_in, install, printed, undo
from lcm_mcp.clients.places import (
    CLIENTS,
    Client,
    Entry,
    Place,
    entry_for,
    hook_for,
    hooks_place,
    place,
)

__all__ = [
    "CLIENTS",
    "CONVERSATIONS",
    "Client",
    "Conversations",
    "Entry",
    "Installed",
    "Place",
    "entry_for",
    "entry_in",
    "hook_for",
    "hooks_place",
    "install",
    "install_hooks",
    "place",
    "printed",
    "undo",
    "undo_hooks",
]
