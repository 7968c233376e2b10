"""The MCP server: tools and resources over stdio, SSE and streamable HTTP, in both protocol eras.

One store is open per process, whatever the number of connections; who opened it closes it. What a
client may call is in building, how it reaches us in stdio and http; nothing here knows how memory works.
http is imported by who serves it, since most servers are started for stdio, and by every client anew.
"""

from __future__ import annotations

from lcm_mcp.server.building import build_server
from lcm_mcp.server.limits import CALL_LIMIT_S, GRACE_S
from lcm_mcp.server.stdio import serve_stdio

__all__ = [
    "CALL_LIMIT_S",
    "GRACE_S",
    "build_server",
    "serve_stdio",
]
