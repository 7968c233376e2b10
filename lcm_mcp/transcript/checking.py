"""What can be told of rows from rows: sizes, totals and numbers, checked and made anew; what belongs to none.

Sizes and totals are derived from what a row holds, so they alone may be written again; what was said never
is. Functions take a connection and never begin or commit; they read everything: for people who ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.storage.schema import ROW_IS_NEVER_EDITED
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.sealing import unseal, weigh
from lcm_mcp.values import frozen

_ROWS = """SELECT row.session, row.seq, row.prev, row.bytes, row.fixed, row.cum_bytes, row.cum_inputs,
    row.cum_fixed, text.body, payload.parts
    FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
    ORDER BY row.session, row.seq"""
_UNROOTED = """SELECT session, seq FROM row WHERE prev <> 0 AND NOT EXISTS(
    SELECT 1 FROM row AS p WHERE p.session = row.session AND p.seq = row.prev)"""
_SET_TOTALS = """UPDATE row SET bytes = ?, fixed = ?, cum_bytes = ?, cum_inputs = ?, cum_fixed = ?
    WHERE session = ? AND seq = ?"""

# What a session says of itself, as its rows, nodes and cuts have it.
_NUMBERS = """SELECT id, leaf, next_seq, unused, next_node, next_cut,
    CASE WHEN leaf = 0 OR EXISTS(SELECT 1 FROM row WHERE session = id AND seq = leaf) THEN leaf
        ELSE (SELECT coalesce(max(seq), 0) FROM row WHERE session = id) END,
    max(next_seq, (SELECT coalesce(max(seq), 0) + 1 FROM row WHERE session = session.id)),
    (SELECT count(*) FROM row WHERE session = session.id),
    max(next_node, (SELECT coalesce(max(n.id), 0) + 1 FROM node AS n WHERE n.session = session.id)),
    max(next_cut, (SELECT coalesce(max(n), 0) + 1 FROM cut WHERE cut.session = session.id))
    FROM session"""

# Marks beside rows, nodes and sessions that are not there.
_STRAYS = (
    *(
        (table, "session", "session.id = {0}.session")
        for table in ("lease", "cut", "observation", "spend", "followed_session", "followed_line")
    ),
    *(
        (table, "node", "node.session = {0}.session AND node.id = {0}.node")
        for table in ("edge", "tier", "superseded")
    ),
    *(
        (table, "row", "row.session = {0}.session AND row.seq = {0}.seq")
        for table in ("pin", "call", "answer", "variant", "file", "large_inline")
    ),
    ("followed_session", "followed", "followed.id = {0}.file"),
    ("payload", "text", "text.id = {0}.text"),
)
_ORPHANS = "parent IS NOT NULL AND NOT EXISTS(SELECT 1 FROM session AS p WHERE p.id = session.parent)"
_STRAY = "FROM {0} WHERE NOT EXISTS(SELECT 1 FROM {1} WHERE {2})"
_HOLDERS = """SELECT m.name, f."from" FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f
    WHERE m.type = 'table' AND f."table" = 'text' AND m.name <> 'payload' ORDER BY m.name"""


@frozen
class Totals:
    """A row whose size or totals are not what its parts and the row before it make them."""

    session: SessionId
    seq: Seq
    size: Size
    upto: Size


def wrong_totals(db: apsw.Connection) -> Iterator[Totals]:
    """Every row with a wrong size or total, with the right ones. Raises ValueError for an unreadable row."""
    upto: dict[int, Size] = {}
    current = 0
    for session, seq, prev, own_bytes, fixed, *cum, body, payload in db.execute(_ROWS):
        if session != current:
            upto, current = {0: Size()}, session
        size = weigh(unseal(body, payload))
        total = upto[seq] = upto.get(prev, Size()) + size
        if (own_bytes, fixed, *cum) != (size.bytes, size.fixed, total.bytes, total.inputs, total.fixed):
            yield Totals(SessionId(session), Seq(seq), size, total)


def set_totals(db: apsw.Connection) -> int:
    """Make sizes and totals anew from what the rows hold; how many were wrong."""
    wrong = list(wrong_totals(db))
    if wrong:
        db.execute("DROP TRIGGER row_is_never_edited")
        db.executemany(
            _SET_TOTALS,
            [
                (
                    each.size.bytes,
                    each.size.fixed,
                    each.upto.bytes,
                    each.upto.inputs,
                    each.upto.fixed,
                    each.session,
                    each.seq,
                )
                for each in wrong
            ],
        )
        db.execute(ROW_IS_NEVER_EDITED)
    return len(wrong)


def unrooted(db: apsw.Connection) -> list[str]:
    """Addresses of rows that follow one that is not there."""
    return [f"s{session}/e{seq}" for session, seq in db.execute(_UNROOTED)]


def wrong_numbers(db: apsw.Connection) -> Iterator[tuple[SessionId, tuple[int, int, int, int, int]]]:
    """Sessions whose last row or next numbers cannot be right: leaf, next_seq, unused, next_node, next_cut as
    they have to be."""
    for number, *said, leaf, next_seq, rows, next_node, next_cut in list(db.execute(_NUMBERS)):
        right = leaf, next_seq, next_seq - 1 - rows, next_node, next_cut
        if tuple(said) != right:
            yield SessionId(number), right


def set_numbers(db: apsw.Connection) -> int:
    """Put the sessions' numbers right; how many were wrong."""
    wrong = list(wrong_numbers(db))
    db.executemany(
        "UPDATE session SET leaf = ?, next_seq = ?, unused = ?, next_node = ?, next_cut = ? WHERE id = ?",
        [(*right, session) for session, right in wrong],
    )
    return len(wrong)


def strays(db: apsw.Connection) -> int:
    """How many marks stand beside a row, node, session, file or text that is not there."""
    counts: list[int] = [db.execute(f"SELECT count(*) {_stray(*each)}").get for each in _STRAYS]
    orphans: int = db.execute(f"SELECT count(*) FROM session WHERE {_ORPHANS}").get
    return sum(counts) + orphans


def drop_strays(db: apsw.Connection) -> int:
    """Drop them, and let sessions go that name a parent which is not there; how many there were."""
    found = strays(db)
    if found:
        for each in _STRAYS:
            db.execute(f"DELETE {_stray(*each)}")
        db.execute(
            f"UPDATE session SET parent = NULL, link = NULL, opener = NULL, outcome = NULL WHERE {_ORPHANS}"
        )
    return found


def _stray(table: str, of: str, where: str) -> str:
    return _STRAY.format(table, of, where.format(table))


def unheld_texts(db: apsw.Connection) -> list[int]:
    """Texts that no row, no summary and nothing else of the schema points to."""
    held = " UNION ALL ".join(
        f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
        for table, column in db.execute(_HOLDERS)
    )
    return [number for (number,) in db.execute(f"SELECT id FROM text WHERE id NOT IN ({held}) ORDER BY id")]


def drop_texts(db: apsw.Connection, texts: Sequence[int]) -> None:
    """Delete texts that nothing points to, with their payloads; the index has to have forgotten them."""
    db.executemany("DELETE FROM payload WHERE text = ?", [(text,) for text in texts])
    db.executemany("DELETE FROM text WHERE id = ?", [(text,) for text in texts])


@frozen
class Sizes:
    """How many payloads and images there are, and what they take, in bytes."""

    payloads: int
    payload_bytes: int
    largest_payload: int
    images: int
    image_bytes: int


def sizes(db: apsw.Connection) -> Sizes:
    payloads = next(
        db.execute("SELECT count(*), total(length(parts)), coalesce(max(length(parts)), 0) FROM payload")
    )
    images = next(db.execute("SELECT count(*), total(length(data)) FROM image"))
    return Sizes(*map(int, (*payloads, *images)))
