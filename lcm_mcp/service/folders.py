"""Followed folders: the transcripts that appear in them are followed themselves.

An unchanged folder costs one look at its time. Files that are no transcripts by their names are passed over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

import apsw

from lcm_mcp.service.workplace import Workplace
from lcm_mcp.storage.hurrying import hurry
from lcm_mcp.transcript import followed
from lcm_mcp.transcript.followed import Folder, Glance, Wish
from lcm_mcp.transcript.importers.places import is_transcript


async def follow_folder(work: Workplace, path: Path, wish: Wish) -> None:
    """Follow what appears in a folder or below it."""
    await work.store.write(followed.follow_folders, [Folder(os.path.abspath(path), wish, 0)])


async def new_files(work: Workplace, seen: Seen) -> list[Glance]:
    """Files that appeared in followed folders, now followed themselves."""
    files = await work.store.read(_unknown, seen.files) if seen.files else []
    if not files and not seen.folders:
        return []
    return await work.store.write(_follow_found, files, seen.folders)


@dataclass(slots=True)
class Seen:
    """What looking into folders found: those whose time is to be noted, and the files in them."""

    folders: list[Folder] = field(default_factory=list[Folder])
    files: list[tuple[Path, Wish]] = field(default_factory=list[tuple[Path, Wish]])


def looked_into(folders: Sequence[Folder], deadline: float) -> Seen:
    """Look into each folder whose time has changed, and into new ones below; the rest is for next time."""
    seen = Seen()
    known = {(folder.path, folder.wish.session): folder.mtime for folder in folders}
    waiting = list(folders)
    while waiting and time.monotonic() < deadline:
        hurry()
        folder = waiting.pop()
        try:
            changed_at = os.stat(folder.path).st_mtime_ns
            entries = list(os.scandir(folder.path)) if changed_at != folder.mtime else None
        except OSError:
            continue
        if entries is None:
            continue
        # A folder that changed just now may change again without another time: look once more.
        noted = changed_at if time.time_ns() - changed_at > 1_000_000_000 else 0
        if known.get((folder.path, folder.wish.session)) != noted:
            seen.folders.append(folder._replace(mtime=noted))
        below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [
            Folder(each, folder.wish, 0) for each in below if (each, folder.wish.session) not in known
        ]
        seen.files += [(path, folder.wish) for path in _transcripts(entries)]
    return seen


def _transcripts(entries: Iterable[os.DirEntry[str]]) -> list[Path]:
    return [Path(entry.path) for entry in entries if is_transcript(entry.name) and entry.is_file()]


def _unknown(db: apsw.Connection, files: Sequence[tuple[Path, Wish]]) -> list[tuple[Path, Wish]]:
    return [
        (path, wish)
        for path, wish in files
        if followed.can_be_written(path) and followed.find(db, path, wish.session) is None
    ]


def _follow_found(
    db: apsw.Connection, files: Sequence[tuple[Path, Wish]], folders: Sequence[Folder]
) -> list[Glance]:
    followed.follow_folders(db, folders)
    found = [followed.follow(db, path, wish) for path, wish in _unknown(db, files)]
    return [Glance(file.id, str(file.path), 0, *astuple(file.facts)) for file in found]
