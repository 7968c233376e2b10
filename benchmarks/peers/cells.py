"""The table: a row for each question, a cell for each library, and our figure by theirs.

What was counted beside a figure stands in the same cell. Where a library could not be asked, its cell says
why in a word; nothing is made up for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.table import Figure, Floor, Table

OURS: Final = "ours"
LOSES: Final = 1.2
"""A ratio that is worse for us by more than this bears a !."""


@dataclass(frozen=True, slots=True)
class Row:
    """A question; better says which figures win, None where there is nothing to divide."""

    name: str
    unit: str = ""
    better: Literal["more", "less"] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown, and the figure in the row's unit where there is one.

    comparable is false where the figure was taken of something else, such as finding nothing.
    """

    text: str
    value: float | None = None
    comparable: bool = True


NONE: Final = Cell("none")
Column = Mapping[str, Cell]
"""A library's cells by the names of their rows."""


def shown(value: float) -> str:
    """Two or three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def ratio_of(row: Row, ours: Cell, theirs: Cell) -> float | None:
    """Ours by theirs, where both are figures of the same thing."""
    if row.better is None or ours.value is None or not theirs.value:
        return None
    return ours.value / theirs.value if ours.comparable and theirs.comparable else None


def loses(row: Row, ratio: float) -> bool:
    return ratio > LOSES if row.better == "less" else ratio < 1 / LOSES


def markdown(rows: Sequence[Row], columns: Mapping[str, Column]) -> list[str]:
    """The table, fit to be pasted."""
    others = [name for name in columns if name != OURS]
    head = ["", OURS, *(cell for name in others for cell in (name, "ratio"))]
    lines = [_line(head), "|---" * len(head) + "|"]
    for row in rows:
        ours = columns[OURS].get(row.name, NONE)
        cells = [f"{row.name}, {row.unit}" if row.unit else row.name, ours.text]
        for name in others:
            theirs = columns[name].get(row.name, NONE)
            ratio = ratio_of(row, ours, theirs)
            mark = " !" if ratio is not None and loses(row, ratio) else ""
            cells += [theirs.text, "" if ratio is None else shown(ratio) + mark]
        lines.append(_line(cells))
    return lines


def write(file: Path, rows: Sequence[Row], columns: Mapping[str, Column], size: int) -> None:
    """The figures as JSON, each of ours beside theirs."""
    table = Table()
    for row in rows:
        ours = columns[OURS].get(row.name, NONE)
        for name, column in columns.items():
            theirs = column.get(row.name, NONE)
            if name != OURS and ours.value is not None and ratio_of(row, ours, theirs) is not None:
                assert theirs.value is not None
                table.add(Figure(row.name, size, ours.value, row.unit, Floor(name, theirs.value)))
    table.write(file)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
