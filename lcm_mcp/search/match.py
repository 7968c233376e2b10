"""Whether and where a text holds what is looked for, and the snippet that shows it.

Literal means literal: no character of a pattern has a meaning of its own, in any language, from one
character on. Without case, both sides are casefolded, and places are given in the text as it stands.
This is what every index has to agree with. Regular expressions are matched in regex.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lcm_mcp.values import frozen

SNIPPET_CHARACTERS = 240
MATCH_CHARACTERS = 160
"""A longer match is shown from its start; the rest is cut off."""


class Place(NamedTuple):
    """A match in a text: characters start to end, half-open."""

    start: int
    end: int


class Matcher(Protocol):
    """What is looked for in one text."""

    @property
    def required(self) -> Sequence[str]:
        """Casefolded pieces that every text with a match is known to hold: what to ask an index for."""
        ...

    def find(self, text: str) -> Place | None:
        """The first place that shows the match."""
        ...


@frozen
class Needles:
    """One literal needle, or words that must all be there in any order; casefolded but for case_sensitive.

    A word is any run of characters without white space and is found inside longer words too, so that
    languages written without spaces are searched like the others.
    """

    needles: tuple[str, ...]
    case_sensitive: bool

    @property
    def required(self) -> Sequence[str]:
        return tuple(needle.casefold() for needle in self.needles)

    def find(self, text: str) -> Place | None:
        """For words, the first word to appear."""
        if self.case_sensitive:
            return self._first(text)
        folded = text.casefold()
        place = self._first(folded)
        if place is None or len(folded) == len(text):
            return place
        return _narrowed(text, _unfold(text, place), folded[place.start : place.end])

    def _first(self, text: str) -> Place | None:
        best: Place | None = None
        for needle in self.needles:
            start = text.find(needle)
            if start < 0:
                return None
            place = Place(start, start + len(needle))
            if best is None or place < best:
                best = place
        return best


def is_caseless(text: str) -> bool:
    """Whether folding changes none of its characters and makes no other ones to them, as it does accents.

    Such a text is found as it stands: folding costs many times that where a text is not all ASCII.
    """
    return all(
        character == character.upper() == character.lower() == character.casefold()
        and unicodedata.category(character) not in ("Mn", "Lm")
        for character in text
    )


def literal(pattern: str, *, case_sensitive: bool) -> Needles:
    """The matcher of a pattern as it stands."""
    case_sensitive = case_sensitive or is_caseless(pattern)
    return Needles((pattern if case_sensitive else pattern.casefold(),), case_sensitive)


def words(pattern: str, *, case_sensitive: bool) -> Needles:
    """The matcher of a pattern's words; those of white space only are the pattern itself."""
    case_sensitive = case_sensitive or is_caseless(pattern)
    if not case_sensitive:
        pattern = pattern.casefold()
    return Needles(tuple(dict.fromkeys(pattern.split())) or (pattern,), case_sensitive)


def snippet(text: str, place: Place) -> str:
    """The match with what stands around it, at most SNIPPET_CHARACTERS and its ellipses."""
    end = min(place.end, place.start + MATCH_CHARACTERS)
    margin = (SNIPPET_CHARACTERS - (end - place.start)) // 2
    low = max(0, place.start - margin)
    high = min(len(text), low + SNIPPET_CHARACTERS)
    low = max(0, min(low, high - SNIPPET_CHARACTERS))
    return f"{'…' if low else ''}{text[low:high]}{'…' if high < len(text) else ''}"


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


def _narrowed(text: str, place: Place, folded: str) -> Place:
    """The least of a place that holds what was found, which may begin or end within a folded character."""
    start, end = place.start, place.end
    while folded in text[start + 1 : end].casefold():
        start += 1
    while folded in text[start : end - 1].casefold():
        end -= 1
    return Place(start, end)
