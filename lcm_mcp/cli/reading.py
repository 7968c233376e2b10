"""Commands that read: sessions, list, grep, expand.

Each takes what its tool takes, under the same names, and writes nothing to the store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import Expansion

_limit = click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 100))
_cursor = click.option("--cursor", help="The next page's, as the last page gave it.")


@click.command("sessions")
@click.argument("query", required=False)
@click.option("--project", default="*", help="Only those of this project folder.")
@_limit
@_cursor
@json_option
@shared_options
@pass_call
def sessions_command(
    call: Call, query: str | None, project: str, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List the sessions stored.

    The last active stands first. QUERY is a part of a title or key.
    """
    page = call.run(
        lambda service: service.sessions(query=query, project=project, limit=limit, cursor=cursor)
    )
    if as_json:
        print_json(page)
    else:
        from lcm_mcp.cli.show import show_sessions

        show_sessions(console(), page)


@click.command("list")
@click.option("--depth", type=click.IntRange(0, 8), help="Only nodes of this depth; 0 are the leaves.")
@click.option("--frontier", is_flag=True, help="Only nodes that no other node covers.")
@_limit
@_cursor
@json_option
@shared_options
@pass_call
def list_command(
    call: Call, depth: int | None, frontier: bool, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List the summary nodes of a session."""
    page = call.run(
        lambda service: service.list_nodes(
            session=call.session, depth=depth, frontier_only=frontier, limit=limit, cursor=cursor
        )
    )
    if as_json:
        print_json(page)
    else:
        from lcm_mcp.cli.show import show_nodes

        show_nodes(console(), page)


@click.command("grep")
@click.argument("pattern")
@click.option(
    "--mode", type=click.Choice(["literal", "words", "regex"]), default="literal", show_default=True
)
@click.option("--scope", type=click.Choice(["all", "rows", "summaries"]), default="all", show_default=True)
@click.option("--node", metavar="ID", help="Only rows that this node covers.")
@click.option("--role", type=click.Choice(["user", "assistant", "tool", "system"]))
@click.option("--since", metavar="TIME", help="ISO 8601, included.")
@click.option("--until", metavar="TIME", help="ISO 8601, included.")
@click.option("--case-sensitive", is_flag=True)
@click.option("--include-removed", is_flag=True, help="Also rows off the active path.")
@click.option(
    "--order",
    type=click.Choice(["newest", "oldest", "relevance"]),
    help="newest; relevance (the best hits first) for words.",
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 50))
@_cursor
@json_option
@shared_options
@pass_call
def grep_command(call: Call, as_json: bool, **wanted: Any) -> None:
    """Find the words that were said.

    PATTERN is a text as it stands in rows or summaries; with --mode words, a question, answered best
    first (with --order newest: all its words in any order); with --mode regex, an expression of RE2.
    """
    from lcm_mcp.service.requests import GrepQuery

    query = GrepQuery(session=call.session, **wanted)  # the options are named as the query's fields
    page = call.run(lambda service: service.grep(query))
    if as_json:
        print_json(page)
    else:
        from lcm_mcp.cli.show import show_hits

        show_hits(console(), page, query.pattern if query.mode == "literal" else None)


@click.command("expand")
@click.argument("id")
@click.option("--max-bytes", default=6000, show_default=True, type=click.IntRange(500, 150_000))
@click.option("--include-payload", is_flag=True, help="Every part as JSON, images as base64 included.")
@click.option("--all", "whole", is_flag=True, help="All pages.")
@_cursor
@json_option
@shared_options
@pass_call
def expand_command(
    call: Call, id: str, max_bytes: int, include_payload: bool, whole: bool, cursor: str | None, as_json: bool
) -> None:
    """Show the original words under ID.

    ID is a node (#12), a row (e104) or a range (e104..e238); s7/ in front names a session.
    """

    async def read(service: Service) -> Expansion:
        page = await service.expand(id, call.session, max_bytes, include_payload, cursor)
        rows = page.rows
        while whole and page.next_cursor is not None:
            page = await service.expand(id, call.session, max_bytes, include_payload, page.next_cursor)
            rows += page.rows
        return replace(page, rows=rows)

    expansion = call.run(read)
    if as_json:
        print_json(expansion)
    else:
        from lcm_mcp.cli.show import show_rows

        show_rows(console(), expansion)
