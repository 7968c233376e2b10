"""The command line: click for the arguments, rich for a reader, one JSON document for a script.

A command asks the service and shows its answer; it decides nothing else. Modules here import no more
than click when they load, so that `lcm-mcp --version` starts fast, and only `serve` ever imports mcp.
"""

from __future__ import annotations

from lcm_mcp.cli.entry import main

__all__ = ["main"]
