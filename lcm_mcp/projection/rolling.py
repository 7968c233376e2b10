"""The rolling projection: one summary of all that was evicted, quotes, then a verbatim tail.

Pure: what the history message says. It is as untrusted as any history, so it stands fenced, labelled and
escaped, and names the rows that the summary stands for.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcm_mcp.projection.labels import ROLLING_OPENS, escape_history, fence_history, rolling_header


def history(summary: str, first: int, last: int, quotes: Sequence[str]) -> str:
    """The history message over rows first to last; quotes are blocks, ready to be shown."""
    return fence_history(
        [f"{rolling_header(first, last)}\n{escape_history(summary)}", *quotes], ROLLING_OPENS
    )
