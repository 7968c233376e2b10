"""Files that are read on: what is remembered of each, and who its entries are that have no ids.

A record is advanced only from where its reader found it, so of two processes that read the same lines one
keeps them. An entry without an id is known by its place in the file; once the file was written anew, by its
content: a line that an earlier version had is that line, any other is a new row. So nothing is lost, nothing
comes twice, and two equal turns of one version stay two. Functions take a connection and never begin or
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from lcm_mcp.ids import SessionId
from lcm_mcp.transcript.importers.jsonl import Place
from lcm_mcp.transcript.importers.report import Resume
from lcm_mcp.transcript.packing import decode
from lcm_mcp.values import frozen

UNKNOWN_FORMAT = "auto"
MORE_TO_READ = -1
UNREAD = "it could not be read: "
"""How trouble begins that is over once the file is read."""


@frozen
class Wish:
    """How a file or folder was imported: as which format, into the session of which key ('': its own)."""

    format: str
    session: str
    fold: bool


@frozen
class Facts:
    """What the file system says of a file; size is MORE_TO_READ where it was not read to its end.

    mtime is in nanoseconds; identity is another one once another file stands at the path.
    """

    size: int
    mtime: int
    identity: str


@frozen
class Followed:
    """A file that is read on, and how far it was; see the schema for the fields."""

    id: int
    path: Path
    wish: Wish
    source: int
    version: int
    offset: int
    prefix: bytes
    facts: Facts
    trouble: str | None


class Glance(NamedTuple):
    """What it takes to see whether a file has changed; thousands of them are made for one read."""

    id: int
    path: str
    offset: int
    size: int
    mtime: int
    identity: str


@frozen
class Cursor:
    """How far a file was taken in; memory is what its reader has to know of it, as JSON."""

    place: Place
    memory: bytes
    prefix: bytes
    facts: Facts


_COLUMNS = """f.id, f.path, f.format, f.session, f.fold, f.source, f.version, f.offset, f.prefix,
    f.size, f.mtime, f.identity, f.trouble"""
_LINE = "session = ? AND source = ? AND digest = ?"


def find(db: apsw.Connection, path: Path, session: str) -> Followed | None:
    return _one(db, "f.path = ? AND f.session = ?", (str(path), session))


def find_by_id(db: apsw.Connection, file: int) -> Followed | None:
    return _one(db, "f.id = ?", (file,))


def every(db: apsw.Connection) -> list[Glance]:
    """All followed files."""
    return _glances(db, "true", ())


def troubled(db: apsw.Connection) -> list[Followed]:
    """The files with which something is wrong."""
    return _list(db, "f.trouble IS NOT NULL", ())


def of_session(db: apsw.Connection, session: SessionId) -> list[Glance]:
    """The files that feed a session."""
    return _glances(db, "f.id IN (SELECT file FROM followed_session WHERE session = ?)", (session,))


def of_project(db: apsw.Connection, project: str) -> list[Glance]:
    """The files that feed sessions of a project, and those that feed none yet."""
    return _glances(
        db,
        """f.id IN (SELECT id FROM followed WHERE NOT fed
            UNION ALL SELECT file FROM session CROSS JOIN followed_session
                ON followed_session.session = session.id WHERE project = ?)""",
        (project,),
    )


def of_path(db: apsw.Connection, path: Path) -> list[Followed]:
    """The records of a file: one for each session that it was put into by name, and one for its own."""
    return _list(db, "f.path = ?", (str(path),))


def main_session(db: apsw.Connection, file: Followed) -> SessionId | None:
    """The session that a file feeds, last active where there are several; a subagent's is none."""
    found: int | None = db.execute(
        """SELECT id FROM session JOIN followed_session ON session = id
            WHERE file = ? AND link IS NOT 'child' ORDER BY active_at DESC, id DESC LIMIT 1""",
        (file.id,),
    ).get
    return None if found is None else SessionId(found)


def beside(db: apsw.Connection, wish: Wish) -> list[Followed]:
    """The files of the same format that were put into the session by name, or feed it or one that it was
    forked from."""
    return _list(
        db,
        """f.format = ?1 AND (f.session = ?2 OR f.id IN (SELECT file FROM followed_session WHERE session IN (
            WITH RECURSIVE line(id, parent) AS (
                SELECT id, iif(link = 'fork', parent, NULL) FROM session WHERE key = ?2
                UNION SELECT up.id, iif(up.link = 'fork', up.parent, NULL)
                FROM line JOIN session AS up ON up.id = line.parent)
            SELECT id FROM line)))""",
        (wish.format, wish.session),
    )


def has_lines(db: apsw.Connection, session: str) -> bool:
    """Whether a session holds entries that are known by their places in files."""
    found: int = db.execute(
        """SELECT EXISTS(SELECT 1 FROM session JOIN followed_line AS l ON l.session = session.id
            WHERE key = ?)""",
        (session,),
    ).get
    return bool(found)


def resume_of(db: apsw.Connection, file: Followed) -> Resume | None:
    """Where to read on and what the reader knows; None where the record has moved on since."""
    row = next(
        db.execute(
            "SELECT line, memory FROM followed WHERE id = ? AND version = ? AND offset = ?",
            (file.id, file.version, file.offset),
        ),
        None,
    )
    if row is None:
        return None
    line, memory = row
    known = {} if memory is None else decode(memory)
    return Resume(Place(file.offset, line), known if isinstance(known, dict) else {})


def follow(db: apsw.Connection, path: Path, wish: Wish) -> Followed:
    """Follow a file from now on; a known one keeps its place, unless it is read in another format now."""
    db.execute(
        """INSERT INTO followed(path, session, format, fold) VALUES(?1, ?2, ?3, ?4)
            ON CONFLICT(path, session) DO UPDATE SET fold = ?4, trouble = NULL, stopped = 0,
            offset = iif(format = ?3, offset, 0), line = iif(format = ?3, line, 0),
            memory = iif(format = ?3, memory, NULL), prefix = iif(format = ?3, prefix, x''),
            size = iif(format = ?3, size, -1), format = ?3
            WHERE format <> ?3 OR fold <> ?4 OR trouble IS NOT NULL OR stopped""",
        (str(path), wish.session, wish.format, wish.fold),
    )
    found = find(db, path, wish.session)
    assert found is not None
    return found


def name_apart(db: apsw.Connection, file: Followed, like: Followed | None) -> Followed:
    """Tell a file's entries from those of others in its session; `like` is one that it is a copy of."""
    source, version = (file.id, 1) if like is None else (like.source, like.version)
    db.execute("UPDATE followed SET source = ?, version = ? WHERE id = ?", (source, version, file.id))
    return replace(file, source=source, version=version)


def start_over(db: apsw.Connection, file: Followed, *, anew: bool) -> bool:
    """Read a file from its start next time, as another version where it was written anew.

    False where the record has moved on since.
    """
    found: int | None = db.execute(
        """UPDATE followed SET version = version + ?, offset = 0, line = 0, memory = NULL, prefix = x'',
            size = -1 WHERE id = ? AND version = ? AND offset = ? RETURNING id""",
        (anew, file.id, file.version, file.offset),
    ).get
    return found is not None


def advance(db: apsw.Connection, file: Followed, cursor: Cursor, trouble: str | None = None) -> bool:
    """Note that a file was taken in up to a place; False where the record has moved on since."""
    found: int | None = db.execute(
        """UPDATE followed SET offset = ?, line = ?, memory = ?, prefix = ?, size = ?, mtime = ?,
            identity = ?, trouble = coalesce(?, iif(substr(trouble, 1, ?) = ?, NULL, trouble))
            WHERE id = ? AND version = ? AND offset = ? RETURNING id""",
        (
            cursor.place.offset,
            cursor.place.line,
            cursor.memory,
            cursor.prefix,
            cursor.facts.size,
            cursor.facts.mtime,
            cursor.facts.identity,
            trouble,
            len(UNREAD),
            UNREAD,
            file.id,
            file.version,
            file.offset,
        ),
    ).get
    return found is not None


def took_whole(db: apsw.Connection, file: Followed) -> None:
    """Note that a file that is not read on was read to its end as the record's facts have it."""
    db.execute(
        """UPDATE followed SET offset = ?1, size = ?1, mtime = ?, identity = ?, prefix = x'', memory = NULL,
            trouble = NULL WHERE id = ? AND version = ?""",
        (file.facts.size, file.facts.mtime, file.facts.identity, file.id, file.version),
    )


def note_trouble(db: apsw.Connection, file: Followed, trouble: str, facts: Facts) -> None:
    """Note why a file is not read, and of which facts that holds: with others it is tried again."""
    db.execute(
        "UPDATE followed SET trouble = ?, size = ?, mtime = ?, identity = ? WHERE id = ?",
        (trouble, facts.size, facts.mtime, facts.identity, file.id),
    )


def leave(db: apsw.Connection, file: Followed) -> None:
    """Know a file no more that has fed nothing."""
    db.execute(
        "DELETE FROM followed WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM followed_session WHERE file = ?1)",
        (file.id,),
    )


def feed(db: apsw.Connection, file: Followed, session: SessionId) -> None:
    """Note that a file feeds a session."""
    db.execute(
        "INSERT INTO followed_session(session, file) VALUES(?, ?) ON CONFLICT DO NOTHING", (session, file.id)
    )


def entry_id_of(
    db: apsw.Connection, file: Followed, session: SessionId, digest: bytes, ordinal: int, plain: str
) -> str:
    """Who an entry without an id is; plain is what its place alone would make of it."""
    line = session, file.source, digest
    known: str | None = db.execute(
        f"SELECT entry_id FROM followed_line WHERE {_LINE} AND version = ? AND ordinal = ?",
        (*line, file.version, ordinal),
    ).get
    if known is not None:
        return known
    earlier = next(
        db.execute(
            f"""SELECT version, ordinal, entry_id FROM followed_line WHERE {_LINE} AND version < ?
                ORDER BY version, ordinal LIMIT 1""",
            (*line, file.version),
        ),
        None,
    )
    if earlier is not None:
        version, place, known = earlier
        db.execute(
            f"""UPDATE followed_line SET version = ?, ordinal = ?
                WHERE {_LINE} AND version = ? AND ordinal = ?""",
            (file.version, ordinal, *line, version, place),
        )
        return str(known)
    named = f"/f{file.source}" if file.source else ""
    named += f"/v{file.version}" if file.version > 1 else ""
    db.execute(
        "INSERT INTO followed_line VALUES(?, ?, ?, ?, ?, ?)",
        (*line, file.version, ordinal, plain + named),
    )
    return plain + named


class Folder(NamedTuple):
    """A folder whose new files are followed too; mtime is that of its last look, in nanoseconds."""

    path: str
    wish: Wish
    mtime: int


def stop(db: apsw.Connection, session: SessionId) -> list[str]:
    """No longer read on the files that feed a session, until they are imported again; their paths.

    They stay known, so that a followed folder does not find them as new ones.
    """
    rows = db.execute(
        """UPDATE followed SET stopped = 1, offset = 0, line = 0, memory = NULL, prefix = x'', size = -1,
            trouble = NULL WHERE id IN (SELECT file FROM followed_session WHERE session = ?)
            RETURNING path""",
        (session,),
    )
    return sorted(path for (path,) in rows)


def folders(db: apsw.Connection) -> list[Folder]:
    rows = db.execute("SELECT path, format, session, fold, mtime FROM followed_folder ORDER BY path, session")
    return [Folder(path, _wish(format, session, fold), mtime) for path, format, session, fold, mtime in rows]


@lru_cache(16)
def _wish(format: str, session: str, fold: int) -> Wish:
    """Folders are many, and how they were imported is alike."""
    return Wish(format, session, bool(fold))


def can_be_written(path: Path | str) -> bool:
    """Whether the store can hold a path: only UTF-8. Any other file is read, but not followed."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def follow_folders(db: apsw.Connection, found: Iterable[Folder]) -> None:
    """Follow folders, or note when they were looked at."""
    known = [each for each in found if can_be_written(each.path)]
    db.executemany(
        """INSERT INTO followed_folder(path, session, format, fold, mtime) VALUES(?1, ?2, ?3, ?4, ?5)
            ON CONFLICT(path, session) DO UPDATE SET format = ?3, fold = ?4, mtime = ?5""",
        [(each.path, each.wish.session, each.wish.format, each.wish.fold, each.mtime) for each in known],
    )


def _glances(db: apsw.Connection, where: str, bindings: Sequence[int | str]) -> list[Glance]:
    rows = db.execute(
        f"""SELECT id, path, offset, size, mtime, identity FROM followed AS f
            WHERE NOT stopped AND {where} ORDER BY id""",
        tuple(bindings),
    )
    return [Glance(*row) for row in rows]


def _one(db: apsw.Connection, where: str, bindings: Sequence[int | str]) -> Followed | None:
    return next(iter(_list(db, where, bindings)), None)


def _list(db: apsw.Connection, where: str, bindings: Sequence[int | str]) -> list[Followed]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM followed AS f WHERE {where} ORDER BY f.id", tuple(bindings))
    return [_followed(*row) for row in rows]


def _followed(number: int, path: str, format: str, session: str, fold: int, *rest: Any) -> Followed:
    source, version, offset, prefix, *facts, trouble = rest
    wish = Wish(format, session, bool(fold))
    return Followed(number, Path(path), wish, source, version, offset, prefix, Facts(*facts), trouble)
