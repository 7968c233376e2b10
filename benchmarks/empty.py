"""An MCP server of the SDK with one tool that does nothing: what any server costs, as a floor.

`python -m benchmarks.empty` serves stdio; with `http` it serves /sse and /mcp on a free port, which it names
on stderr as lcm-mcp does. It may have tools beside that one that give one answer each, whatever they are
asked: `python -m benchmarks.empty stdio FILE`. Nothing of lcm_mcp is imported here.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

NO_OP: Final = "nothing"
Context = ServerRequestContext[dict[str, Any]]


Canned = Sequence[tuple[types.Tool, types.CallToolResult]]
"""Tools and what each of them answers; they are called by their places."""


def canned_name(place: int) -> str:
    return f"answer_{place}"


def write_canned(file: Path, canned: Canned) -> None:
    """Put tools and answers where another process takes them from."""
    told = [[one.model_dump_json(by_alias=True, exclude_none=True) for one in pair] for pair in canned]
    file.write_text(json.dumps(told), encoding="utf-8")


def read_canned(file: Path) -> Canned:
    return [
        (types.Tool.model_validate_json(tool), types.CallToolResult.model_validate_json(answer))
        for tool, answer in json.loads(file.read_text(encoding="utf-8"))
    ]


def empty_server(canned: Canned = ()) -> Server[dict[str, Any]]:
    """The server; serving it is for who asks."""
    names = {canned_name(place): answer for place, (_, answer) in enumerate(canned)}
    tools = [tool.model_copy(update={"name": canned_name(place)}) for place, (tool, _) in enumerate(canned)]

    async def listed(
        _context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object"}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=NO_OP, description="Does nothing.", input_schema=schema),
                *tools,
            ]
        )

    async def call(_context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name in names:
            return names[params.name]
        return types.CallToolResult(content=[types.TextContent(text="done")])

    return Server("empty", version="1", on_list_tools=listed, on_call_tool=call)


async def _stdio(server: Server[dict[str, Any]]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _http(server: Server[dict[str, Any]]) -> None:
    import uvicorn
    from mcp.server.sse import SseServerTransport
    from starlette.routing import Mount, Route
    from starlette.types import Receive, Scope, Send

    transport = SseServerTransport("/messages/")

    class Stream:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())

    app = server.streamable_http_app(
        custom_starlette_routes=[Route("/sse", endpoint=Stream(), methods=["GET"])]
    )
    app.router.routes.append(Mount("/messages/", app=transport.handle_post_message))
    config = uvicorn.Config(app, port=0, http="h11", ws="none", log_level="error", access_log=False)
    listener = config.bind_socket()
    listener.listen()
    # As lcm-mcp does: else what is measured is 40 ms of waiting for the client's nod.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sys.stderr.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stderr.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    anyio.run(
        _http if sys.argv[1:2] == ["http"] else _stdio,
        empty_server(read_canned(Path(sys.argv[2])) if sys.argv[2:] else ()),
    )
