"""How well rows answer a question: BM25 over each row and over the rows around it.

An answer often stands next to the words of its question, so the rows before count nearly in full and those
after a little. Rows of whoever the question names are lifted, very short ones lowered, and rows next to a
better one come later, since that one already leads there. The figures were chosen by rule on one half of real
meetings and reported on the other (docs/recall.md); nothing is asked of a store. Where it is known which rows
are near in meaning, their order is fused with that of the words, whose places count most.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Final

from lcm_mcp.values import frozen

K1: Final = 1.2
B: Final = 0.75
MOST_APART: Final = 60
"""The first so many are kept apart; the rest follow as they count."""


@frozen
class Figures:
    """What the order hangs on; `python -m benchmarks.choosing` chose the values."""

    long: float = 4.0
    """A text longer than so many usual ones is taken for one of them: it is a passage of it that answers."""
    around: int = 5
    """Rows before and after that count."""
    fade: float = 0.8
    """What is left of a word's weight from one row to the next."""
    after: float = 0.5
    """What rows after count of what rows before do."""
    context: float = 3.0
    """What the rows around count, next to the row itself."""
    named: float = 3.0
    """A row of the speaker whom the question names counts so many times."""
    few_words: int = 12
    few: float = 0.6
    """A row of fewer words counts so much less: "Yeah, the remote." says little."""
    apart: int = 9
    again: float = 0.5
    """A row within so many rows of one that comes before it counts so much less, for each of those."""
    fused: int = 20
    """Of two orders, a row counts one over so many places more than its own, in each."""
    near: float = 0.1
    """What a place among the rows near in meaning counts of one among those that hold the words."""

    def fades(self) -> Mapping[int, float]:
        """What a word counts so many rows further on, next to one in the row before."""
        return {
            step: self.fade ** abs(step) * (self.after if step > 0 else 1.0)
            for step in range(-self.around, self.around + 1)
        }


FIGURES: Final = Figures()


@frozen
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
    return ordered(lines, held(lines, weights, FIGURES), names, near, FIGURES)


def held(
    lines: Sequence[Line], weights: Mapping[str, float], figures: Figures
) -> Sequence[tuple[float, float]]:
    """BM25 of each line and of the rows around it; both 0 where the line holds no term."""
    rows = {(line.session, line.first): line for line in lines if not line.summary}
    usual = sum(line.words for line in lines) / max(1, len(lines)) or 1.0
    fades = figures.fades()
    around = usual * sum(fades.values())
    found: list[tuple[float, float]] = []
    for line in lines:
        own = _bm25(line.counts, line.words / usual, weights, figures.long)
        if own and line.summary:
            found.append((own, own))  # what it was made of stands around it
        elif own:
            counts, words = _counts_around(rows, line, fades)
            found.append((own, _bm25(counts, words / around, weights, figures.long)))
        else:
            found.append((0.0, 0.0))
    return found


def ordered(
    lines: Sequence[Line],
    held: Sequence[tuple[float, float]],
    names: frozenset[str],
    near: Mapping[tuple[int, int], int] | None,
    figures: Figures,
) -> list[int]:
    """As `ranked`, of lines whose BM25 is known."""
    named = _named(lines, names)
    scores = [
        (own + figures.context * around)
        * (figures.named if line.speaker in named else 1.0)
        * (figures.few if line.words < figures.few_words else 1.0)
        for line, (own, around) in zip(lines, held, strict=True)
    ]
    if near is not None:
        scores = _fused(lines, scores, near, figures)
    wanted = [place for place, line in enumerate(lines) if line.wanted and scores[place] > 0]
    return _apart(lines, wanted, scores, figures)


def _bm25(counts: Mapping[str, float], length: float, weights: Mapping[str, float], long: float) -> float:
    """length is a share of the usual one."""
    damping = K1 * (1 - B + B * min(length, long))
    return sum(weights[term] * count * (K1 + 1) / (count + damping) for term, count in counts.items())


def _counts_around(
    rows: Mapping[tuple[int, int], Line], line: Line, fades: Mapping[int, float]
) -> tuple[Mapping[str, float], float]:
    """How often each term stands in a row and those around it, and how many words they have; both faded."""
    counts: dict[str, float] = {}
    words = 0.0
    for step, fade in fades.items():
        other = rows.get((line.session, line.first + step))
        if other is not None:
            words += fade * other.words
            for term, count in other.counts.items():
                counts[term] = counts.get(term, 0.0) + fade * count
    return counts, words


def _fused(
    lines: Sequence[Line], scores: Sequence[float], near: Mapping[tuple[int, int], int], figures: Figures
) -> list[float]:
    """What lines count for their places in both orders."""
    held = [place for place, line in enumerate(lines) if line.wanted and scores[place] > 0]
    order = sorted(held, key=lambda place: (-scores[place], -lines[place].last))
    fused = [0.0] * len(lines)
    for rank, place in enumerate(order, 1):
        fused[place] = 1 / (figures.fused + rank)
    for place, line in enumerate(lines):
        rank = None if line.summary else near.get((line.session, line.first))
        if rank is not None:
            fused[place] += figures.near / (figures.fused + rank)
    return fused


def _named(lines: Sequence[Line], names: frozenset[str]) -> frozenset[frozenset[str]]:
    """The speakers of whose names the question says most; none where it says nothing of any."""
    said = {
        line.speaker: len(line.speaker & names) / len(line.speaker) for line in lines if line.speaker & names
    }
    best = max(said.values(), default=0.0)
    return frozenset(speaker for speaker, share in said.items() if share == best)


def _apart(
    lines: Sequence[Line], wanted: Sequence[int], scores: Sequence[float], figures: Figures
) -> list[int]:
    """Best first, each time counting how many of those already named stand close by."""
    queue = [(-scores[place], -lines[place].last, place) for place in wanted]
    heapq.heapify(queue)
    order: list[int] = []
    looked: dict[int, tuple[int, int]] = {}  # how many of the order were compared with it, and are close
    while queue and len(order) < MOST_APART:
        score, last, place = heapq.heappop(queue)
        upto, close = looked.get(place, (0, 0))
        close += sum(_is_close(lines[place], lines[other], figures.apart) for other in order[upto:])
        looked[place] = len(order), close
        now = -scores[place] * figures.again**close
        if now > score:
            heapq.heappush(queue, (now, last, place))
        else:
            order.append(place)
    return order + [place for _, _, place in sorted(queue)]


def _is_close(line: Line, other: Line, apart: int) -> bool:
    """Whether a line stands for rows close to those of another; a summary hides no rows that it leads to."""
    if line.session != other.session or (other.summary and not line.summary):
        return False
    return line.first - apart <= other.last and other.first <= line.last + apart
