"""Times: milliseconds since 1970 UTC inside, ISO 8601 outside."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.transcript.entries import read_instant

_EPOCH: Final = datetime(1970, 1, 1)  # without a zone, which it would name


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def iso(at: int) -> str:
    """ISO 8601 in UTC with milliseconds; what no calendar holds is shown as the bare number."""
    minutes, ms = divmod(at, 60_000)
    minute = _minute(minutes)
    return str(at) if minute is None else f"{minute}:{ms / 1000:06.3f}Z"


@lru_cache
def _minute(minutes: int) -> str | None:
    """The minute that begins so many after 1970; kept, as what is told at once often lies close together."""
    try:
        return (_EPOCH + timedelta(minutes=minutes)).isoformat(timespec="minutes")
    except OverflowError:
        return None


def parse_time(name: str, text: str) -> int:
    """Milliseconds of an ISO 8601 time; a time without zone is UTC. Raises InvalidArgument."""
    found = read_instant(text)
    if found is None:
        raise InvalidArgument(
            name, f"{text[:40]!r} is not a time", "Use ISO 8601, such as 2026-01-31 or 2026-01-31T10:00:00Z."
        )
    return found


def today() -> str:
    """The day in UTC, such as 2026-01-31."""
    return datetime.now(UTC).date().isoformat()
