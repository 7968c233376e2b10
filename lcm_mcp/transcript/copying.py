"""The rows of a fork: those of a path in another session, under the same numbers, pointing to the same texts.

No text is stored or indexed again, and no row off the path comes along. What hangs on rows comes with them:
calls and answers, so that a result finds its call, pins, variants, file handles, and who the rows are that
have no id of their own. Functions take a connection and never begin or commit; they cost the rows copied.
"""

from __future__ import annotations

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.transcript.path import FIRST, Path

_COLUMNS = """seq, prev, unit, round, role, entry_id, message_id, at, results, digest,
    bytes, fixed, cum_bytes, cum_inputs, cum_fixed, text"""
_ROWS = f"""INSERT INTO row(session, {_COLUMNS})
    SELECT ?1, {_COLUMNS} FROM row WHERE session = ?2 AND seq BETWEEN ?3 AND ?4"""

# An answer or a pin comes with its row; one whose row stayed behind is none in the fork.
_BESIDE = tuple(
    f"""INSERT INTO {table}(session, {columns}) SELECT ?1, {columns} FROM {table}
        WHERE session = ?2 AND EXISTS(SELECT 1 FROM row WHERE row.session = ?1 AND row.seq = {table}.seq)"""
    for table, columns in (
        ("call", "id, seq, n"),
        ("answer", "id, call_seq, call_n, seq"),
        ("pin", "seq, pinned_at"),
        ("variant", "seq, digest, role, at, content"),
        ("file", "id, seq, part, path, kind, content, summary, head, start, characters"),
        ("large_inline", "seq, part, characters"),
    )
)

# Who rows are whose source gave them no id, so that their file is known again and another one told from it.
_LINES = """INSERT INTO followed_line(session, source, digest, version, ordinal, entry_id)
    SELECT ?1, source, digest, version, ordinal, entry_id FROM followed_line AS l
    WHERE session = ?2 AND EXISTS(SELECT 1 FROM row WHERE row.session = ?1 AND row.entry_id = l.entry_id)"""


def copy_rows(db: apsw.Connection, source: SessionId, path: Path, fork: SessionId) -> None:
    """Copy the rows of a path, and what hangs on them, into a session that has none yet."""
    for part in path.between(FIRST, path.leaf):
        db.execute(_ROWS, (fork, source, part.low, part.high))
    for statement in (*_BESIDE, _LINES):
        db.execute(statement, (fork, source))
