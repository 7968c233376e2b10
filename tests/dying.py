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
DEAD_PID = 2**31 - 1
"""No system gives a process so high a number."""


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
        if self.doom is None or self.writes != self.doom.write:
            return await super().write(job, *args, **kwargs)
        if self.doom.moment == "before":
            return self._die(self.doom)
        if self.doom.moment == "inside":
            return await super().write(self._half, self.doom, lambda db: job(db, *args, **kwargs))
        await super().write(job, *args, **kwargs)
        return self._die(self.doom)

    def _half(self, db: apsw.Connection, doom: Doom, job: Callable[[apsw.Connection], T]) -> T:
        job(db)
        self._die(doom)

    def _die(self, doom: Doom) -> NoReturn:
        self.dead = True
        doom.grave.mkdir()
        for side in ("", "-wal"):
            shutil.copy(f"{self.path}{side}", f"{doom.grave / self.path.name}{side}")
        raise Died


async def bury(store: Store) -> None:
    """Let the leases in a copied store be those of a dead process.

    They name the process that made them, which is the one that runs the tests and lives on. So their holder
    is rewritten; nothing is deleted, since taking a dead one's lease is what the next process has to do.
    """
    holder = f"{socket.gethostname()}/{DEAD_PID}"
    await store.write(lambda db: db.execute("UPDATE lease SET holder = ?", (holder,)).get)
