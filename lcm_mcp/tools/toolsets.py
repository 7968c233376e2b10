"""The tools in the order in which an agent meets them, and the toolsets that clients are given of them.

A tool is in this tuple or it does not exist: nothing is registered on import. `read` holds nothing that
changes what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lcm_mcp.tools import (
    ToolsetName,
    lcm_append,
    lcm_compact,
    lcm_describe,
    lcm_expand,
    lcm_expand_query,
    lcm_fork,
    lcm_grep,
    lcm_list,
    lcm_next_summary,
    lcm_redo,
    lcm_rewind,
    lcm_sessions,
    lcm_submit_summary,
    prepare_context,
    prepare_context_read,
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
    lcm_next_summary.TOOL,
    lcm_submit_summary.TOOL,
    lcm_redo.TOOL,
    lcm_fork.TOOL,
    lcm_rewind.TOOL,
    lcm_expand_query.TOOL,
)

_READ: Final[tuple[Tool[Any, Any], ...]] = (
    lcm_sessions.TOOL,
    lcm_list.TOOL,
    lcm_grep.TOOL,
    lcm_describe.TOOL,
    lcm_expand.TOOL,
)
TOOLSETS: Final[Mapping[ToolsetName, tuple[Tool[Any, Any], ...]]] = {
    "read": (*_READ, prepare_context_read.TOOL),
    "agent": (
        *_READ,
        prepare_context.TOOL,
        lcm_append.TOOL,
        lcm_compact.TOOL,
        lcm_next_summary.TOOL,
        lcm_submit_summary.TOOL,
    ),
    "all": TOOLS,
}


def tool_of(toolset: ToolsetName, name: str) -> Tool[Any, Any]:
    """The tool of that name in a toolset, which has it."""
    return next(tool for tool in TOOLSETS[toolset] if tool.name == name)
