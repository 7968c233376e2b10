"""What a provider counted for a request, as an argument: two tools take it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.requests import Usage
from lcm_mcp.tokens import MOST_TOKENS
from lcm_mcp.tools.arguments import Arguments


class UsageArguments(Arguments):
    prepared: Annotated[
        str, Field(min_length=1, max_length=100, description="The request, by the prepared it was given as.")
    ]
    input_tokens: Annotated[
        int, Field(ge=0, le=MOST_TOKENS, description="All input tokens, cached ones included.")
    ]
    cached_tokens: Annotated[
        int | None, Field(ge=0, le=MOST_TOKENS, description="Of them, those read from a cache.")
    ] = None


def usage_of(given: UsageArguments | None) -> Usage | None:
    """The usage that was given. Raises InvalidArgument where its figures contradict each other."""
    if given is None:
        return None
    if given.cached_tokens is not None and given.cached_tokens > given.input_tokens:
        raise InvalidArgument(
            "usage.input_tokens",
            f"it is {given.input_tokens}, less than cached_tokens",
            "Give all input tokens, cached ones included.",
        )
    return Usage(given.prepared, given.input_tokens, given.cached_tokens)
