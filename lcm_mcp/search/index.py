"""The literal index: which texts may hold a needle, told without reading them.

It knows the trigrams of the casefolded texts of rows and of summaries, and no more; so it may name too
much, never too little, and who asks reads the text. Feeding it costs many times an append, so that is done
in slices behind a watermark, by whichever process is free; texts above the watermark are not in it and have
to be read. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import apsw

from lcm_mcp.values import frozen

SLICE_BYTES = 64 * 1024
"""UTF-8 bytes fed at a time; the write lock is held for some 15 ms."""
MOST_SLICES = 64
"""Of one text: each slice reads all of it."""
SUMMARIES = 1 << 40
"""Added to the id of a summary's text: rows and summaries stand apart, each in the order of their ids."""
MOST_GRAMS = 16
"""Trigrams asked for at once, or looked at to find a rare one: more of them rule out hardly anything."""
RARE_SHARE = 64
"""A trigram is rare that fewer than one of so many texts have."""
FEW_TEXTS = 32
"""Where trigrams have no more texts than this in common, all of these are named at once."""
MOST_REMEMBERED = 10_000
"""Trigrams known to be common, by a connection."""
LOOKS = 2
"""Trigrams that are looked at before anything is read."""
_FREQUENT = frozenset(" etaoinsrhldcu")
"""The characters that make up most of what people write; a trigram without them is likely to be rare."""
_GRAM = 3
_END = "\x1a\x1a"
"""Behind every text, so that its last characters begin trigrams like all others."""
_LAST = "\U0010ffff\U0010ffff"

_UNFED = """SELECT id, body, EXISTS(SELECT 1 FROM tier WHERE tier.text = text.id)
    FROM text WHERE id > ? ORDER BY id"""

_TEXT = """SELECT body, EXISTS(SELECT 1 FROM tier WHERE tier.text = text.id),
    EXISTS(SELECT 1 FROM row WHERE row.text = text.id) FROM text WHERE id = ?"""
_NUMBERS = "SELECT rowid FROM gram WHERE gram MATCH ? AND rowid IN (?, ?)"
_FED = """SELECT id, body, EXISTS(SELECT 1 FROM tier WHERE tier.text = text.id) AS summary FROM text
    WHERE id <= ?1 AND id % ?2 = 0 AND (summary OR EXISTS(SELECT 1 FROM row WHERE row.text = text.id))"""
_ENTERED = "SELECT doc, count(*) FROM gram_instance WHERE doc % ?1 % ?2 = 0 GROUP BY doc"
_STATE = "SELECT upto, unicode, (SELECT coalesce(max(id), 0) FROM text) FROM gram_state"
_EXISTS = "SELECT EXISTS(SELECT 1 FROM text WHERE id = ?)"

_MATCHING = """SELECT rowid FROM gram WHERE gram MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY rowid {direction}"""

_FIRST = "SELECT rowid FROM gram WHERE gram MATCH ? ORDER BY rowid LIMIT ?"

_STARTING = "SELECT DISTINCT doc FROM gram_instance WHERE term BETWEEN ? AND ?"


@frozen
class Clue:
    """What to ask the index for: all of `grams` (a MATCH expression), else trigrams that begin so.

    few are the index numbers of all that it names, where they are few.
    """

    grams: str
    start: str
    few: Sequence[int] | None = None


def indexed_upto(db: apsw.Connection) -> int:
    """The text id up to which everything is indexed; 0 for nothing."""
    upto: int = db.execute("SELECT upto FROM gram_state").get
    return upto


def behind(db: apsw.Connection) -> bool:
    """Whether there are texts that are not indexed yet."""
    newest: int | None = db.execute("SELECT max(id) FROM text").get
    return newest is not None and newest > indexed_upto(db)


def unindexed(db: apsw.Connection) -> int:
    """How many texts are not indexed yet."""
    count: int = db.execute("SELECT count(*) FROM text WHERE id > ?", (indexed_upto(db),)).get
    return count


def feed(db: apsw.Connection) -> bool:
    """Index the next slice of texts; whether there is more. Texts longer than a slice take several."""
    upto, done, unicode = next(db.execute("SELECT upto, characters, unicode FROM gram_state"))
    left = SLICE_BYTES
    fed: list[tuple[int, str]] = []
    for text, body, summary in db.execute(_UNFED, (upto,)):
        left = max(left, len(body) // MOST_SLICES)
        piece = body[max(0, done - _GRAM + 1) : done + left]
        whole = done + left >= len(body)
        fed.append((text + (SUMMARIES if summary else 0), piece.casefold() + (_END if whole else "")))
        upto, done = (text, 0) if whole else (upto, done + left)
        left -= len(piece.encode())
        if left <= 0:
            break
    if not fed:
        return False
    # In the order of their numbers: otherwise each step back starts a new segment.
    db.executemany("INSERT INTO gram(rowid, folded) VALUES(?, ?)", sorted(fed))
    ours = unicodedata.unidata_version
    folded_by = ours if unicode in (None, ours) else "mixed"
    db.execute("UPDATE gram_state SET upto = ?, characters = ?, unicode = ?", (upto, done, folded_by))
    return left <= 0


def faults(db: apsw.Connection, most: int) -> list[str]:
    """What is wrong with the index: a false watermark, texts it lacks or has other grams of, entries of texts
    that are not there. Looks at some `most` texts, evenly spread, and reads the whole index.
    """
    state = next(db.execute("SELECT upto, characters, unicode FROM gram_state"), None)
    newest: int = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'text'").get
    if state is None or state[0] > newest or state[1] < 0:
        return ["it claims texts that are not there yet"]
    step = max(1, newest // most)
    entered: dict[int, int] = dict(db.execute(_ENTERED, (SUMMARIES, step)))
    lacking, alike = 0, state[2] in (None, unicodedata.unidata_version)
    for text, body, summary in db.execute(_FED, (state[0], step)):
        found = entered.pop(text + (SUMMARIES if summary else 0), 0)
        lacking += found != _distinct_grams(body) if alike else not found and _distinct_grams(body) > 0
    false = sum(not db.execute(_EXISTS, (number % SUMMARIES,)).get for number in entered)
    said = [f"{lacking} texts are not in it as they are"] if lacking else []
    return [*said, f"{false} entries lead to no text"] if false else said


def _distinct_grams(body: str) -> int:
    folded = _as_entered(body.casefold()) + _END
    return len({folded[at : at + _GRAM] for at in range(len(folded) - _GRAM + 1)})


def _entered(db: apsw.Connection, text: int, folded: str) -> list[int]:
    """Under which numbers a text is in the index: as a row's, as a summary's, or not at all."""
    grams = [folded[at : at + _GRAM] for at in range(len(folded) - _GRAM + 1)]
    wanted = " AND ".join(map(_quoted, _spread(grams)))
    found = db.execute(_NUMBERS, (wanted, text, text + SUMMARIES)) if grams else ()
    return [number for (number,) in found]


def reset(db: apsw.Connection) -> None:
    """Empty the index, to be fed again from the first text on."""
    db.execute("INSERT INTO gram(gram) VALUES('delete-all')")
    db.execute("INSERT OR REPLACE INTO gram_state VALUES(1, 0, 0, NULL)")


def forget(db: apsw.Connection, texts: Sequence[int]) -> None:
    """Take texts out of the index before they are deleted, leaving nothing of them in it.

    Costs the index: what is left of it is written again, once.
    """
    upto, done, unicode = next(db.execute("SELECT upto, characters, unicode FROM gram_state"))
    if unicode not in (None, unicodedata.unidata_version):
        reset(db)  # what these texts were folded to cannot be told any more
        return
    begun: int | None = db.execute("SELECT min(id) FROM text WHERE id > ?", (upto,)).get
    for text in texts:
        if text > upto and (text != begun or not done):
            continue
        body, summary, row = next(db.execute(_TEXT, (text,)))
        folded = body.casefold() + _END if text <= upto else body[:done].casefold()
        numbers = [text + (SUMMARIES if summary else 0)]
        if not summary and not row:  # nothing says any more as what it was entered
            numbers = _entered(db, text, folded)
        for number in numbers:
            db.execute("INSERT INTO gram(gram, rowid, folded) VALUES('delete', ?, ?)", (number, folded))
        if text == begun:
            db.execute("UPDATE gram_state SET characters = 0")
    db.execute("INSERT INTO gram(gram) VALUES('optimize')")


class Sought:
    """Casefolded pieces that a text must hold, and what the index says of them, asked for when it is told.

    upto is the text id up to which everything is indexed, newest the last one there is.
    """

    def __init__(self, db: apsw.Connection, required: Sequence[str]) -> None:
        self._db = db
        self.required = required
        self.upto, unicode, self.newest = next(db.execute(_STATE))
        known = (piece for piece in required if piece and _is_folded_alike(unicode, piece))
        self._pieces = [_as_entered(piece) for piece in known]
        self._grams = _likely_rare([gram for piece in self._pieces for gram in _grams_of(piece)])
        self._looks: dict[str, _Look] = {}
        self._common = _REMEMBERED.setdefault(db, {})

    @cached_property
    def few(self) -> Clue | None:
        """What to ask for texts that hold all of the pieces, where a look or two tells that they are few."""
        for gram in self._grams[:LOOKS]:
            if not _FREQUENT.issuperset(gram) and self._look(gram).texts <= FEW_TEXTS:
                return Clue(_quoted(gram), "", self._look(gram).first)
        return None

    @cached_property
    def clue(self) -> Clue | None:
        """The same, however many they are; None where the index cannot help."""
        if self.few is not None or not self._pieces:
            return self.few
        if not self._grams:
            return Clue("", max(self._pieces, key=len))
        rarest = self._rarest()
        most = self._enough(rarest)
        while True:
            grams = " AND ".join(map(_quoted, rarest[:most]))
            first = _first_of(self._db, grams)
            if len(first) <= FEW_TEXTS or most >= len(rarest):
                return Clue(grams, "", first if len(first) <= FEW_TEXTS else None)
            most *= 2

    @property
    def unknown(self) -> int:
        """How many texts the index does not know yet."""
        return self.newest - self.upto

    def seldom(self, texts: int) -> bool:
        """Whether so many texts likely hold none of it, as far as has been looked."""
        return any(look.texts * texts < self.upto for look in self._looks.values())

    def _rarest(self) -> Sequence[str]:
        """The trigrams, the rarest first, as far as they have to be looked at.

        MATCH goes through all the texts of each trigram it is asked for, so rare ones answer many times
        faster without the common ones, and leave hardly more texts to be read.
        """
        every = left = max(1, self.upto)
        for gram in self._grams[:MOST_GRAMS]:
            texts = self._look(gram).texts
            left *= texts / every if texts * RARE_SHARE < every else 1
            if left <= FEW_TEXTS:
                break
        return sorted(self._looks, key=lambda gram: self._looks[gram].texts)

    def _enough(self, rarest: Sequence[str]) -> int:
        """How many of the rarest trigrams likely leave few texts, as if none stood for another."""
        every = left = max(1, self.upto)
        for number, gram in enumerate(rarest, 1):
            left *= self._looks[gram].texts / every
            if left <= FEW_TEXTS:
                return number
        return len(rarest)

    def _look(self, gram: str) -> _Look:
        """The first texts that have a trigram tell by how far they stand apart how many have it."""
        if gram not in self._looks:
            share = self._common.get(gram)
            self._looks[gram] = self._looked(gram) if share is None else _Look((), _many(share * self.upto))
        return self._looks[gram]

    def _looked(self, gram: str) -> _Look:
        first = _first_of(self._db, _quoted(gram))
        if len(first) <= FEW_TEXTS:
            return _Look(first, len(first))
        texts = _many(len(first) * max(1, self.upto / first[-1]))
        if len(self._common) < MOST_REMEMBERED:
            self._common[gram] = texts / max(1, self.upto)
        return _Look((), texts)


class _Look(NamedTuple):
    """How many texts have a trigram, or seem to, and their index numbers where they are few."""

    first: Sequence[int]
    texts: float


_REMEMBERED: Final = WeakKeyDictionary[apsw.Connection, dict[str, float]]()
"""By connection, which share of the texts has a trigram, of those that were found to be common. That changes
slowly, and only says which are asked for first."""


def _many(texts: float) -> float:
    """So many, but more than are few."""
    return max(FEW_TEXTS + 1.0, texts)


def clue(db: apsw.Connection, required: Sequence[str]) -> Clue | None:
    """What to ask for texts that hold all of these casefolded pieces; None where the index cannot help."""
    return Sought(db, required).clue


def _first_of(db: apsw.Connection, grams: str) -> Sequence[int]:
    """The first index numbers of what has these trigrams, one more of them than are few."""
    return [number for (number,) in db.execute(_FIRST, (grams, FEW_TEXTS + 1))]


def _grams_of(piece: str) -> Iterable[str]:
    return (piece[at : at + _GRAM] for at in range(len(piece) - _GRAM + 1))


def _likely_rare(grams: Sequence[str]) -> Sequence[str]:
    """Some of these trigrams, those first that look as if few texts had them."""
    return sorted(_spread(grams, 4 * MOST_GRAMS), key=lambda gram: sum(map(_FREQUENT.__contains__, gram)))


def named(
    db: apsw.Connection, clue: Clue, low: int, high: int, *, newest_first: bool, most: int
) -> Iterator[int] | None:
    """Index numbers from low to high, both included, of what may match, in order.

    None where the answer cannot be given in order without collecting more than `most` of them first.
    """
    if low > high:
        return iter(())
    if clue.few is None and clue.grams:
        direction = "DESC" if newest_first else "ASC"
        asked = (clue.grams, low, high)
        return (number for (number,) in db.execute(_MATCHING.replace("{direction}", direction), asked))
    numbers = clue.few
    if numbers is None:
        numbers = (number for (number,) in db.execute(_STARTING, (clue.start, clue.start + _LAST)))
    found: list[int] = []
    for number in numbers:
        if low <= number <= high:
            found.append(number)
        if len(found) > most and clue.few is None:
            return None
    return iter(sorted(found, reverse=newest_first))


def _as_entered(folded: str) -> str:
    """A casefolded text as its trigrams stand in the index: SQLite reads U+FFFE and U+FFFF, which are no
    characters, as the sign for what is none."""
    return folded.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def _is_folded_alike(unicode: str | None, piece: str) -> bool:
    """Whether this piece was folded in the index, by this version of Unicode, as we fold it.

    What a character folds to never changes once it is assigned; so where other versions took part, a piece
    of characters that all of them know is still safe.
    """
    if unicode in (None, unicodedata.unidata_version) or piece.isascii():
        return True
    return all(unicodedata.ucd_3_2_0.category(character) != "Cn" for character in piece)


def _spread(grams: Sequence[str], most: int = MOST_GRAMS) -> Sequence[str]:
    distinct = list(dict.fromkeys(grams))
    if len(distinct) <= most:
        return distinct
    step = (len(distinct) - 1) / (most - 1)
    return list(dict.fromkeys(distinct[round(index * step)] for index in range(most)))


def _quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'
