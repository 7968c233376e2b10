"""What a client may ask of the server: its toolset, resources and prompts, over one open service.

A tool that gives no answer says why as an error result, all of it text, since some clients drop the
other channel then. Refused: a tool that does not exist, naming those that do; anything about transports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from lcm_mcp import __version__
from lcm_mcp.server import prompts, resources
from lcm_mcp.server.inspector import view
from lcm_mcp.server.limits import Calls, NoAnswer
from lcm_mcp.tools import TOOLSETS, ToolsetName
from lcm_mcp.tools.instructions import INSTRUCTIONS, READING_INSTRUCTIONS
from lcm_mcp.tools.tool import Picture, Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.background import Report

    Context = ServerRequestContext[dict[str, Any]]

_FIXED = CacheHint(ttl_ms=300_000, scope="public")
"""What changes only with the version, and clients ask for at every turn."""


def build_server(
    service: Service, toolset: ToolsetName = "all", calls: Calls | None = None
) -> Server[dict[str, Any]]:
    """The MCP server over an open service; serving it on a transport is for its neighbours.

    calls is where the calls in flight are kept, for who wants to end them.
    """
    in_flight = Calls() if calls is None else calls
    menu = prompts.PROMPTS if toolset == "read" else prompts.AGENT_PROMPTS

    async def read_resource(
        _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if params.uri == view.URI:
            return view.view_contents()
        return await resources.read(service, in_flight, params.uri)

    async def list_prompts(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return prompts.listed(menu)

    async def get_prompt(_context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return prompts.written(menu, params.name, params.arguments or {})

    async def complete(_context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await prompts.completed(menu, service, in_flight, params)

    offered = _Offered(service, TOOLSETS[toolset], in_flight)
    server = Server[dict[str, Any]](
        "lcm-mcp",
        version=__version__,
        title="lcm-mcp memory",
        instructions=READING_INSTRUCTIONS if toolset == "read" else INSTRUCTIONS,
        cache_hints={
            "tools/list": _FIXED,
            "prompts/list": _FIXED,
            "resources/list": _FIXED,
            "resources/templates/list": _FIXED,
        },
        get_tool_input_schema=offered.schema,
        on_list_tools=offered.listed,
        on_call_tool=offered.call,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    server.extensions[view.EXTENSION] = {}
    return server


class _Offered:
    """The tools that this server's clients may call; another one's name is an error that names them."""

    def __init__(self, service: Service, tools: Sequence[Tool[Any, Any]], calls: Calls) -> None:
        self._service = service
        self._calls = calls
        self._tools = {tool.name: tool for tool in tools}
        self._published = [_published(tool) for tool in tools]
        self._schemas = {tool.name: tool.input_schema for tool in self._published}

    def schema(self, name: str) -> Mapping[str, Any] | None:
        return self._schemas.get(name)

    async def listed(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._published)

    async def call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            message = f"There is no tool {params.name[:80]!r}. The tools are {', '.join(self._tools)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        reporting = self._service.reporting(_progress(context))
        remedy = "Ask for less, or try again; entries with an entry_id are not stored twice."
        try:
            answered = await self._calls.answer_of(
                tool.name, tool.call(reporting, params.arguments or {}), remedy
            )
        except NoAnswer as failure:
            # The answer where there is none: all of it text, since some clients drop the other channel then.
            return types.CallToolResult(content=[types.TextContent(text=str(failure))], is_error=True)
        return types.CallToolResult(
            content=[types.TextContent(text=answered.text), *map(_shown, answered.pictures)],
            structured_content=answered.structured,
        )


def _shown(picture: Picture) -> types.ImageContent:
    return types.ImageContent(data=picture.data, mime_type=picture.media_type)


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
        _meta=view.meta_of(tool.name),
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
