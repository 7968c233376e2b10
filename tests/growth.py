"""How work grows with what it is given: a ratio of CPU times of one thread, whatever else runs beside it."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 8
LINEAR = 30
"""TIMES as much to do takes less than this many times as long; what grows with the square takes 64."""


def growth(work: Callable[[int], object], whole: int) -> float:
    """How many times longer the whole takes than its TIMES-th part, each at its best of three."""
    return _least(work, whole) / _least(work, whole // TIMES)


def _least(work: Callable[[int], object], size: int) -> float:
    return min(_cost(work, size) for _ in range(3))


def _cost(work: Callable[[int], object], size: int) -> float:
    began = time.thread_time()
    work(size)
    return time.thread_time() - began
