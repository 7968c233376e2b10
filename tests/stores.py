"""Stores, drafts and child processes for the tests of storage, transcript and DAG, written short.

Everything here stands on real files. What opens also closes, within the test that uses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import IO

import apsw

import lcm_mcp
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import last_cut
from lcm_mcp.dag.model import Node
from lcm_mcp.ids import NodeId, Seq, SessionId
from lcm_mcp.search.scope import Scope
from lcm_mcp.service import Service
from lcm_mcp.settings import LcmSettings, Settings
from lcm_mcp.storage import schema
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.appending import Appended, append
from lcm_mcp.transcript.model import Draft, Part, Role, Text
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.path import Segment
from lcm_mcp.transcript.sealing import seal

BACKENDS = ("asyncio", "trio") if find_spec("trio") else ("asyncio",)
NOW = 1_700_000_000_000
CHILD = Path(__file__).with_name("crashing.py")


def put(db: apsw.Connection, *bodies: str) -> None:
    for body in bodies:
        db.execute("INSERT INTO text(body) VALUES(?)", (body,))


def bodies(db: apsw.Connection) -> list[str]:
    return [str(body) for (body,) in db.execute("SELECT body FROM text ORDER BY id")]


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[Store]:
    """The store at that path for as long as the block runs."""
    store = Store.open(path)
    try:
        yield store
    finally:
        await store.close()


def settings_for(path: Path, chunk: int = 512) -> Settings:
    """Settings that fold in small leaves, so that a short history already makes a DAG."""
    return Settings(db=path, lcm=LcmSettings(leaf_chunk_tokens=chunk, leaf_target_tokens=128))


@asynccontextmanager
async def serving(path: Path, chunk: int = 512) -> AsyncGenerator[Service]:
    """The use cases over the store at that path."""
    service = Service.open(settings_for(path, chunk))
    try:
        yield service
    finally:
        await service.close()


@contextmanager
def database(path: Path) -> Generator[apsw.Connection]:
    """A bare connection to a store of its own, for functions that take one."""
    db = apsw.Connection(str(path))
    try:
        db.pragma("synchronous", "off")
        schema.migrate(db)
        yield db
    finally:
        db.close()


def new_session(db: apsw.Connection, key: str | None = None) -> SessionId:
    number: int = db.execute("SELECT count(*) FROM session").get
    return sessions.create(db, sessions.NewSession(key or f"session {number + 1}"), NOW).id


def scope_of(
    db: apsw.Connection,
    *numbers: SessionId,
    rows: Sequence[Segment] | None = None,
    nodes: frozenset[NodeId] | None = None,
) -> Scope:
    """One session, or some that become a project of their own, as they are now."""
    if len(numbers) == 1:
        return Scope(db, session=sessions.find_by_id(db, numbers[0]), rows=rows, nodes=nodes)
    project = f"that of session {numbers[0]}"
    for number in numbers:
        sessions.describe(db, number, None, project)
    return Scope(db, project)


def draft(
    role: Role,
    *parts: Part | str,
    id: str | None = None,
    message_id: str | None = None,
    at: int | None = None,
    active: bool = True,
) -> Draft:
    whole = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Draft(role, whole, id, message_id, at, active)


def add(db: apsw.Connection, session: SessionId, *drafts: Draft) -> Appended:
    """Append in one transaction, as the writer does."""
    with db:
        found = sessions.find_by_id(db, session)
        assert found is not None
        return append(db, found, [seal(each) for each in drafts], NOW)
    raise AssertionError


def path_of(db: apsw.Connection, session: SessionId) -> RowPath:
    """The session's active path."""
    found = sessions.find_by_id(db, session)
    assert found is not None
    return RowPath(db, session, found.leaf)


def active_rows(db: apsw.Connection, session: SessionId) -> list[Seq]:
    """Every row on the active path by following prev one by one, oldest first: the slow, sure way."""
    rows: list[Seq] = []
    seq = path_of(db, session).leaf
    while seq:
        rows.append(seq)
        seq = Seq(
            db.execute("SELECT prev FROM row WHERE session = ? AND seq = ?", (session, seq)).get,
        )
    return rows[::-1]


def all_sessions(db: apsw.Connection) -> list[SessionId]:
    return [SessionId(number) for (number,) in db.execute("SELECT id FROM session ORDER BY id")]


def assert_nodes_are_whole(db: apsw.Connection, session: SessionId) -> None:
    """Every node has its text and its children, and covers what its children cover."""
    assert (
        db.execute(
            """SELECT count(*) FROM node WHERE session = ?1 AND NOT EXISTS(SELECT 1 FROM tier
            WHERE tier.session = ?1 AND tier.node = node.id AND kind = 'primary')""",
            (session,),
        ).get
        == 0
    )
    path = path_of(db, session)
    for (number,) in list(db.execute("SELECT id FROM node WHERE session = ?", (session,))):
        node = dag.find_node(db, session, number)
        assert node is not None
        below = [dag.find_node(db, session, child) for child in dag.children(db, session, node.id)]
        assert bool(below) == (node.depth > 0)
        if below:
            whole = [child for child in below if child is not None]
            assert len(whole) == len(below)
            assert {child.depth for child in whole} == {node.depth - 1}
            assert (whole[0].first, whole[-1].last) == (node.first, node.last)
            assert sum(child.rows for child in whole) == node.rows
            _assert_adjacent(path, whole)


def assert_projection_covers_all(db: apsw.Connection, session: SessionId) -> None:
    """Every active row is under exactly one shown node or in the tail, and the frontier has no hole."""
    path, rows = path_of(db, session), active_rows(db, session)
    assert_no_row_in_two_leaves(db, session, set(rows))
    frontier = dag.frontier(db, session, path, path.leaf)
    if frontier:
        assert frontier[0].first == rows[0]
        _assert_adjacent(path, frontier)
    cut = last_cut(db, session, "lcm")
    if cut is None:
        return
    shown = [dag.find_node(db, session, each.node) for each in cut.shown]
    nodes = [node for node in shown if node is not None]
    assert len(nodes) == len(shown) > 0
    covered = [seq for node in nodes for seq in rows if node.first <= seq <= node.last]
    tail = [seq for seq in rows if seq >= cut.tail_from]
    assert covered + tail == rows


def assert_no_row_in_two_leaves(db: apsw.Connection, session: SessionId, rows: set[Seq]) -> None:
    """No row of the active path was summarized twice."""
    end = 0
    for first, last in db.execute(
        "SELECT first, last FROM node WHERE session = ? AND depth = 0 ORDER BY first, last", (session,)
    ):
        if last in rows:
            assert first > end
            end = last


def _assert_adjacent(path: RowPath, nodes: Sequence[Node]) -> None:
    for older, newer in pairwise(nodes):
        assert path.before(newer.first) == older.last


def assert_sound(db: apsw.Connection) -> None:
    """What holds for every store whatever happened to it: structure, numbers, nodes, projections."""
    assert db.execute("PRAGMA integrity_check").get == "ok"
    assert not list(db.execute("PRAGMA foreign_key_check"))
    for session in all_sessions(db):
        assert_nodes_are_whole(db, session)
        assert_projection_covers_all(db, session)


@contextmanager
def child(*arguments: object) -> Generator[subprocess.Popen[str]]:
    """A process of crashing.py; it does not outlive the block."""
    with subprocess.Popen(
        [sys.executable, str(CHILD), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(lcm_mcp.__file__).parents[1])},  # the code under test
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def told(stream: IO[str] | None) -> str:
    """The next line a child says; "" when it ended."""
    assert stream is not None
    return stream.readline().strip()


def tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def finish(processes: Iterable[subprocess.Popen[str]]) -> list[list[str]]:
    """What each child said until it ended; a failed one fails the test with its own words."""
    said: list[list[str]] = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert err == ""
        said.append(out.splitlines())
    return said
