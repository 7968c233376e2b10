"""lcm_rewind: let a session's conversation end at another of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.forking import Rewound
from lcm_mcp.tools.arguments import Arguments
from lcm_mcp.tools.text import paragraph, quoted
from lcm_mcp.tools.tool import Effects, Tool
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class RewindArguments(Arguments):
    session: Annotated[str, Field(min_length=1, max_length=200, description="The session's key or id.")]
    to: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="Its last row from now on, by ref (e104) or entry_id; also a removed one. e0: none.",
        ),
    ]


async def _run(service: Service, arguments: RewindArguments) -> Rewound:
    return await service.rewind(arguments.to, arguments.session)


def _render(rewound: Rewound) -> str:
    return paragraph(
        f"Session {quoted(rewound.session)} ends at {rewound.leaf} now: "
        f"{count(rewound.removed, 'row')} removed, {count(rewound.restored, 'row')} restored.",
        "Next: append what follows; lcm_rewind to a removed row brings it back.",
    )


TOOL = Tool(
    name="lcm_rewind",
    title="Rewind a session",
    description=(
        "Lets a session end at an earlier row, as if what came after had not been said, or at a row of "
        "another branch, which brings that branch back. What is appended next follows that row.\n"
        "Nothing is deleted: rows after it are removed from the conversation's path, so requests no longer "
        "show them and lcm_grep skips them unless include_removed; their addresses stay readable. Summaries "
        "over removed rows are not shown until those are back.\n"
        "Returns how many rows were removed and restored, and the row the session ends at. To keep both "
        "ways open side by side, use lcm_fork."
    ),
    arguments=RewindArguments,
    answer=Rewound,
    effects=Effects(read_only=False, idempotent=True),
    run=_run,
    render=_render,
)
