"""OpenCode sessions: its database, a session of the older folder of JSON files, and exports of one.

All three hold the same messages and parts. A prompt is one entry, each part of an answer another, and the
result of a call one of its own; a part that is still being written is left for the next import. What a
client's own compaction wrote is kept off the path. A prompt that stands under another row than the newest one
makes a branch, since OpenCode deletes what was taken back. Nothing of this can be read on from a place: it is
imported again. Marks of steps, snapshots and patches are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.databases import SIGNATURE, columns_of, opened
from lcm_mcp.transcript.importers.fields import kind_of, list_of, object_of, text_of, title_of
from lcm_mcp.transcript.importers.jsonl import MAX_LINE_BYTES, BadLine
from lcm_mcp.transcript.importers.opencode_parts import Message, message_drafts, started_session
from lcm_mcp.transcript.importers.report import Entry, Event, Other, SessionFound, Trouble
from lcm_mcp.transcript.importers.whole import document_object, json_object
from lcm_mcp.transcript.model import Json

_SESSIONS = "SELECT id, parent_id, title, {directory} FROM session ORDER BY time_created, id"
# As bytes: what is no UTF-8 in them is for the reader of JSON.
_MESSAGES = """SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"""
_PARTS = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read all sessions of a database, or the one of a file; `session_key` overrides its own key, in a
    database that of the only session. Raises OSError."""
    with path.open("rb") as file:
        is_database = file.read(len(SIGNATURE)) == SIGNATURE
    if is_database:
        yield from _read_database(path, session_key)
        return
    found = document_object(path)
    document = None if isinstance(found, BadLine) else found.value["document"]
    if isinstance(found, BadLine):
        yield Trouble(1, found.problem)
    elif not is_document(document) or not isinstance(document, dict):
        yield Trouble(1, "it is no session")
    elif "info" in document:
        messages = (_exported(message) for message in list_of(document, "messages"))
        yield from _Reading(session_key).session(object_of(document, "info"), messages)
    else:
        yield from _Reading(session_key).session(document, _in_folder(path, text_of(document, "id") or ""))


def is_line(value: Block) -> bool:
    """Whether an object can only be of such a file: an export or a session's own record."""
    if "info" in value:
        return text_of(object_of(value, "info"), "id") is not None and isinstance(value.get("messages"), list)
    return (text_of(value, "id") or "").startswith("ses_") and "time" in value and "directory" in value


def is_document(document: Json) -> bool:
    return isinstance(document, dict) and is_line(document)


def is_database(tables: frozenset[str]) -> bool:
    return {"session", "message", "part", "project"} <= tables


def _read_database(path: Path, session_key: str | None) -> Iterator[Event]:
    reading = _Reading(session_key)
    try:
        with opened(path) as db:
            infos = _infos(db)
            if session_key is not None and len(infos) > 1:
                reading.wanted_key = None
            reading.infos = {text_of(info, "id") or "": info for info in infos}
            for info in infos:
                yield from reading.session(info, _in_database(db, text_of(info, "id") or ""))
    except OSError as error:
        if error.errno is not None:  # not of the database: it may be read later
            raise
        yield Trouble(reading.line, str(error))


def _infos(db: apsw.Connection) -> list[Block]:
    directory = "directory" if "directory" in columns_of(db, "session") else "NULL"
    rows = db.execute(_SESSIONS.format(directory=directory))
    return [
        {"id": _text(name), "parentID": _text(parent), "title": _text(title), "directory": _text(folder)}
        for name, parent, title, folder in rows
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _in_database(db: apsw.Connection, session: str) -> Iterator[Message]:
    for name, data in db.execute(_MESSAGES, (session,)):
        parts = [_named(part, content) for part, content in db.execute(_PARTS, (name,))]
        yield Message(_named(name, data), parts)


def _named(name: object, content: object) -> Block | None:
    value = json_object(content) if isinstance(content, bytes) else None
    return None if value is None else {**value, "id": _text(name)}


def _exported(message: Json) -> Message:
    found = message if isinstance(message, dict) else {}
    parts = [part if isinstance(part, dict) else None for part in list_of(found, "parts")]
    return Message(object_of(found, "info") or None, parts)


def _in_folder(path: Path, session: str) -> Iterator[Message]:
    """The messages of a session that are files of their own, beside the folder that its record is in."""
    storage = path.absolute().parent.parent.parent
    for info in _json_files(storage / "message" / session):
        name = text_of(info or {}, "id") or ""
        yield Message(info, list(_json_files(storage / "part" / name)) if _is_name(name) else [])


def _json_files(folder: Path) -> Iterator[Block | None]:
    if not _is_name(folder.name) or not folder.is_dir():
        return
    for path in sorted(folder.glob("*.json")):
        if path.stat().st_size <= MAX_LINE_BYTES:
            yield json_object(path.read_bytes())


def _is_name(name: str) -> bool:
    return bool(name) and name.replace("_", "").replace("-", "").isalnum()


@dataclass(slots=True)
class _Reading:
    """Sessions read so far; infos are all of a database, line counts messages."""

    wanted_key: str | None
    infos: dict[str, Block] = field(default_factory=dict[str, Block])
    named: set[str] = field(default_factory=set[str])
    line: int = 0

    def session(self, info: Block, messages: Iterable[Message]) -> Iterator[Event]:
        key = self.wanted_key or text_of(info, "id") or "opencode"
        last: str | None = None
        for message in messages:
            self.line += 1
            if message.info is None:
                yield Trouble(self.line, "a message cannot be read")
                continue
            drafts = message_drafts(message, f"line:{self.line}", last)
            if not drafts:
                yield Other(kind_of(message.first), self.line)
            if drafts and key not in self.named:
                yield self._found(key, info, None)
            for number, draft in enumerate(drafts):
                yield Entry(key, draft, self.line, more=number > 0)
            yield from self._started(message, key)
            last = drafts[-1].entry_id if drafts else last

    def _found(self, key: str, info: Block, opener: str | None) -> SessionFound:
        self.named.add(key)
        title, folder = title_of(text_of(info, "title")), text_of(info, "directory")
        return SessionFound(key, title, folder, text_of(info, "parentID"), opener)

    def _started(self, message: Message, key: str) -> Iterator[SessionFound]:
        """The subagents that a message's calls started, with the row of the call."""
        for part in message.parts:
            child = started_session(part or {})
            info = self.infos.get(child or "")
            if child is None or info is None or child in self.named or text_of(info, "parentID") != key:
                continue
            yield self._found(child, info, text_of(part or {}, "id"))
