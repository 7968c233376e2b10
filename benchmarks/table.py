"""Figures beside their floors and limits: one table on paper, the same as JSON.

A floor is the least that the same work could cost, done in turns with it in the same run; a ratio is of
medians. Where a figure was taken at several sizes, its exponent says how it grows: 0 not at all, 1 with the
rows. Nothing is refused here: a limit that is missed is marked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HEAD = (
    f"{'figure':<44} {'rows':>9} {'value':>10} {'':<5} {'floor':<28} {'its value':>10}"
    f" {'ratio':>8} {'limit':>8} {'':<1} {'exponent':>8}"
)


@dataclass(frozen=True, slots=True)
class Floor:
    """What a figure is compared with, in its unit, and the most that their ratio is meant to be."""

    name: str
    value: float
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured in a store of so many rows; most is a limit of the value itself."""

    name: str
    rows: int
    value: float
    unit: str
    floor: Floor | None = None
    most: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor.value if self.floor and self.floor.value else None

    @property
    def held(self) -> bool | None:
        """Whether the limit is held; None where there is none."""
        if self.floor is not None and self.floor.limit is not None:
            return self.value <= self.floor.value * self.floor.limit
        return None if self.most is None else self.value <= self.most


class Table:
    """The figures of one run, in the order they were taken."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def add(self, *figures: Figure) -> None:
        self.figures += figures

    def exponent(self, figure: Figure) -> float | None:
        """The slope of the figure over its sizes, both as logarithms, by least squares."""
        points = [
            (math.log(one.rows), math.log(one.value))
            for one in self.figures
            if _series(one) == _series(figure) and one.value > 0
        ]
        middle = sum(x for x, _ in points) / len(points) if points else 0
        spread = sum((x - middle) ** 2 for x, _ in points)
        return sum((x - middle) * y for x, y in points) / spread if spread else None

    def lines(self) -> Sequence[str]:
        """The table, a figure's sizes together, its exponent beside the largest."""
        series = list(dict.fromkeys(map(_series, self.figures)))
        ordered = sorted(self.figures, key=lambda each: (series.index(_series(each)), each.rows))
        return [HEAD, *map(self._line, ordered)]

    def write(self, file: Path) -> None:
        """The same as JSON."""
        told = [
            {**asdict(each), "ratio": each.ratio, "held": each.held, "exponent": self.exponent(each)}
            for each in self.figures
        ]
        file.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def _line(self, figure: Figure) -> str:
        floor, ratio, exponent = figure.floor, figure.ratio, self.exponent(figure)
        limit = figure.most if floor is None or floor.limit is None else floor.limit
        largest = figure.rows == max(each.rows for each in self.figures if _series(each) == _series(figure))
        named, least = ("", None) if floor is None else (floor.name, floor.value)
        return (
            f"{figure.name:<44} {figure.rows:>9,} {_number(figure.value):>10} {figure.unit:<5}"
            f" {named:<28} {_number(least):>10}"
            f" {_number(ratio):>8} {_number(limit):>8} {'!' if figure.held is False else '':<1}"
            f" {f'{exponent:.2f}' if exponent is not None and largest else '':>8}"
        ).rstrip()


def _series(figure: Figure) -> tuple[str, str]:
    return figure.name, "" if figure.floor is None else figure.floor.name


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 0.1 else f"{value:.2f}"
