"""Repair: a copy first, then derived things made anew, false ones dropped, what a dead run left reaped.

What was said is never touched: rows, texts that rows hold, images and files' records stay as they are. Each
step is a transaction of its own that looks again before it writes, so that one that finds nothing changes
nothing, and a repair that was killed is simply run again.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence

import apsw

from lcm_mcp.dag import checking as dag_checking
from lcm_mcp.dag.leases import reap_leases
from lcm_mcp.errors import StoreError
from lcm_mcp.search import index, vectors, words
from lcm_mcp.service.answers import Diagnosis
from lcm_mcp.service.doctoring import index_faults
from lcm_mcp.service.indexing import feed_all
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.storage import integrity
from lcm_mcp.transcript import checking, sessions
from lcm_mcp.transcript.path import Path
from lcm_mcp.wording import count

MENDABLE = frozenset(
    (
        "schema",
        "references",
        "paths",
        "sessions",
        "spans",
        "shape",
        "duplicates",
        "cuts",
        "coverage",
        "leases",
        "payloads",
        "index",
    )
)


async def mend(work: Workplace, diagnosis: Diagnosis) -> Sequence[str]:
    """Mend what a diagnosis found and can be mended; what was done, a sentence each. Raises StoreError."""
    failed = {check.name for check in diagnosis.checks if not check.ok}
    done: list[str] = []
    if "permissions" in failed:
        done.append(_close(work))
    if not failed & MENDABLE:
        return done
    copy = work.store.path.with_name(f"{work.store.path.name}.{now_ms()}.before-repair")
    await work.store.back_up(copy)
    done.append(f"The store as it was is kept at {copy}; delete it when all is well.")
    said = [await work.store.write(step) for step in _FIRST_STEPS]
    # Then the search index, which marks of nothing would mislead, and which forgetting a text asks.
    if await _is_index_false(work):
        await work.store.write(index.reset)
        await work.store.write(words.reset)
        await work.store.write(vectors.reset)
        await feed_all(work)
        said.append("The search index was made anew.")
    said += [await work.store.write(step) for step in _STEPS]
    return [*done, *(each for each in said if each is not None)]


def _close(work: Workplace) -> str:
    for side in ("", "-wal", "-shm"):
        part = work.store.path.with_name(work.store.path.name + side)
        if part.exists():
            part.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return "The file is its owner's alone now."


async def _is_index_false(work: Workplace) -> bool:
    def look(db: apsw.Connection) -> bool:
        return bool(index_faults(db))

    try:
        return await work.store.read(look)
    except StoreError:  # an index so broken that it cannot be asked
        return True


def _parts(db: apsw.Connection) -> str | None:
    """Make indexes and triggers anew that are not there; every other step reads by them."""
    missing = [part for part in integrity.missing_parts(db) if part.derived]
    integrity.make_parts(db, missing)
    return f"Made anew: {', '.join(part.name for part in missing)}." if missing else None


def _totals(db: apsw.Connection) -> str | None:
    found = checking.set_totals(db)
    return f"Made anew: the totals of {count(found, 'row')}." if found else None


def _numbers(db: apsw.Connection) -> str | None:
    found = checking.set_numbers(db)
    return f"Put right: the numbers of {count(found, 'session')}." if found else None


def _nodes(db: apsw.Connection) -> str | None:
    found = dag_checking.false_nodes(db)
    dag_checking.drop_nodes(db, [each.key for each in found])
    return f"Dropped {count(len(found), 'node')}: {', '.join(map(str, found[:3]))}." if found else None


def _holes(db: apsw.Connection) -> str | None:
    dropped = 0
    for session in sessions.every(db):
        path = Path(db, session.id, session.leaf)
        while found := dag_checking.beyond_holes(db, session.id, path):
            dag_checking.drop_nodes(db, [(session.id, node) for node in found])
            dropped += len(found)
    return f"Dropped, to be made again: {count(dropped, 'node')} after rows without one." if dropped else None


def _cuts(db: apsw.Connection) -> str | None:
    found = dag_checking.false_cuts(db)
    dag_checking.drop_cuts(db, found)
    return f"{len(found)} cuts were dropped." if found else None


def _leases(db: apsw.Connection) -> str | None:
    found = reap_leases(db, now_ms())
    return f"{found} leases of dead processes were taken away." if found else None


def _strays(db: apsw.Connection) -> str | None:
    found = checking.drop_strays(db)
    return f"{found} marks that belonged to nothing were dropped." if found else None


def _texts(db: apsw.Connection) -> str | None:
    found = checking.unheld_texts(db)
    if not found:
        return None
    index.forget(db, found)
    words.forget(db, found)
    vectors.forget(db, found)
    checking.drop_texts(db, found)
    return f"Dropped: {count(len(found), 'text')} that belonged to nothing."


_FIRST_STEPS: tuple[Callable[[apsw.Connection], str | None], ...] = (_parts, _strays)
_STEPS: tuple[Callable[[apsw.Connection], str | None], ...] = (
    _totals,
    _numbers,
    _nodes,
    _holes,
    _cuts,
    _leases,
    _texts,
)
