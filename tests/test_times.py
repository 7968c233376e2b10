"""A time is told so that it is read as the very same again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.times import iso, parse_time

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which a calendar holds, in milliseconds since 1970."""


@given(st.integers(FIRST, LAST))
@example(FIRST)
@example(LAST)
@example(-1)
def test_a_time_comes_back_to_the_millisecond(at: int) -> None:
    assert parse_time("since", iso(at)) == at
    assert datetime.fromisoformat(iso(at)) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)


@pytest.mark.parametrize("at", [FIRST - 1, LAST + 1, 2**63 - 1, -(2**63)])
def test_what_no_calendar_holds_is_shown_as_the_number(at: int) -> None:
    assert iso(at) == str(at)


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "0001-01-01T00:00:00+05:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"since: .* is not a time"):
        parse_time("since", text)
