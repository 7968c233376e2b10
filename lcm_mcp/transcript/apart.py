"""A long file read by a process of its own, which reads and seals batches while this one stores them.

That takes a second core, and half a second to start, so only long files are read so. The process is told
what to read, sends each batch as soon as it is listened to, and ends when nobody listens any more. Where it
cannot be started the file is read here. If it dies, the import is refused as one that was stopped: what was
stored stays, and the next import goes on. Nothing else is told to it, and it opens no store.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import IO, Any, Final, cast

from lcm_mcp.errors import ImportRefused
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.batches import Batch, Batches, Item, Source, Taken, whole_file
from lcm_mcp.transcript.followed import Cursor
from lcm_mcp.transcript.importers import ImportReport
from lcm_mcp.transcript.model import Role, Sealed
from lcm_mcp.transcript.packing import shortest
from lcm_mcp.transcript.redacting import Masking

LEAST_BYTES = 16 * 1024 * 1024
"""A shorter file is read here in about the time that a process takes to start."""

PIPE_BYTES: Final = 1024 * 1024
"""How far the process may be ahead of who listens, where the system lets a pipe be so large."""
_FIRST: Final = ("role", "text", "payload", "size")
_REST: Final = [f"entry.{each.name}" for each in fields(Sealed)[len(_FIRST) :]]
_values = attrgetter(
    *("session_key", "ordinal", "entry.role", "entry.text", "entry.payload", "entry.size.bytes"),
    *("entry.size.fixed", *_REST),
)
"""An entry is sent as a plain tuple: what a dataclass of many fields does to be sent costs more."""

_Sent = tuple[list["tuple[Any, ...] | Item"], Cursor | None, str | None]
"""A batch on its way."""
_Ended = tuple[ImportReport, Mapping[str, int], tuple[str, str, str] | None]
"""What is sent last: what was read in all, what was masked, and why that was not the whole file."""


def open_file(source: Source, masking: Masking | None) -> Batches:
    """Read all of a file, in a process of its own where that pays. Raises ImportRefused."""
    here = whole_file(source, masking)
    apart = _started(source, masking) if here.facts.size >= LEAST_BYTES and cores() > 1 else None
    if apart is None:
        return here
    here.close()
    return apart


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class _Apart:
    """A file that another process reads."""

    def __init__(self, source: Source, process: subprocess.Popen[bytes], sent: IO[bytes]) -> None:
        self._source = source
        self._process = process
        self._sent = sent
        self._ended: _Ended | None = None

    def next_batch(self) -> Batch | None:
        try:
            last, what = cast("tuple[bool, Any]", pickle.load(self._sent))
        except (EOFError, pickle.UnpicklingError) as error:
            path = str(self._source.path)
            raise ImportRefused(path, "the process that read it was ended", "Import it again") from error
        if not last:
            items, cursor, trouble = cast("_Sent", what)
            return Batch(
                [_arrived(*item) if isinstance(item, tuple) else item for item in items], cursor, trouble
            )
        self._ended = cast("_Ended", what)
        refused = self._ended[2]
        if refused is not None:
            raise ImportRefused(*refused)
        return None

    def report(self) -> ImportReport:
        assert self._ended is not None
        return self._ended[0]

    @property
    def masked(self) -> Mapping[str, int]:
        return {} if self._ended is None else self._ended[1]

    def close(self) -> None:
        self._process.kill()
        self._sent.close()
        self._process.wait()


def _arrived(
    key: str,
    ordinal: int | None,
    role: Role,
    text: str,
    payload: bytes | None,
    weight: int,
    fixed: int,
    *rest: Any,
) -> Taken:
    """An entry that was sent. Its payload is deflated here, so that both processes have much to do."""
    made = None if payload is None else shortest(payload)
    return Taken(key, ordinal, Sealed(role, text, made, Size(weight, 1, fixed), *rest))


def _started(source: Source, masking: Masking | None) -> _Apart | None:
    """The process at work; None where it cannot be started."""
    # -P: not what happens to stand in the working folder
    command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=PIPE_BYTES
        )
    except OSError:
        return None
    assert process.stdin is not None
    assert process.stdout is not None
    apart = _Apart(source, process, process.stdout)
    try:
        with process.stdin as told:
            pickle.dump((source, masking), told)
        if pickle.load(process.stdout) == source:
            return apart
    except (OSError, EOFError, pickle.UnpicklingError):
        pass
    apart.close()
    return None


def serve() -> None:
    """Be that process, until the file has ended or nobody listens."""
    gc.disable()  # of what is read nothing goes in circles, and looking for that is a tenth of the work
    with suppress(BrokenPipeError, KeyboardInterrupt):
        _serve(sys.stdin.buffer, sys.stdout.buffer)


def _serve(told: IO[bytes], sent: IO[bytes]) -> None:
    source, masking = cast("tuple[Source, Masking | None]", pickle.load(told))
    reading = whole_file(source, masking)
    reading.deflated = False
    _send(source, sent)
    refused = None
    try:
        while (batch := reading.next_batch()) is not None:
            items = [_values(item) if isinstance(item, Taken) else item for item in batch.items]
            _send((False, (items, batch.cursor, batch.trouble)), sent)
            del batch, items  # before the next one is read: either may hold very long lines
    except ImportRefused as error:
        refused = error.why
    _send((True, (reading.report(), reading.masked, refused)), sent)


def _send(what: object, sent: IO[bytes]) -> None:
    pickler = pickle.Pickler(sent, pickle.HIGHEST_PROTOCOL)
    pickler.fast = True  # hardly anything is met twice, and to look out for that takes half of the time
    pickler.dump(what)
    sent.flush()
