"""Nodes made again: the new text stands at once, the old one is kept as a version that no longer speaks.

A cut shows what a node said when it was made, so the new text enters a request at the next cut. Parents
that were made of the old text stay as they are. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from lcm_mcp.dag.model import Stale, Summary, Tier, TierKind
from lcm_mcp.dag.store import put_tiers, tiers
from lcm_mcp.ids import CutId, NodeId, SessionId
from lcm_mcp.tokens import TokenCount
from lcm_mcp.values import frozen

_AT = """SELECT superseded.kind, text.body, superseded.tokens, superseded.level, superseded.model
    FROM superseded JOIN text ON text.id = superseded.text
    WHERE session = ?1 AND node = ?2 AND n = (
        SELECT min(n) FROM superseded WHERE session = ?1 AND node = ?2 AND upto_cut >= ?3)"""
_VERSIONS = """SELECT superseded_at, superseded.tokens, level, model, text.body
    FROM superseded JOIN text ON text.id = superseded.text
    WHERE session = ? AND node = ? AND kind = 'primary' ORDER BY n DESC"""
_KEEP = """INSERT INTO superseded(session, node, n, kind, upto_cut, superseded_at, text, tokens, level, model)
    SELECT ?1, ?2, (SELECT coalesce(max(n), 0) + 1 FROM superseded WHERE session = ?1 AND node = ?2), kind,
    (SELECT next_cut - 1 FROM session WHERE id = ?1), ?3, text, tokens, level, model
    FROM tier WHERE session = ?1 AND node = ?2"""


@frozen
class Version:
    """A primary text that a node had until then; newest first."""

    superseded_at: int
    tokens: TokenCount
    level: int
    model: str
    text: str


def tiers_at(
    db: apsw.Connection, session: SessionId, node: NodeId, cut: CutId | None
) -> dict[TierKind, Tier]:
    """A node's texts as a cut shows them; None means as they are now."""
    rows = () if cut is None else db.execute(_AT, (session, node, cut))
    found: dict[TierKind, Tier] = {
        kind: Tier(kind, body, TokenCount(tokens), level, model) for kind, body, tokens, level, model in rows
    }
    return found or tiers(db, session, node)


def versions(db: apsw.Connection, session: SessionId, node: NodeId) -> Sequence[Version]:
    return [Version(*row) for row in db.execute(_VERSIONS, (session, node))]


def supersede(
    db: apsw.Connection, session: SessionId, node: NodeId, seen: str, summary: Summary, now: int
) -> Stale | None:
    """Give a node another text, if its primary one is still the one that was seen."""
    standing = tiers(db, session, node).get("primary")
    if standing is None or standing.text != seen:
        return Stale()
    db.execute(_KEEP, (session, node, now))
    db.execute("DELETE FROM tier WHERE session = ? AND node = ?", (session, node))
    put_tiers(db, session, node, summary)
    return None
