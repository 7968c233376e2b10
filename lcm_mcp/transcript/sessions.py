"""Sessions as stored: made, found, listed.

A session is named by its client's own key; the store's number is what addresses use (s7). Finding
never makes one: whoever appends says so. Functions take a connection and never begin or commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import apsw

from lcm_mcp.errors import SessionForgotten
from lcm_mcp.ids import CutId, NodeId, Seq, SessionId
from lcm_mcp.values import frozen

MAX_KEY_CHARACTERS = 200
NATIVE = "native"
Link = Literal["fork", "child"]

_COLUMNS = """id, key, title, project, source, native_id, strategy, parent, link, opener,
    outcome, leaf, next_seq, unused, next_node, next_cut, active_at, provider, model"""


@frozen
class Session:
    """A session's own record; leaf is 0 while it has no row, times are milliseconds since 1970 UTC.

    provider and model are those last named for a request. opener is the parent's row that a fork or child
    starts from, outcome the parent's row that tells what came of it.
    """

    id: SessionId
    key: str
    title: str | None
    project: str | None
    source: str
    native_id: str | None
    strategy: str | None
    parent: SessionId | None
    link: Link | None
    opener: Seq | None
    outcome: Seq | None
    leaf: Seq
    next_seq: Seq
    unused: int
    next_node: NodeId
    next_cut: CutId
    active_at: int
    provider: str | None
    model: str | None

    @property
    def rows(self) -> int:
        """How many rows it holds, removed ones among them."""
        return self.next_seq - 1 - self.unused


@frozen
class NewSession:
    """What a new session is made with; parent and opener link a child to the row that started it."""

    key: str
    title: str | None = None
    project: str | None = None
    source: str = NATIVE
    native_id: str | None = None
    parent: SessionId | None = None
    link: Link | None = None
    opener: Seq | None = None


def find_by_key(db: apsw.Connection, key: str) -> Session | None:
    return _one(db, "key = ?", (key,))


def keys_from(db: apsw.Connection, beginning: str, most: int) -> list[str]:
    """Keys that begin so, at most so many, in their order."""
    rows = db.execute(
        "SELECT key FROM session WHERE key BETWEEN ?1 AND ?1 || char(0x10FFFF) ORDER BY key LIMIT ?2",
        (beginning, most),
    )
    return [key for (key,) in rows] if beginning else []


def find_by_id(db: apsw.Connection, session: SessionId) -> Session | None:
    return _one(db, "id = ?", (session,))


def existing(db: apsw.Connection, session: SessionId) -> Session:
    """The session of a number that was seen before. Raises SessionForgotten: others may have taken it away
    between two steps of a call."""
    found = find_by_id(db, session)
    if found is None:
        raise SessionForgotten(session)
    return found


def find_by_native(db: apsw.Connection, source: str, native_id: str) -> Session | None:
    return _one(db, "source = ? AND native_id = ?", (source, native_id))


def last_active(db: apsw.Connection, project: str | None) -> Session | None:
    """The session with the newest row that is no child: of the project where it has one, else of the whole
    store."""
    if project is not None:
        found = _one(db, "project = ? AND link IS NOT 'child' ORDER BY active_at DESC, id DESC", (project,))
        if found is not None:
            return found
    return _one(db, "link IS NOT 'child' ORDER BY active_at DESC, id DESC", ())


_NUMBER = """1 + max((SELECT coalesce(max(id), 0) FROM session),
    (SELECT coalesce(max(id), 0) FROM forgotten))"""
"""What a new session is numbered: never what a forgotten one was."""


def create(db: apsw.Connection, new: NewSession, now: int) -> Session:
    """Make the session and return it; its key and (source, native_id) must be free."""
    number: int = db.execute(
        f"""INSERT INTO session(id, key, title, project, source, native_id, parent, link, opener,
            created_at) VALUES({_NUMBER}, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id""",
        (
            new.key,
            new.title,
            new.project,
            new.source,
            new.native_id,
            new.parent,
            new.link,
            new.opener,
            now,
        ),
    ).get
    return existing(db, SessionId(number))


def create_fork(
    db: apsw.Connection, source: Session, key: str, at: Seq, rows: int, active_at: int, now: int
) -> Session:
    """Make a session that goes on from row `at` of another as that one would; its `rows` rows are still to be
    copied.

    Numbers of rows go on after `at`, those of nodes and cuts after the source's own, so that none that was
    there then comes to mean something else.
    """
    number: int = db.execute(
        f"""INSERT INTO session(id, key, title, project, source, strategy, parent, link, opener, leaf,
            next_seq, unused, next_node, next_cut, created_at, active_at, provider, model)
            SELECT {_NUMBER}, ?2, title, project, ?3, strategy, id, 'fork', ?4, ?4, ?4 + 1, ?4 - ?5,
            next_node, next_cut, ?7, ?6, provider, model FROM session WHERE id = ?1 RETURNING id""",
        (source.id, key, NATIVE, at, rows, active_at, now),
    ).get
    return existing(db, SessionId(number))


def move_leaf(db: apsw.Connection, session: SessionId, leaf: Seq) -> None:
    """Let the active path end at a stored row."""
    db.execute("UPDATE session SET leaf = ? WHERE id = ?", (leaf, session))


def number_from(db: apsw.Connection, session: SessionId, seq: Seq) -> None:
    """Let the next row have this number, where its own would be a lower one; those before name no row."""
    db.execute(
        """UPDATE session SET unused = unused + ?1 - next_seq, next_seq = ?1
            WHERE id = ?2 AND next_seq < ?1""",
        (seq, session),
    )


def note_opener(db: apsw.Connection, session: SessionId, opener: Seq | None) -> None:
    """Note which row of the parent started the session, where that was not known when it was made."""
    db.execute("UPDATE session SET opener = coalesce(opener, ?) WHERE id = ?", (opener, session))


def link_fork(db: apsw.Connection, session: SessionId, parent: SessionId) -> None:
    """Note what a session is a fork of, where that was not known when it was made."""
    db.execute("UPDATE session SET parent = ?, link = 'fork' WHERE id = ?", (parent, session))


def note_outcome(db: apsw.Connection, session: SessionId, outcome: Seq) -> None:
    """Note which row of the parent tells what came of the session; a later one counts."""
    db.execute("UPDATE session SET outcome = ? WHERE id = ?", (outcome, session))


def describe(db: apsw.Connection, session: SessionId, title: str | None, project: str | None) -> None:
    """Set title and project where they are given."""
    db.execute(
        "UPDATE session SET title = coalesce(?, title), project = coalesce(?, project) WHERE id = ?",
        (title, project, session),
    )


def complete(db: apsw.Connection, session: SessionId, title: str | None, project: str | None) -> None:
    """Set title and project where the session has none yet."""
    db.execute(
        "UPDATE session SET title = coalesce(title, ?), project = coalesce(project, ?) WHERE id = ?",
        (title, project, session),
    )


def select_strategy(db: apsw.Connection, session: SessionId, strategy: str, *, drop_running: bool) -> None:
    """Prepare the session with a strategy from now on; dropping the running summary of before where asked."""
    db.execute(
        "UPDATE session SET strategy = ?, rolling_from = iif(?, next_cut, rolling_from) WHERE id = ?",
        (strategy, drop_running, session),
    )


def name_model(db: apsw.Connection, session: Session, provider: str | None, model: str | None) -> None:
    """Note whom requests are for from now on; a change from one known before drops the running summary."""
    other_model = _differs(session.model, model)
    changed = other_model or _differs(session.provider, provider)
    kept = provider if other_model else provider or session.provider  # a new model may be another provider's
    db.execute(
        """UPDATE session SET provider = ?, model = ?, rolling_from = iif(?, next_cut, rolling_from)
            WHERE id = ?""",
        (kept, model or session.model, changed, session.id),
    )


def _differs(known: str | None, named: str | None) -> bool:
    return known is not None and named is not None and known != named


@frozen
class Filter:
    """Which sessions to list: all of a project and, of these, those whose key or title holds a text."""

    project: str | None = None
    query: str | None = None

    @property
    def conditions(self) -> list[str]:
        """Only what is asked for, so that SQLite can go by the project; of :project and :query."""
        named = "instr(lower(key || ' ' || coalesce(title, '')), lower(:query)) > 0"
        each = (("project = :project", self.project), (named, self.query))
        return [condition for condition, asked in each if asked is not None]

    @property
    def given(self) -> dict[str, str | None]:
        return {"project": self.project, "query": self.query}


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def count(db: apsw.Connection, wanted: Filter) -> int:
    """How many sessions there are of those wanted."""
    found: int = db.execute(f"SELECT count(*) FROM session {_where(wanted.conditions)}", wanted.given).get
    return found


def page(db: apsw.Connection, wanted: Filter, limit: int, after: tuple[int, int] | None) -> Sequence[Session]:
    """Sessions, last active first; `after` is the (active_at, id) of the last one already given."""
    at, number = after or (None, None)
    behind = [] if after is None else ["(active_at, id) < (:at, :number)"]
    rows = db.execute(
        f"""SELECT {_COLUMNS} FROM session {_where([*wanted.conditions, *behind])}
            ORDER BY active_at DESC, id DESC LIMIT :limit""",
        {**wanted.given, "at": at, "number": number, "limit": limit},
    )
    return [Session(*row) for row in rows]


def every(db: apsw.Connection) -> Iterator[Session]:
    """All sessions, oldest first."""
    for row in db.execute(f"SELECT {_COLUMNS} FROM session ORDER BY id"):
        yield Session(*row)


def numbers(db: apsw.Connection, wanted: Filter) -> Sequence[SessionId]:
    """The numbers of those wanted, oldest first."""
    rows = db.execute(f"SELECT id FROM session {_where(wanted.conditions)} ORDER BY id", wanted.given)
    return [SessionId(number) for (number,) in rows]


def begun_by(db: apsw.Connection, parent: SessionId) -> Sequence[Session]:
    """The forks and children of a session, oldest first."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM session WHERE parent = ? ORDER BY id", (parent,))
    return [Session(*row) for row in rows]


def _one(db: apsw.Connection, where: str, bindings: Sequence[object]) -> Session | None:
    row = next(db.execute(f"SELECT {_COLUMNS} FROM session WHERE {where} LIMIT 1", tuple(bindings)), None)  # pyright: ignore[reportArgumentType]
    return None if row is None else Session(*row)
