"""A tool, as small as one can be: how many rows each role has in a session.

`docs/contributing.md` says where it is put.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lcm_mcp.service.statistics import Stats
from lcm_mcp.tools.arguments import Arguments, SessionKey
from lcm_mcp.tools.text import paragraph, quoted
from lcm_mcp.tools.tool import READS, Tool
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class CountArguments(Arguments):
    session: SessionKey = None


async def _run(service: Service, arguments: CountArguments) -> Stats:
    return await service.stats(arguments.session)


def _render(stats: Stats) -> str:
    roles = (f"{role}: {rows}" for role, rows in stats.rows_by_role.items())
    return paragraph(f"Session {quoted(stats.session)}: {count(stats.rows, 'row')}.", *roles)


TOOL = Tool(
    name="lcm_count",
    title="Count rows",
    description="Counts the rows of a session by role. Use it to see who said how much.",
    arguments=CountArguments,
    answer=Stats,
    effects=READS,
    run=_run,
    render=_render,
)
