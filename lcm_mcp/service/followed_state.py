"""How following stands, for the doctor: nothing is read on here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import followed


@dataclass(frozen=True, slots=True)
class State:
    """How following stands: how many files, those gone, those with trouble, and how many cannot be read."""

    files: int
    gone: Sequence[str]
    wrong: Sequence[tuple[Path, str]]
    unreadable: int


async def following_state(work: Workplace) -> State:
    """What became of the files that are followed."""
    files = await work.store.read(followed.every)
    troubled = await work.store.read(followed.troubled)
    gone = [file.path for file in files if not os.path.exists(file.path)]
    closed = sum(os.path.exists(file.path) and not os.access(file.path, os.R_OK) for file in files)
    wrong = [(file.path, file.trouble or "") for file in troubled]
    return State(len(files), gone, wrong, closed)
