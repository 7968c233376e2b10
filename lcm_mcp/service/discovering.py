"""Discovery: which session files the agents of this machine have left, and which of them are not stored yet.

A file counts as stored once it was read to its end and has not changed since, so an import of what was found
can be stopped anywhere and goes on with the next call. Nothing is read here but the names, sizes and times.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread
import apsw

from lcm_mcp.service.intake import facts_at
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import followed
from lcm_mcp.transcript.followed import Facts
from lcm_mcp.transcript.importers import FORMATS
from lcm_mcp.transcript.importers.places import CLIENTS, Client, files_in, folders_of
from lcm_mcp.values import frozen


@frozen
class Found:
    """A folder of a client: whether it is there and its format known, and what is in it.

    files and bytes count all session files, new those that are not stored as they are now. alone are those of
    a folder that is not followed itself, since what lies below it is something else.
    """

    client: str
    folder: Path
    there: bool
    known: bool
    files: int
    bytes: int
    new: int
    alone: tuple[Path, ...] | None = None


@frozen
class Discovery:
    """What there is on this machine; todo are the files to import, oldest first."""

    places: tuple[Found, ...]
    todo: tuple[Path, ...]


async def discover(work: Workplace, home: Path, variables: Mapping[str, str]) -> Discovery:
    """Look into the places where known clients keep their sessions."""
    seen = await anyio.to_thread.run_sync(_look, home, variables)
    paths = {path: facts for *_, files in seen for path, facts in files}
    stored = await work.store.read(_stored, paths)
    places: list[Found] = []
    todo: list[tuple[int, Path]] = []
    for client, folder, there, files in seen:
        alone = None if client.deep else tuple(path for path, _ in files)
        new = [(facts.mtime, path) for path, facts in files if path not in stored]
        size = sum(facts.size for _, facts in files)
        known = client.name in FORMATS
        places.append(Found(client.name, folder, there, known, len(files), size, len(new), alone))
        todo += new if known else []
    return Discovery(tuple(places), tuple(path for _, path in sorted(todo)))


_Files = Sequence[tuple[Path, Facts]]


def _look(home: Path, variables: Mapping[str, str]) -> list[tuple[Client, Path, bool, _Files]]:
    looked: list[tuple[Client, Path, bool, _Files]] = []
    for client in CLIENTS:
        for folder in folders_of(client, home, variables):
            place = Path(os.path.abspath(folder))
            found = [(path, facts_at(str(path))) for path in files_in(client, place)]
            files = [(path, facts) for path, facts in found if facts is not None]
            looked.append((client, place, place.is_dir(), files))
    return looked


def _stored(db: apsw.Connection, files: Mapping[Path, Facts]) -> set[Path]:
    """Those of the files that were read to their end, and are as they were then."""
    known = {Path(each.path): Facts(each.size, each.mtime, each.identity) for each in followed.every(db)}
    return {path for path, facts in files.items() if known.get(path) == facts}
