"""The part of a file that was taken in, as it is known again: by its length and its first and last bytes.

What a file begins with tells it from another one, what stands right before a place tells whether anything
was put in or taken out before it; both are of a fixed size, so that a look costs the same however long the
file is. Not noticed: bytes changed in between for as many others; a changed file time stands in for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import BinaryIO

EDGE_BYTES = 4096


@dataclass(slots=True)
class Prefix:
    """The first `length` bytes of a file: how they begin, and pieces that hold at least how they end."""

    length: int = 0
    head: bytes = b""
    ending: list[bytes] = field(default_factory=list[bytes])
    kept: int = 0

    def add(self, read: bytes) -> None:
        """The bytes that follow."""
        if len(self.head) < EDGE_BYTES:
            self.head += read[: EDGE_BYTES - len(self.head)]
        self.ending.append(read if len(read) <= EDGE_BYTES else read[-EDGE_BYTES:])
        self.kept += len(self.ending[-1])
        self.length += len(read)
        if self.kept > 16 * EDGE_BYTES:
            self._shorten()

    def _shorten(self) -> bytes:
        tail = b"".join(self.ending)[-EDGE_BYTES:]
        self.ending, self.kept = [tail], len(tail)
        return tail

    @property
    def digest(self) -> bytes:
        """16 bytes; none for an empty prefix."""
        if not self.length:
            return b""
        edges = self.head + self._shorten()
        return blake2b(edges + str(self.length).encode(), digest_size=16).digest()


def prefix_of(file: BinaryIO, length: int) -> Prefix:
    """The prefix as it stands in a file, which is then at its end. Raises OSError."""
    file.seek(0)
    head = file.read(min(length, EDGE_BYTES))
    file.seek(max(0, length - EDGE_BYTES))
    tail = file.read(min(length, EDGE_BYTES))
    return Prefix(length, head, [tail], len(tail))


class EndedLines:
    """The ended lines of a file from a place on: a half-written one, or one too long, is as if not there.

    What was read of them is added to the prefix before that place.
    """

    def __init__(self, file: BinaryIO, prefix: Prefix, longest: int) -> None:
        self._file = file
        self._longest = longest
        self.prefix = prefix
        file.seek(prefix.length)

    def readline(self, size: int, /) -> bytes:
        read = self._file.readline(min(size, self._longest))
        if not read.endswith(b"\n") and len(read) < size:
            return b""
        self.prefix.add(read)
        return read
