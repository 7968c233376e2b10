"""What a cut shows before its tail, read from the store: always the same words for the same cut.

Functions take a read-only connection; nothing is chosen here (drawing a cut does that).
"""

from __future__ import annotations

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import Cut
from lcm_mcp.dag.model import Node, header
from lcm_mcp.dag.redoing import tiers_at
from lcm_mcp.ids import CutId, Seq, SessionId
from lcm_mcp.projection import lcm, rolling
from lcm_mcp.projection.lcm import Summarized
from lcm_mcp.service.quoting import quote_blocks
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session


def summarized(db: apsw.Connection, session: SessionId, node: Node, cut: CutId | None = None) -> Summarized:
    """A node with its texts, ready to be shown; with those that it had at a cut where one is given."""
    texts = {tier.kind: tier.text for tier in tiers_at(db, session, node.id, cut).values()}
    return Summarized(header(node.id, node.depth, node.first, node.last), f"#{node.id}", texts)


def shown_history(db: apsw.Connection, session: SessionId, cut: Cut | None) -> str | None:
    """The history message of a cut."""
    if cut is None:
        return None
    quotes = quote_blocks(db, session, cut.quotes)
    if cut.running is not None:
        return rolling.history(cut.running.text, cut.running.first, cut.running.last, quotes)
    texts: list[Summarized] = []
    for shown in cut.shown:
        node = dag.find_node(db, session, shown.node)
        assert node is not None
        texts.append(summarized(db, session, node, cut.id))
    return lcm.history(texts, [shown.tier for shown in cut.shown], quotes)


def shown_size(db: apsw.Connection, session: Session, cut: Cut | None, leaf: Seq) -> Size:
    """What the projection of a cut weighs at a leaf: history and tail, without preamble."""
    return lcm.history_size(shown_history(db, session.id, cut)) + tail_size(db, session, cut, leaf)


def tail_size(db: apsw.Connection, session: Session, cut: Cut | None, leaf: Seq) -> Size:
    totals = store.path_totals(db, session.id, leaf)
    if cut is None:
        return totals
    before = Path(db, session.id, leaf).before(cut.tail_from)
    return totals - store.path_totals(db, session.id, before)
