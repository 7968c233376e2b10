"""Foreign transcript files: which formats there are, and which one a file is in.

A format is known by its content, never by its name, and by the first record that only it can
have. A file of no known format is refused with a sentence that says what it looks like and what to
do; a file of a known one is read to its end, whatever its lines hold. Formats are listed here by
hand: nothing registers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers import (
    chatgpt,
    claude_ai,
    claude_code,
    codex,
    cursor,
    documents,
    gemini,
    messages,
    neutral,
    opencode,
    openhands,
    pi,
    swe_agent,
)
from lcm_mcp.transcript.importers.compressed import is_compressed, open_transcript
from lcm_mcp.transcript.importers.databases import SIGNATURE, tables_of
from lcm_mcp.transcript.importers.documents import ELEMENTS, ZIP
from lcm_mcp.transcript.importers.jsonl import Object, Readable, read_objects
from lcm_mcp.transcript.importers.report import (
    Entry,
    Event,
    ImportReport,
    Mark,
    Numbered,
    Other,
    Resume,
    SessionFound,
    TakenBack,
    Tally,
    Tip,
    Trouble,
    tally,
)
from lcm_mcp.transcript.importers.whole import BEFORE_TEXT, is_document
from lcm_mcp.transcript.model import Json
from lcm_mcp.values import frozen

__all__ = [
    "FORMATS",
    "Entry",
    "Event",
    "Format",
    "ImportReport",
    "Mark",
    "Numbered",
    "Other",
    "Resume",
    "SessionFound",
    "TakenBack",
    "Tally",
    "Tip",
    "Trouble",
    "can_follow",
    "check_file",
    "detect",
    "tally",
]


@frozen
class Format:
    """A format: its reader (path, session key of the caller's choice or None), the same of an open file from
    where it was left (None: it is only read whole), and the marks of its lines, its JSON documents, its
    exports (by a sample) and its databases (by their tables)."""

    name: str
    read: Callable[[Path, str | None], Iterator[Event]]
    follow: Callable[[Path, Readable, str | None, Resume], Iterator[Event | Mark]] | None
    is_line: Callable[[Block], bool]
    is_document: Callable[[Json], bool] | None = None
    is_database: Callable[[frozenset[str]], bool] | None = None
    is_export: Callable[[Block], bool] | None = None

    @property
    def takes_documents(self) -> bool:
        return self.is_document is not None or self.is_export is not None


def _never(value: Block) -> bool:
    """A format without lines."""
    del value
    return False


FORMATS: dict[str, Format] = {
    "claude-code": Format("claude-code", claude_code.read, claude_code.follow, claude_code.is_line),
    "codex": Format("codex", codex.read, codex.follow, codex.is_line),
    "pi": Format("pi", pi.read, pi.follow, pi.is_line),
    "gemini": Format("gemini", gemini.read, gemini.follow, gemini.is_line, gemini.is_document),
    "opencode": Format(
        "opencode", opencode.read, None, opencode.is_line, opencode.is_document, opencode.is_database
    ),
    "cursor": Format("cursor", cursor.read, None, cursor.is_line, None, cursor.is_database),
    "openhands": Format("openhands", openhands.read, openhands.follow, openhands.is_line),
    "chatgpt": Format("chatgpt", chatgpt.read, None, _never, is_export=chatgpt.is_document),
    "claude-ai": Format("claude-ai", claude_ai.read, None, _never, is_export=claude_ai.is_document),
    "swe-agent": Format("swe-agent", swe_agent.read, None, _never, is_export=swe_agent.is_document),
    "messages": Format("messages", messages.read, None, _never, is_export=messages.is_document),
    "neutral": Format("neutral", neutral.read, neutral.follow, neutral.is_line),
}

_HEAD_BYTES = 4096
_EXAMINED_OBJECTS = 200
_TRANSCRIPT_WANTED = "Name a transcript: a session file of an agent, or JSON lines of entries"
_LINES_WANTED = "Write each of its entries on a line of its own"
_A_DOCUMENT = "it is one JSON document, not JSON lines"
_A_DATABASE = "it is an SQLite database", "A store is opened with --db, not imported"
# What a file's first bytes tell of it, and what to do then.
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "it is compressed (gzip)", "Unpack it first"),
    (b"\xff\xfe", "it is text in UTF-16", "Save it as UTF-8 first"),
    (b"\xfe\xff", "it is text in UTF-16", "Save it as UTF-8 first"),
)


def check_file(path: Path, name: str | None = None) -> bytes:
    """The first bytes of a file that can be a transcript (in a format, if one is named). Raises ImportRefused
    where it cannot be one."""
    try:
        if path.is_dir():
            raise _refused(path, "it is a directory", "Name the files in it")
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer for ever
            raise _refused(path, "it is no ordinary file", _TRANSCRIPT_WANTED)
        with open_transcript(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from error
    _refuse_by_head(path, head)
    if (known := FORMATS.get(name or "")) is not None:
        _refuse_by_format(path, head, known)
    return head


def _refuse_by_format(path: Path, head: bytes, known: Format) -> None:
    if known.is_database is None and head.startswith(SIGNATURE):
        raise _refused(path, *_A_DATABASE)
    if not known.takes_documents and _is_document(head):
        raise _refused(path, "it is a zip archive" if head.startswith(ZIP) else _A_DOCUMENT, _LINES_WANTED)
    only_exports = known.is_export is not None and known.is_line is _never
    if only_exports and not _is_document(head) and head.lstrip(BEFORE_TEXT)[:1] not in (b"{", b"["):
        raise _refused(path, "it is no JSON document", _TRANSCRIPT_WANTED)


def _is_document(head: bytes) -> bool:
    return head.startswith(ZIP) or is_document(head)


def can_follow(path: Path, name: str) -> bool:
    """Whether a file in a format can be read on from where it was left. Raises OSError."""
    if FORMATS[name].follow is None or is_compressed(path):
        return False
    with path.open("rb") as file:
        return not is_document(file.read(_HEAD_BYTES))


def detect(path: Path) -> str:
    """The name in FORMATS of the format a file is in. Raises ImportRefused where it is in none."""
    head = check_file(path)
    try:
        if head.startswith(SIGNATURE):
            return _detect_database(path)
        objects = [] if _is_document(head) else [found.value for found in _first_objects(path)]
        name = _of_lines(objects)
        if name is None and len(objects) <= 1:
            name = _of_document(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if name is None:
        raise _refused(path, _appearance(head, objects), _TRANSCRIPT_WANTED)
    return name


def _of_lines(objects: list[Block]) -> str | None:
    marks = (known.name for value in objects for known in FORMATS.values() if known.is_line(value))
    return next(marks, None)


def _of_document(path: Path) -> str | None:
    """The format of a file that is one JSON document, or an archive of such, by a sample of the first."""
    for document in documents.documents(path):
        sample = document.sample()
        content = sample[ELEMENTS] if list(sample) == [ELEMENTS] else sample
        for known in FORMATS.values():
            if known.is_document is not None and known.is_document(content) and document.is_complete():
                return known.name
            if known.is_export is not None and known.is_export(sample):
                return known.name
        break
    return None


def _detect_database(path: Path) -> str:
    try:
        tables = tables_of(path)
    except OSError as error:
        said = error.strerror or str(error)
        raise _refused(
            path, f"it is an SQLite database, but {said}", "Check it and import it again"
        ) from error
    for known in FORMATS.values():
        if known.is_database is not None and known.is_database(tables):
            return known.name
    raise _refused(path, *_A_DATABASE)


def _first_objects(path: Path) -> Iterator[Object]:
    return (found for found in islice(read_objects(path), _EXAMINED_OBJECTS) if isinstance(found, Object))


def _refuse_by_head(path: Path, head: bytes) -> None:
    if not head:
        raise _refused(path, "it is empty", _TRANSCRIPT_WANTED)
    for signature, problem, remedy in _SIGNATURES:
        if head.startswith(signature):
            raise _refused(path, problem, remedy)


def _appearance(head: bytes, objects: list[Block]) -> str:
    """What a file that is in no known format looks like."""
    if head.startswith(ZIP):
        return "it is a zip archive that holds no conversations.json of a known kind"
    if is_document(head):
        return f"{_A_DOCUMENT}, and of no known kind"
    if objects:
        kind = objects[0].get("type")
        mark = f"type {kind[:40]!r}" if isinstance(kind, str) else f"keys {_named(objects[0])}"
        return f"it is JSON lines of an unknown kind (the first object has {mark})"
    if b"\0" in head:
        return "it is a binary file"
    begin = head.lstrip(BEFORE_TEXT)
    if not begin:
        return "it holds nothing but blanks"
    return "it holds no whole line of JSON" if begin.startswith(b'{"') else "it is not JSON lines at all"


def _named(value: Block) -> str:
    return ", ".join(key[:40] for key in sorted(value)[:6]) or "none"


def _unreadable(path: Path, error: OSError) -> ImportRefused:
    reason = error.strerror or str(error) or type(error).__name__
    remedy = "Get it whole" if error.errno is None else "Check the path and its permissions"
    return _refused(path, f"it cannot be read ({reason})", remedy)


def _refused(path: Path, problem: str, remedy: str) -> ImportRefused:
    return ImportRefused(str(path), problem, f"{remedy}.")
