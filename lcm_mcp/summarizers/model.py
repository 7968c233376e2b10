"""What a summarizer is asked and what it answers.

A summarizer turns a source into a shorter text within a limit. It is told nothing about sessions,
nodes or windows, and it never touches the store: the ladder decides what becomes of its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from lcm_mcp.dag.model import FREE, Cost
from lcm_mcp.tokens import TokenCount
from lcm_mcp.transcript.model import Row
from lcm_mcp.values import frozen

Level = Literal[1, 2, 3]


@frozen
class RowsSource:
    """Original rows, oldest first: what a leaf covers."""

    rows: Sequence[Row]


@frozen
class Child:
    """A summary that a parent covers, with the address range of its rows, such as e104..e238."""

    span: str
    text: str


@frozen
class NodesSource:
    """Adjacent summaries, oldest first: what a parent covers."""

    children: Sequence[Child]


@frozen
class FoldSource:
    """What a running summary is replaced from: summaries of what came before (possibly none), then the
    rows after them (possibly none, but not both), all oldest first."""

    children: Sequence[Child]
    rows: Sequence[Row]


Source = RowsSource | NodesSource | FoldSource


@frozen
class Request:
    """One call: level 1 preserves details, level 2 wants bullets; target and limit in tokens.

    The answer should be near target_tokens and must not exceed limit_tokens, by tokens.text_tokens.
    draft is an accepted answer that is wanted smaller; who writes freely may work from it alone.
    """

    source: Source
    level: Literal[1, 2]
    target_tokens: TokenCount
    limit_tokens: TokenCount
    draft: str | None = None


@frozen
class Answer:
    """A summarizer's text, the name of who wrote it, such as "extractive" or a model's id, and its cost."""

    text: str
    model: str
    cost: Cost = FREE


class Summarizer(Protocol):
    """Anything that can answer a Request. Raises SummarizerFailed where it cannot be called."""

    @property
    def name(self) -> str: ...

    async def summarize(self, request: Request) -> Answer: ...
