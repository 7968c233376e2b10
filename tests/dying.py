"""A store whose process dies at a chosen write, and what a new process finds after it.

Death is an exception that nothing catches, and it lasts: whatever the dying service tries afterwards fails
too. What counts is not the exception, which SQLite may answer with a rollback, but the copy of the files
made at that very moment, the write-ahead log as it is on disk: that is all the next process gets.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, Literal, NoReturn, ParamSpec, TypeVar

import apsw

from lcm_mcp.storage.connections import Store

P = ParamSpec("P")
T = TypeVar("T")

Moment = Literal["before", "inside", "after"]
NOBODY = f"{socket.gethostname()}/{2**31 - 1}"
"""A lease's holder who lives no more: no system gives a process so high a number."""


class Died(BaseException):
    """The process is no more."""


@dataclass(frozen=True, slots=True)
class Doom:
    """Die at the write of that number from now on; the files go to the folder `grave`."""

    write: int
    moment: Moment
    grave: Path


class MortalStore(Store):
    """A store that lives on until it is told when to die."""

    doom: Doom | None = None
    dead = False
    writes = 0

    def sentence(self, doom: Doom | None) -> None:
        self.doom, self.writes = doom, 0

    async def write(
        self, job: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.dead:
            raise Died
        self.writes += 1
        doom = self.doom if self.doom is not None and self.writes == self.doom.write else None
        if doom is not None and doom.moment == "before":
            self._die(doom)
        if doom is not None and doom.moment == "inside":
            return await super().write(self._half, doom, lambda db: job(db, *args, **kwargs))
        result = await super().write(job, *args, **kwargs)
        if doom is not None:
            self._die(doom)
        if self.dead:
            raise Died  # it was under way beside the one that died, and nobody heard of its end
        return result

    def _half(self, db: apsw.Connection, doom: Doom, job: Callable[[apsw.Connection], T]) -> T:
        job(db)
        self._copy(doom.grave)
        raise Died

    def _die(self, doom: Doom) -> NoReturn:
        with self._writer_lock:  # the files as they are between two writes
            self._copy(doom.grave)
        raise Died

    def _copy(self, grave: Path) -> None:
        self.dead = True
        grave.mkdir()
        for side in ("", "-wal"):
            shutil.copy(f"{self.path}{side}", f"{grave / self.path.name}{side}")


async def bury(store: Store) -> None:
    """Let the leases in a copied store be those of a dead process.

    They name the process that made them, which is the one that runs the tests and lives on. So their holder
    is rewritten; nothing is deleted, since taking a dead one's lease is what the next process has to do.
    """
    await store.write(lambda db: db.execute("UPDATE lease SET holder = ?", (NOBODY,)).get)
