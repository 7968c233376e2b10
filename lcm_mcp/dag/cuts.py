"""Cuts: what a request shows of a session, fixed once.

A cut says where the verbatim tail starts and what stands before it: nodes in tiers (lcm), or one running
summary (rolling), then quotes of rows. It is written once and never changed; the last one of a strategy
counts whose tail starts on the active path. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import apsw
import orjson

from lcm_mcp.dag.model import FREE, Cost
from lcm_mcp.ids import CutId, NodeId, Seq, SessionId
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.path import Path
from lcm_mcp.values import frozen

ShownTier = Literal["rich", "primary", "stub"]
QuoteKind = Literal["pin", "opener", "recap"]
CutStrategy = Literal["lcm", "rolling"]


@frozen
class ShownNode:
    node: NodeId
    tier: ShownTier


@frozen
class Running:
    """Rolling's one summary of the rows first to last, the rung it came from, who wrote it, and what the
    answers cost that it took."""

    text: str
    first: Seq
    last: Seq
    level: int
    model: str
    cost: Cost = FREE


@frozen
class Quote:
    """A row quoted before the tail: of its text at most so many characters, None meaning all of it."""

    kind: QuoteKind
    seq: Seq
    characters: int | None


@frozen
class Cut:
    """tail_from is the first row shown verbatim; window in tokens; prefix_sha256 of all before the tail.

    shown is empty for rolling, running None for lcm. crowded_out are pinned rows that found no room.
    """

    id: CutId
    strategy: CutStrategy
    tail_from: Seq
    shown: tuple[ShownNode, ...]
    running: Running | None
    quotes: tuple[Quote, ...]
    crowded_out: tuple[Seq, ...]
    stalled: bool
    grown: bool
    window: int
    prefix_sha256: str
    made_at: int


def last_cut(db: apsw.Connection, session: SessionId, strategy: str) -> Cut | None:
    """The cut in force for a strategy on the session's active path."""
    leaf: int = db.execute("SELECT leaf FROM session WHERE id = ?", (session,)).get
    return last_cut_on(db, session, strategy, Path(db, session, Seq(leaf)))


def last_cut_on(db: apsw.Connection, session: SessionId, strategy: str, path: Path) -> Cut | None:
    """The cut in force for a strategy on a path: the last one whose tail starts there, and so all before it.

    A running summary counts only while no other cut was made after it, and nothing has dropped it: a branch
    that leaves the path before its tail has none.
    """
    if strategy == "rolling":
        newest = _cut(
            db,
            """SELECT * FROM (SELECT * FROM cut WHERE session = ?1 ORDER BY n DESC LIMIT 1)
                WHERE strategy = 'rolling' AND n >= (SELECT rolling_from FROM session WHERE id = ?1)""",
            (session,),
        )
        return newest if newest is not None and newest.tail_from in path else None
    made = db.execute(
        "SELECT n, tail_from FROM cut WHERE session = ? AND strategy = ? ORDER BY n DESC", (session, strategy)
    )
    found = next((number for number, tail_from in made if tail_from in path), None)
    return None if found is None else find_cut(db, session, CutId(found))


def find_cut(db: apsw.Connection, session: SessionId, cut: CutId) -> Cut | None:
    return _cut(db, "SELECT * FROM cut WHERE session = ? AND n = ?", (session, cut))


def count(db: apsw.Connection, session: SessionId | None) -> dict[str, int]:
    """How many cuts each strategy has made, in a session or in all."""
    rows = db.execute(
        "SELECT strategy, count(*) FROM cut WHERE ?1 IS NULL OR session = ?1 GROUP BY strategy", (session,)
    )
    return dict(rows)


def commit_cut(db: apsw.Connection, session: SessionId, cut: Cut) -> CutId:
    """Store a cut under the session's next number, which is returned; cut.id is not looked at."""
    number = CutId(
        db.execute(
            "UPDATE session SET next_cut = next_cut + 1 WHERE id = ? RETURNING next_cut - 1", (session,)
        ).get
    )
    db.execute(
        """INSERT INTO cut(session, n, strategy, tail_from, shape, prefix_sha256, window, made_at)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            session,
            number,
            cut.strategy,
            cut.tail_from,
            orjson.dumps(_shape(cut)),
            cut.prefix_sha256,
            cut.window,
            cut.made_at,
        ),
    )
    return number


def _shape(cut: Cut) -> dict[str, Json]:
    running = cut.running
    return {
        "nodes": [[shown.node, shown.tier] for shown in cut.shown],
        "running": None
        if running is None
        else [
            running.text,
            running.first,
            running.last,
            running.level,
            running.model,
            [running.cost.input_tokens, running.cost.output_tokens, running.cost.micro_usd],
        ],
        "quotes": [[quote.kind, quote.seq, quote.characters] for quote in cut.quotes],
        "crowded_out": [*cut.crowded_out],
        "stalled": cut.stalled,
        "grown": cut.grown,
    }


def _cut(db: apsw.Connection, query: str, bindings: Sequence[int | str]) -> Cut | None:
    row = next(db.execute(query, tuple(bindings)), None)
    if row is None:
        return None
    _, number, strategy, tail_from, shape, prefix_sha256, window, made_at = row
    stored = orjson.loads(shape)
    running = stored.get("running")
    return Cut(
        id=CutId(number),
        strategy=cast("CutStrategy", strategy),
        tail_from=Seq(tail_from),
        shown=tuple(ShownNode(NodeId(node), tier) for node, tier in stored["nodes"]),
        running=None if running is None else _running(*running),
        quotes=tuple(Quote(*quote) for quote in stored.get("quotes", ())),
        crowded_out=tuple(Seq(seq) for seq in stored.get("crowded_out", ())),
        stalled=stored["stalled"],
        grown=stored["grown"],
        window=window,
        prefix_sha256=prefix_sha256,
        made_at=made_at,
    )


def _running(
    text: str, first: int, last: int, level: int, model: str, cost: Sequence[int] = (0, 0, 0)
) -> Running:
    return Running(text, Seq(first), Seq(last), level, model, Cost(*cost))
