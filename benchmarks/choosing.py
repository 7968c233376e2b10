"""The figures of ranking, chosen by rule on one half of the meetings: `python -m benchmarks.choosing`.

The meetings are halved by the SHA-256 of their names (meetings.py), and nothing of the other half is used.
A question scores 1 where the first hit is relevant, and less by the same amount each time the place of the
first relevant hit doubles, down to 0 behind the fiftieth. Of every figure some values are declared below.
Settings of all figures are drawn from them, from a fixed seed, then as many again from the values that the
best ones have. The best are those with the best mean score without every fourth meeting, in turn for each
fourth, so that no single meeting decides; of each figure the middle value of the best is chosen, of two the
one nearer to no effect. Then the same, of all pairs, for what nearness in meaning counts, where the extra
is installed. What is printed is what lcm_mcp/search/ranking.py has; it takes some minutes. Every row of a
meeting is ranked here: what the index would leave out of the longest ones is not looked at. Nor are
meetings asked where a text is a long one, since turns are short: that figure is given.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import product
from pathlib import Path
from statistics import fmean, median_low
from typing import Final

import apsw

from benchmarks.meetings import MEETINGS, Meeting, Query, halves, read_meetings
from lcm_mcp.search.meaning import Meaning, far, is_installed
from lcm_mcp.search.ranking import FIGURES, Figures, Line, held, ordered, rarity
from lcm_mcp.search.stems import Stemmer, label
from lcm_mcp.search.vectors import NEAREST

LAST: Final = 50
"""A place behind it scores nothing."""
PARTS: Final = 4
DRAWN: Final = 150
BEST: Final = 10
"""Of the settings, without each part."""
SEED: Final = 0
Values = Mapping[str, Sequence[float]]
WORDS: Final[Values] = {
    "context": (0, 0.5, 1, 1.5, 2, 3, 4, 6),
    "around": (1, 2, 3, 5, 8, 12),
    "fade": (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "after": (1, 0.7, 0.5, 0.3, 0.2, 0.1, 0),
    "named": (1, 1.5, 2, 3, 4, 6),
    "few_words": (0, 4, 6, 8, 12, 16, 20),
    "few": (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4),
    "apart": (0, 3, 6, 9, 12, 16, 20, 30),
    "again": (1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3),
}
"""Each from no effect on, or from the usual."""
MEANINGS: Final[Values] = {"near": (0, 0.1, 0.2, 0.3, 0.5, 1), "fused": (60, 40, 20, 10, 5)}
Near = Mapping[tuple[int, int], int]


@dataclass(slots=True)
class Asked:
    """A question of a meeting, and all that its rows are ranked by."""

    meeting: str
    query: Query
    lines: Sequence[Line]
    weights: Mapping[str, float]
    names: frozenset[str]
    near: Near

    def score(self, figures: Figures, *, near: bool) -> float:
        known = held(self.lines, self.weights, figures)
        order = ordered(self.lines, known, self.names, self.near if near else None, figures)
        hits = (rank for rank, place in enumerate(order, 1) if self.lines[place].first in self.query.relevant)
        return max(0.0, 1 - math.log(next(hits, LAST + 1)) / math.log(LAST + 1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Choose the figures of ranking on one half of the meetings.")
    parser.add_argument("--meetings", type=Path, default=MEETINGS)
    meetings = read_meetings(parser.parse_args(arguments).meetings)
    if not meetings:
        sys.exit("There are no meetings to choose on.")
    chosen = choose(halves(meetings)[0], print)
    print("these are the figures in force" if chosen == FIGURES else "these are not the figures in force")


def choose(meetings: Sequence[Meeting], tell: Callable[[str], None]) -> Figures:
    """What is best on these meetings; how it was chosen is told line by line."""
    meaning = Meaning() if is_installed() else None
    asked = [each for meeting in meetings for each in _asked(meeting, meaning)]
    tell(f"{len(meetings)} meetings, {len(asked)} questions: {' '.join(each.name for each in meetings)}")
    chance = random.Random(SEED)
    words = _Trial(asked, WORDS, FIGURES)
    words.take({name: chance.choice(values) for name, values in WORDS.items()} for _ in range(DRAWN))
    tell(words.told("drawn", words.middle()))
    best = words.best()
    words.take({name: getattr(chance.choice(best), name) for name in WORDS} for _ in range(DRAWN))
    chosen = words.middle()
    tell(words.told("chosen", chosen))
    if meaning is None:
        return chosen
    both = _Trial(asked, MEANINGS, chosen, near=True)
    both.take({"near": near, "fused": fused} for near, fused in product(*MEANINGS.values()))
    chosen = both.middle()
    tell(both.told("chosen", chosen))
    return chosen


@dataclass(slots=True)
class _Trial:
    """What settings of some figures score, question by question, where the others are given."""

    asked: Sequence[Asked]
    values: Values
    given: Figures
    near: bool = False
    scores: dict[Figures, Sequence[float]] = field(default_factory=dict[Figures, Sequence[float]])

    def take(self, settings: Iterable[Mapping[str, float]]) -> None:
        for each in settings:
            self.score(replace(self.given, **each))  # pyright: ignore[reportArgumentType]

    def score(self, figures: Figures, without: int | None = None) -> float:
        if figures not in self.scores:
            self.scores[figures] = [each.score(figures, near=self.near) for each in self.asked]
        meetings = list(dict.fromkeys(each.meeting for each in self.asked))
        return fmean(
            score
            for each, score in zip(self.asked, self.scores[figures], strict=True)
            if without is None or meetings.index(each.meeting) % PARTS != without
        )

    def best(self) -> Sequence[Figures]:
        """Those that are best without each part; one may be so several times."""
        taken = list(self.scores)
        return [
            figures
            for part in range(PARTS)
            for figures in nlargest(BEST, taken, key=lambda each, part=part: self.score(each, part))
        ]

    def middle(self) -> Figures:
        best = self.best()
        middle = {
            name: values[median_low(values.index(getattr(each, name)) for each in best)]
            for name, values in self.values.items()
        }
        return replace(self.given, **middle)  # pyright: ignore[reportArgumentType]

    def told(self, name: str, figures: Figures) -> str:
        said = " ".join(f"{key} {getattr(figures, key):g}" for key in self.values)
        return f"{name:<7} {self.score(figures):.4f} (given {self.score(self.given):.4f})  {said}"


def _asked(meeting: Meeting, meaning: Meaning | None) -> Sequence[Asked]:
    db = apsw.Connection("")
    stemmer = Stemmer(db)
    bits = [] if meaning is None else [meaning.bits(text) for text in meeting.texts]
    speakers = [frozenset(stemmer.stems(label(text))) for text in meeting.texts]
    found: list[Asked] = []
    for query in meeting.queries:
        terms = stemmer.terms(query.text)
        said = [stemmer.counts(text, terms) for text in meeting.texts]
        lines = [
            Line(0, row, row, words, counts, speaker)
            for row, ((words, counts), speaker) in enumerate(zip(said, speakers, strict=True), 1)
        ]
        holding = Counter(stem for line in lines for stem in line.counts)
        weights = {term.stem: rarity(len(lines), holding[term.stem]) for term in terms}
        near: Near = {} if meaning is None else _near(meaning.bits(query.text), bits)
        found.append(Asked(meeting.name, query, lines, weights, stemmer.names(query.text), near))
    db.close()
    return found


def _near(question: bytes, bits: Sequence[bytes]) -> Near:
    """The rows nearest in meaning, of equal ones the later first, as vectors.py has them."""
    order = sorted(range(len(bits)), key=lambda place: (far(question, bits[place]), -place))
    return {(0, place + 1): rank for rank, place in enumerate(order[:NEAREST], 1)}


if __name__ == "__main__":
    main()
