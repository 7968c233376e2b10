"""What a client may ask of the server: the tools and the resources, over one open service.

A tool that gives no answer says why as an error result, all of it text, since some clients drop the
other channel then. Refused: a tool that does not exist, naming those that do; anything about transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from lcm_mcp import __version__
from lcm_mcp.server import resources
from lcm_mcp.server.limits import NoAnswer, answer_of
from lcm_mcp.tools import TOOLS
from lcm_mcp.tools.instructions import INSTRUCTIONS
from lcm_mcp.tools.tool import Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.background import Report

    Context = ServerRequestContext[dict[str, Any]]

_FIXED = CacheHint(ttl_ms=300_000, scope="public")
"""What changes only with the version, and clients ask for at every turn."""


def build_server(service: Service) -> Server[dict[str, Any]]:
    """The MCP server over an open service; serving it on a transport is for its neighbours."""
    tools = {tool.name: tool for tool in TOOLS}
    published = [_published(tool) for tool in TOOLS]
    schemas = {tool.name: tool.input_schema for tool in published}

    async def list_tools(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=published)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            message = f"There is no tool {params.name[:80]!r}. The tools are {', '.join(tools)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        return await _result(tool, service.reporting(_progress(context)), params.arguments or {})

    async def read_resource(
        _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await resources.read(service, params.uri)

    return Server(
        "lcm-mcp",
        version=__version__,
        title="lcm-mcp memory",
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": _FIXED,
            "resources/list": _FIXED,
            "resources/templates/list": _FIXED,
        },
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=read_resource,
    )


def _published(tool: Tool[Any, Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effects.read_only,
            destructive_hint=tool.effects.destructive,
            idempotent_hint=tool.effects.idempotent,
            open_world_hint=False,
        ),
    )


def _progress(context: Context) -> Report:
    """Tells the client how far its call is, if it asked to know (the SDK sees to that).

    The protocol wants each progress to be greater than the last. A client that went away fails nothing:
    the SDK drops what it can no longer send.
    """
    told = -1.0

    async def report(done: float, total: float | None, line: str) -> None:
        nonlocal told
        if done > told:
            told = done
            await context.session.report_progress(done, total, line)

    return report


async def _result(tool: Tool[Any, Any], service: Service, given: dict[str, Any]) -> types.CallToolResult:
    """The answer in both channels, or why there is none."""
    remedy = "Ask for less, or try again; entries with an entry_id are not stored twice."
    try:
        answered = await answer_of(tool.name, tool.call(service, given), remedy)
    except NoAnswer as failure:
        return types.CallToolResult(content=[types.TextContent(text=str(failure))], is_error=True)
    return types.CallToolResult(
        content=[types.TextContent(text=answered.text)], structured_content=answered.structured
    )
