"""What the use cases are asked, where a call has too many arguments for a signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lcm_mcp.service.answers import Format, Strategy
from lcm_mcp.values import frozen


@frozen
class GrepQuery:
    """pattern has 1 to 500 characters; since and until are ISO 8601, both included; node is #12 or s7/#12.

    order None is the mode's own: relevance for words, unless their case is told apart; newest for the others.
    """

    pattern: str
    mode: Literal["literal", "words", "regex"] = "literal"
    session: str | None = None
    scope: Literal["all", "rows", "summaries"] = "all"
    node: str | None = None
    role: Literal["user", "assistant", "tool", "system"] | None = None
    since: str | None = None
    until: str | None = None
    case_sensitive: bool = False
    include_removed: bool = False
    order: Literal["newest", "oldest", "relevance"] | None = None
    limit: int = 10
    cursor: str | None = None

    @property
    def by_relevance(self) -> bool:
        """Whether the best hits come first, some of the words being enough."""
        if self.order is None:
            return self.mode == "words" and not self.case_sensitive
        return self.order == "relevance"


@frozen
class Usage:
    """What a provider counted for the request that was prepared under this name, in tokens."""

    prepared: str
    input_tokens: int
    cached_tokens: int | None = None


@frozen
class PrepareQuery:
    """window_tokens and preamble_tokens are tokens; system and tools are the preamble itself, unstored.

    provider and model say whom the request is for, and stay so for the session until another is named.
    after guards the append, have names the projection that the client holds. keep false leaves no observation
    behind: somebody looks, no request is made. given false keeps one of a request that nobody is given.
    query is what rows are recalled for that the request no longer shows.
    """

    session: str | None = None
    append: Sequence[object] = ()
    after: str | None = None
    have: str | None = None
    strategy: Strategy | None = None
    window_tokens: int | None = None
    preamble_tokens: int | None = None
    system: str | None = None
    tools: Sequence[object] = ()
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    format: Format = "messages"
    compact: Literal["auto", "force", "never"] = "auto"
    deadline_ms: int = 50_000
    query: str | None = None
    detail: bool = False
    keep: bool = True
    given: bool = True
    cursor: str | None = None
