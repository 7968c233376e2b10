"""Stored text made fit for a terminal, and numbers and times for a reader.

A transcript holds what programs once printed: colours, cursor movements, titles, bells. Shown as they
are they would run again, in the reader's terminal. The common sequences (colours, cursor, erasing) are
taken out, any other control character becomes a visible picture; line breaks and tabs stay. --json is
the verbatim way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOOL = re.compile(r"(?<!['\w])lcm_(sessions|list|grep|describe|expand|compact|redo|fork|rewind)\b(?!['\w])")
"""A tool that there is as a command too, where it is no quoted name."""
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_VISIBLE: dict[int, str] = (
    {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
    | {0x7F: "␡"}
    | {code: f"<{code:02X}>" for code in range(0x80, 0xA0)}
    # Marks that reorder what follows can make a text read as another one.
    | {code: f"<{code:04X}>" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)}
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)

FIRM_BLANK = "\0"
"""A blank at which no line is broken, until it is printed; cleaned text holds no such character."""
_IN_ONE_PIECE = str.maketrans({" ": FIRM_BLANK, "\n": "␊", "\t": "␉"})
_WORD = re.compile("[^ ]+")
_WIDE = "\u2e80-\ud7ff\uf900-\uffef\U0001f000-\U0003ffff"
_PIECE = re.compile(f"[{_WIDE}]|[^ {_WIDE}]+")

_OPTIONS = {
    'with session "*"': "with --session '*'",
    "(include_removed)": "(--include-removed)",
    "or use mode literal": "or use --mode literal",
    "without cursor for its first page, then pass next_cursor unchanged": (
        "without --cursor for its first page, then give the --cursor that it names, unchanged,"
    ),
    "give window_tokens or": "give --window or",
    "; next_cursor goes on from there": "; the --cursor below goes on from there",
    "(compact: never)": "(--compact never; give --compact auto)",
    "; lcm_append and prepare_context with append create one": "",
}
"""What the service says of arguments, and what a reader at a terminal gives, or cannot."""


def clean(text: str) -> str:
    """The text without anything a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    return _SEQUENCE.sub("", text).replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str) -> str:
    """Cleaned, with every run of white space as one space."""
    return " ".join(clean(text.replace("\r", "\n")).split())


def unbroken(text: str) -> str:
    """A path or key, cleaned, that stays on one line and in one piece where a console wraps what holds it."""
    return clean(text).translate(_IN_ONE_PIECE)


def words(text: str) -> Iterator[tuple[int, int]]:
    """The pieces between which a line may be broken: at blanks, and beside wide characters outside paths."""
    for word in _WORD.finditer(text):
        pieces = (word,) if "/" in word[0] else _PIECE.finditer(text, *word.span())
        yield from (piece.span() for piece in pieces)


def as_commands(sentence: str) -> str:
    """A sentence of the service with commands where it names tools: a reader at a terminal has those."""
    said = _TOOL.sub(r"lcm-mcp \1", sentence)
    for word, option in _OPTIONS.items():
        said = said.replace(word, option)
    return said


def shorten(text: str, characters: int) -> str:
    """One line of at most so many characters, the last an ellipsis where something was cut."""
    line = one_line(text)
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def when(at: str | None) -> str:
    """Minute precision of an ISO 8601 time, in UTC as stored."""
    return "" if at is None else at[:16].replace("T", " ")


def percent(part: int, whole: int) -> str:
    """A share without decimals; what is there but rounds to nothing is <1%."""
    if whole <= 0 or part <= 0:
        return "0%"
    return "<1%" if part * 100 < whole else f"{round(part * 100 / whole)}%"
