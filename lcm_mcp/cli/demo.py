"""The command demo: the whole way of a memory, on a real conversation that the package ships.

It takes a store of its own that goes when it ends (or --db), no settings of the owner's, no key and no
network, and prints the same each time. Nothing is staged: every screen is an answer of the service.
"""

from __future__ import annotations

CONVERSATION = "orphaned-sessions.jsonl"
WINDOW_TOKENS = 32_000
NEEDLE = "git reset"
_QUOTED_CHARACTERS = 900
