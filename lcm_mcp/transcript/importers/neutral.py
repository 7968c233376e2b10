"""Our own JSON lines: an entry a line, as lcm_append takes them, after an optional header.

The header is a first object {"session": key, "title"?, "project"?}. An entry that names no entry_id
gets "@<n>", its place among the file's records, so that importing a grown file again adds only what
is new. Lines that cannot be read count as records too: mending one must not rename those after it.
A line that is no entry is reported and passed over; nothing else of the file is refused for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.entries import Problem, read_entry
from lcm_mcp.transcript.importers.jsonl import BadLine, Object, read_objects
from lcm_mcp.transcript.importers.report import Entry, Event, SessionFound, Trouble

_HEADER_KEYS = frozenset(("session", "title", "project"))


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a neutral file as events, one session a file.

    Its key is the header's, else `session_key`. A file with neither is known by its path, since files of
    one name in two folders are two conversations, and named by its stem. Raises OSError.
    """
    session: SessionFound | None = None
    ordinal = 0
    for found in read_objects(path):
        if isinstance(found, Object) and session is None and ordinal == 0 and is_header(found.value):
            session = _session(found.value, path, session_key)
            yield session
            yield from _header_troubles(found)
            continue
        ordinal += 1
        if isinstance(found, BadLine):
            yield Trouble(found.line, found.problem, "unfinished" if found.unfinished else "bad")
            continue
        if session is None:
            session = _session({}, path, session_key)
            yield session
        yield from _entry_events(found, session.key, ordinal)


def is_header(value: Block) -> bool:
    return "session" in value and "role" not in value and "type" not in value


def is_line(value: Block) -> bool:
    """Whether an object looks like an entry or a header, right in its details or not."""
    return is_header(value) or ("role" in value and ("content" in value or "tool_calls" in value))


def _entry_events(found: Object, session_key: str, ordinal: int) -> Iterator[Event]:
    if found.repaired:
        yield Trouble(found.line, "bytes that are no UTF-8 were replaced", "repaired")
    draft = read_entry(found.value)
    if isinstance(draft, Problem):
        yield Trouble(found.line, draft.text)
        return
    if draft.entry_id is None:
        draft = replace(draft, entry_id=f"@{ordinal}")
    yield Entry(session_key, draft, found.line)


def _session(header: Block, path: Path, session_key: str | None) -> SessionFound:
    key = _text(header, "session") or session_key
    title, project = _text(header, "title"), _text(header, "project")
    if key is not None:
        return SessionFound(key, title, project)
    return SessionFound(path.stem, title, project, native_id=str(path.resolve()))


def _header_troubles(found: Object) -> Iterator[Trouble]:
    unknown = sorted(key[:60] for key in found.value if key not in _HEADER_KEYS)
    if unknown:
        yield Trouble(found.line, f"the header has unknown keys: {', '.join(unknown[:8])}")
    for key in sorted(_HEADER_KEYS & found.value.keys()):
        if found.value[key] is not None and _text(found.value, key) is None:
            yield Trouble(found.line, f"the header's {key} is not a text, so it is not used")


def _text(value: Block, key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) and text else None
