"""The nodes of a fork: those that stand over the rows it took along, with their links, texts and numbers.

A node is copied where its last row ends a unit at or before the checkpoint; one that reaches beyond is left
behind, its complete children come along. The cut in force there comes along as well, with all that it shows,
so that the fork's first request is the one the source would send from there; a running summary does not.
No summarizer is asked. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import apsw

from lcm_mcp.dag.cuts import last_cut_on
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.transcript.path import FIRST, Path
from lcm_mcp.transcript.units import units_back
from lcm_mcp.values import frozen

_NODES = """INSERT INTO node(session, id, depth, first, last, rows, source_tokens, made_at, anchor)
    SELECT ?1, id, depth, first, last, rows, source_tokens, made_at, anchor
    FROM node WHERE session = ?2 AND last BETWEEN ?3 AND ?4"""
_OF_NODES = tuple(
    f"""INSERT INTO {table}(session, node, {columns}) SELECT ?1, node, {columns} FROM {table}
        WHERE session = ?2 AND node IN (SELECT id FROM node WHERE session = ?1)"""
    for table, columns in (
        ("edge", "n, child"),
        ("tier", "kind, text, tokens, level, model"),
        ("superseded", "n, kind, upto_cut, superseded_at, text, tokens, level, model"),
    )
)
_CUT = """INSERT INTO cut(session, n, strategy, tail_from, shape, prefix_sha256, window, made_at)
    SELECT ?1, n, strategy, tail_from, shape, prefix_sha256, window, made_at
    FROM cut WHERE session = ?2 AND n = ?3"""

# A row that opens a unit right after row ?2, on whatever branch.
_GOES_ON = """SELECT EXISTS(
        SELECT 1 FROM row WHERE session = ?1 AND seq = ?2 + 1 AND prev = ?2 AND unit = seq)
    OR EXISTS(SELECT 1 FROM row WHERE session = ?1 AND prev <> seq - 1 AND seq > ?2 AND prev = ?2
    AND unit = seq)"""

_MADE_BY = """SELECT count(*) FROM node WHERE session = ?1
    AND made_at <= (SELECT created_at FROM session WHERE id = ?2)"""


@frozen
class Copied:
    """How many of the source's nodes came along at a fork, and how many did not."""

    nodes: int
    omitted: int


def copy_nodes(db: apsw.Connection, source: SessionId, path: Path, fork: SessionId) -> None:
    """Copy the nodes and the cut of a path into a session that holds its rows and no node yet."""
    cut = last_cut_on(db, source, "lcm", path)
    shown_to = Seq(0) if cut is None else path.before(cut.tail_from)
    end = max(_last_complete(db, source, path), shown_to)
    for part in path.between(FIRST, end):
        db.execute(_NODES, (fork, source, part.low, part.high))
    for statement in _OF_NODES:
        db.execute(statement, (fork, source))
    if cut is not None:
        db.execute(_CUT, (fork, source, cut.id))


def copied(db: apsw.Connection, source: SessionId, fork: SessionId) -> Copied:
    """What came along when the fork was made, however both have grown since."""
    there: int = db.execute(_MADE_BY, (source, fork)).get
    here: int = db.execute(_MADE_BY, (fork, fork)).get
    return Copied(here, max(there - here, 0))


def _last_complete(db: apsw.Connection, session: SessionId, path: Path) -> Seq:
    """The last row of the newest unit that is complete: something opened another one after it."""
    if db.execute(_GOES_ON, (session, path.leaf)).get:
        return path.leaf
    newest = next(units_back(path.marks_back()))
    return newest.before
