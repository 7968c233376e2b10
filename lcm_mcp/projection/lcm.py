"""The LCM projection: ordered summaries under their headers, quotes, then a verbatim tail.

Pure functions over values: which tier of each node fits, what the history message says and what it weighs.
The same cut and the same rows always give the same projection, so a provider's cached prefix holds until
the next cut. Nothing is dropped to fit: a node shows less text, never none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from lcm_mcp.projection.labels import escape_history, fence_history
from lcm_mcp.tokens import Size, TokenCount, text_tokens, utf8_length
from lcm_mcp.values import frozen

STUB_CHARACTERS = 200

ShownTier = Literal["rich", "primary", "stub"]


@frozen
class Summarized:
    """A node as a request may show it: its header, and its text in each tier it has."""

    header: str
    address: str
    texts: Mapping[str, str]
    """By tier: "primary" always, "rich" where there is one."""


def block(node: Summarized, tier: ShownTier) -> str:
    """A node in one tier, as it stands in the history message; in the primary one where it has no such."""
    if tier == "stub":
        beginning = node.texts["primary"][:STUB_CHARACTERS]
        note = f"[shortened: lcm_describe {node.address} gives the whole summary]"
        return f"{node.header}\n{escape_history(beginning)}…\n{note}"
    return f"{node.header}\n{escape_history(node.texts.get(tier) or node.texts['primary'])}"


def choose_tiers(nodes: Sequence[Summarized], budget: int) -> tuple[ShownTier, ...]:
    """A tier for each node (oldest first) such that all blocks fit into `budget` tokens, if they can.

    Each node starts at its richest; the oldest give way first, to terse, then to a stub.
    """
    choices = [_choices(node) for node in nodes]
    levels = [0] * len(nodes)
    total = sum(tokens[0][1] for tokens in choices)
    for step in (1, 2):
        for index, tiers in enumerate(choices):
            if total <= budget:
                break
            total += tiers[step][1] - tiers[levels[index]][1]
            levels[index] = step
    return tuple(tiers[level][0] for tiers, level in zip(choices, levels, strict=True))


def _choices(node: Summarized) -> list[tuple[ShownTier, int]]:
    """The node's tiers with their tokens, richest first; always three, so that a step means one thing."""
    primary: tuple[ShownTier, int] = ("primary", _block_tokens(node, "primary"))
    rich: tuple[ShownTier, int] = ("rich", _block_tokens(node, "rich")) if "rich" in node.texts else primary
    stub: tuple[ShownTier, int] = ("stub", _block_tokens(node, "stub"))
    return [rich, primary, stub if stub[1] < primary[1] else primary]


def _block_tokens(node: Summarized, tier: ShownTier) -> TokenCount:
    return text_tokens(block(node, tier) + "\n\n")


def history(
    nodes: Sequence[Summarized], tiers: Sequence[ShownTier], quotes: Sequence[str] = ()
) -> str | None:
    """The history message (quotes are blocks, ready to be shown), or None where there is nothing in it."""
    if not nodes:
        return None
    blocks = [block(node, tier) for node, tier in zip(nodes, tiers, strict=True)]
    return fence_history([*blocks, *quotes])


def history_size(text: str | None) -> Size:
    return Size() if text is None else Size(bytes=utf8_length(text), inputs=1)
