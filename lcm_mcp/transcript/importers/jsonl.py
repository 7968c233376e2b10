"""JSON lines read as they lie on disk: one object after another, in bounded memory.

Files of live and crashed programs are the rule here: several objects glued into one line, a last
line half written, bytes that are no UTF-8, lone surrogates. What can be parsed is yielded, what
cannot is a BadLine that says why, and reading goes on; nothing in a file's content raises. The
reader knows no format, and holds at most one line, of at most MAX_LINE_BYTES.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import orjson

from lcm_mcp.transcript.blocks import MAX_DEPTH, has_long_number, too_deep
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.model import Json
from lcm_mcp.values import frozen

MAX_LINE_BYTES = 64 * 1024 * 1024
_SKIP_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# NULs are what a crash leaves where a line was allocated and not written.
_BLANK = b" \t\r\n\x0b\x0c\x00"
_JSON_BLANK = b" \t\r\n"
_EDGE_BYTES = 64
_USUAL_LINE_BYTES = 1024 * 1024
_BETWEEN = re.compile(r"[\s\x00]*")
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]")
_DIGITS_AND_OPENINGS = bytes.maketrans(b"123456789[", b"000000000{")
_LONG_NUMBER = b"0" * 19
# Not strict: raw control characters inside strings are wrong but lose nothing.
_DECODER = json.JSONDecoder(strict=False)


@frozen
class Object:
    """A JSON object; line counts from 1, offset is its first byte in the file.

    glued: another object stands before it on its line. repaired: bytes that were no UTF-8 on its
    line are now U+FFFD.
    """

    line: int
    offset: int
    value: dict[str, Json]
    glued: bool = False
    repaired: bool = False


@frozen
class BadLine:
    """A line, or its rest, that gave no object. unfinished: the file ends in it, without a newline."""

    line: int
    offset: int
    problem: str
    unfinished: bool = False


@dataclass(slots=True)
class _Line:
    """A line as read: content without odd blanks around it, None where it was too long to hold.

    It is taken out where it is parsed, lest it stays beside what was made of it.
    """

    number: int
    offset: int
    content: bytes | None
    ended: bool
    end: int

    def take(self) -> bytes:
        content, self.content = self.content, None
        return content or b""


@frozen
class Place:
    """Where a line begins: its first byte in the file, and how many lines stand before it."""

    offset: int
    line: int


START = Place(0, 0)


@frozen
class LineEnd:
    """Whatever an ended line held has been yielded; the next one begins at that place."""

    place: Place


class Readable(Protocol):
    """What lines are read from: an open file, or what stands for one."""

    def readline(self, size: int, /) -> bytes: ...


def read_objects(path: Path) -> Iterator[Object | BadLine]:
    """Every object of a file, in file order, and a BadLine for whatever is none. Raises OSError."""
    with open_transcript(path) as file:
        for found in read_lines(file):
            if not isinstance(found, LineEnd):
                yield found


def read_lines(file: Readable, place: Place = START) -> Iterator[Object | BadLine | LineEnd]:
    """The same of a file that stands at that place, with a LineEnd after each line that has one."""
    number, end = place.line, place.offset
    while read := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        start, end = end, end + len(read)
        value = _usual(read)
        if value is not None:
            yield Object(number, start, value)
            yield LineEnd(Place(end, number))
            continue
        line = _line(file, read, number, start)
        del read, value  # either may be long, and is not to stand beside what is made of it
        end = line.end
        if line.content is None:
            problem = f"the line is longer than {MAX_LINE_BYTES // (1024 * 1024)} MB"
            yield BadLine(number, line.offset, problem, not line.ended)
        else:
            yield from _objects(line)
        if line.ended:
            yield LineEnd(Place(end, number))


def _usual(read: bytes) -> dict[str, Json] | None:
    """The object of a line that holds one and nothing odd, as nearly all do; None for any other line."""
    if len(read) > _USUAL_LINE_BYTES or not (read.startswith(b"{") and read.endswith(b"\n")):
        return None
    marked = read.translate(_DIGITS_AND_OPENINGS)  # one way through the line for both looks
    if _LONG_NUMBER in marked:
        return None
    try:
        value = cast("dict[str, Json]", orjson.loads(read))
    except orjson.JSONDecodeError:
        return None
    return None if len(marked) - len(marked.replace(b"{", b"")) > MAX_DEPTH and too_deep(value) else value


def parse_piece(content: bytes, number: int, offset: int) -> Object | BadLine:
    """The object that a piece of a document holds, numbered as a line is."""
    return next(_objects(_Line(number, offset, content, True, offset + len(content))))


def _line(file: Readable, read: bytes, number: int, start: int) -> _Line:
    """A line that begins as was read; of one that is too long the rest is passed over."""
    ended = read.endswith(b"\n")
    if len(read) > MAX_LINE_BYTES and not ended:
        skipped, ended = _skip_line(file)
        return _Line(number, start, None, ended, start + len(read) + skipped)
    end = start + len(read)
    if start == 0 and read.startswith(_BOM):
        start, read = len(_BOM), read[len(_BOM) :]
    before, body = _without_blanks(read)
    return _Line(number, start + before, body, ended, end)


def _without_blanks(read: bytes) -> tuple[int, bytes]:
    """How many blanks a line begins with, and the line without them; those after it that JSON allows stay,
    since a long line would be copied to lose them."""
    body = read.lstrip(_BLANK)
    end = body[-_EDGE_BYTES:]
    kept = end.rstrip(_BLANK)
    allowed = kept and not end[len(kept) :].strip(_JSON_BLANK)
    return len(read) - len(body), body if allowed else body.rstrip(_BLANK)


def _skip_line(file: Readable) -> tuple[int, bool]:
    """Go past the line's end; the bytes passed, and whether a newline was met."""
    skipped = 0
    while piece := file.readline(_SKIP_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            return skipped, True
    return skipped, False


def _objects(line: _Line) -> Iterator[Object | BadLine]:
    content = line.take()
    if not content:
        return
    if not has_long_number(content):
        try:
            value = cast("Json", orjson.loads(content))
        except orjson.JSONDecodeError:
            pass
        else:
            deep = _may_be_deep(content)
            del content
            yield _judged(line, line.offset, value, check_depth=deep)
            return
    yield from _slowly(line, content)


def _may_be_deep(content: bytes) -> bool:
    return content.count(b"{") + content.count(b"[") > MAX_DEPTH


def _slowly(line: _Line, content: bytes) -> Iterator[Object | BadLine]:
    """Parse what orjson refuses: glued objects, lone surrogates, huge numbers, broken UTF-8."""
    escaped = content.decode("utf-8", "surrogateescape")
    text = _ESCAPED_BYTES.sub("\ufffd", escaped)
    position, offset = 0, line.offset
    while position < len(text):
        try:
            parsed, end = cast("tuple[Json, int]", _DECODER.raw_decode(text, position))
        except (ValueError, RecursionError) as error:
            yield BadLine(line.number, offset, _problem(error), not line.ended)
            return
        found = _judged(line, offset, parsed, glued=position > 0, repaired=text != escaped)
        yield found
        if isinstance(found, BadLine):  # what follows a stray number in a log line is no record either
            return
        after = _BETWEEN.match(text, end)
        following = end if after is None else after.end()
        # One character of text is one of escaped, and that one encodes to the very bytes read.
        offset += len(escaped[position:following].encode("utf-8", "surrogateescape"))
        position = following


def _judged(
    line: _Line,
    offset: int,
    value: Json,
    *,
    glued: bool = False,
    repaired: bool = False,
    check_depth: bool = True,
) -> Object | BadLine:
    if not isinstance(value, dict):
        return BadLine(line.number, offset, f"a {_NAMES[type(value)]} stands where an object should")
    if check_depth and too_deep(value):
        return BadLine(line.number, offset, f"nested more than {MAX_DEPTH} deep")
    return Object(line.number, offset, value, glued, repaired)


def _problem(error: ValueError | RecursionError) -> str:
    match error:
        case RecursionError():
            return f"nested more than {MAX_DEPTH} deep"
        case json.JSONDecodeError():
            return f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"
        case _:  # Python's limit on the digits of an integer
            return "a number has too many digits to be read"


_NAMES = {
    str: "text",
    int: "number",
    float: "number",
    bool: "truth value",
    type(None): "null",
    list: "list",
}
