"""Foreign transcript files: which formats there are, and which one a file is in.

A format is known by its content, never by its name, and by the first record that only it can
have. A file of no known format is refused with a sentence that says what it looks like and what to
do; a file of a known one is read to its end, whatever its lines hold. Formats are listed here by
hand: nothing registers itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers import (
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    messages,
    neutral,
    openhands,
    swe_agent,
)
from lcm_mcp.transcript.importers.compressed import is_compressed, open_transcript
from lcm_mcp.transcript.importers.documents import ZIP, sample
from lcm_mcp.transcript.importers.jsonl import Object, Readable, read_objects
from lcm_mcp.transcript.importers.report import (
    Entry,
    Event,
    ImportReport,
    Mark,
    Other,
    Resume,
    SessionFound,
    Tally,
    Tip,
    Trouble,
    tally,
)

__all__ = [
    "FORMATS",
    "Entry",
    "Event",
    "Format",
    "ImportReport",
    "Mark",
    "Other",
    "Resume",
    "SessionFound",
    "Tally",
    "Tip",
    "Trouble",
    "can_follow",
    "check_file",
    "detect",
    "tally",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its reader (path, session key of the caller's choice or None), the same of an open file from
    where it was left (None: it is read whole or not at all), the mark of its lines, and that of a document's
    sample (None: it is never one)."""

    name: str
    read: Callable[[Path, str | None], Iterator[Event]]
    follow: Callable[[Path, Readable, str | None, Resume], Iterator[Event | Mark]] | None
    is_line: Callable[[Block], bool]
    is_document: Callable[[Block], bool] | None = None


def _never(value: Block) -> bool:
    """A format without lines."""
    del value
    return False


FORMATS: dict[str, Format] = {
    "claude-code": Format("claude-code", claude_code.read, claude_code.follow, claude_code.is_line),
    "codex": Format("codex", codex.read, codex.follow, codex.is_line),
    "openhands": Format("openhands", openhands.read, openhands.follow, openhands.is_line),
    "chatgpt": Format("chatgpt", chatgpt.read, None, _never, chatgpt.is_document),
    "claude-ai": Format("claude-ai", claude_ai.read, None, _never, claude_ai.is_document),
    "swe-agent": Format("swe-agent", swe_agent.read, None, _never, swe_agent.is_document),
    "messages": Format("messages", messages.read, None, _never, messages.is_document),
    "neutral": Format("neutral", neutral.read, neutral.follow, neutral.is_line),
}

_HEAD_BYTES = 4096
_EXAMINED_OBJECTS = 200
# A JSON document over several lines, or an array of objects: its inner lines may look like records.
_DOCUMENT = re.compile(rb"[\[{][ \t]*\r?\n|\[\s*\{")
_LINES_WANTED = "Write each of its entries on a line of its own"
_DOCUMENT_FOUND = "it is one JSON document, not JSON lines"
_BEFORE_TEXT = b"\xef\xbb\xbf \t\r\n"
_TRANSCRIPT_WANTED = "Name a transcript: a session file of an agent, or JSON lines of entries"
# What a file's first bytes tell of it, and what to do then.
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"SQLite format 3\0", "it is an SQLite database", "A store is opened with --db, not imported"),
    (b"\x1f\x8b", "it is compressed (gzip)", "Unpack it first"),
    (b"\xff\xfe", "it is text in UTF-16", "Save it as UTF-8 first"),
    (b"\xfe\xff", "it is text in UTF-16", "Save it as UTF-8 first"),
)


def check_file(path: Path, name: str) -> None:
    """Raises ImportRefused where a file cannot be a transcript in the format of that name."""
    head = _head(path)
    document = _is_document(head)
    if FORMATS[name].is_document is None:
        if document:
            found = "it is a zip archive" if head.startswith(ZIP) else _DOCUMENT_FOUND
            raise _refused(path, found, _LINES_WANTED)
    elif not document and head.lstrip(_BEFORE_TEXT)[:1] not in (b"{", b"["):
        raise _refused(path, "it is no JSON document", _TRANSCRIPT_WANTED)


def _head(path: Path) -> bytes:
    """The first bytes of a file that can be a transcript. Raises ImportRefused where it cannot be one."""
    try:
        if path.is_dir():
            raise _refused(path, "it is a directory", "Name the files in it")
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer for ever
            raise _refused(path, "it is no ordinary file", _TRANSCRIPT_WANTED)
        with open_transcript(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not head:
        raise _refused(path, "it is empty", _TRANSCRIPT_WANTED)
    for signature, problem, remedy in _SIGNATURES:
        if head.startswith(signature):
            raise _refused(path, problem, remedy)
    return head


def _is_document(head: bytes) -> bool:
    return head.startswith(ZIP) or _DOCUMENT.match(head.lstrip(_BEFORE_TEXT)) is not None


def can_follow(path: Path, name: str) -> bool:
    """Whether a file in a format can be read on from where it was left. Raises OSError."""
    return FORMATS[name].follow is not None and not is_compressed(path)


def detect(path: Path) -> str:
    """The name in FORMATS of the format a file is in. Raises ImportRefused where it is in none."""
    head = _head(path)
    objects: list[Block] = []
    try:
        if not _is_document(head):
            objects = [found.value for found in _first_objects(path)]
            for value in objects:
                for known in FORMATS.values():
                    if known.is_line(value):
                        return known.name
        if len(objects) <= 1 and (name := _document_format(path)) is not None:
            return name
    except OSError as error:
        raise _unreadable(path, error) from error
    raise _refused(path, _appearance(head, objects), _TRANSCRIPT_WANTED)


def _document_format(path: Path) -> str | None:
    value = sample(path)
    if value is None:
        return None
    marks = ((known.name, known.is_document) for known in FORMATS.values())
    return next((name for name, mark in marks if mark is not None and mark(value)), None)


def _first_objects(path: Path) -> Iterator[Object]:
    return (found for found in islice(read_objects(path), _EXAMINED_OBJECTS) if isinstance(found, Object))


def _appearance(head: bytes, objects: list[Block]) -> str:
    """What a file that is in no known format looks like."""
    if head.startswith(ZIP):
        return "it is a zip archive that holds no conversations.json of a known kind"
    if _is_document(head):
        return f"{_DOCUMENT_FOUND}, and of no known kind"
    if objects:
        kind = objects[0].get("type")
        mark = f"type {kind[:40]!r}" if isinstance(kind, str) else f"keys {_named(objects[0])}"
        return f"it is JSON lines of an unknown kind (the first object has {mark})"
    if b"\0" in head:
        return "it is a binary file"
    begin = head.lstrip(_BEFORE_TEXT)
    if not begin:
        return "it holds nothing but blanks"
    return "it holds no whole line of JSON" if begin.startswith(b'{"') else "it is not JSON lines at all"


def _named(value: Block) -> str:
    return ", ".join(key[:40] for key in sorted(value)[:6]) or "none"


def _unreadable(path: Path, error: OSError) -> ImportRefused:
    reason = error.strerror or str(error) or type(error).__name__
    return _refused(path, f"it cannot be read ({reason})", "Check the path and its permissions")


def _refused(path: Path, problem: str, remedy: str) -> ImportRefused:
    return ImportRefused(str(path), problem, f"{remedy}.")
