"""The command line: click for the arguments, rich for a reader, one JSON document for a script.

A command asks the service and shows its answer; it decides nothing else. Modules here import no more
than click when they load, so that `lcm-mcp --version` starts fast; only what serves or starts a server
(`serve`, `install`, `doctor --clients`) imports mcp.
"""

from __future__ import annotations

from lcm_mcp.cli.entry import main

__all__ = ["main"]
