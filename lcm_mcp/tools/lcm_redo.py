"""lcm_redo: make a summary node again from its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.redoing import Redone
from lcm_mcp.tools.arguments import Arguments, SessionKey
from lcm_mcp.tools.text import listed, paragraph, quoted
from lcm_mcp.tools.tool import Effects, Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class RedoArguments(Arguments):
    id: Annotated[str, Field(min_length=1, max_length=100, description="A node (#12, s7/#12).")]
    session: SessionKey = None


async def _run(service: Service, arguments: RedoArguments) -> Redone:
    return await service.redo(arguments.id, arguments.session)


def _render(redone: Redone) -> str:
    above = redone.changed and redone.parents
    made = "was made again" if redone.changed else "came out the same, so nothing was changed"
    return paragraph(
        f"Session {quoted(redone.session)}: node {redone.node} {made}: {redone.tokens} tokens "
        f"(before {redone.tokens_before}), level {redone.level} by {quoted(redone.model)}.",
        f"Made of its old text, and left as they are: {listed(redone.parents)}" if above else None,
        f"Next: lcm_describe {redone.node} for both texts." if redone.changed else None,
    )


TOOL = Tool(
    name="lcm_redo",
    title="Make a summary again",
    description=(
        "Makes the summary of one node again from its rows or children, with the summarizers that the server "
        "has now. Use it where a node says something wrong or leaves out what matters.\n"
        "The old text is kept as a superseded version, which only lcm_describe shows. Requests show the new "
        "one from the next compaction on. Nodes above it were made of the old text and stay; redo them after "
        "it where that matters.\n"
        "Returns whether the text changed, its size, level and model."
    ),
    arguments=RedoArguments,
    answer=Redone,
    effects=Effects(read_only=False, idempotent=False),
    run=_run,
    render=_render,
)
