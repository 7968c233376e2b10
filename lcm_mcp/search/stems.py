"""Words as the word index knows them: folded, without accents, reduced to their stems; pairs of characters
in languages written without spaces.

SQLite's own tokenizer does it, here as in the index, so that both always agree. A question is taken as it is
written: quotes, operators and punctuation only part its words, and nothing of it ever is query syntax.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import add
from typing import Final, Literal, overload

import apsw

from lcm_mcp.values import frozen

MOST_TERMS: Final = 32
"""Different words of a question that are looked for: the first ones."""
LABEL_CHARACTERS: Final = 120
_UNSPACED = (
    r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_NAME = r"\(?(?:\w['’])?(?:[^\W\d_a-z][\w.'’&/-]*|of|and|for|the|to|de|la|van|von)[),.]*"
_LABEL: Final = re.compile(f"({_NAME}(?: {_NAME}){{0,15}}):\\s")
_STOP: Final = """a about above after again against all am an and any are as at be because been before being
    below
    between both but by can cannot could did do does doing down during each few for from further had has
    have having he her here hers him his how i if in into is it its itself just me more most my no nor not
    of off on once only or other our ours out over own same she should so some such than that the their
    theirs them then there these they this those through to too under until up us very was we were what
    when where which while who whom whose why will with would you your yours"""
COMMON_WORDS: Final = frozenset(_STOP.split())
"""Words that every question has, casefolded."""
"""Words of nearly every question and text: these stems tell nothing, and are a third of all there is."""
_LONGEST: Final = 40
_LONG_NUMBER: Final = 4
"""Digits from which on a number is worth an entry; most shorter ones are those of lines in tools' output."""
_SHARED: Final = 4
_MORE: Final = 3
"""A stem that goes on from another of at least _SHARED letters by up to _MORE is a form of the same word: the
stemmer leaves "quotation" and "quote" apart, "identify" and "identification"."""


@frozen
class Term:
    """A word of a question: its stem, and the MATCH expression that finds it in the index."""

    stem: str
    match: str


def spread(text: str) -> str:
    """The text with its runs of unspaced characters as overlapping pairs, the last one alone behind them."""
    return text if text.isascii() else _RUN.sub(lambda run: f" {_pairs(run[0])} {run[0][-1]} ", text)


def _pairs(run: str) -> str:
    return " ".join(map(add, run, run[1:]))


class _Meant(dict[str, tuple[str, ...]]):
    """Of each stem that was asked for, the stems of the terms of which it is a form."""

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__()
        self.terms = terms
        self.unspaced = [term.stem for term in terms if is_unspaced(term.stem)]

    def __missing__(self, stem: str) -> tuple[str, ...]:
        self[stem] = meant = tuple(term.stem for term in self.terms if _is_form(stem, term.stem))
        return meant


class Stemmer:
    """The tokenizer of one connection."""

    def __init__(self, db: apsw.Connection) -> None:
        self._stems = db.fts5_tokenizer("porter", ["unicode61"])
        self._words = db.fts5_tokenizer("unicode61", [])
        self._stop = frozenset(self.stems(_STOP))
        self._common = COMMON_WORDS
        self._meant = _Meant(())

    def stems(self, text: str) -> list[str]:
        """The stems of a text, in order."""
        return _said(self._stems, spread(text).encode(), with_places=False)

    def entry(self, text: str) -> str:
        """What the index is fed of a text: each of its words once, but for those that nobody looks for."""
        words = {*_said(self._words, spread(text).encode(), with_places=False)} - self._common
        return " ".join(sorted(filter(_is_telling, words)))

    def entered(self, text: str) -> int:
        """How many stems of a text are in the index."""
        return len(set(_said(self._stems, self.entry(text).encode(), with_places=False)))

    def counts(self, text: str, terms: Sequence[Term]) -> tuple[int, Mapping[str, int]]:
        """How many words a text has, and how often those of the terms that it holds, in any form; without
        writing out the index's pairs."""
        spaced = text if text.isascii() else _RUN.sub(" ", text)
        said = _said(self._stems, spaced.encode(), with_places=False)
        meant = self._meaning(terms)
        found = Counter(chain.from_iterable(map(meant.__getitem__, said)))
        for stem in meant.unspaced:
            found[stem] += text.count(stem)
        return len(said) + len(text) - len(spaced), +found

    def meant(self, stem: str, terms: Sequence[Term]) -> Sequence[str]:
        """Of which terms a word is a form, by its stem."""
        return self._meaning(terms)[stem]

    def _meaning(self, terms: Sequence[Term]) -> _Meant:
        if self._meant.terms is not terms:
            self._meant = _Meant(terms)
        return self._meant

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """The stems of a text as it stands, each with its first byte and the one behind it in UTF-8."""
        return _said(self._stems, text.encode(), with_places=True)

    def terms(self, question: str) -> Sequence[Term]:
        """What to look for: the question's words without those that every question has; perhaps none."""
        said = [word for word in self._asked(question) if self._is_one(word)]
        found = {self._stem(word): word for word in reversed(said)}
        telling = [stem for stem in found if stem not in self._stop]
        return [Term(stem, _expression(found[stem])) for stem in telling[::-1][:MOST_TERMS]]

    def names(self, question: str) -> frozenset[str]:
        """The stems by which a question can name a speaker: its words, and single letters."""
        said = map(self._stem, self._asked(question))
        return frozenset(stem for stem in said if stem not in self._stop or len(stem) == 1)

    def _asked(self, question: str) -> list[str]:
        apart = _RUN.sub(lambda run: f" {_pairs(run[0]) or run[0]} ", question)
        return _said(self._words, apart.encode(), with_places=False)

    def _is_one(self, word: str) -> bool:
        """Whether the index, too, takes it for one word; a phrase is more than it can be asked for."""
        return len(_said(self._stems, word.encode(), with_places=False)) == 1

    def _stem(self, word: str) -> str:
        return " ".join(_said(self._stems, word.encode(), with_places=False))


@overload
def _said(tokenizer: apsw.FTS5Tokenizer, text: bytes, *, with_places: Literal[False]) -> list[str]: ...
@overload
def _said(
    tokenizer: apsw.FTS5Tokenizer, text: bytes, *, with_places: Literal[True]
) -> list[tuple[int, int, str]]: ...
def _said(tokenizer: apsw.FTS5Tokenizer, text: bytes, *, with_places: bool) -> object:
    return tokenizer(
        text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=with_places, include_colocated=False
    )


def label(text: str) -> str:
    """The name that a text opens with, as minutes and chats put their speakers (Ann Lee: I think), or ''."""
    found = _LABEL.match(text[:LABEL_CHARACTERS])
    return found[1] if found else ""


def _is_telling(word: str) -> bool:
    return len(word) <= _LONGEST and (len(word) >= _LONG_NUMBER or not word.isdigit())


def is_unspaced(word: str) -> bool:
    """Whether a word is written in characters that stand in pairs in the index."""
    return _RUN.fullmatch(word) is not None


def _is_form(one: str, other: str) -> bool:
    """Whether two stems are of one word; of unspaced characters and of numbers only where they are equal."""
    short, long = sorted((one, other), key=len)
    return one == other or (
        long.startswith(short)
        and len(short) >= _SHARED
        and len(long) - len(short) <= _MORE
        and long.isalpha()
        and not _RUN.search(long)
    )


def _expression(word: str) -> str:
    return f'"{word}" *' if len(word) == 1 and is_unspaced(word) else f'"{word}"'
