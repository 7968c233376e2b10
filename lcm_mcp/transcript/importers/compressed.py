"""Transcript files that a client has compressed: opened as if they were not.

Only Zstandard, which Codex compresses old rollouts with. What was unpacked is never written down. A damaged
stream ends in an OSError, like a file that cannot be read.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable

ZSTD = b"\x28\xb5\x2f\xfd"


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed, by its content. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(ZSTD)) == ZSTD


def open_transcript(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking it where it is compressed. Raises OSError."""
    if not is_compressed(path):
        return path.open("rb")
    return cast("BinaryIO", io.BufferedReader(_Unpacked(path)))


class _Unpacked(io.RawIOBase):
    """A compressed file's content; fileno is the file's own, for its facts."""

    def __init__(self, path: Path) -> None:
        opened, self._damage = _zstd()
        self._raw = path.open("rb")
        self._file = opened(self._raw)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Buffer, /) -> int:
        try:
            read = self._file.read(memoryview(buffer).nbytes)
        except (self._damage, EOFError) as error:
            raise OSError(f"its compressed content is damaged: {error}") from error
        memoryview(buffer).cast("B")[: len(read)] = read
        return len(read)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._raw.close()
        super().close()


def _zstd() -> tuple[Callable[[BinaryIO], BinaryIO], type[Exception]]:
    # Imported where a compressed file is met: hardly any import needs it.
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError, ZstdFile
    else:
        from backports.zstd import ZstdError, ZstdFile
    return cast("Callable[[BinaryIO], BinaryIO]", ZstdFile), ZstdError
