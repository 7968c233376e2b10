"""Whether and where a text holds what is looked for, and the snippet that shows it.

Literal means literal: no character of a pattern has a meaning of its own, in any language, from one
character on. Without case, both sides are casefolded, and places are given in the text as it stands.
This is what every index has to agree with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SNIPPET_CHARACTERS = 240
MATCH_CHARACTERS = 160
"""A longer match is shown from its start; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class Place:
    """A match in a text: characters start to end, half-open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matcher:
    """What is looked for: one literal needle, or words that must all be there in any order.

    A word is any run of characters without white space and is found inside longer words too, so that
    languages written without spaces are searched like the others.
    """

    needles: tuple[str, ...]
    case_sensitive: bool

    def find(self, text: str) -> Place | None:
        """The first place that shows the match; for words, the first word to appear."""
        if self.case_sensitive:
            starts = [text.find(needle) for needle in self.needles]
            return _first(starts, [len(needle) for needle in self.needles])
        folded = text.casefold()
        starts = [folded.find(needle) for needle in self.needles]
        place = _first(starts, [len(needle) for needle in self.needles])
        if place is None or len(folded) == len(text):
            return place
        return _unfold(text, place)


def matcher(pattern: str, mode: Literal["literal", "words"], *, case_sensitive: bool) -> Matcher:
    """The matcher of a pattern; words of a pattern of white space only are the pattern itself."""
    words = pattern.split() if mode == "words" else []
    needles = tuple(dict.fromkeys(words)) or (pattern,)
    return Matcher(
        needles if case_sensitive else tuple(needle.casefold() for needle in needles), case_sensitive
    )


def snippet(text: str, place: Place) -> str:
    """The match with what stands around it, at most SNIPPET_CHARACTERS and its ellipses."""
    end = min(place.end, place.start + MATCH_CHARACTERS)
    margin = (SNIPPET_CHARACTERS - (end - place.start)) // 2
    low = max(0, place.start - margin)
    high = min(len(text), low + SNIPPET_CHARACTERS)
    low = max(0, min(low, high - SNIPPET_CHARACTERS))
    return f"{'…' if low else ''}{text[low:high]}{'…' if high < len(text) else ''}"


def _first(starts: list[int], lengths: list[int]) -> Place | None:
    if min(starts) < 0:
        return None
    start, length = min(zip(starts, lengths, strict=True))
    return Place(start, start + length)


def _unfold(text: str, folded: Place) -> Place:
    """A place in the casefolded text as a place in the text: folding can make one character several."""
    start = end = None
    position = 0
    for index, character in enumerate(text):
        position += len(character.casefold())
        if start is None and position > folded.start:
            start = index
        if position >= folded.end:
            end = index + 1
            break
    assert start is not None
    return Place(start, len(text) if end is None else end)
