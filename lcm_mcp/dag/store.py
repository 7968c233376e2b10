"""Nodes, edges and tiers in the store, the frontier they form, and commits that check what matters.

A node is valid while its last row is on the active path. The frontier at a row is the longest valid node
that ends there, then the longest that ends just before its first row, and so on back: never an overlap,
never a hole. A commit compares what it was planned on with what is there and writes nothing if that has
changed. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import apsw

from lcm_mcp.dag.model import MAX_DEPTH, Cost, Node, Stale, Summary, Tier, TierKind
from lcm_mcp.ids import NodeId, Seq, SessionId, TextId
from lcm_mcp.tokens import TokenCount
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.units import Span

_NODE = """SELECT node.id, node.depth, node.first, node.last, node.rows, node.source_tokens, node.made_at,
    tier.tokens, tier.level
    FROM node CROSS JOIN tier
    ON tier.session = node.session AND tier.node = node.id AND tier.kind = 'primary' """
# CROSS keeps the nodes outside: starting from the tiers would read every one of the session.
_LONGEST = """SELECT id FROM node AS longest INDEXED BY node_by_last WHERE session = ?1 AND last = {last}
    ORDER BY first, depth DESC, id DESC LIMIT 1"""
# A recursion without an order gives each step as it is made, so who stops reading stops the walk.
_BACK = f"""WITH RECURSIVE back(id) AS (SELECT ({_LONGEST.format(last="?2")})
        UNION ALL SELECT ({_LONGEST.format(last="row.prev")}) FROM back
        CROSS JOIN node ON node.session = ?1 AND node.id = back.id
        CROSS JOIN row ON row.session = ?1 AND row.seq = node.first) """
_FROM_BACK = "FROM back CROSS JOIN node ON node.session = ?1 AND node.id = back.id "
_FRONTIER_BACK = _BACK + _NODE.replace("FROM node ", _FROM_BACK)
_SPANS_BACK = f"{_BACK} SELECT node.id, node.first, node.last {_FROM_BACK}"

_OTHERS = """SELECT tier.text, session.id, session.key FROM json_each(?) AS asked
    CROSS JOIN tier ON tier.text = CAST(asked.key AS INTEGER) AND tier.session <> asked.value
    CROSS JOIN session ON session.id = tier.session ORDER BY session.id"""


def covered_end(db: apsw.Connection, session: SessionId, path: Path, upto: Seq) -> Seq:
    """The greatest last row of a valid node at or before `upto`; 0 where nothing is covered."""
    for segment in path.segments():
        found: int | None = db.execute(
            "SELECT max(last) FROM node WHERE session = ? AND last BETWEEN ? AND ?",
            (session, segment.low, min(segment.high, upto)),
        ).get
        if found is not None:
            return Seq(found)
    return Seq(0)


def frontier(
    db: apsw.Connection, session: SessionId, path: Path, upto: Seq, most: int | None = None
) -> list[Node]:
    """The frontier at the covered end at or before `upto`, oldest node first; its newest `most` nodes."""
    nodes = list(islice(frontier_back(db, session, path, upto), most))
    nodes.reverse()
    return nodes


def frontier_back(db: apsw.Connection, session: SessionId, path: Path, upto: Seq) -> Iterator[Node]:
    """The same, newest node first; reads only as far as it is consumed."""
    end = covered_end(db, session, path, upto)
    if end > 0:
        for row in db.execute(_FRONTIER_BACK, (session, end)):
            yield Node(*row)


def spans_back(
    db: apsw.Connection, session: SessionId, path: Path, upto: Seq
) -> Iterator[tuple[NodeId, Seq, Seq]]:
    """The numbers of the same nodes, with their first and last rows."""
    end = covered_end(db, session, path, upto)
    if end > 0:
        yield from db.execute(_SPANS_BACK, (session, end))


def leaf_from(db: apsw.Connection, session: SessionId, path: Path, first: Seq) -> Node | None:
    """The valid leaf that starts at row `first`."""
    rows = db.execute(
        _NODE.replace("FROM node ", "FROM node INDEXED BY node_by_first ")
        + "WHERE node.session = ? AND node.first = ? AND node.depth = 0 ORDER BY node.id",
        (session, first),
    )
    return next((node for node in (Node(*row) for row in rows) if node.last in path), None)


def find_node(db: apsw.Connection, session: SessionId, node: NodeId) -> Node | None:
    row = next(db.execute(_NODE + "WHERE node.session = ? AND node.id = ?", (session, node)), None)
    return None if row is None else Node(*row)


def find_over(db: apsw.Connection, session: SessionId, depth: int, first: Seq, last: Seq) -> Node | None:
    """The node of a depth over exactly these rows."""
    row = next(
        db.execute(
            _NODE.replace("FROM node ", "FROM node INDEXED BY node_by_last ")
            + "WHERE node.session = ? AND node.last = ? AND node.first = ? AND node.depth = ?",
            (session, last, first, depth),
        ),
        None,
    )
    return None if row is None else Node(*row)


def by_rule(db: apsw.Connection, session: SessionId) -> Iterator[Node]:
    """The nodes that no model or agent wrote, leaves first, of one depth the newest first."""
    rows = db.execute(
        _NODE + "WHERE node.session = ? AND tier.model IN ('extractive', 'truncation') "
        "ORDER BY node.depth, node.last DESC",
        (session,),
    )
    return (Node(*row) for row in rows)


Place = tuple[Seq, int, NodeId]
"""Where a node stands in a listing: by its first row, a parent before its children, then by id."""


def place_of(node: Node) -> Place:
    return node.first, -node.depth, node.id


def page(
    db: apsw.Connection, session: SessionId, depth: int | None, after: Place | None, limit: int
) -> list[Node]:
    """Stored nodes in the order of the rows they cover, of one depth or of all, beyond a place."""
    first, depth_up, number = after or (Seq(0), 0, NodeId(0))
    rows = db.execute(
        _NODE.replace("FROM node ", "FROM node INDEXED BY node_by_first ")
        + """WHERE node.session = ?1 AND node.first >= ?2
        AND (node.first, -node.depth, node.id) > (?2, ?3, ?4) AND (?5 IS NULL OR node.depth = ?5)
        ORDER BY node.first, node.depth DESC, node.id LIMIT ?6""",
        (session, first, depth_up, number, depth, limit),
    )
    return [Node(*row) for row in rows]


def count(db: apsw.Connection, session: SessionId, depth: int | None = None) -> int:
    found: int = db.execute(
        "SELECT count(*) FROM node WHERE session = ?1 AND (?2 IS NULL OR depth = ?2)", (session, depth)
    ).get
    return found


def tiers(db: apsw.Connection, session: SessionId, node: NodeId) -> dict[TierKind, Tier]:
    """A node's texts by kind; the primary one is always there."""
    rows: Iterable[tuple[TierKind, str, int, int, str, int, int, int | None]] = db.execute(
        """SELECT tier.kind, text.body, tier.tokens, tier.level, tier.model,
            tier.input_tokens, tier.output_tokens, tier.micro_usd
            FROM tier JOIN text ON text.id = tier.text WHERE tier.session = ? AND tier.node = ?""",
        (session, node),
    )
    return {
        kind: Tier(kind, body, TokenCount(tokens), level, model, Cost(*cost))
        for kind, body, tokens, level, model, *cost in rows
    }


def openings(
    db: apsw.Connection, session: SessionId, nodes: Sequence[NodeId], characters: int
) -> dict[NodeId, str]:
    """How the primary texts of nodes begin."""
    rows = db.execute(
        """SELECT tier.node, substr(text.body, 1, ?1) FROM json_each(?2) AS asked CROSS JOIN tier
            ON tier.session = ?3 AND tier.node = asked.value AND tier.kind = 'primary'
            CROSS JOIN text ON text.id = tier.text""",
        (characters, json.dumps(nodes), session),
    )
    return dict(rows)


def children(db: apsw.Connection, session: SessionId, node: NodeId) -> list[NodeId]:
    """A parent's children in order; none for a leaf."""
    return [
        NodeId(child)
        for (child,) in db.execute(
            "SELECT child FROM edge WHERE session = ? AND node = ? ORDER BY n", (session, node)
        )
    ]


def parents(db: apsw.Connection, session: SessionId, node: NodeId) -> list[NodeId]:
    """The nodes that have this one as a child, oldest first."""
    return [
        NodeId(parent)
        for (parent,) in db.execute(
            "SELECT node FROM edge WHERE session = ? AND child = ? ORDER BY node", (session, node)
        )
    ]


def with_descendants(db: apsw.Connection, session: SessionId, node: NodeId) -> frozenset[NodeId]:
    """A node and every node below it."""
    rows = db.execute(
        """WITH RECURSIVE below(id) AS (VALUES(?2) UNION
            SELECT edge.child FROM below JOIN edge ON edge.session = ?1 AND edge.node = below.id)
            SELECT id FROM below""",
        (session, node),
    )
    return frozenset(NodeId(found) for (found,) in rows)


def others(db: apsw.Connection, texts: Mapping[TextId, SessionId]) -> dict[TextId, dict[SessionId, str]]:
    """The sessions with nodes of these very texts, but the one given to each, oldest first, by their keys."""
    found: dict[TextId, dict[SessionId, str]] = {}
    for text, session, key in db.execute(_OTHERS, (json.dumps(texts),)):
        found.setdefault(text, {})[session] = key
    return found


def commit_leaves(
    db: apsw.Connection,
    session: SessionId,
    leaves: Sequence[tuple[Span, Summary]],
    now: int,
) -> list[Node] | Stale:
    """Store neighbouring leaves, if the rows before them are still the covered end and they are active."""
    path = _active_path(db, session)
    before, last = leaves[0][0].before, leaves[-1][0].last
    if last not in path or covered_end(db, session, path, path.leaf) != before:
        return Stale()
    return [
        _insert(db, session, 0, span.first, span.last, span.rows, span.tokens, summary, (), now)
        for span, summary in leaves
    ]


def commit_parent(
    db: apsw.Connection,
    session: SessionId,
    nodes: Sequence[Node],
    source_tokens: TokenCount,
    summary: Summary,
    now: int,
) -> Node | Stale:
    """Store a parent, if its children are still neighbours in the frontier that ends where they do."""
    path = _active_path(db, session)
    ids = [node.id for node in nodes]
    standing = frontier(db, session, path, nodes[-1].last, most=len(nodes))
    if nodes[-1].last not in path or [node.id for node in standing] != ids:
        return Stale()
    depth = nodes[0].depth + 1
    assert depth <= MAX_DEPTH
    rows = sum(node.rows for node in nodes)
    return _insert(db, session, depth, nodes[0].first, nodes[-1].last, rows, source_tokens, summary, ids, now)


def _insert(
    db: apsw.Connection,
    session: SessionId,
    depth: int,
    first: Seq,
    last: Seq,
    rows: int,
    source_tokens: TokenCount,
    summary: Summary,
    below: Sequence[NodeId],
    now: int,
) -> Node:
    number = NodeId(
        db.execute(
            "UPDATE session SET next_node = next_node + 1 WHERE id = ? RETURNING next_node - 1", (session,)
        ).get
    )
    tokens, level = summary.primary.tokens, summary.primary.level
    node = Node(number, depth, first, last, rows, source_tokens, now, tokens, level)
    db.execute(
        """INSERT INTO node(session, id, depth, first, last, rows, source_tokens, made_at, anchor)
            VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT text FROM row WHERE session = ?1 AND seq = ?5))""",
        (session, number, depth, first, last, rows, source_tokens, now),
    )
    db.executemany(
        "INSERT INTO edge(session, node, n, child) VALUES(?, ?, ?, ?)",
        [(session, number, n, child) for n, child in enumerate(below)],
    )
    put_tiers(db, session, number, summary)
    return node


def put_tiers(db: apsw.Connection, session: SessionId, node: NodeId, summary: Summary) -> None:
    """Store a node's texts; it has none yet."""
    for tier in (summary.primary, summary.rich):
        if tier is not None:
            db.execute("INSERT INTO text(body) VALUES(?)", (tier.text,))
            db.execute(
                """INSERT INTO tier(session, node, kind, text, tokens, level, model,
                    input_tokens, output_tokens, micro_usd) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    session,
                    node,
                    tier.kind,
                    db.last_insert_rowid(),
                    tier.tokens,
                    tier.level,
                    tier.model,
                    tier.cost.input_tokens,
                    tier.cost.output_tokens,
                    tier.cost.micro_usd,
                ),
            )


def _active_path(db: apsw.Connection, session: SessionId) -> Path:
    leaf: int = db.execute("SELECT leaf FROM session WHERE id = ?", (session,)).get
    return Path(db, session, Seq(leaf))


Border = Literal["whole", "crossed", "none"]

_BORDER = {
    group: (
        f"SELECT {group} FROM row WHERE session = ? AND seq = ?",
        f"SELECT EXISTS(SELECT 1 FROM row WHERE session = ? AND seq BETWEEN ? AND ? AND {group} < ?)",
    )
    for group in ("unit", "round")
}


def border_after(
    db: apsw.Connection, session: SessionId, path: Path, last: Seq, group: Literal["unit", "round"] = "unit"
) -> Border:
    """Whether a unit (or round) starts after row `last` on the path; crossed: a later row joined it with
    one before."""
    following = path.after(last)
    if following is None:
        return "none"
    opens, crosses = _BORDER[group]
    if db.execute(opens, (session, following)).get != following:
        return "none"
    joined = any(
        db.execute(crosses, (session, part.low, part.high, following)).get
        for part in path.between(following, path.leaf)
    )
    return "crossed" if joined else "whole"


def ends_between(db: apsw.Connection, session: SessionId, path: Path, low: Seq, high: Seq) -> list[Seq]:
    """The last rows of valid nodes from row `low` to row `high`, both included, oldest first."""
    rows = db.execute(
        "SELECT DISTINCT last FROM node WHERE session = ? AND last BETWEEN ? AND ? ORDER BY last",
        (session, low, high),
    )
    return [Seq(last) for (last,) in rows if Seq(last) in path]
