"""What calls of summarizers cost, by UTC day, and the cap of a day.

A call's tokens are put down before it is made, as many as it can take at most, and replaced by what it took
once that is known. Nobody can say what a broken call or one of a dead process took, so its tokens stay as
they were put down, and count for the rest of its day. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import apsw

from lcm_mcp.dag.figures import Numbers
from lcm_mcp.dag.model import Cost
from lcm_mcp.ids import SessionId
from lcm_mcp.values import frozen


@frozen
class Place:
    """Where a call is put down: day as 2026-01-31."""

    day: str
    session: SessionId
    summarizer: str


@frozen
class Spent:
    """What was spent on a summarizer: unsettled are tokens of calls that could not be counted (yet), usd is
    of the calls with a known price, unpriced the others."""

    calls: int
    input_tokens: int
    output_tokens: int
    unsettled_tokens: int
    usd: float
    unpriced_calls: int


def counted_on(db: apsw.Connection, day: str) -> int:
    """The tokens that count against a day's cap, all sessions and summarizers together."""
    found: int = db.execute(
        "SELECT coalesce(sum(unsettled + input_tokens + output_tokens), 0) FROM spend WHERE day = ?", (day,)
    ).get
    return found


def put_down(db: apsw.Connection, place: Place, tokens: int) -> None:
    """Count a call that is about to be made, with the most that it can take."""
    db.execute(
        """INSERT INTO spend VALUES(?, ?, ?, 1, ?, 0, 0, 0, 0) ON CONFLICT DO UPDATE
            SET calls = calls + 1, unsettled = unsettled + excluded.unsettled""",
        (place.day, place.session, place.summarizer, tokens),
    )


def settle(db: apsw.Connection, place: Place, tokens: int, cost: Cost) -> None:
    """Replace what was put down for a call by what it took."""
    db.execute(
        """UPDATE spend SET unsettled = unsettled - ?, input_tokens = input_tokens + ?,
            output_tokens = output_tokens + ?, micro_usd = micro_usd + ?, unpriced = unpriced + ?
            WHERE day = ? AND session = ? AND summarizer = ?""",
        (
            tokens,
            cost.input_tokens,
            cost.output_tokens,
            cost.micro_usd or 0,
            cost.micro_usd is None,
            place.day,
            place.session,
            place.summarizer,
        ),
    )


def spent(db: apsw.Connection, of: Numbers) -> dict[str, Spent]:
    """What the sessions' calls took, by summarizer."""
    rows = db.execute(
        """SELECT summarizer, sum(calls), sum(input_tokens), sum(output_tokens), sum(unsettled),
            sum(micro_usd), sum(unpriced) FROM spend WHERE session BETWEEN ? AND ?
            GROUP BY summarizer ORDER BY summarizer""",
        of,
    )
    return {
        name: Spent(calls, given, taken, unsettled, micro_usd / 1_000_000, unpriced)
        for name, calls, given, taken, unsettled, micro_usd, unpriced in rows
    }
