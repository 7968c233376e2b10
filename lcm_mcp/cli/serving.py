"""The command serve: the store over MCP, until the client goes away.

mcp is imported only when it serves. On stdio stdout is the wire: nothing else is
written there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from lcm_mcp.cli.call import Call, pass_call, run_on, shared_options

if TYPE_CHECKING:
    from lcm_mcp.tools import ToolsetName


@click.command("serve")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "sse", "http"]),
    default="stdio",
    show_default=True,
    help="sse and http are one server: /sse and /mcp.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="One that others can reach needs a token: LCM_TOKEN, or token in settings.json.",
)
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="H",
    multiple=True,
    help="A name that clients may reach it by, beside the host; again for more.",
)
@click.option(
    "--toolset",
    type=click.Choice(["read", "agent", "all"]),
    default="all",
    show_default=True,
    help="What clients may call: read stores nothing, agent is for who drives a model.",
)
@shared_options
@pass_call
def serve_command(
    call: Call,
    transport: Literal["stdio", "sse", "http"],
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    toolset: ToolsetName,
) -> None:
    """Serve the memory to MCP clients."""
    if transport == "stdio":
        serve_stdio(call, toolset)
    else:
        from lcm_mcp.server import http

        run_on(call.settings(), lambda service: http.serve_http(service, host, port, allowed_hosts, toolset))


def serve_stdio(call: Call, toolset: ToolsetName = "all") -> None:
    import anyio

    from lcm_mcp import server

    anyio.run(server.serve_stdio, call.service, toolset)
