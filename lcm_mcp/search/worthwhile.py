"""Which rows and summaries are worth ranking: all of a few, else those that the word index names.

Rare words choose, common ones only add to what rare ones chose or what is new; so the work is bounded by
constants, however much the store holds. Nothing is said here about which of them is best: only those that
hold most of a question's rarer words, in themselves and around them, are read. Functions take a read-only
connection.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import apsw

from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.search import words
from lcm_mcp.search.index import SUMMARIES
from lcm_mcp.search.ranking import FIGURES, rarity
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.stems import Stemmer, Term
from lcm_mcp.transcript.model import Role
from lcm_mcp.transcript.path import FIRST, Segment
from lcm_mcp.values import frozen

FEW_ROWS: Final = 1000
"""Up to so many rows are all read: the index would not be faster, and every word is counted."""
FEW_BYTES: Final = 2_000_000
"""As long as they are no more bytes than this, as the store weighs them."""
COMMON: Final = 2000
"""A word in more texts than this is common: only its newest ones choose."""
JOINED: Final = 3
"""Common words, the rarest first, that are looked for beside the rarer ones."""
LOOKED_AT: Final = 20_000
"""Texts with a word that are looked at to find those of a scope."""
SCOPE_TEXTS: Final = 50_000
"""A scope of no more texts is known by them before the index is asked."""
MOST_SUMMARIES: Final = 200
MOST_TEXTS: Final = 3000
KEPT_ROWS: Final = 800
READ_ROWS: Final = 48
"""Rows that are read with those around them; the rest stay in the order of what they hold."""
READ_NEAR: Final = 24
READ_SUMMARIES: Final = 16
AT_ONCE: Final = 400
CLOCK_EVERY: Final = 64
_BEYOND: Final = 2**62

_OF_TEXTS = """SELECT row.text, row.session, row.seq, row.role, row.results, row.at
    FROM json_each(?) AS asked CROSS JOIN row ON row.text = asked.value"""
_OF_SCOPE = "SELECT json_group_array(text) FROM row WHERE session IN (SELECT value FROM json_each(?))"
_TAIL = """SELECT id, substr(body, 1, ?), EXISTS(SELECT 1 FROM tier WHERE tier.text = text.id)
    FROM text WHERE id > ? AND id <= ? ORDER BY id DESC"""
_NODES_OF = """SELECT DISTINCT tier.session, tier.node
    FROM json_each(?) AS asked CROSS JOIN tier ON tier.text = asked.value"""
_BYTES = """SELECT coalesce(sum(bytes), 0) FROM row
    WHERE session IN (SELECT value FROM json_each(?)) AND seq BETWEEN ? AND ?"""
_NODES_IN = "SELECT session, id FROM node WHERE session = ?"


class Place(NamedTuple):
    """A row as it stands in its session; speaker counts a row with results as the tool's."""

    text: int
    session: SessionId
    seq: Seq
    role: Role
    speaker: Role
    at: int


Keeps = Callable[[Place], bool]


def _none(text: int) -> Iterable[str]:
    return ()


@frozen
class Chosen:
    """Stretches of sessions to be read, and summaries; rest are further rows, in order.

    weights is None where everything is read, so that each word's weight is counted there; else held says of
    a text which terms it is known to hold. whole: nothing that holds a word was left out. finished: time was
    enough.
    """

    parts: Sequence[tuple[SessionId, Segment]]
    nodes: Sequence[tuple[SessionId, NodeId]]
    weights: Mapping[str, float] | None = None
    rest: Sequence[Place] = ()
    held: Callable[[int], Iterable[str]] = _none
    whole: bool = True
    finished: bool = True


def choose(
    db: apsw.Connection,
    scope: Scope,
    keeps: Keeps,
    terms: Sequence[Term],
    newest: int,
    deadline: float,
    near: Sequence[Place] = (),
) -> Chosen:
    """What to read for these terms, and for the first rows near in meaning, of texts up to `newest`."""
    rows, _ = scope.sizes
    if rows <= FEW_ROWS and _bytes_of(db, scope) <= FEW_BYTES:
        return _all(db, scope)
    held = _Held(db, terms, newest, _texts_of(db, scope, rows, newest))
    finished = held.read_tail(deadline)
    weights = held.weights()
    kept, whole = _kept(db, scope, keeps, held, weights)
    best = heapq.nlargest(READ_ROWS, kept, key=lambda place: (kept[place], place.text))
    read = {*best, *near[:READ_NEAR]}
    rest = sorted((each for each in kept if each not in read), key=lambda place: (-kept[place], -place.text))
    return Chosen(
        parts=list(_stretches(read)),
        nodes=_nodes(db, scope, held.summaries(weights)),
        weights=weights,
        rest=rest,
        held=held.stems_of,
        whole=whole and finished and not held.common,
        finished=finished,
    )


def _bytes_of(db: apsw.Connection, scope: Scope) -> int:
    """How many bytes the rows of a small scope hold."""
    parts = scope.rows or [Segment(FIRST, Seq(_BEYOND))]
    return sum(int(db.execute(_BYTES, (scope.listed, part.low, part.high)).get) for part in parts)


def _all(db: apsw.Connection, scope: Scope) -> Chosen:
    found = [(session, node) for each in scope.numbers for session, node in db.execute(_NODES_IN, (each,))]
    nodes = [(session, node) for session, node in found if scope.nodes is None or node in scope.nodes]
    parts = scope.rows if scope.rows is not None else [Segment(FIRST, Seq(_BEYOND))]
    return Chosen([(session, part) for session in scope.numbers for part in parts], nodes)


def _texts_of(db: apsw.Connection, scope: Scope, rows: int, newest: int) -> frozenset[int] | None:
    """The texts of a scope's sessions; None where they are too many, or a large part of the store's."""
    if rows > min(SCOPE_TEXTS, newest // 2):
        return None
    found: str = db.execute(_OF_SCOPE, (scope.listed,)).get
    return frozenset(json.loads(found))


@dataclass(slots=True)
class _Held:
    """Which texts hold which terms, as bits of a number."""

    db: apsw.Connection
    terms: Sequence[Term]
    newest: int
    texts: frozenset[int] | None
    held: dict[int, int] = field(default_factory=dict[int, int])
    counts: list[float] = field(default_factory=list[float])
    common: bool = False

    def __post_init__(self) -> None:
        for bit, term in enumerate(self.terms):
            self.counts.append(self._ask([term], 1 << bit))
        bits = sorted(range(len(self.terms)), key=self.counts.__getitem__)
        common = [bit for bit in bits if self.counts[bit] > COMMON]
        self.common = bool(common)
        choosing = [bit for bit in bits if bit not in common] or common[:1]
        if common:
            self._join(choosing, [bit for bit in common if bit not in choosing][:JOINED])

    def _join(self, choosing: Sequence[int], common: Sequence[int]) -> None:
        """Note which texts with rarer words hold common ones too, however old they are."""
        rarer = [self.terms[bit] for bit in choosing]
        both = 1 << choosing[0] if self.counts[choosing[0]] > COMMON else 0
        for bit in common:
            self._ask(rarer, 1 << bit | both, beside=self.terms[bit])

    def _ask(self, terms: Sequence[Term], bits: int, beside: Term | None = None) -> float:
        """Note the newest texts with any of the terms; how many there are in all, or seem to be."""
        low, high, most = 1, self.newest, COMMON
        if self.texts is not None:
            low, high, most = min(self.texts, default=1), max(self.texts, default=0), LOOKED_AT
        found = words.holding(self.db, terms, low, min(high, self.newest), most, beside=beside)
        self._note(found, bits)
        summaries = (SUMMARIES + 1, SUMMARIES + self.newest, MOST_SUMMARIES)
        self._note(words.holding(self.db, terms, *summaries, beside=beside), bits)
        if len(found) < most:
            return len(found)
        return max(COMMON + 1.0, most * (self.newest / (self.newest - found[-1] + 1)))

    def _note(self, numbers: Iterable[int], bits: int) -> None:
        left = COMMON
        for number in numbers:
            if self.texts is None or number > SUMMARIES or number in self.texts:
                self.held[number] = self.held.get(number, 0) | bits
                left -= 1
                if left == 0:
                    return

    def read_tail(self, deadline: float) -> bool:
        """Read what is not in the index yet, newest first; whether time was enough."""
        stems = Stemmer(self.db)
        asked = (words.MOST_CHARACTERS, words.upto(self.db), self.newest)
        for read, (text, body, summary) in enumerate(self.db.execute(_TAIL, asked), 1):
            if self.texts is None or summary or text in self.texts:
                _, said = stems.counts(body, self.terms)
                bits = sum(1 << bit for bit, term in enumerate(self.terms) if term.stem in said)
                if bits:
                    self.held[text + (SUMMARIES if summary else 0)] = bits
            if read % CLOCK_EVERY == 0 and time.monotonic() > deadline:
                return False
        return True

    def stems_of(self, text: int) -> Iterable[str]:
        bits = self.held.get(text, 0)
        return (term.stem for bit, term in enumerate(self.terms) if bits >> bit & 1)

    def weights(self) -> Mapping[str, float]:
        texts = max(1, self.newest)
        return {
            term.stem: rarity(texts, round(min(count, texts)))
            for term, count in zip(self.terms, self.counts, strict=True)
        }

    def weigher(self, weights: Mapping[str, float]) -> Callable[[int], float]:
        """What bits weigh."""
        each = [weights[term.stem] for term in self.terms]
        known: dict[int, float] = {}

        def weigh(bits: int) -> float:
            if bits not in known:
                known[bits] = sum(weight for bit, weight in enumerate(each) if bits >> bit & 1)
            return known[bits]

        return weigh

    def summaries(self, weights: Mapping[str, float]) -> Sequence[int]:
        """The texts of summaries that hold most."""
        weigh = self.weigher(weights)
        found = ((weigh(bits), number) for number, bits in self.held.items() if number > SUMMARIES)
        return [number - SUMMARIES for _, number in heapq.nlargest(READ_SUMMARIES, found)]


def _kept(
    db: apsw.Connection, scope: Scope, keeps: Keeps, held: _Held, weights: Mapping[str, float]
) -> tuple[Mapping[Place, float], bool]:
    """Rows that may be answers, with the weight of what they and the rows around them hold; whether those
    are all of them."""
    weigh = held.weigher(weights)
    rows = {number: weigh(bits) for number, bits in held.held.items() if number < SUMMARIES}
    order = heapq.nlargest(MOST_TEXTS, rows, key=lambda number: (rows[number], number))
    places: list[Place] = []
    seen: defaultdict[int, dict[int, int]] = defaultdict(dict)
    asked = 0
    while asked < len(order) and len(places) < KEPT_ROWS:
        for place in places_of(db, order[asked : asked + AT_ONCE]):
            if is_in(scope, place):
                seen[place.session][place.seq] = held.held[place.text]
                if keeps(place):
                    places.append(place)
        asked += AT_ONCE
    kept = {
        place: rows[place.text] + FIGURES.context * weigh(_around(seen[place.session], place.seq))
        for place in places
    }
    return kept, asked >= len(rows)


def _around(seen: Mapping[int, int], seq: int) -> int:
    bits = 0
    for near in range(seq - FIGURES.around, seq + FIGURES.around + 1):
        bits |= seen.get(near, 0)
    return bits


def places_of(db: apsw.Connection, texts: Sequence[int]) -> Iterator[Place]:
    """The rows of texts, in whatever session."""
    for text, session, seq, role, results, at in db.execute(_OF_TEXTS, (json.dumps(texts),)):
        yield Place(text, session, seq, role, "tool" if results else role, at)


def is_in(scope: Scope, place: Place) -> bool:
    """Whether a row is one of a scope's."""
    return place.session in scope and scope.holds(place.seq)


def _stretches(places: Iterable[Place]) -> Iterator[tuple[SessionId, Segment]]:
    """The rows around places, each once."""
    session, low, high = None, 0, -1
    for each in sorted((place.session, place.seq) for place in places):
        if each[0] == session and each[1] - FIGURES.around <= high + 1:
            high = each[1] + FIGURES.around
            continue
        if session is not None:
            yield session, Segment(Seq(low), Seq(high))
        session, low, high = each[0], each[1] - FIGURES.around, each[1] + FIGURES.around
    if session is not None:
        yield session, Segment(Seq(low), Seq(high))


def _nodes(db: apsw.Connection, scope: Scope, texts: Sequence[int]) -> Sequence[tuple[SessionId, NodeId]]:
    found = db.execute(_NODES_OF, (json.dumps(list(texts)),))
    return [
        (session, node)
        for session, node in found
        if session in scope and (scope.nodes is None or node in scope.nodes)
    ]
