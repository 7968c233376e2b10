"""What a file is, found from its body by rule: its kind, a line on what is in it, and how it begins.

The body decides, the path only says which rule to try first: a JSON answer under a path that ends in .py is
JSON. No model is asked and nothing is guessed: a family without a rule is told by its size. Standard-library
parsers read what is short enough for them, and where one gives up a rule of lines takes over. Pure; no more
than the first two million characters of a body are looked at.
"""

from __future__ import annotations

from lcm_mcp.transcript.exploring import code, data, markup, tables
from lcm_mcp.transcript.exploring.bodies import Body, bare
from lcm_mcp.transcript.exploring.languages import BY_EXTENSION
from lcm_mcp.transcript.exploring.naming import SUMMARY_CHARACTERS, clipped
from lcm_mcp.values import frozen
from lcm_mcp.wording import counted

HEAD_CHARACTERS = 1_000
UNKNOWN = "unknown"

_TEXTUAL = frozenset(("", "txt", "text", "log", "out", "rst", "adoc", "tex", "srt", "lst", "rtf", "org"))
_UNPRINTABLE_SHARE = 0.1
# A word longer than this is no word: base64, hashes, a file on one line.
_LONGEST_WORD = 2_000
_PROBED = 8_000


@frozen
class Exploration:
    """kind is the family in a word; summary has at most 200 characters; head is how the body begins, without
    what a tool put around it."""

    kind: str
    summary: str
    head: str


def explore(path: str, text: str, start: int = 0, end: int | None = None) -> Exploration:
    """Explore the body of a file that a tool read from `path`, which is `text` from start to end. Never
    raises, whatever the body is."""
    seen = bare(path, text, start, len(text) if end is None else end)
    kind, summary = _found(seen)
    return Exploration(kind, clipped(summary, SUMMARY_CHARACTERS), seen.text[:HEAD_CHARACTERS])


def _found(body: Body) -> tuple[str, str]:
    if _is_binary(body.text[:_PROBED]):
        return UNKNOWN, counted(body.characters, "character")
    for rule in _RULES:
        found = rule(body)
        if found is not None:
            return found
    # Under the name of a language that has a rule, what declares nothing is just text.
    textual = body.extension in _TEXTUAL or body.extension in BY_EXTENSION
    if textual and _has_words(body.text[:_PROBED]):
        return "text", f"{_size(body)}, begins: {_first_line(body.text)}"
    return UNKNOWN, _size(body)


_RULES = (data.structured, markup.marked_up, code.declared, tables.tabular, code.guessed, markup.headed)
"""Tried in this order; each gives a kind and a summary, or None for a body that is not of its family."""


def _is_binary(text: str) -> bool:
    odd = sum(1 for character in text if character in "\ufffd\u2400" or _is_control(character))
    return odd > len(text) * _UNPRINTABLE_SHARE


def _is_control(character: str) -> bool:
    return character < " " and character not in "\t\n\r\f\x1b"


def _has_words(text: str) -> bool:
    return max(map(len, text.split()), default=0) < _LONGEST_WORD


def _size(body: Body) -> str:
    return f"{counted(body.lines, 'line')}, {counted(body.characters, 'character')}"


def _first_line(text: str) -> str:
    return " ".join(text.lstrip()[:400].split("\n", 1)[0].split())
