"""JSON documents read a piece at a time: an export may be far larger than memory is meant to be.

A document is cut into the members and elements of its outer containers by their brackets and strings alone;
only a piece that is asked for is parsed, by the reader of JSON lines, with all its leniency. The bytes are
mapped by way of a temporary file: who maps a file that its owner cuts short meanwhile is killed. A document
that breaks off gives what stands before. No format is known here.
"""

from __future__ import annotations

import mmap
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.jsonl import MAX_LINE_BYTES, BadLine, Object, parse_piece
from lcm_mcp.transcript.model import Json
from lcm_mcp.values import frozen

ZIP = b"PK\x03\x04"
ELEMENTS = ""
"""As a name, the elements of a document that is a list."""
MAX_UNPACKED_BYTES = 8 * 1024**3
_SAMPLED_BYTES = 64 * 1024
_MEMBER = re.compile(r"(?:.*/)?conversations(?:[-_]\d+)?\.json", re.IGNORECASE)
_BEFORE = b" \t\n\r\f\v\0"
_BLANK = re.compile(rb"[\s\x00]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\[\]{}:\"]++")
# Up to the next bracket that stands in no string.
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
_OPENING = b"[{"
_BOM = b"\xef\xbb\xbf"


@frozen
class Span:
    """A value in a document: its bytes from begin to end, end excluded."""

    begin: int
    end: int


class Broken(Exception):
    """The document ends, or is no JSON any more, inside a container; never leaves this module."""


@frozen
class Document:
    """A mapped document; begin is where its outermost value starts."""

    data: mmap.mmap
    begin: int

    @property
    def is_list(self) -> bool:
        return self.data[self.begin : self.begin + 1] == b"["

    def members(self) -> dict[str, Span]:
        """The members of an object by name, up to where it breaks off; of a list, itself as ELEMENTS."""
        if self.is_list:
            return {ELEMENTS: Span(self.begin, len(self.data))}
        found: dict[str, Span] = {}
        with suppress(Broken):
            found.update(_children(self.data, self.begin))
        return found

    def elements(self, list_: Span, first: int = 1) -> Iterator[Object | BadLine]:
        """The elements of a list, numbered as lines are; the last is a BadLine where the list breaks off."""
        number, whole = first, True
        if self.data[list_.begin : list_.begin + 1] != b"[":
            return
        try:
            for _, span in _children(self.data, list_.begin):
                piece = self.parsed(span, number)
                whole = isinstance(piece, Object)
                yield piece
                number += 1
        except Broken:
            if not whole:  # it was what broke off
                return
            yield BadLine(number, list_.begin, "the document breaks off or is no JSON from here on")

    def parsed(self, span: Span, number: int = 1) -> Object | BadLine:
        """The object that stands in a span."""
        if span.end - span.begin > MAX_LINE_BYTES:
            return BadLine(number, span.begin, f"it is larger than {MAX_LINE_BYTES // (1024 * 1024)} MB")
        return parse_piece(self.data[span.begin : span.end], number, span.begin)

    def sample(self) -> Block:
        """What tells its format: its outer members, with lists cut to their first element."""
        found: Block = {}
        for name, span in self.members().items():
            if self.data[span.begin : span.begin + 1] == b"[":
                first = next(iter(self.elements(span)), None)
                found[name] = [first.value] if isinstance(first, Object) else []
            else:
                small = span.end - span.begin <= _SAMPLED_BYTES
                found[name] = self.value(span) if small else {}
        return found

    def is_complete(self) -> bool:
        """Whether it does not break off."""
        with suppress(Broken):
            return bool(_end_of_value(self.data, self.begin))
        return False

    def whole(self) -> Object | BadLine:
        """All of it as one object."""
        try:
            return self.parsed(Span(self.begin, _end_of_value(self.data, self.begin)))
        except Broken:
            return BadLine(1, self.begin, "the document breaks off or is no JSON")

    def value(self, span: Span) -> Json:
        """What stands in a span, whatever it is; None where it cannot be parsed."""
        found = parse_piece(b'{"value":' + self.data[span.begin : span.end] + b"}", 1, span.begin)
        return found.value["value"] if isinstance(found, Object) else None


def documents(path: Path) -> Iterator[Document]:
    """The documents of a file: itself, or the conversations in a zip archive, in the order of their names.

    Each is to be done with before the next is asked for. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(_SAMPLED_BYTES)
        if not head.startswith(ZIP):
            if head.removeprefix(_BOM).lstrip(_BEFORE)[:1] in (b"[", b"{"):
                file.seek(0)
                yield from _mapped(file)
            return
    try:
        with zipfile.ZipFile(path) as archive:
            for name in members_of(archive):
                with archive.open(name) as packed:
                    yield from _mapped(packed)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise OSError(f"the archive cannot be unpacked: {error}") from error


def members_of(archive: zipfile.ZipFile) -> Sequence[str]:
    """The names of an archive's conversations. Raises OSError where they are too large."""
    found = [each for each in archive.infolist() if _MEMBER.fullmatch(each.filename)]
    if sum(each.file_size for each in found) > MAX_UNPACKED_BYTES:
        raise OSError(f"unpacked it would be larger than {MAX_UNPACKED_BYTES // 1024**3} GB")
    return sorted(each.filename for each in found)


def _mapped(file: IO[bytes]) -> Iterator[Document]:
    with TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, 1024 * 1024)
        copy.flush()
        if copy.tell() == 0:
            return
        with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as data:
            begin = _after_blank(data, len(_BOM) if data[: len(_BOM)] == _BOM else 0)
            if data[begin : begin + 1] in (b"[", b"{"):
                yield Document(data, begin)


def _after_blank(data: mmap.mmap, position: int) -> int:
    blank = _BLANK.match(data, position)
    return position if blank is None else blank.end()


def _children(data: mmap.mmap, begin: int) -> Iterator[tuple[str, Span]]:
    """The children of the container that begins there, with their names in an object. Raises Broken."""
    named = data[begin : begin + 1] == b"{"
    closing = b"}" if named else b"]"
    position = _after_blank(data, begin + 1)
    if data[position : position + 1] == closing:
        return
    while True:
        name, position = _named(data, position) if named else (ELEMENTS, position)
        try:
            end = _end_of_value(data, position)
        except Broken:
            if position < len(data):
                yield name, Span(position, len(data))
            raise
        yield name, Span(position, end)
        position = _after_blank(data, end)
        if data[position : position + 1] == closing:
            return
        position = _past(b",", data, position)


def _named(data: mmap.mmap, begin: int) -> tuple[str, int]:
    """A member's name, and where its value begins. Raises Broken."""
    end = _end(_STRING, data, begin)
    name = data[begin + 1 : end - 1].decode("utf-8", "replace")
    return name, _past(b":", data, _after_blank(data, end))


def _past(sign: bytes, data: mmap.mmap, position: int) -> int:
    if data[position : position + 1] != sign:
        raise Broken
    return _after_blank(data, position + 1)


def _end_of_value(data: mmap.mmap, begin: int) -> int:
    opening = data[begin : begin + 1]
    if opening == b'"':
        return _end(_STRING, data, begin)
    if opening not in (b"[", b"{"):
        return _end(_SCALAR, data, begin)
    depth, position = 0, begin
    while True:
        position = _end(_BRACKET, data, position)
        depth += 1 if data[position - 1] in _OPENING else -1
        if depth == 0:
            return position


def _end(pattern: re.Pattern[bytes], data: mmap.mmap, begin: int) -> int:
    found = pattern.match(data, begin)
    if found is None:
        raise Broken
    return found.end()
