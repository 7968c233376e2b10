"""Statistics: what a session or the whole store holds, in figures.

Everything is counted when it is asked for, so nothing has to be kept up to date; a whole store costs what
it holds. Reading only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apsw

from lcm_mcp.dag import cuts, spending
from lcm_mcp.dag import figures as summaries
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.spending import Spent
from lcm_mcp.ids import Seq
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.times import today
from lcm_mcp.service.workplace import EVERYWHERE, Workplace, strategy_of, wanted_session
from lcm_mcp.transcript import figures, files, sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.transcript.units import units_back
from lcm_mcp.values import frozen

_EVERY: figures.Numbers = (1, 2**63 - 1)


@frozen
class Stats:
    """Figures of a session, or of all (session and strategy are null then).

    rows count removed ones too; tokens, units and unsummarized_rows are of active paths. covered_tokens of
    rows stand under frontier_tokens of summaries. provider_* are sums over the measured requests whose
    observation is kept; cached_share is of those whose provider told it, from 0 to 1. spent is what calls of
    models took, by summarizer. file_bytes and spent_today_tokens are the whole store's, whatever the session.
    files are large tool results whose call named a path, large_inline those whose call named none.
    """

    session: str | None
    strategy: Strategy | None
    sessions: int
    rows: int
    rows_by_role: dict[str, int]
    removed_rows: int
    tokens: int
    units: int
    unsummarized_rows: int
    nodes: int
    nodes_by_depth: dict[str, int]
    nodes_by_level: dict[str, int]
    covered_tokens: int
    frontier_tokens: int
    cuts: dict[str, int]
    observations: int
    measured_requests: int
    provider_input_tokens: int
    provider_cached_tokens: int
    cached_share: float | None
    pins: int
    text_bytes: int
    summary_bytes: int
    payload_bytes: int
    images: int
    image_bytes: int
    file_bytes: int
    spent: dict[str, Spent]
    spent_today_tokens: int
    files: int
    large_inline: int


@frozen
class _Active:
    """What active paths hold, and how much of it is under summaries."""

    rows: int = 0
    tokens: int = 0
    units: int = 0
    unsummarized: int = 0
    covered_tokens: int = 0
    frontier_tokens: int = 0

    def __add__(self, other: _Active) -> _Active:
        return _Active(
            self.rows + other.rows,
            self.tokens + other.tokens,
            self.units + other.units,
            self.unsummarized + other.unsummarized,
            self.covered_tokens + other.covered_tokens,
            self.frontier_tokens + other.frontier_tokens,
        )


async def measure(work: Workplace, key: str | None) -> Stats:
    """The figures of a session, or (EVERYWHERE) of the whole store."""
    return await work.store.read(_stats, work, key, _file_bytes(work))


def _file_bytes(work: Workplace) -> int:
    """The file and what is written but not yet moved into it."""
    path = work.store.path
    parts = (path, path.with_name(f"{path.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


def _stats(db: apsw.Connection, work: Workplace, key: str | None, file_bytes: int) -> Stats:
    session = None if key == EVERYWHERE else wanted_session(db, work, key)
    of = _EVERY if session is None else (session.id, session.id)
    everyone = sessions.every(db) if session is None else iter([session])
    active, number = _add_up(db, everyone)
    by_role = figures.rows_by_role(db, of)
    rows = sum(by_role.values())
    by_depth = summaries.nodes_by_depth(db, of)
    bulk = figures.bulk(db, of)
    requests = summaries.requests(db, of)
    handles, inline = files.counts(db, *of)
    return Stats(
        session=None if session is None else session.key,
        strategy=None if session is None else strategy_of(work, session),
        sessions=number,
        rows=rows,
        rows_by_role=by_role,
        removed_rows=rows - active.rows,
        tokens=active.tokens,
        units=active.units,
        unsummarized_rows=active.unsummarized,
        nodes=sum(by_depth.values()),
        nodes_by_depth=_named(by_depth),
        nodes_by_level=_named(summaries.nodes_by_level(db, of)),
        covered_tokens=active.covered_tokens,
        frontier_tokens=active.frontier_tokens,
        cuts=cuts.count(db, None if session is None else session.id),
        observations=requests.observed,
        measured_requests=requests.measured,
        provider_input_tokens=requests.input_tokens,
        provider_cached_tokens=requests.cached_tokens,
        cached_share=round(requests.cached_tokens / requests.cached_of, 4) if requests.cached_of else None,
        pins=figures.pins(db, of),
        text_bytes=bulk.text_bytes,
        summary_bytes=summaries.summary_bytes(db, of),
        payload_bytes=bulk.payload_bytes,
        images=bulk.images,
        image_bytes=bulk.image_bytes,
        file_bytes=file_bytes,
        spent=spending.spent(db, of),
        spent_today_tokens=spending.counted_on(db, today()),
        files=handles,
        large_inline=inline,
    )


def _named(counted: Mapping[int, int]) -> dict[str, int]:
    return {str(number): count for number, count in counted.items()}


def _add_up(db: apsw.Connection, everyone: Iterable[Session]) -> tuple[_Active, int]:
    """The sums over sessions, and how many those are."""
    total, number = _Active(), 0
    for session in everyone:
        total, number = total + _active(db, session), number + 1
    return total, number


def _active(db: apsw.Connection, session: Session) -> _Active:
    path = Path(db, session.id, session.leaf)
    frontier = dag.frontier(db, session.id, path, session.leaf)
    end = frontier[-1].last if frontier else Seq(0)
    return _Active(
        rows=sum(part.high - part.low + 1 for part in path.segments()),
        tokens=store.path_totals(db, session.id, session.leaf).tokens,
        units=sum(1 for _ in units_back(path.marks_back())),
        unsummarized=sum(part.high - part.low + 1 for part in path.between(Seq(end + 1), session.leaf)),
        covered_tokens=store.path_totals(db, session.id, end).tokens,
        frontier_tokens=sum(node.tokens for node in frontier),
    )
