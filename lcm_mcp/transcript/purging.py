"""A session taken out of the store: what it alone holds goes, what others hold as well stays.

Which tables know of sessions and of texts is asked of the schema, so that none is left out. The search index
has to have forgotten the texts before. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.transcript.checking import drop_texts
from lcm_mcp.transcript.figures import image_digests
from lcm_mcp.values import frozen

_OF_SESSIONS = """SELECT m.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c
    WHERE m.type = 'table' AND c.name = 'session' AND c.type = 'INTEGER' ORDER BY m.name"""
_HOLDING = """SELECT m.name, f."from" FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f
    JOIN pragma_table_info(m.name) AS c ON c.name = 'session'
    WHERE m.type = 'table' AND f."table" = 'text' ORDER BY m.name"""
_VARIANTS = "SELECT EXISTS(SELECT 1 FROM variant WHERE instr(content, CAST(? AS BLOB)) > 0)"
_EVERY: Final = (1, 2**63 - 1)


@frozen
class Belongings:
    """Texts that a session alone holds; how many others hold too, and the keys of those sessions."""

    texts: Sequence[int]
    shared: int
    holders: Sequence[str]


def belongings(db: apsw.Connection, session: SessionId) -> Belongings:
    held = list(db.execute(_HOLDING))
    ours = " UNION ".join(
        f'SELECT "{column}" AS id FROM "{table}" WHERE session = ?1' for table, column in held
    )
    others = " UNION ".join(
        f'SELECT session, "{column}" AS id FROM "{table}" WHERE session <> ?1' for table, column in held
    )
    shared = f"SELECT session, id FROM ({others}) WHERE id IN ({ours})"
    alone = f"SELECT id FROM ({ours}) WHERE id NOT IN (SELECT id FROM ({shared})) ORDER BY id"
    count: int = db.execute(f"SELECT count(DISTINCT id) FROM ({shared})", (session,)).get
    keys = db.execute(
        f"SELECT key FROM session WHERE id IN (SELECT session FROM ({shared})) ORDER BY id", (session,)
    )
    holders = [key for (key,) in keys]
    return Belongings([text for (text,) in db.execute(alone, (session,))], count, holders)


def purge(db: apsw.Connection, session: SessionId, texts: Sequence[int]) -> int:
    """Delete a session, these texts and the images that are then nobody's; how many images those were."""
    images = image_digests(db, (session, session))
    db.pragma("defer_foreign_keys", 1)
    for (table,) in list(db.execute(_OF_SESSIONS)):
        db.execute(f'DELETE FROM "{table}" WHERE session = ?', (session,))
    db.execute(
        "UPDATE session SET parent = NULL, link = NULL, opener = NULL, outcome = NULL WHERE parent = ?",
        (session,),
    )
    db.execute("DELETE FROM session WHERE id = ?", (session,))
    db.execute("INSERT INTO forgotten(id) VALUES(?)", (session,))
    drop_texts(db, texts)
    return _drop_images(db, images)


def _drop_images(db: apsw.Connection, images: set[str]) -> int:
    left = images - image_digests(db, _EVERY) if images else images
    unused = [(sha256,) for sha256 in left if not db.execute(_VARIANTS, (sha256,)).get]
    db.executemany("DELETE FROM image WHERE sha256 = ?", unused)
    return len(unused)
