"""Nodes and cuts that cannot be true: found, and dropped with what stands on them.

A node is dropped where it names a row or a child that is not there, has no text, or does not cover what its
children cover; of two over one span the one that can be expanded is kept. What it covered is then covered by
its children, or folded again. Rows are never touched. Functions take a connection and never begin or commit;
they cost every node there is: for people who ask, not for a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import apsw
import orjson

from lcm_mcp.dag.store import frontier
from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.transcript.path import Path
from lcm_mcp.values import frozen

Fault = Literal["spans", "shape", "duplicates"]
Key = tuple[SessionId, NodeId]


@frozen
class FalseNode:
    session: SessionId
    node: NodeId
    fault: Fault
    why: str

    @property
    def key(self) -> Key:
        return self.session, self.node

    def __str__(self) -> str:
        return f"s{self.session}/#{self.node} {self.why}"


@frozen
class _Node:
    depth: int
    first: Seq
    last: Seq
    rows: int


@frozen
class FalseCut:
    session: SessionId
    number: int

    def __str__(self) -> str:
        return f"s{self.session}/c{self.number}"


_ROWS_MISSING = """SELECT session, id FROM node WHERE NOT EXISTS(
        SELECT 1 FROM row WHERE row.session = node.session AND row.seq = node.first)
    OR NOT EXISTS(SELECT 1 FROM row WHERE row.session = node.session AND row.seq = node.last)"""
_MISCOUNTED = """SELECT node.session, node.id FROM node
    JOIN row AS l ON l.session = node.session AND l.seq = node.last
    JOIN row AS f ON f.session = node.session AND f.seq = node.first
    WHERE l.cum_inputs - f.cum_inputs + 1 <> node.rows"""
_TEXTLESS = """SELECT session, id FROM node WHERE NOT EXISTS(
    SELECT 1 FROM tier JOIN text ON text.id = tier.text
    WHERE tier.session = node.session AND tier.node = node.id AND tier.kind = 'primary')"""
_BY_THEMSELVES: tuple[tuple[str, Fault, str], ...] = (
    (_ROWS_MISSING, "spans", "names rows that are not there"),
    (_MISCOUNTED, "spans", "does not count the rows it covers"),
    (_TEXTLESS, "shape", "has no text"),
)
_BEFORE = "SELECT prev FROM row WHERE session = ? AND seq = ?"
_DROPS = (
    "DELETE FROM superseded WHERE session = ? AND node = ?",
    "DELETE FROM edge WHERE session = ? AND node = ?",
    "DELETE FROM tier WHERE session = ? AND node = ?",
    "DELETE FROM node WHERE session = ? AND id = ?",
)


def false_nodes(db: apsw.Connection) -> list[FalseNode]:
    """Every node that cannot be true, with what is wrong first; those that stand on one included."""
    nodes = {
        (SessionId(session), NodeId(number)): _Node(depth, Seq(first), Seq(last), rows)
        for session, number, depth, first, last, rows in db.execute(
            "SELECT session, id, depth, first, last, rows FROM node ORDER BY session, depth, id"
        )
    }
    below = _children(db)
    found: dict[Key, FalseNode] = {}
    for query, fault, why in _BY_THEMSELVES:
        for session, number in db.execute(query):
            found.setdefault((session, number), FalseNode(session, number, fault, why))
    used = {(key[0], child) for key, children in below.items() for child in children}
    for key in nodes:  # children first: depth rises
        why = None if key in found else _misshapen(db, key, nodes, below.get(key, []), found)
        if why is not None:
            found[key] = FalseNode(*key, "shape", why)
    for key, why in _doubled(nodes, used, found):
        found[key] = FalseNode(*key, "duplicates", why)
    _spread(nodes, below, found)
    return [found[key] for key in sorted(found)]


def _children(db: apsw.Connection) -> dict[Key, list[NodeId]]:
    below: dict[Key, list[NodeId]] = defaultdict(list)
    for session, node, child in db.execute("SELECT session, node, child FROM edge ORDER BY session, node, n"):
        below[SessionId(session), NodeId(node)].append(NodeId(child))
    return below


def _misshapen(
    db: apsw.Connection,
    key: Key,
    nodes: dict[Key, _Node],
    below: Sequence[NodeId],
    found: dict[Key, FalseNode],
) -> str | None:
    """What is wrong with a node and its children, if anything is."""
    session, node = key[0], nodes[key]
    if (node.depth > 0) != bool(below):
        return "is a parent without children" if node.depth else "is a leaf with children"
    children = [nodes.get((session, child)) for child in below]
    whole = [child for child in children if child is not None]
    if len(whole) < len(children):
        return "names a child that is not there"
    if any((session, child) in found for child in below):
        return "stands on a child that cannot be true"
    if whole and not _covers(db, session, node, whole):
        return "does not cover what its children cover"
    return None


def _covers(db: apsw.Connection, session: SessionId, node: _Node, children: Sequence[_Node]) -> bool:
    return (
        all(child.depth == node.depth - 1 for child in children)
        and (children[0].first, children[-1].last) == (node.first, node.last)
        and sum(child.rows for child in children) == node.rows
        and all(
            db.execute(_BEFORE, (session, newer.first)).get == older.last
            for older, newer in pairwise(children)
        )
    )


def _doubled(
    nodes: dict[Key, _Node], used: set[Key], found: dict[Key, FalseNode]
) -> Iterator[tuple[Key, str]]:
    """Nodes over a span that another one covers as well: kept is one that is a child, else the first made."""
    over: dict[tuple[SessionId, Seq, Seq], list[Key]] = defaultdict(list)
    for key, node in nodes.items():
        if key not in found:
            over[key[0], node.first, node.last].append(key)
    for keys in over.values():
        kept = min(keys, key=lambda key: (key not in used, key))
        yield from ((key, f"covers what #{kept[1]} covers") for key in keys if key != kept)


def _spread(nodes: dict[Key, _Node], below: dict[Key, list[NodeId]], found: dict[Key, FalseNode]) -> None:
    for key in nodes:
        if key not in found and any((key[0], child) in found for child in below.get(key, [])):
            found[key] = FalseNode(*key, "shape", "stands on a child that cannot be true")


def drop_nodes(db: apsw.Connection, nodes: Sequence[Key]) -> None:
    """Drop nodes with their texts' places; those above them have to be among them."""
    db.pragma("defer_foreign_keys", 1)
    for statement in _DROPS:
        db.executemany(statement, nodes)


def beyond_holes(db: apsw.Connection, session: SessionId, path: Path) -> list[NodeId]:
    """The nodes of a path that stand after rows which no node covers.

    Those rows can only be folded again once nothing is covered after them.
    """
    standing = frontier(db, session, path, path.leaf)
    if not standing or path.before(standing[0].first) == 0:
        return []
    rows = db.execute(
        "SELECT id, last FROM node WHERE session = ? AND last >= ?", (session, standing[0].first)
    )
    return [NodeId(number) for number, last in rows if Seq(last) in path]


def false_cuts(db: apsw.Connection) -> list[FalseCut]:
    """Cuts that show a node, or begin their tail at a row, that is not there, or that cannot be read."""
    known = {(session, number) for session, number in db.execute("SELECT session, id FROM node")}
    found: list[FalseCut] = []
    for session, number, shape, rooted in db.execute(
        """SELECT session, n, shape, EXISTS(SELECT 1 FROM row
            WHERE row.session = cut.session AND row.seq = cut.tail_from) FROM cut"""
    ):
        shown = _shown(shape)
        if not rooted or shown is None or any((session, node) not in known for node in shown):
            found.append(FalseCut(session, number))
    return found


def _shown(shape: bytes) -> list[int] | None:
    try:
        return [int(entry[0]) for entry in orjson.loads(shape)["nodes"]]
    except (ValueError, TypeError, KeyError, IndexError):
        return None


def drop_cuts(db: apsw.Connection, cuts: Sequence[FalseCut]) -> None:
    """Drop cuts; what an earlier one shows, else the plain history, is shown again."""
    db.executemany("DELETE FROM cut WHERE session = ? AND n = ?", [(cut.session, cut.number) for cut in cuts])
