"""How well rows answer a question: BM25 over each row and over the rows around it.

An answer often stands next to the words of its question, so the rows before count nearly in full and those
after a little. Rows of whoever the question names are lifted, very short ones lowered, and rows next to a
better one come later, since that one already leads there. Every figure here was chosen on one half of real
meetings and tried on the other (docs/recall.md); nothing is asked of a store. Where it is known which rows
are near in meaning, their order is fused with that of the words, whose places count most.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

K1: Final = 1.2
B: Final = 0.75
LONG: Final = 4.0
"""A text longer than so many usual ones is taken for one of them: it is a passage of it that answers."""
AROUND: Final = 5
"""Rows before and after that count."""
FADE: Final = 0.9
"""What is left of a word's weight from one row to the next."""
AFTER: Final = 0.3
"""What rows after count of what rows before do."""
CONTEXT: Final = 2.0
"""What the rows around count, next to the row itself."""
NAMED: Final = 3.0
"""A row of the speaker whom the question names counts so many times."""
FEW_WORDS: Final = 12
FEW: Final = 0.7
"""A row of fewer words counts so much less: "Yeah, the remote." says little."""
APART: Final = 12
AGAIN: Final = 0.6
"""A row within so many rows of one that comes before it counts so much less, for each of those."""
MOST_APART: Final = 60
"""The first so many are kept apart; the rest follow as they count."""
FUSED: Final = 10
"""Of two orders, a row counts one over so many places more than its own, in each."""
NEAR: Final = 0.2
"""What a place among the rows near in meaning counts of one among those that hold the words."""

_FADES: Final = {
    step: FADE ** abs(step) * (AFTER if step > 0 else 1.0) for step in range(-AROUND, AROUND + 1)
}


@dataclass(frozen=True, slots=True)
class Line:
    """A row or summary: how many words it has, how often each term of the question, and who speaks.

    first and last are the rows that it stands for: of a row the row itself. wanted: it may be an answer;
    others only stand around.
    """

    session: int
    first: int
    last: int
    words: int
    counts: Mapping[str, int]
    speaker: frozenset[str] = frozenset()
    summary: bool = False
    wanted: bool = True


def rarity(texts: int, holding: int) -> float:
    """The weight of a term that so many of the texts hold."""
    return math.log(1 + (texts - holding + 0.5) / (holding + 0.5))


def ranked(
    lines: Sequence[Line],
    weights: Mapping[str, float],
    names: frozenset[str],
    near: Mapping[tuple[int, int], int] | None = None,
) -> list[int]:
    """The places of the wanted lines that hold a term, best first; of equal ones the later line.

    near: rows by session and number, which may be answers without a term, and the place of each among them.
    """
    scores = _scores(lines, weights)
    named = _named(lines, names)
    for place, line in enumerate(lines):
        scores[place] *= (NAMED if line.speaker in named else 1.0) * (FEW if line.words < FEW_WORDS else 1.0)
    if near is not None:
        scores = _fused(lines, scores, near)
    wanted = [place for place, line in enumerate(lines) if line.wanted and scores[place] > 0]
    return _apart(lines, wanted, scores)


def _fused(
    lines: Sequence[Line], scores: Sequence[float], near: Mapping[tuple[int, int], int]
) -> list[float]:
    """What lines count for their places in both orders."""
    held = [place for place, line in enumerate(lines) if line.wanted and scores[place] > 0]
    order = sorted(held, key=lambda place: (-scores[place], -lines[place].last))
    fused = [0.0] * len(lines)
    for rank, place in enumerate(order, 1):
        fused[place] = 1 / (FUSED + rank)
    for place, line in enumerate(lines):
        rank = None if line.summary else near.get((line.session, line.first))
        if rank is not None:
            fused[place] += NEAR / (FUSED + rank)
    return fused


def _scores(lines: Sequence[Line], weights: Mapping[str, float]) -> list[float]:
    """BM25 of each line that holds a term, with that of the rows around it."""
    rows = {(line.session, line.first): line for line in lines if not line.summary}
    usual = sum(line.words for line in lines) / max(1, len(lines)) or 1.0
    around = usual * sum(_FADES.values())
    scores: list[float] = []
    for line in lines:
        own = _bm25(line.counts, line.words / usual, weights)
        if own and line.summary:
            own *= 1 + CONTEXT  # what it was made of stands around it
        elif own:
            own += CONTEXT * _bm25_around(rows, line, around, weights)
        scores.append(own)
    return scores


def _bm25(counts: Mapping[str, float], length: float, weights: Mapping[str, float]) -> float:
    """length is a share of the usual one."""
    damping = K1 * (1 - B + B * min(length, LONG))
    return sum(weights[term] * count * (K1 + 1) / (count + damping) for term, count in counts.items())


def _bm25_around(
    rows: Mapping[tuple[int, int], Line], line: Line, usual: float, weights: Mapping[str, float]
) -> float:
    counts: dict[str, float] = {}
    words = 0.0
    for step, fade in _FADES.items():
        other = rows.get((line.session, line.first + step))
        if other is not None:
            words += fade * other.words
            for term, count in other.counts.items():
                counts[term] = counts.get(term, 0.0) + fade * count
    return _bm25(counts, words / usual, weights)


def _named(lines: Sequence[Line], names: frozenset[str]) -> frozenset[frozenset[str]]:
    """The speakers of whose names the question says most; none where it says nothing of any."""
    said = {
        line.speaker: len(line.speaker & names) / len(line.speaker) for line in lines if line.speaker & names
    }
    best = max(said.values(), default=0.0)
    return frozenset(speaker for speaker, share in said.items() if share == best)


def _apart(lines: Sequence[Line], wanted: Sequence[int], scores: Sequence[float]) -> list[int]:
    """Best first, each time counting how many of those already named stand close by."""
    queue = [(-scores[place], -lines[place].last, place) for place in wanted]
    heapq.heapify(queue)
    order: list[int] = []
    looked: dict[int, tuple[int, int]] = {}  # how many of the order were compared with it, and are close
    while queue and len(order) < MOST_APART:
        score, last, place = heapq.heappop(queue)
        upto, close = looked.get(place, (0, 0))
        close += sum(_is_close(lines[place], lines[other]) for other in order[upto:])
        looked[place] = len(order), close
        now = -scores[place] * AGAIN**close
        if now > score:
            heapq.heappush(queue, (now, last, place))
        else:
            order.append(place)
    return order + [place for _, _, place in sorted(queue)]


def _is_close(line: Line, other: Line) -> bool:
    """Whether a line stands for rows close to those of another; a summary hides no rows that it leads to."""
    if line.session != other.session or (other.summary and not line.summary):
        return False
    return line.first - APART <= other.last and other.first <= line.last + APART
