"""lcm_list: the summary nodes of a session, in the order of the rows they cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.answers import NodeLine, NodePage
from lcm_mcp.tools.arguments import Arguments, Cursor, SessionKey
from lcm_mcp.tools.text import flags, paragraph, quoted, span
from lcm_mcp.tools.tool import READS, Paging, Tool
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class ListArguments(Arguments):
    session: SessionKey = None
    depth: Annotated[
        int | None, Field(ge=0, le=8, description="Only nodes of this depth; 0 are those over rows.")
    ] = None
    frontier_only: Annotated[
        bool, Field(description="Only the nodes that together cover the summarized part once.")
    ] = False
    limit: Annotated[int, Field(ge=1, le=100, description="Nodes on a page.")] = 20
    cursor: Cursor = None


async def _run(service: Service, arguments: ListArguments) -> NodePage:
    return await service.list_nodes(
        session=arguments.session,
        depth=arguments.depth,
        frontier_only=arguments.frontier_only,
        limit=arguments.limit,
        cursor=arguments.cursor,
    )


def _line(node: NodeLine) -> str:
    return (
        f"{node.id} depth {node.depth}, {span(node.span)}, {count(node.rows, 'row')}, "
        f"{node.tokens} tokens for {node.source_tokens}, level {node.level}"
        f"{flags(frontier=node.frontier, removed=node.removed)}, made {node.made_at}\n"
        f"  {quoted(node.preview)}"
    )


def _covered(page: NodePage) -> str:
    if page.covered_end is None:
        return f"Nothing is summarized yet; the session ends at {page.leaf or 'no row'}."
    if page.covered_end == page.leaf:
        return f"Summarized up to its last row, {page.leaf}."
    onward = f"lcm_expand {page.covered_end}..{page.leaf} goes on from there"
    return f"Summarized up to {page.covered_end} of {page.leaf}; {onward}."


def _render(page: NodePage) -> str:
    return paragraph(
        f"Session {quoted(page.session)}: {count(page.total, 'node')}, oldest rows first, a parent before "
        f"its children; {len(page.nodes)} here. {_covered(page)}",
        *map(_line, page.nodes),
        page.note,
        "Next: lcm_describe a node for its whole summary, lcm_expand it for the rows."
        if page.nodes
        else None,
    )


TOOL = Tool(
    name="lcm_list",
    title="List summary nodes",
    description=(
        "Lists the summaries (nodes) kept over a session's conversation, oldest rows first. Use it to see at "
        "a glance what a long conversation was about and where to look closer.\n"
        "Returns for each node its id (#12), depth (0 covers rows, higher ones cover nodes), span of "
        "rows it covers (e104..e238), sizes in estimated tokens, level (1 detailed, 2 bullets, 3 "
        "truncated), whether it is on the frontier (the nodes that together cover the summarized part "
        "exactly once) or removed (over rows off the path), and a preview. frontier_only gives the "
        "shortest overview. Where there are no "
        "nodes yet the answer says how to make some; lcm_grep and lcm_expand work without them.\n"
        "Go on with lcm_describe for a node's whole text, lcm_expand for the original rows under it; "
        "pass next_cursor as cursor for the next page."
    ),
    arguments=ListArguments,
    answer=NodePage,
    effects=READS,
    run=_run,
    render=_render,
    paging=Paging("limit", 1),
)
