"""Figures of summaries and requests: nodes, cuts, and what providers counted.

A figure is over sessions by their numbers, from low to high, both included. It costs what it counts, up to
the whole store. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import apsw

from lcm_mcp.values import frozen

Numbers = tuple[int, int]
"""Sessions from low to high."""


@frozen
class Requests:
    """Observations kept, and what was counted for those that were measured, in tokens.

    cached_of are the input tokens of the requests whose provider said how many were cached.
    """

    observed: int
    measured: int
    input_tokens: int
    cached_tokens: int
    cached_of: int


def nodes_by_depth(db: apsw.Connection, of: Numbers) -> dict[int, int]:
    return dict(
        db.execute(
            "SELECT depth, count(*) FROM node WHERE session BETWEEN ? AND ? GROUP BY depth ORDER BY 1", of
        )
    )


def nodes_by_level(db: apsw.Connection, of: Numbers) -> dict[int, int]:
    """How many nodes have their primary text from each rung of the ladder."""
    return dict(
        db.execute(
            """SELECT level, count(*) FROM tier WHERE session BETWEEN ? AND ? AND kind = 'primary'
                GROUP BY level ORDER BY 1""",
            of,
        )
    )


def summary_bytes(db: apsw.Connection, of: Numbers) -> int:
    """UTF-8 bytes of all tiers; a text that several nodes share is counted once."""
    found: int = db.execute(
        """SELECT coalesce(sum(octet_length(body)), 0) FROM text
            WHERE id IN (SELECT text FROM tier WHERE session BETWEEN ? AND ?)""",
        of,
    ).get
    return found


def requests(db: apsw.Connection, of: Numbers) -> Requests:
    """Sums over the observations that are kept."""
    row = next(
        db.execute(
            """SELECT count(*), count(input_tokens), coalesce(sum(input_tokens), 0),
                coalesce(sum(cached_tokens), 0),
                coalesce(sum(iif(cached_tokens IS NULL, 0, input_tokens)), 0)
                FROM observation WHERE session BETWEEN ? AND ?""",
            of,
        )
    )
    return Requests(*row)
