"""How long a call may take, and what its client is told where it gives no answer.

A wrong call is one sentence; an unexpected fault is one line, its traceback going to stderr, since
stdout may be the wire. Refused: waiting longer than clients do, and showing a client our own traces.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable
from typing import Final, TypeVar

import anyio

from lcm_mcp.errors import LcmError

CALL_LIMIT_S: Final = 50.0
"""Some clients give up at 60 s, and then nobody learns what happened."""
GRACE_S: Final = 5.0
"""How long an orderly end may take before the process ends all the same; the store survives that."""

T = TypeVar("T")


class NoAnswer(Exception):
    """A call that gave no answer, as the sentence its client is told; the cause is what happened."""


async def answer_of(name: str, work: Awaitable[T], remedy: str) -> T:
    """What the work gives, in time; remedy is what to do if it does not. Raises NoAnswer."""
    try:
        with anyio.fail_after(CALL_LIMIT_S):
            return await work
    except LcmError as error:
        raise NoAnswer(str(error)) from error
    except TimeoutError as error:
        raise NoAnswer(f"{name} took longer than {CALL_LIMIT_S:g} s and was stopped. {remedy}") from error
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise NoAnswer(
            f"{name} failed unexpectedly ({type(error).__name__}). This is a fault of lcm-mcp, not of "
            "the call; its log (stderr) has the details."
        ) from error
