"""How full a session's requests were, one after another, and how its conversation grew beside them.

The trail is what preparations left of themselves, newest first, a page at a time; the growth is read from the
running totals of some rows, so it costs those and not the rows between. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Step
from lcm_mcp.ids import Seq
from lcm_mcp.service import cursors
from lcm_mcp.service.times import iso
from lcm_mcp.service.workplace import Workplace, existing_row, wanted_session
from lcm_mcp.transcript import store
from lcm_mcp.transcript.path import Path
from lcm_mcp.values import frozen

STEPS: Final = 200
SAMPLES: Final = 100


@frozen
class TrailPoint:
    """One preparation: sizes in tokens, by our estimate unless the name says calibrated or provider.

    before_tokens is what it weighed before it was compacted, after_tokens what was shown; both under the
    calibrated ratio where there is one. row is the last row it showed.
    """

    prepared: str
    row: str
    at: str
    status: str
    strategy: str
    estimated_tokens: int
    calibrated_tokens: int | None
    before_tokens: int
    after_tokens: int
    window_tokens: int | None
    trigger_tokens: int | None
    cut: str | None
    provider_input_tokens: int | None
    provider_cached_tokens: int | None


@frozen
class Sample:
    """What the conversation weighed, whole and word for word, up to and with a row."""

    row: str
    at: str
    tokens: int


@frozen
class Trail:
    """points are newest first; samples, oldest first, come with the first page alone."""

    session: str
    id: str
    points: tuple[TrailPoint, ...]
    samples: tuple[Sample, ...]
    next_cursor: str | None
    behind: str | None = None


def trail(db: apsw.Connection, work: Workplace, key: str | None, cursor: str | None) -> Trail:
    """A page of a session's kept preparations."""
    session = wanted_session(db, work, key)
    asked = ("trail", session.id)
    before = None if cursor is None else int(cursors.read(cursor, asked, int)[0])
    found = observations.trail(db, session.id, before, STEPS + 1)
    steps = found[:STEPS]
    path = Path(db, session.id, session.leaf)
    samples = () if cursor is not None else tuple(_samples(path))
    return Trail(
        session=session.key,
        id=f"s{session.id}",
        points=tuple(map(_point, steps)),
        samples=tuple(
            Sample(
                f"e{seq}",
                iso(existing_row(db, session, seq).at),
                store.path_totals(db, session.id, seq).tokens,
            )
            for seq in reversed(samples)
        ),
        next_cursor=cursors.make(asked, (steps[-1].number,)) if len(found) > STEPS else None,
    )


def _samples(path: Path) -> Iterator[Seq]:
    """Rows of the path from its leaf back, about evenly far from each other, its first row among them."""
    step = max(1, path.leaf // SAMPLES)
    wanted, first = path.leaf, path.leaf
    for segment in path.segments():
        wanted = min(wanted, segment.high)
        while wanted >= segment.low:
            yield wanted
            wanted = Seq(wanted - step)
        first = segment.low
    if first and wanted + step != first:
        yield first


def _point(step: Step) -> TrailPoint:
    return TrailPoint(
        prepared=step.prepared,
        row=step.prepared.rpartition(".")[2],
        at=iso(step.made_at),
        status=step.status,
        strategy=step.strategy,
        estimated_tokens=step.estimated,
        calibrated_tokens=step.calibrated,
        before_tokens=step.before,
        after_tokens=step.after,
        window_tokens=step.window,
        trigger_tokens=step.trigger,
        cut=step.cut,
        provider_input_tokens=step.provider_input,
        provider_cached_tokens=step.provider_cached,
    )
