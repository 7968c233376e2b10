"""Names in one line: at most twelve of them, in no more characters than a preview has, the rest counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

SUMMARY_CHARACTERS = 200
NAMES = 12
NAME_CHARACTERS = 60

N = TypeVar("N")
Named = tuple[str, str]
"""A kind of thing and a name; the kind may be "" where names speak for themselves."""


def clipped(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1].rstrip()}…"


def tidy(name: str) -> str:
    """A name on one line, not endless."""
    return clipped(" ".join(name[: NAME_CHARACTERS * 4].split()), NAME_CHARACTERS)


def listed(lead: str, names: Iterable[str]) -> str:
    """`lead: a, b, c (+2 more)`; the lead alone where there are no names."""
    unique = list(dict.fromkeys(name for name in map(tidy, names) if name))
    return _fitted(lead, unique, ", ".join)


def grouped(lead: str, names: Iterable[Named]) -> str:
    """`lead: class A, B; def c (+2 more)`, kinds in the order in which they first come."""
    unique = list(dict.fromkeys((kind, tidy(name)) for kind, name in names if name.strip()))
    return _fitted(lead, unique, _by_kind)


def _by_kind(names: Sequence[Named]) -> str:
    kinds: dict[str, list[str]] = {}
    for kind, name in names:
        kinds.setdefault(kind, []).append(name)
    return "; ".join(f"{kind} {', '.join(inside)}".strip() for kind, inside in kinds.items())


def _fitted(lead: str, names: Sequence[N], join: Callable[[Sequence[N]], str]) -> str:
    """As many of the first names as twelve and a preview allow."""
    for shown in range(min(len(names), NAMES), 0, -1):
        more = f" (+{len(names) - shown:,} more)" if shown < len(names) else ""
        line = f"{lead}: {join(names[:shown])}{more}"
        if len(line) <= SUMMARY_CHARACTERS:
            return line
    return lead
