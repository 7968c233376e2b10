"""Which rows are near a question in meaning, by the bits of their texts (meaning.py).

The bits stand in a plain table, 41 bytes a row, so a store that has them is whole without the packages that
made them. They are fed like the indexes, in slices behind a watermark, where semantic search is on; of texts
above it the newest are looked at when a question comes, and how many are left out is said. Functions take a
connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import apsw

from lcm_mcp.search.meaning import BYTES, MOST_CHARACTERS, Meaning, far
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.worthwhile import AT_ONCE, SCOPE_TEXTS, Keeps, Place, is_in, places_of
from lcm_mcp.values import frozen

SLICE_CHARACTERS: Final = 24_000
"""Fed at a time; the write lock is held for some 15 ms."""
NEAREST: Final = 200
"""Rows that are near; the next ones are as far as any."""
LOOKED_AT: Final = 1000
"""Texts that are looked at to find so many that the question's filters keep."""
SCANNED: Final = 250_000
"""Where all sessions are searched, the newest so many texts are compared, which takes some 30 ms."""
TAIL_TEXTS: Final = 256
"""Texts without bits for which they are made when a question comes, which takes some 100 ms."""

_FUNCTION: Final = "vec_distance_hamming"
_IS_ROW = "EXISTS(SELECT 1 FROM row WHERE row.text = text.id)"
_UNFED = f"SELECT id, substr(body, 1, ?), {_IS_ROW} FROM text WHERE id > ? ORDER BY id"
_FAR = f"{_FUNCTION}(vec_bit(vector.bits), vec_bit(?)) AS far"
_IN_SESSIONS = f"""SELECT row.text, {_FAR} FROM row JOIN vector ON vector.text = row.text
    WHERE row.session IN (SELECT value FROM json_each(?)) AND row.text <= ?
    ORDER BY far, row.text DESC LIMIT ?"""
_IN_STORE = f"""SELECT text, {_FAR} FROM vector WHERE text BETWEEN ? AND ? ORDER BY far, text DESC LIMIT ?"""
_TAIL = """SELECT id, substr(body, 1, ?) FROM text WHERE id > ? AND id <= ? AND EXISTS(SELECT 1 FROM row
    WHERE row.text = text.id AND row.session IN (SELECT value FROM json_each(?))) ORDER BY id DESC LIMIT ?"""
_FALSE = f"""SELECT count(*) FROM vector WHERE text > ?1 OR length(bits) <> {BYTES}
    OR NOT EXISTS(SELECT 1 FROM row WHERE row.text = vector.text)"""
_LACKING = f"""SELECT count(*) FROM text WHERE id <= ?1 AND {_IS_ROW}
    AND NOT EXISTS(SELECT 1 FROM vector WHERE vector.text = text.id)"""


@frozen
class Near:
    """Rows near a question, nearest first; left counts newer texts of which nothing is known yet."""

    places: Sequence[Place] = ()
    left: int = 0

    def ranks(self) -> Mapping[tuple[int, int], int]:
        """Which place each row has, by session and number."""
        return {(place.session, place.seq): rank for rank, place in enumerate(self.places, 1)}


def upto(db: apsw.Connection, meaning: Meaning) -> int:
    """The text id up to which all rows have bits of this model; 0 for none."""
    number, model = next(db.execute("SELECT upto, model FROM vector_state"))
    return number if model == meaning.name else 0


def behind(db: apsw.Connection, meaning: Meaning) -> bool:
    """Whether there are texts without bits of this model."""
    newest: int | None = db.execute("SELECT max(id) FROM text").get
    return newest is not None and newest > upto(db, meaning)


def feed(db: apsw.Connection, meaning: Meaning) -> None:
    """Take in the next slice of texts; bits of another model are dropped."""
    last, left = upto(db, meaning), SLICE_CHARACTERS
    if not last:
        reset(db)
    fed: list[tuple[int, bytes]] = []
    for text, body, is_row in db.execute(_UNFED, (MOST_CHARACTERS, last)):
        if is_row:
            fed.append((text, meaning.bits(body)))
            left -= len(body)
        last, left = text, left - 1
        if left <= 0:
            break
    db.executemany("INSERT INTO vector(text, bits) VALUES(?, ?)", fed)
    db.execute("UPDATE vector_state SET upto = ?, model = ?", (last, meaning.name))


def reset(db: apsw.Connection) -> None:
    """Forget all bits, to be made again from the first text on where semantic search is on."""
    db.execute("DELETE FROM vector")
    db.execute("INSERT OR REPLACE INTO vector_state VALUES(1, 0, NULL)")


def forget(db: apsw.Connection, texts: Sequence[int]) -> None:
    """Forget the bits of texts that are about to be deleted."""
    db.executemany("DELETE FROM vector WHERE text = ?", [(text,) for text in texts])


def faults(db: apsw.Connection) -> list[str]:
    """What is wrong with the bits: a false watermark, rows that lack them, bits that belong to no row."""
    last: int | None = db.execute("SELECT upto FROM vector_state").get
    newest: int = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'text'").get
    if last is None or last > newest:
        return ["meanings: they claim texts that are not there yet"]
    lacking, false = db.execute(_LACKING, (last,)).get, db.execute(_FALSE, (last,)).get
    said = [f"meanings: {lacking} texts have none"] if lacking else []
    return [*said, f"meanings: {false} belong to no row"] if false else said


def nearest(
    db: apsw.Connection, meaning: Meaning, asked: bytes, scope: Scope, keeps: Keeps, newest: int
) -> Near:
    """The rows of a scope that are nearest to the bits of a question, among texts up to `newest`."""
    known = upto(db, meaning)
    read, left = _read_tail(db, meaning, asked, scope, known, newest)
    bits = dict(_compared(db, asked, scope, min(known, newest))) | dict(read)
    found = sorted(bits.items(), key=lambda each: (each[1], -each[0]))
    places: dict[int, Place] = {}
    for start in range(0, min(len(found), LOOKED_AT), AT_ONCE):
        texts = [text for text, _ in found[start : start + AT_ONCE]]
        kept = {place.text: place for place in places_of(db, texts) if is_in(scope, place) and keeps(place)}
        places.update((text, kept[text]) for text in texts if text in kept)
        if len(places) >= NEAREST:
            break
    return Near(list(places.values())[:NEAREST], left)


def _compared(db: apsw.Connection, asked: bytes, scope: Scope, newest: int) -> Mapping[int, int]:
    """The nearest texts with bits, and how far they are."""
    if not newest:
        return {}
    _load(db)
    found: Iterable[tuple[int, int]]
    if scope.sizes[0] <= min(SCOPE_TEXTS, max(1, newest // 2)):
        found = db.execute(_IN_SESSIONS, (asked, scope.listed, newest, LOOKED_AT))
    else:
        found = db.execute(_IN_STORE, (asked, newest - SCANNED + 1, newest, LOOKED_AT))
    return {text: int(bits) for text, bits in found}


def _read_tail(
    db: apsw.Connection, meaning: Meaning, asked: bytes, scope: Scope, known: int, newest: int
) -> tuple[Mapping[int, int], int]:
    """How far the newest texts without bits are, and how many texts are left."""
    wanted = (MOST_CHARACTERS, known, newest, scope.listed, TAIL_TEXTS)
    read = {text: far(asked, meaning.bits(body)) for text, body in db.execute(_TAIL, wanted)}
    if len(read) < TAIL_TEXTS:
        return read, 0
    left: int = db.execute("SELECT count(*) FROM text WHERE id > ? AND id < ?", (known, min(read))).get
    return read, left


def _load(db: apsw.Connection) -> None:
    """Give a connection the function that compares bits."""
    import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]

    if not db.execute("SELECT EXISTS(SELECT 1 FROM pragma_function_list WHERE name = ?)", (_FUNCTION,)).get:
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
