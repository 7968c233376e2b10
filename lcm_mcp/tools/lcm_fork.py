"""lcm_fork: go on from an earlier row in a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.forking import Forked
from lcm_mcp.tools.arguments import Arguments
from lcm_mcp.tools.text import paragraph, quoted
from lcm_mcp.tools.tool import ADDS, Tool
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class ForkArguments(Arguments):
    session: Annotated[str, Field(min_length=1, max_length=200, description="The session to fork.")]
    at: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="The last row to take along, by ref (e104) or entry_id; default: the last one.",
        ),
    ] = None
    new_session: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="The fork's key; default: one is made."),
    ] = None
    marker: Annotated[bool, Field(description="Append a row to the fork that says where it came from.")] = (
        False
    )


async def _run(service: Service, arguments: ForkArguments) -> Forked:
    return await service.fork(arguments.session, arguments.at, arguments.new_session, arguments.marker)


def _render(fork: Forked) -> str:
    made = "forked" if fork.created else "was there already: it was forked"
    return paragraph(
        f"Session {quoted(fork.session)} ({fork.id}) {made} from {quoted(fork.parent)} at {fork.at}: "
        f"{count(fork.rows, 'row')} under the same numbers, {count(fork.nodes_copied, 'node')} copied, "
        f"{fork.nodes_omitted} omitted.",
        None if fork.marker is None else f"{fork.marker} says where it came from.",
        f"Next: append to {quoted(fork.session)} with expect_last_seq {fork.last_seq}.",
    )


TOOL = Tool(
    name="lcm_fork",
    title="Fork a session",
    description=(
        "Makes a new session of a session's conversation up to one of its rows, to try another way on "
        "while the session itself stays as it is. Row numbers, entry_ids, pins and summaries come along, "
        "no text is stored twice, no model is called.\n"
        "Returns the new session, how many rows it took along, how many of the summaries were copied and "
        "how many omitted (those over rows after `at`, or over a unit that is not complete there). The "
        "same fork again with the same new_session changes nothing (created is false).\n"
        "Append to the new session to go on there; to tell its outcome, append an entry with outcome_of "
        "to the first one. To go back within one session instead, use lcm_rewind."
    ),
    arguments=ForkArguments,
    answer=Forked,
    effects=ADDS,
    run=_run,
    render=_render,
)
