"""A body made ready to be explored: what a tool put around a file's own words is taken away.

Tools that read files number the lines (`   12→text`, `12<tab>text`, `12: text`) and clients append reminders
for the model. Lines count as numbered only where the numbers follow each other, so a table whose first
column is a number keeps it. Only the beginning of a long body is looked at; its sizes are the whole body's.
"""

from __future__ import annotations

import re
from itertools import islice

from lcm_mcp.values import frozen

READ_CHARACTERS = 2_000_000
"""Of a longer body no more is looked at; parsing so much of JSON takes well under a tenth of a second."""
RULED_CHARACTERS = 200_000
"""How far rules of lines, and the slower parsers, look."""
_PROBED_LINES = 4

_NUMBER = re.compile(r"^[ \t]{0,8}(\d{1,7})(?:→|\t|: | \| ?)", re.MULTILINE)
_REMINDER = "\n<system-reminder>"


@frozen
class Body:
    """text is the file's own beginning; cut: there is more of it. characters and lines are of the whole."""

    extension: str
    name: str
    text: str
    cut: bool
    characters: int
    lines: int

    @property
    def ruled(self) -> str:
        """As much as the rules of lines look at."""
        return self.text[:RULED_CHARACTERS]

    @property
    def whole(self) -> bool:
        """Whether the rules see all of it."""
        return not self.cut and len(self.text) <= RULED_CHARACTERS


def bare(path: str, given: str, start: int, end: int) -> Body:
    """The body of a file at `path`, which is `given` from start to end, without a tool's line numbers and a
    client's reminders."""
    name = re.split(r"[/\\]", path.strip().rstrip("/\\"))[-1].lower()
    stem, dot, extension = name.rpartition(".")
    text = (
        given[start : min(end, start + READ_CHARACTERS)]
        .partition(_REMINDER)[0]
        .lstrip("\ufeff")
        .replace("\r\n", "\n")
    )
    return Body(
        extension=extension if dot and stem else "",
        name=name,
        text=_without_numbers(text),
        cut=end - start > READ_CHARACTERS,
        characters=end - start,
        lines=given.count("\n", start, end) + (not given.endswith("\n", start, end)),
    )


def _without_numbers(text: str) -> str:
    first, _, rest = text.partition("\n")
    if _are_numbered(text):
        return _NUMBER.sub("", text)
    # Some tools say in a line of their own what follows.
    if "\t" not in first and _are_numbered(rest):
        return _NUMBER.sub("", rest)
    return text


def _are_numbered(text: str) -> bool:
    lines = list(islice(_first_lines(text), _PROBED_LINES))
    numbers = [int(found[1]) for line in lines if (found := _NUMBER.match(line))]
    expected = range(numbers[0], numbers[0] + len(numbers)) if numbers else range(0)
    return len(numbers) == len(lines) > 0 and numbers == list(expected)


def _first_lines(text: str) -> list[str]:
    return text[:4_000].split("\n")[:_PROBED_LINES]
