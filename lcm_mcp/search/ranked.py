"""A page of rows and summaries that answer a question best, each at the place that shows most of it.

The order is that of the state at the first page: a later page leaves out newer texts, so nothing is shown
twice and nothing skipped as the store grows. A text that several rows hold is one hit. Functions take a
connection and never write.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import apsw

from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.search.match import MATCH_CHARACTERS
from lcm_mcp.search.match import Place as Shown
from lcm_mcp.search.meaning import Meaning
from lcm_mcp.search.ranking import Line, ranked, rarity
from lcm_mcp.search.scan import Found, Wanted
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.stems import Stemmer, Term, is_unspaced, label
from lcm_mcp.search.streams import Position
from lcm_mcp.search.vectors import Near, nearest
from lcm_mcp.search.words import MOST_CHARACTERS
from lcm_mcp.search.worthwhile import Chosen, Place, choose
from lcm_mcp.transcript.path import Segment
from lcm_mcp.values import frozen

READ_CHARACTERS: Final = 4000
"""Of a text that the index named, to count its words; a word that stands behind counts once."""

_ROWS = """SELECT row.text, row.session, row.seq, row.role, row.results, row.at,
    substr(text.body, 1, ?), length(text.body) FROM row JOIN text ON text.id = row.text
    WHERE row.session = ? AND row.seq BETWEEN ? AND ? ORDER BY row.seq"""
_NODE = """SELECT node.anchor, node.first, node.last, row.at, text.id, text.body
    FROM node JOIN row ON row.session = node.session AND row.seq = node.last
    JOIN tier ON tier.session = node.session AND tier.node = node.id JOIN text ON text.id = tier.text
    WHERE node.session = ? AND node.id = ? ORDER BY tier.kind DESC LIMIT 1"""
_BODY = "SELECT body FROM text WHERE id = ?"
_NEWEST = "SELECT coalesce(max(id), 0) FROM text"


@frozen
class Question:
    """What is asked: its terms, by which stems it may name a speaker, and its text with the model that knows
    what it means, where there is one."""

    terms: Sequence[Term]
    names: frozenset[str]
    text: str
    meaning: Meaning | None = None


@frozen
class Ranked:
    """A page: hits, and how many there are with those before and behind; newest is the text it ends at.

    whole: no row that holds a word of the question was left out. rows and summaries count what was read.
    unknown are newer texts of which it is not known yet what they mean.
    """

    found: tuple[Found, ...]
    count: int
    newest: int
    whole: bool
    finished: bool
    rows: int
    summaries: int
    unknown: int = 0


@frozen
class _Answer:
    """A row or summary that may be shown."""

    place: Place
    node: NodeId | None = None
    anchor: int = 0


def question(db: apsw.Connection, text: str, meaning: Meaning | None) -> Question:
    """A question as it is written, in words that the index knows."""
    stemmer = Stemmer(db)
    return Question(stemmer.terms(text), stemmer.names(text), text, meaning)


def newest_text(db: apsw.Connection) -> int:
    number: int = db.execute(_NEWEST).get
    return number


def rank(
    db: apsw.Connection,
    scope: Scope,
    wanted: Wanted,
    asked: Question,
    page: tuple[int, int],
    newest: int,
    seconds: float,
) -> Ranked:
    """The hits from page[0] to before page[1], best first, among texts up to `newest`."""
    reading = _Reading(db, wanted, asked, newest, scope)
    deadline = time.monotonic() + seconds
    near = _near(reading)
    chosen = choose(db, scope, reading.keeps, asked.terms, newest, deadline, near.places if near else ())
    reading.read(chosen)
    order = _once_each(reading.answers(chosen, near))
    found = tuple(reading.found(answer) for answer in order[slice(*page)])
    return Ranked(
        found,
        len(order),
        newest,
        chosen.whole,
        chosen.finished,
        reading.rows,
        len(reading.lines) - reading.rows,
        0 if near is None else near.left,
    )


def _near(reading: _Reading) -> Near | None:
    """The rows near the question in meaning; None where no model knows."""
    meaning = reading.asked.meaning
    if meaning is None:
        return None
    bits = meaning.bits(reading.asked.text)
    return nearest(reading.db, meaning, bits, reading.scope, reading.keeps, reading.newest)


def _once_each(answers: Iterator[_Answer]) -> Sequence[_Answer]:
    """Each text once, where it was named first."""
    return list({answer.place.text: answer for answer in reversed(list(answers))}.values())[::-1]


@dataclass(slots=True)
class _Reading:
    """What was read of a scope to be ranked: lines, and at the same places what they stand for."""

    db: apsw.Connection
    wanted: Wanted
    asked: Question
    newest: int
    scope: Scope
    lines: list[Line] = field(default_factory=list[Line])
    stands: list[_Answer] = field(default_factory=list[_Answer])
    rows: int = 0

    def keeps(self, place: Place) -> bool:
        """Whether a row may be a hit."""
        wanted = self.wanted
        return (
            wanted.rows
            and place.text <= self.newest
            and (wanted.role is None or place.speaker == wanted.role)
            and self._in_time(place.at)
            and (wanted.include_removed or place.seq in self.scope.path(place.session))
        )

    def _in_time(self, at: int) -> bool:
        since, until = self.wanted.since, self.wanted.until
        return (since is None or at >= since) and (until is None or at <= until)

    def read(self, chosen: Chosen) -> None:
        stemmer = Stemmer(self.db)
        names: dict[str, frozenset[str]] = {"": frozenset()}
        for session, part in chosen.parts:
            self._read_rows(stemmer, session, part, names, chosen)
        self.rows = len(self.lines)
        if self.wanted.summaries and self.wanted.role is None:
            for session, node in chosen.nodes:
                self._read_summary(stemmer, session, node)

    def _read_rows(
        self,
        stemmer: Stemmer,
        session: SessionId,
        part: Segment,
        names: dict[str, frozenset[str]],
        chosen: Chosen,
    ) -> None:
        most = MOST_CHARACTERS if chosen.weights is None else READ_CHARACTERS
        for *at, results, when, body, length in self.db.execute(_ROWS, (most, session, part.low, part.high)):
            text, _, seq, role = at
            place = Place(text, session, Seq(seq), role, "tool" if results else role, when)
            if text > self.newest or not (self.wanted.include_removed or seq in self.scope.path(session)):
                continue
            words, counts = stemmer.counts(body, self.asked.terms)
            counts = {**dict.fromkeys(chosen.held(text), 1), **counts}
            name = label(body)
            if name not in names:
                names[name] = frozenset(stemmer.stems(name))
            whole = round(words * max(1, length / max(1, len(body))))
            self.lines.append(Line(session, seq, seq, whole, counts, names[name], wanted=self.keeps(place)))
            self.stands.append(_Answer(place))

    def _read_summary(self, stemmer: Stemmer, session: SessionId, node: NodeId) -> None:
        anchor, first, last, at, text, body = next(self.db.execute(_NODE, (session, node)))
        removed = last not in self.scope.path(session)
        if text > self.newest or not self._in_time(at) or (removed and not self.wanted.include_removed):
            return
        words, counts = stemmer.counts(body, self.asked.terms)
        self.lines.append(Line(session, first, last, words, counts, summary=True))
        place = Place(text, session, Seq(last), "system", "system", at)
        self.stands.append(_Answer(place, node, anchor))

    def answers(self, chosen: Chosen, near: Near | None) -> Iterator[_Answer]:
        """What was read, best first, then what was not."""
        read = {answer.place for answer in self.stands if answer.node is None}
        ranks = None if near is None else near.ranks()
        for place in ranked(self.lines, chosen.weights or self._weights(), self.asked.names, ranks):
            yield self.stands[place]
        rest = chosen.rest if near is None else (*chosen.rest, *near.places)
        yield from (_Answer(place) for place in rest if place not in read)

    def _weights(self) -> Mapping[str, float]:
        """Counted in the rows that were read."""
        holding = Counter(term for line in self.lines if not line.summary for term in line.counts)
        return {term.stem: rarity(self.rows, holding[term.stem]) for term in self.asked.terms}

    def found(self, answer: _Answer) -> Found:
        place, body = answer.place, str(self.db.execute(_BODY, (answer.place.text,)).get)
        return Found(
            position=Position(answer.anchor or place.text, answer.node or 0, place.text),
            session=place.session,
            last=place.seq,
            role=place.role if answer.node is None else None,
            at=place.at,
            removed=place.seq not in self.scope.path(place.session),
            text=body,
            place=best_place(Stemmer(self.db), body, self.asked.terms),
        )


def best_place(stemmer: Stemmer, text: str, terms: Sequence[Term]) -> Shown:
    """The stretch of MATCH_CHARACTERS that holds most different terms, from the first of them on."""
    matches = _matches(stemmer, text[:MOST_CHARACTERS], terms)
    best: tuple[int, Shown] | None = None
    starts = [start for start, _, _ in matches]
    for index, (start, end, _) in enumerate(matches):
        inside = matches[index : bisect_right(starts, start + MATCH_CHARACTERS)]
        different = len({stem for _, _, stem in inside})
        if best is None or different > best[0]:
            best = different, Shown(start, max(end, inside[-1][1]))
    return Shown(0, 0) if best is None else best[1]


def _matches(stemmer: Stemmer, text: str, terms: Sequence[Term]) -> list[tuple[int, int, str]]:
    """Where terms stand in a text: first character, the one behind, and the term's stem."""
    found = [
        (at.start(), at.end(), term.stem)
        for term in terms
        if is_unspaced(term.stem)
        for at in re.finditer(re.escape(term.stem), text)
    ]
    spaced = [term for term in terms if not is_unspaced(term.stem)]
    said = [
        (start, end, term)
        for start, end, stem in (stemmer.places(text) if spaced else ())
        for term in stemmer.meant(stem, spaced)
    ]
    if said and not text.isascii():
        said = _in_characters(text, said)
    return sorted([*found, *said])


def _in_characters(text: str, said: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The same places in characters; they come in order."""
    raw, at, character = text.encode(), 0, 0
    places: list[tuple[int, int, str]] = []
    for start, end, stem in said:
        character += len(raw[at:start].decode())
        places.append((character, character + len(raw[start:end].decode()), stem))
        at = start
    return places
