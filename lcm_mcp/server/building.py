"""What a client may ask of the server: its toolset, resources and prompts, over one service.

What there is to ask for is told from `published`, so that a server says it before the service, and most of
what a process loads, is there: a client starts a server of its own and waits for nothing else. A tool that
gives no answer says why as an error result, all of it text, since some clients drop the other channel then.
Refused: a tool that does not exist, naming those that do; anything about transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from lcm_mcp import __version__
from lcm_mcp.server import prompts
from lcm_mcp.server.limits import Calls, NoAnswer
from lcm_mcp.server.opening import Supply
from lcm_mcp.server.published import Published, published
from lcm_mcp.tools.instructions import INSTRUCTIONS, READING_INSTRUCTIONS

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.background import Report
    from lcm_mcp.tools import ToolsetName
    from lcm_mcp.tools.tool import Answered, Picture

    Context = ServerRequestContext[dict[str, Any]]

VIEWS: Final = "io.modelcontextprotocol/ui"
"""The extension under which clients show views of a server's own (MCP Apps)."""
_FIXED = CacheHint(ttl_ms=300_000, scope="public")
"""What changes only with the version, and clients ask for at every turn."""

_WHOLE: Final = {"resultType": "complete"}
"""Of a result; the SDK leaves it out for clients of before 2026-07-28."""


def build_server(
    service: Service, toolset: ToolsetName = "all", calls: Calls | None = None
) -> Server[dict[str, Any]]:
    """The MCP server over an open service; serving it on a transport is for its neighbours.

    calls is where the calls in flight are kept, for who wants to end them.
    """

    async def open_already() -> Service:
        return service

    return build_supplied(open_already, toolset, Calls() if calls is None else calls)


def build_supplied(supply: Supply, toolset: ToolsetName, calls: Calls) -> Server[dict[str, Any]]:
    """The MCP server over a service that is asked for when a request first needs it."""
    menu = prompts.PROMPTS if toolset == "read" else prompts.AGENT_PROMPTS
    told = published()
    offered = _Offered(supply, toolset, told, calls)

    async def list_resources(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=list(told.resources))

    async def list_templates(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(told.templates))

    async def read_resource(
        _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        from lcm_mcp.server import resources

        return await resources.read(supply, calls, params.uri)

    async def list_prompts(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return prompts.listed(menu)

    async def get_prompt(_context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return prompts.written(menu, params.name, params.arguments or {})

    async def complete(_context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        return await prompts.completed(menu, supply, calls, params)

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
        get_tool_input_schema=_in_headers,
        on_list_tools=offered.listed,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, offered.call)
    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        server.middleware.clear()  # the SDK's spans, which nobody collects
    server.extensions[VIEWS] = {}
    return server


class _Offered:
    """The tools that this server's clients may call; another one's name is an error that names them."""

    def __init__(self, supply: Supply, toolset: ToolsetName, told: Published, calls: Calls) -> None:
        self._supply = supply
        self._calls = calls
        self._toolset: ToolsetName = toolset
        self._published = told.toolset(toolset)
        self._names = [tool.name for tool in self._published]

    async def listed(
        self, _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._published)

    async def call(self, context: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        """A CallToolResult as it is sent: the SDK's model would be read from this and written to it again."""
        if params.name not in self._names:
            message = f"There is no tool {params.name[:80]!r}. The tools are {', '.join(self._names)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        remedy = "Ask for less, or try again; entries with an entry_id are not stored twice."
        try:
            answered = await self._calls.answer_of(params.name, self._answer(params, context), remedy)
        except NoAnswer as failure:
            # The answer where there is none: all of it text, since some clients drop the other channel then.
            return {"content": [_text(str(failure))], "isError": True, **_WHOLE}
        content = [_text(answered.text), *map(_image, answered.pictures)]
        return {
            "content": content,
            "structuredContent": answered.structured,
            "isError": False,
            **_WHOLE,
        }

    async def _answer(self, params: types.CallToolRequestParams, context: Context) -> Answered:
        service = await self._supply()
        from lcm_mcp.tools.toolsets import tool_of

        tool = tool_of(self._toolset, params.name)
        if not tool.effects.read_only:  # what only reads has nothing to report before it is done
            service = service.reporting(_progress(context))
        return await tool.call(service, params.arguments or {})


def _in_headers(_tool: str) -> None:
    """The schema in which the SDK looks, at each call, for arguments that clients repeat in headers: of ours
    none is."""


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(picture: Picture) -> dict[str, Any]:
    return {"type": "image", "data": picture.data, "mimeType": picture.media_type}


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
