"""What the servers under load take while they work: memory, open files and the length of the log.

Read from /proc, so on Linux alone; elsewhere only the log is watched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

_RESIDENT: Final = re.compile(r"VmRSS:\s+(\d+) kB")
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at one moment: resident bytes, open files and spent CPU seconds of each server, bytes of
    the log."""

    resident: Mapping[int, int]
    files: Mapping[int, int]
    cpu: Mapping[int, float]
    wal: int


@dataclass(slots=True)
class Watch:
    """Looks now and then, until it is cancelled."""

    db: Path
    servers: Mapping[int, str]
    samples: list[Sample] = field(default_factory=list[Sample])

    async def look_on(self, every: float) -> None:
        while True:
            self.look()
            await anyio.sleep(every)

    def look(self) -> None:
        self.samples.append(self._sample())

    def _sample(self) -> Sample:
        seen = [server for server in self.servers if (_PROC / str(server)).exists()]
        return Sample(
            {server: _resident(server) for server in seen},
            {server: len(os.listdir(_PROC / str(server) / "fd")) for server in seen},
            {server: _cpu(server) for server in seen},
            _size(self.db.with_name(f"{self.db.name}-wal")),
        )

    def cpu_s(self) -> float:
        """CPU seconds that the servers spent between the first look and the last."""
        first, last = self.samples[0].cpu, self.samples[-1].cpu
        return sum(last[server] - first.get(server, 0.0) for server in last)

    def thirds(self) -> Sequence[Sequence[Sample]]:
        """The samples in three parts of the time, one after the other."""
        size = len(self.samples)
        return [self.samples[size * part // 3 : size * (part + 1) // 3] for part in range(3)]


def children_serving(db: Path) -> list[int]:
    """The processes that this one started and that serve this store, oldest first."""
    found: list[int] = []
    for folder in _PROC.glob("[0-9]*") if _PROC.exists() else ():
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            said = (folder / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if parent == os.getpid() and os.fsencode(db) in said:
            found.append(int(folder.name))
    return sorted(found)


def _resident(server: int) -> int:
    found = _RESIDENT.search((_PROC / str(server) / "status").read_text())
    return int(found[1]) * 1024 if found else 0


def _cpu(server: int) -> float:
    said = (_PROC / str(server) / "stat").read_text().rpartition(")")[2].split()
    return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
