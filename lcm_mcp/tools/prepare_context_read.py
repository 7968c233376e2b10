"""prepare_context for a client that may only read: what a request would show now, and nothing is kept of it.

It takes those of the full tool's arguments that change nothing stored, named here one by one, so that a
new one is refused until somebody has judged it. Refused, by name: append, strategy, usage, compaction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, create_model

from lcm_mcp.service.prepared import Prepared
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.tools import prepare_context
from lcm_mcp.tools.arguments import Arguments
from lcm_mcp.tools.tool import READS, Tool

if TYPE_CHECKING:
    from lcm_mcp.service import Service

_READING: Final = (
    "session",
    "have",
    "window_tokens",
    "preamble_tokens",
    "system",
    "tools",
    "provider",
    "format",
    "query",
    "detail",
    "cursor",
)


class _Never(Arguments):
    model: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="The model's name; tells the window where nothing else does.",
        ),
    ] = None
    compact: Annotated[Literal["never"], Field(description="It only reads; nothing is folded for it.")] = (
        "never"
    )


_FIELDS: Final[dict[str, Any]] = {
    name: (field.annotation, field)
    for name, field in prepare_context.PrepareArguments.model_fields.items()
    if name in _READING
}
ReadArguments: Final = create_model("ReadArguments", __base__=_Never, **_FIELDS)


async def _run(service: Service, arguments: Arguments) -> Prepared:
    given = {name: getattr(arguments, name) for name in type(arguments).model_fields}
    return await service.prepare(PrepareQuery(**given, keep=False))


TOOL: Final[Tool[Any, Prepared]] = replace(
    prepare_context.TOOL,
    description=(
        "Gives the messages a model's next request would carry for a session, as it stands: the plain "
        "history, or once it was folded the older part as labelled summaries with the newest part word for "
        "word. Use it to resume a stored session in a new one. It only reads: nothing is appended, folded or "
        "kept.\n"
        "Give the window (window_tokens, or the model's name) and your preamble (system and tools, or "
        "preamble_tokens) so that sizes are right.\n"
        "Returns the name of this state (prepared), the status (not_needed, limited: over the window, "
        "unknown_window) with notes, an estimate of tokens, and the messages in the asked format, each with "
        "the rows it shows; nothing is lost: what a summary covers is there for lcm_expand. detail adds the "
        "whole observation.\n"
        "While next_cursor is given, call again with the same arguments and this cursor; the pages joined "
        "are the request. A message over a page comes as fragments whose json is to be joined."
    ),
    arguments=ReadArguments,
    effects=READS,
    run=_run,
)
