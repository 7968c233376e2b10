"""lcm_compact: fold a session's older part now, whether or not its window asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lcm_mcp.service.prepared import Observation
from lcm_mcp.tools.arguments import Arguments
from lcm_mcp.tools.observation import observation
from lcm_mcp.tools.tool import ADDS, Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class CompactArguments(Arguments):
    session: Annotated[str, Field(min_length=1, max_length=200, description="The session's key or id.")]
    strategy: Annotated[
        Literal["rolling", "lcm"] | None,
        Field(description="rolling: one running summary; lcm: nodes. Kept for the session."),
    ] = None


async def _run(service: Service, arguments: CompactArguments) -> Observation:
    return await service.compact(arguments.session, arguments.strategy)


TOOL = Tool(
    name="lcm_compact",
    title="Compact a session now",
    description=(
        "Summarizes the older part of a session now, although its window may not ask for it yet, such as "
        "between two tasks. Later requests show the summaries and the newest part word for word; no row "
        "changes or is lost. prepare_context does this by itself where a window is known, so it is seldom "
        "needed.\n"
        "Returns the observation: the status (compacted; not_needed: nothing was left to fold; scheduled: "
        "call again to wait for the rest; limited: over the window; failed: the last state is shown) with "
        "notes, what was made, and each section of the next request with its sources and size."
    ),
    arguments=CompactArguments,
    answer=Observation,
    effects=ADDS,
    run=_run,
    render=observation,
)
