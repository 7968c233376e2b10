"""lcm_submit_summary: an agent's text for a summary that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.agents import Submitted
from lcm_mcp.tools.arguments import Arguments
from lcm_mcp.tools.text import paragraph, quoted, span
from lcm_mcp.tools.tool import ADDS, Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class SubmitSummaryArguments(Arguments):
    task: Annotated[
        str, Field(min_length=1, max_length=100, description="The task that lcm_next_summary gave.")
    ]
    text: Annotated[str, Field(max_length=200_000, description="The summary, and nothing else.")]
    author: Annotated[
        str | None,
        Field(min_length=1, max_length=80, description="Which model you are; kept beside the text."),
    ] = None


async def _run(service: Service, arguments: SubmitSummaryArguments) -> Submitted:
    return await service.submit_summary(arguments.task, arguments.text, arguments.author)


def _render(done: Submitted) -> str:
    what = f"Session {quoted(done.session)}, task {done.task}, {span(done.span)} (depth {done.depth})"
    size = f"{done.tokens} tokens as shown, level {done.level} by {quoted(done.model)}"
    if not done.accepted:
        kept = f"The task is yours until {done.expires_at}: send it again." if done.expires_at else None
        return paragraph(f"{what}: refused ({size}).", done.reason, kept)
    if done.node is None:
        stands = "kept until the other parts of its unit are there"
    elif done.replaced is None:
        stands = f"stored as {done.node}"
    else:
        stands = f"stored in {done.node}, in place of a text by {quoted(done.replaced)}"
    return paragraph(
        f"{what}: accepted, {stands} ({size}).", f"Next: lcm_next_summary for session {quoted(done.session)}."
    )


TOOL = Tool(
    name="lcm_submit_summary",
    title="Hand a summary in",
    description=(
        "Hands in the text of a summary that lcm_next_summary gave you. It is looked at before it is stored: "
        "it has to say something, keep its limit, be smaller than its source as shown, and name no address "
        "(e104, #12) that the source has not. A refused text comes back with all reasons; the task stays "
        "yours: correct the text and send it again.\n"
        "Accepted, it becomes a node like any other, with you as its author; where the node was made by rule "
        "meanwhile, your text takes its place, and requests show it from the next compaction on. Where "
        "another agent or a model was first, it is refused and nothing changes."
    ),
    arguments=SubmitSummaryArguments,
    answer=Submitted,
    effects=ADDS,
    run=_run,
    render=_render,
)
