"""Times: milliseconds since 1970 UTC inside, ISO 8601 outside."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from lcm_mcp.errors import InvalidArgument


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def iso(at: int) -> str:
    """ISO 8601 in UTC with milliseconds; what no calendar holds is shown as the bare number."""
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(name: str, text: str) -> int:
    """Milliseconds of an ISO 8601 time; a time without zone is UTC. Raises InvalidArgument."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(
            name, f"{text[:40]!r} is not a time", "Use ISO 8601, such as 2026-01-31 or 2026-01-31T10:00:00Z."
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def today() -> str:
    """The day in UTC, such as 2026-01-31."""
    return datetime.now(UTC).date().isoformat()
