"""Followed files that a read had no time for: a server reads them to their end beside the requests.

One after the other, in the order in which they were left. A file is not begun again before nine times as long
has passed as it took, so that a large one which changes all the time, and can only be read whole, takes a
tenth of the server's time at most. Where nobody hosts this, nothing waits here, and a read says what it left.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio

REST: Final = 9.0
"""As many times as long as it took, a file is left alone after it was read."""


class Left:
    """The files of one service that wait, by their ids."""

    def __init__(self) -> None:
        self._waiting: dict[int, None] = {}
        self._rests_until: dict[int, float] = {}
        self._added = anyio.Event()
        self._hosted = False

    @property
    def hosted(self) -> bool:
        """Whether what is left will be read."""
        return self._hosted

    def __contains__(self, file: int) -> bool:
        return file in self._waiting

    def add(self, files: Iterable[int]) -> None:
        if self._hosted:
            self._waiting.update(dict.fromkeys(files))
            self._added.set()

    async def read(self, reader: Callable[[int], Awaitable[bool]]) -> None:
        """Give the reader one file after the other until it says False, or for ever; each waits until it was
        read."""
        self._hosted = True
        try:
            while await self._read_next(reader):
                pass
        finally:
            self._hosted = False
            self._waiting.clear()

    async def _read_next(self, reader: Callable[[int], Awaitable[bool]]) -> bool:
        began = time.monotonic()
        due = {file: self._rests_until.get(file, began) for file in self._waiting}
        file = min(due, key=due.__getitem__, default=None)
        if file is None or due[file] > began:
            self._added = anyio.Event()
            with anyio.move_on_after(None if file is None else due[file] - began):
                await self._added.wait()
            return True
        goes_on = await reader(file)
        ended = time.monotonic()
        self._rests_until[file] = ended + REST * (ended - began)
        self._waiting.pop(file, None)
        return goes_on
