"""`python -m lcm_mcp` is the command `lcm-mcp`."""

from __future__ import annotations

from lcm_mcp.cli import main

if __name__ == "__main__":
    main()
