"""The literal index: which texts may hold a needle, told without reading them.

It knows the trigrams of the casefolded texts of rows and of summaries, and no more; so it may name too
much, never too little, and who asks reads the text. Feeding it costs many times an append, so that is done
in slices behind a watermark, by whichever process is free; texts above the watermark are not in it and have
to be read. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apsw

SLICE_BYTES = 64 * 1024
"""UTF-8 bytes fed at a time; the write lock is held for some 15 ms."""
MOST_SLICES = 64
"""Of one text: each slice reads all of it."""
SUMMARIES = 1 << 40
"""Added to the id of a summary's text: rows and summaries stand apart, each in the order of their ids."""
MOST_GRAMS = 16
"""Trigrams asked for at once, or looked at to find a rare one: more of them rule out hardly anything."""
RARE_TEXTS = 1024
"""A trigram of fewer texts is rare; in a large store, one of fewer than one of COMMON_SHARE texts."""
COMMON_SHARE = 256
FEW_TEXTS = 32
"""Rare trigrams that likely have no more texts than this in common are enough."""
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
_EXISTS = "SELECT EXISTS(SELECT 1 FROM text WHERE id = ?)"

_MATCHING = """SELECT rowid FROM gram WHERE gram MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY rowid {direction}"""

_TEXTS_OF = "SELECT count(*) FROM (SELECT 1 FROM gram WHERE gram MATCH ? LIMIT ?)"

_STARTING = "SELECT DISTINCT doc FROM gram_instance WHERE term BETWEEN ? AND ?"


@dataclass(frozen=True, slots=True)
class Clue:
    """What to ask the index for: all of `grams` (a MATCH expression), else trigrams that begin so."""

    grams: str
    start: str


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
    folded = body.casefold() + _END
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


def few(db: apsw.Connection, required: Sequence[str]) -> Clue | None:
    """What to ask for texts that hold all of these pieces, where a look tells that they are few."""
    _, grams = _asked(db, required)
    for gram in _likely_rare(grams)[:LOOKS]:
        if not _is_common(gram) and _texts_of(db, gram, FEW_TEXTS + 1) <= FEW_TEXTS:
            return Clue(_quoted(gram), "")
    return None


def clue(db: apsw.Connection, required: Sequence[str]) -> Clue | None:
    """What to ask for texts that hold all of these casefolded pieces; None where the index cannot help."""
    wanted, grams = _asked(db, required)
    if not wanted:
        return None
    asked = _rare(db, grams) or _spread(grams)
    return Clue(" AND ".join(map(_quoted, asked)), "" if grams else max(wanted, key=len))


def _asked(db: apsw.Connection, required: Sequence[str]) -> tuple[list[str], list[str]]:
    """The pieces that the index can be asked for, and their trigrams."""
    wanted = [piece for piece in required if piece and _is_folded_alike(db, piece)]
    return wanted, [piece[at : at + _GRAM] for piece in wanted for at in range(len(piece) - _GRAM + 1)]


def _likely_rare(grams: Sequence[str]) -> Sequence[str]:
    """Some of these trigrams, those first that look as if few texts had them."""
    return sorted(_spread(grams, 4 * MOST_GRAMS), key=lambda gram: sum(map(_FREQUENT.__contains__, gram)))


def _is_common(gram: str) -> bool:
    """Whether it looks as if most texts had it."""
    return _FREQUENT.issuperset(gram)


def _texts_of(db: apsw.Connection, gram: str, most: int) -> int:
    """How many texts have a trigram, counted up to `most`."""
    texts: int = db.execute(_TEXTS_OF, (_quoted(gram), most)).get
    return texts


def _rare(db: apsw.Connection, grams: Sequence[str]) -> Sequence[str]:
    """Trigrams of few texts among these; none where all that are looked at are common.

    MATCH goes through all the texts of each trigram it is asked for, so a rare one answers many times faster
    without the common ones, and leaves hardly more texts to be read.
    """
    expected = every = float(max(1, indexed_upto(db)))
    most = max(RARE_TEXTS, int(every) // COMMON_SHARE)
    rare: list[str] = []
    for gram in _likely_rare(grams)[:MOST_GRAMS]:
        texts = _texts_of(db, gram, most)
        if texts < most:
            rare.append(gram)
            expected *= texts / every
        if expected <= FEW_TEXTS:
            break
    return rare


def named(
    db: apsw.Connection, clue: Clue, low: int, high: int, *, newest_first: bool, most: int
) -> Iterator[int] | None:
    """Index numbers from low to high, both included, of what may match, in order.

    None where the answer cannot be given in order without collecting more than `most` of them first.
    """
    if low > high:
        return iter(())
    if clue.grams:
        direction = "DESC" if newest_first else "ASC"
        return _first_of(db.execute(_MATCHING.replace("{direction}", direction), (clue.grams, low, high)))
    found: list[int] = []
    for (number,) in db.execute(_STARTING, (clue.start, clue.start + _LAST)):
        if low <= number <= high:
            found.append(number)
        if len(found) > most:
            return None
    return iter(sorted(found, reverse=newest_first))


def _first_of(rows: Iterable[tuple[int]]) -> Iterator[int]:
    return (number for (number,) in rows)


def _is_folded_alike(db: apsw.Connection, piece: str) -> bool:
    """Whether this piece was folded in the index as we fold it.

    What a character folds to never changes once it is assigned; so where other versions of Unicode took
    part, a piece of characters that all of them know is still safe.
    """
    unicode = db.execute("SELECT unicode FROM gram_state").get
    if unicode in (None, unicodedata.unidata_version) or piece.isascii():
        return True
    return all(unicodedata.ucd_3_2_0.category(character) != "Cn" for character in piece)


def _spread(grams: Sequence[str], most: int = MOST_GRAMS) -> Sequence[str]:
    distinct = list(dict.fromkeys(grams))
    step = max(1.0, (len(distinct) - 1) / (most - 1))
    return list(dict.fromkeys(distinct[round(index * step)] for index in range(min(most, len(distinct)))))


def _quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'
