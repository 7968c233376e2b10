"""The word index: which texts hold a word, whatever its ending, told without reading them.

It knows the stems of the texts of rows and of summaries, but for the commonest words and short numbers, and
neither where nor how often they stand: that is counted in the few texts that are worth it. It is fed like
the literal index, in slices behind a watermark of its own; texts above that have to be read. Of very long
texts only the beginning is in it. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import apsw

from lcm_mcp.search.index import SUMMARIES
from lcm_mcp.search.stems import Stemmer, Term

SLICE_BYTES: Final = 128 * 1024
"""UTF-8 bytes fed at a time; the write lock is held for some 15 ms."""
MOST_CHARACTERS: Final = 100_000
"""Of one text; what stands behind is found literally."""

_IS_SUMMARY = "EXISTS(SELECT 1 FROM tier WHERE tier.text = text.id)"
_UNFED = f"SELECT id, substr(body, 1, ?), {_IS_SUMMARY} FROM text WHERE id > ? ORDER BY id"
_TEXT = f"""SELECT substr(body, 1, ?), {_IS_SUMMARY}, EXISTS(SELECT 1 FROM row WHERE row.text = text.id)
    FROM text WHERE id = ?"""
_FED = f"""SELECT id, substr(body, 1, ?1), {_IS_SUMMARY} AS summary FROM text
    WHERE id <= ?2 AND id % ?3 = 0 AND (summary OR EXISTS(SELECT 1 FROM row WHERE row.text = text.id))"""
_ENTERED = "SELECT doc, count(*) FROM word_instance WHERE doc % ?1 % ?2 = 0 GROUP BY doc"
_EXISTS = "SELECT EXISTS(SELECT 1 FROM text WHERE id = ?)"
_HOLDING = """SELECT rowid FROM word WHERE word MATCH ? AND rowid BETWEEN ? AND ?
    ORDER BY rowid DESC LIMIT ?"""
_NUMBERS = "SELECT rowid FROM word WHERE word MATCH ? AND rowid IN (?, ?)"


def upto(db: apsw.Connection) -> int:
    """The text id up to which everything is in the index; 0 for nothing."""
    number: int = db.execute("SELECT upto FROM word_state").get
    return number


def behind(db: apsw.Connection) -> bool:
    """Whether there are texts that are not in it yet."""
    newest: int | None = db.execute("SELECT max(id) FROM text").get
    return newest is not None and newest > upto(db)


def unindexed(db: apsw.Connection) -> int:
    """How many texts are not in it yet."""
    count: int = db.execute("SELECT count(*) FROM text WHERE id > ?", (upto(db),)).get
    return count


def feed(db: apsw.Connection) -> bool:
    """Take in the next slice of texts; whether there is more."""
    stemmer, last, left = Stemmer(db), upto(db), SLICE_BYTES
    fed: list[tuple[int, str]] = []
    for text, body, summary in db.execute(_UNFED, (MOST_CHARACTERS, last)):
        fed.append((text + (SUMMARIES if summary else 0), stemmer.entry(body)))
        last, left = text, left - len(body.encode())
        if left <= 0:
            break
    if not fed:
        return False
    # In the order of their numbers: otherwise each step back starts a new segment.
    db.executemany("INSERT INTO word(rowid, words) VALUES(?, ?)", sorted(fed))
    db.execute("UPDATE word_state SET upto = ?", (last,))
    return left <= 0


def reset(db: apsw.Connection) -> None:
    """Empty the index, to be fed again from the first text on."""
    db.execute("INSERT INTO word(word) VALUES('delete-all')")
    db.execute("INSERT OR REPLACE INTO word_state VALUES(1, 0)")


def forget(db: apsw.Connection, texts: Sequence[int]) -> None:
    """Take texts out of the index before they are deleted, leaving nothing of them in it.

    Costs the index: what is left of it is written again, once.
    """
    stemmer, last = Stemmer(db), upto(db)
    for text in texts:
        if text > last:
            continue
        body, summary, row = next(db.execute(_TEXT, (MOST_CHARACTERS, text)))
        entry = stemmer.entry(body)
        numbers = [text + (SUMMARIES if summary else 0)]
        if not summary and not row:  # nothing says any more as what it was entered
            numbers = [number for (number,) in _numbers(db, entry, text)]
        for number in numbers:
            db.execute("INSERT INTO word(word, rowid, words) VALUES('delete', ?, ?)", (number, entry))
    db.execute("INSERT INTO word(word) VALUES('optimize')")


def _numbers(db: apsw.Connection, entry: str, text: int) -> Iterable[tuple[int]]:
    """Under which numbers a text is in the index."""
    first = entry.partition(" ")[0]
    return db.execute(_NUMBERS, (f'"{first}"', text, text + SUMMARIES)) if first else ()


def faults(db: apsw.Connection, most: int) -> list[str]:
    """What is wrong with the index: a false watermark, texts it lacks or has other words of, entries of texts
    that are not there. Looks at some `most` texts, evenly spread, and reads the whole index.
    """
    last: int | None = db.execute("SELECT upto FROM word_state").get
    newest: int = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'text'").get
    if last is None or last > newest:
        return ["words: it claims texts that are not there yet"]
    stemmer, step, lacking = Stemmer(db), max(1, newest // most), 0
    entered: dict[int, int] = dict(db.execute(_ENTERED, (SUMMARIES, step)))
    for text, body, summary in db.execute(_FED, (MOST_CHARACTERS, last, step)):
        found = entered.pop(text + (SUMMARIES if summary else 0), 0)
        lacking += found != stemmer.entered(body)
    false = sum(not db.execute(_EXISTS, (number % SUMMARIES,)).get for number in entered)
    said = [f"words: {lacking} texts are not in it as they are"] if lacking else []
    return [*said, f"words: {false} entries lead to no text"] if false else said


def holding(
    db: apsw.Connection, terms: Sequence[Term], low: int, high: int, most: int, *, beside: Term | None = None
) -> list[int]:
    """The newest index numbers of texts with any of these terms, and `beside` too, from low to high."""
    match = " OR ".join(term.match for term in terms)
    if beside is not None:
        match = f"{beside.match} AND ({match})"
    return [number for (number,) in db.execute(_HOLDING, (match, low, high, most))]
