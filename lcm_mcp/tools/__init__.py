"""The tools a client sees, one a file, in the order in which an agent meets them.

A tool is in this tuple or it does not exist: nothing is registered on import. The tools speak to the
service alone, and none takes a path.
"""

from __future__ import annotations

from typing import Any

from lcm_mcp.tools import (
    lcm_append,
    lcm_compact,
    lcm_describe,
    lcm_expand,
    lcm_grep,
    lcm_list,
    lcm_sessions,
    prepare_context,
)
from lcm_mcp.tools.tool import Tool

TOOLS: tuple[Tool[Any, Any], ...] = (
    lcm_sessions.TOOL,
    lcm_list.TOOL,
    lcm_grep.TOOL,
    lcm_describe.TOOL,
    lcm_expand.TOOL,
    prepare_context.TOOL,
    lcm_append.TOOL,
    lcm_compact.TOOL,
)
