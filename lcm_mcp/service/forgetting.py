"""lcm-mcp forget: a session is taken out of the store for good, down to the free pages of the file.

One transaction deletes it; then the file is written anew without what was deleted, and the log is emptied.
Files that fed it are no longer followed, so that it does not come back. What a fork shares with it stays,
and is said. Copies that were made of the store before are not known here.
"""

from __future__ import annotations

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.leases import is_leased
from lcm_mcp.errors import InvalidArgument, StoreBusy
from lcm_mcp.ids import SessionId
from lcm_mcp.search import index, vectors, words
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace, named_session
from lcm_mcp.transcript import followed, purging, sessions
from lcm_mcp.values import frozen


@frozen
class Forgotten:
    """What went, and what stays: texts that the sessions kept_by hold too, and the sessions it had begun.

    not_followed are files that fed it and are no longer read on. purged is false where another process was
    reading, so that old bytes stand in the log until it ends.
    """

    session: str
    id: str
    rows: int
    nodes: int
    texts: int
    images: int
    texts_kept: int
    kept_by: tuple[str, ...]
    unlinked: tuple[str, ...]
    not_followed: tuple[str, ...]
    purged: bool


async def forget(work: Workplace, key: str) -> Forgotten:
    """Delete a session and purge the file of it. Raises InvalidArgument while it is compacted."""
    gone = await work.store.write(_forget, key)
    try:
        purged = await work.store.purge()
    except StoreBusy:
        purged = False
    return Forgotten(*gone, purged)


Gone = tuple[str, str, int, int, int, int, int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _forget(db: apsw.Connection, key: str) -> Gone:
    session = named_session(db, key)
    _check_idle(db, session.id)
    nodes = dag.count(db, session.id)
    found = purging.belongings(db, session.id)
    begun = tuple(each.key for each in sessions.begun_by(db, session.id))
    files = followed.stop(db, session.id)
    index.forget(db, found.texts)
    words.forget(db, found.texts)
    vectors.forget(db, found.texts)
    images = purging.purge(db, session.id, found.texts)
    return (
        session.key,
        f"s{session.id}",
        session.rows,
        nodes,
        len(found.texts),
        images,
        found.shared,
        tuple(found.holders),
        begun,
        tuple(files),
    )


def _check_idle(db: apsw.Connection, session: SessionId) -> None:
    if is_leased(db, session, now_ms()):
        raise InvalidArgument("session", "it is being compacted", "Forget it when that has ended.")
