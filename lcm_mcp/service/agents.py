"""The agent as a summarizer: it is given the next summary that is wanted, and hands its text in.

Several agents work at once: each has a lease, and what one has no other is given. No compaction waits for
them; a node that was made by rule meanwhile then says what the agent wrote. Nothing is believed of a text but
that it keeps the rules of summarizers/submitted.py, and nothing is stored that no longer fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag import tasks
from lcm_mcp.dag.model import Node, Stale, Summary, Tier, header
from lcm_mcp.dag.redoing import supersede
from lcm_mcp.dag.tasks import Place, Task
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import SessionId
from lcm_mcp.service import cursors
from lcm_mcp.service.folding import UNKNOWN_ID, nodes_source
from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.service.wanting import Source, children_of, due, path_of, source_of, span_over
from lcm_mcp.service.workplace import Workplace, wanted_session
from lcm_mcp.settings import LcmSettings
from lcm_mcp.summarizers import ladder, submitted
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import existing
from lcm_mcp.values import frozen

MOST_TRIES = 5
LEVEL = 1
"""An agent is asked for the details once; what is wrong it puts right itself."""


@frozen
class WantedSummary:
    """A summary that is wanted, with a piece of its source; task is null where none is, and note says why.

    node is the one that gets the text where it was made by rule, else null. offset and total count characters
    of the source. Sizes in tokens; the source's is as a request shows it.
    """

    session: str
    task: str | None = None
    node: str | None = None
    depth: int | None = None
    span: tuple[str, str] | None = None
    source_tokens: int | None = None
    target_tokens: int | None = None
    limit_tokens: int | None = None
    expires_at: str | None = None
    instructions: str | None = None
    source: str | None = None
    offset: int = 0
    total: int = 0
    next_cursor: str | None = None
    note: str | None = None


@frozen
class Submitted:
    """What became of a text. Refused: reason says why, and the task is the agent's until expires_at.

    node is null where an accepted text waits for the other parts of its unit.
    """

    session: str
    task: str
    accepted: bool
    reason: str | None
    node: str | None
    span: tuple[str, str]
    depth: int
    tokens: int
    level: int
    model: str
    replaced: str | None
    expires_at: str | None


@frozen
class _Stored:
    """A text that stands in a node, and who wrote what stood there before."""

    node: Node
    replaced: str | None = None


@frozen
class _Lost:
    """A text that fits nowhere any more."""

    reason: str


_ANOTHER = "Call lcm_next_summary for the one that is wanted now."


async def next_summary(work: Workplace, key: str | None, max_bytes: int, cursor: str | None) -> WantedSummary:
    """Lease the next summary that is wanted, or (cursor) go on with the source of a leased one."""
    session = (await work.store.read(wanted_session, work, key)).id
    settings = work.settings.lcm
    if cursor is not None:
        id, offset = cursors.read(cursor, _asked(session), str, int)
        if not await work.store.write(tasks.renew, str(id), now_ms()):
            raise InvalidArgument("cursor", "the time of its task is over", _ANOTHER)
        return await work.store.read(_told, settings, str(id), int(offset), max_bytes)
    await work.store.write(_settle_kept, session)
    for _ in range(MOST_TRIES):
        batches = await work.store.read(due, settings, session)
        if not batches:
            break
        task = await work.store.write(_take, session, batches)
        if task is not None:
            return await work.store.read(_told, settings, task.id, 0, max_bytes)
    return await work.store.read(_nothing, session)


async def submit(work: Workplace, id: str, text: str, author: str | None) -> Submitted:
    """Store an agent's text, or say why not. Raises InvalidArgument for a task that is nobody's."""
    text = readable(text).strip()
    model = "agent" if author is None else f"agent {readable(author).strip()}"
    task, source = await work.store.read(_existing, work.settings.lcm, id)
    reasons = submitted.faults(source.wanted, text, source.covers)
    if reasons:
        await work.store.write(tasks.renew, id, now_ms())
        return _refused(source, task, text, model, " ".join(reasons), iso(now_ms() + tasks.LEASE_MS))
    outcome = await work.store.write(_hand_in, id, text, model)
    if isinstance(outcome, _Lost):
        return _refused(source, task, text, model, f"{outcome.reason} {_ANOTHER}", None)
    return _accepted(source, task, text, model, outcome)


def _refused(
    source: Source, task: Task, text: str, model: str, reason: str, expires_at: str | None
) -> Submitted:
    return replace(
        _accepted(source, task, text, model, None), accepted=False, reason=reason, expires_at=expires_at
    )


def _accepted(source: Source, task: Task, text: str, model: str, stored: _Stored | None) -> Submitted:
    return Submitted(
        session=source.key,
        task=task.id,
        accepted=True,
        reason=None,
        node=None if stored is None else f"#{stored.node.id}",
        span=_span_of(task.place),
        depth=task.place.depth,
        tokens=ladder.shown_tokens(source.wanted.header, text),
        level=LEVEL,
        model=model,
        replaced=None if stored is None else stored.replaced,
        expires_at=None,
    )


def _asked(session: SessionId) -> Sequence[object]:
    return ("next_summary", session)


def _span_of(place: Place) -> tuple[str, str]:
    return f"e{place.first}", f"e{place.last}"


def _take(db: apsw.Connection, session: SessionId, batches: Sequence[Sequence[Place]]) -> Task | None:
    existing(db, session)
    found = (tasks.take(db, session, batch, now_ms()) for batch in batches)
    return next((task for task in found if task is not None), None)


def _told(db: apsw.Connection, settings: LcmSettings, id: str, offset: int, max_bytes: int) -> WantedSummary:
    """A task with a piece of its source; its instructions come with the first."""
    task, source = _existing(db, settings, id)
    text = ladder.source_text(source.wanted.source)
    piece = text[offset : offset + max_bytes].encode()[:max_bytes].decode(errors="ignore")
    end = offset + len(piece)
    return WantedSummary(
        session=source.key,
        task=task.id,
        node=None if source.node is None else f"#{source.node.id}",
        depth=task.place.depth,
        span=_span_of(task.place),
        source_tokens=source.wanted.source_tokens,
        target_tokens=source.wanted.target,
        limit_tokens=submitted.limit_of(source.wanted),
        expires_at=iso(task.expires_at),
        instructions=submitted.instructions(source.wanted) if offset == 0 else None,
        source=piece,
        offset=offset,
        total=len(text),
        next_cursor=cursors.make(_asked(task.session), (task.id, end)) if end < len(text) else None,
    )


def _nothing(db: apsw.Connection, session: SessionId) -> WantedSummary:
    """That there is nothing to write now, and why."""
    key, _ = path_of(db, session)
    taken = [task for task in tasks.of_session(db, session) if task.is_taken(now_ms())]
    note = "Nothing is wanted: all complete older units have a summary, and no summary was made by rule."
    if taken:
        more = f" and {len(taken) - 1} more" if taken[1:] else ""
        note = f"Others write what is wanted ({'..'.join(_span_of(taken[0].place))}{more}); call again later."
    return WantedSummary(session=key, note=note)


def _existing(db: apsw.Connection, settings: LcmSettings, id: str) -> tuple[Task, Source]:
    """A task and what it is about. Raises InvalidArgument where there is none, or no longer."""
    task = tasks.find(db, id)
    if task is None or task.text is not None:
        problem = f"{id[:80]!r} is no task, or its time was over and another has it"
        raise InvalidArgument("task", problem, _ANOTHER)
    source = source_of(db, settings, task)
    if source is None:
        raise InvalidArgument("task", f"the rows of {id!r} have other summaries by now", _ANOTHER)
    return task, source


# --- what is handed in


def _hand_in(db: apsw.Connection, id: str, text: str, model: str) -> _Stored | _Lost | None:
    """Store a text, or keep it where it waits for others of its unit (None)."""
    task = tasks.find(db, id)
    if task is None or task.text is not None:
        return _Lost("Its time was over, and another agent was given it.")
    tasks.keep(db, id, text, model)
    outcome = _settle(db, replace(task, text=text, model=model))
    if isinstance(outcome, _Lost):
        tasks.drop(db, id)
    return outcome


def _settle_kept(db: apsw.Connection, session: SessionId) -> None:
    """Look again at texts that wait: their unit may have been summarized by others meanwhile."""
    for task in tasks.of_session(db, session):
        if task.text is not None and tasks.find(db, task.id) and isinstance(_settle(db, task), _Lost):
            tasks.drop(db, task.id)


def _settle(db: apsw.Connection, task: Task) -> _Stored | _Lost | None:
    place, session = task.place, task.session
    _, path = path_of(db, session)
    if place.last not in path:
        return _Lost("Its rows are off the active path now.")
    node = dag.find_over(db, session, place.depth, place.first, place.last)
    if node is not None:
        return _rewrite(db, task, node)
    made = _new_parent(db, task, path) if place.depth else _new_leaves(db, task, path)
    if made is None:
        return None
    if isinstance(made, Stale):
        return _Lost("Its rows were summarized otherwise meanwhile.")
    tasks.drop_batch(db, task)
    return _Stored(next(node for node in made if node.last == place.last))


def _rewrite(db: apsw.Connection, task: Task, node: Node) -> _Stored | _Lost:
    """Let a node that was made by rule say what the agent wrote."""
    standing = dag.tiers(db, task.session, node.id)["primary"]
    if standing.model not in tasks.BY_RULE:
        return _Lost(f"#{node.id} was written by {standing.model} meanwhile.")
    supersede(db, task.session, node.id, standing.text, _summary(task), now_ms())
    tasks.drop(db, task.id)
    return _Stored(node, standing.model)


def _new_parent(db: apsw.Connection, task: Task, path: Path) -> Sequence[Node] | Stale:
    children = children_of(db, task.session, path, task.place)
    if not children:
        return Stale()
    _, tokens = nodes_source(db, task.session, children)
    summary = _summary(task)
    if summary.primary.tokens >= tokens:  # its children may say less by now than when it was looked at
        return Stale()
    made = dag.commit_parent(db, task.session, children, tokens, summary, now_ms())
    return made if isinstance(made, Stale) else [made]


def _new_leaves(db: apsw.Connection, task: Task, path: Path) -> Sequence[Node] | Stale | None:
    """The leaves of a batch, once each has its text; None before that."""
    batch = tasks.of_batch(db, task)
    first = batch[0].place.first
    if path.before(first) != dag.covered_end(db, task.session, path, path.leaf):
        return Stale()
    if any(each.text is None for each in batch):
        return None
    leaves = [(span_over(path, each.place), _summary(each)) for each in batch]
    return dag.commit_leaves(db, task.session, leaves, now_ms())


def _summary(task: Task) -> Summary:
    assert task.text is not None
    assert task.model is not None
    place = task.place
    tokens = ladder.shown_tokens(header(UNKNOWN_ID, place.depth, place.first, place.last), task.text)
    return Summary(Tier("primary", task.text, tokens, LEVEL, task.model))
