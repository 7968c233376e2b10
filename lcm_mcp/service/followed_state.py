"""How following stands, for the doctor: nothing is read on here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import followed
from lcm_mcp.values import frozen

NO_FILE = "no ordinary file stands there now"


@frozen
class State:
    """How following stands: how many files, those gone, those with trouble, and how many cannot be read.

    One in whose place something else stands, such as a folder, is among those with trouble.
    """

    files: int
    gone: Sequence[str]
    wrong: Sequence[tuple[Path, str]]
    unreadable: int


async def following_state(work: Workplace) -> State:
    """What became of the files that are followed."""
    files = await work.store.read(followed.every)
    troubled = await work.store.read(followed.troubled)
    there = [file.path for file in files if os.path.exists(file.path)]
    gone = [file.path for file in files if not os.path.exists(file.path)]
    closed = sum(not os.access(path, os.R_OK) for path in there)
    wrong = [(file.path, file.trouble or "") for file in troubled]
    known = {str(path) for path, _ in wrong}
    wrong += [(Path(path), NO_FILE) for path in there if not os.path.isfile(path) and path not in known]
    return State(len(files), gone, wrong, closed)
