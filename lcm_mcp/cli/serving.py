"""The command serve: the store over MCP, until the client goes away.

Only here is mcp imported, and only when it serves. On stdio stdout is the wire: nothing else is
written there.
"""

from __future__ import annotations

from typing import Literal

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options


@click.command("serve")
@click.option(
    "--transport",
    type=click.Choice(["stdio", "sse", "http"]),
    default="stdio",
    show_default=True,
    help="sse and http are one server: /sse and /mcp.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535))
@shared_options
@pass_call
def serve_command(call: Call, transport: Literal["stdio", "sse", "http"], host: str, port: int) -> None:
    """Serve the memory to MCP clients."""
    if transport == "stdio":
        serve_stdio(call)
    else:
        from lcm_mcp import server

        call.run(lambda service: server.serve_http(service, host, port))


def serve_stdio(call: Call) -> None:
    from lcm_mcp import server

    call.run(server.serve_stdio)
