"""Gemini CLI chats: the JSON lines of today, the one JSON document of before, and saved checkpoints.

A message is written again under its id as its calls are answered. So its text, each of its calls and each
result are entries of their own, and what was told already is passed over. A rewind makes a branch: what
follows it hangs under the row before the message it names. A document is written anew as the chat grows; a
prompt in it that follows another row than it did is a branch too. Notes of the client (info, warning, error)
are no messages and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.fields import (
    Remembering,
    first_objects,
    follow_lines,
    kind_of,
    list_of,
    object_of,
    plain_text,
    text_of,
    title_of,
)
from lcm_mcp.transcript.importers.gemini_parts import message_drafts, parts_of, saved_drafts
from lcm_mcp.transcript.importers.jsonl import BadLine, Object, Readable
from lcm_mcp.transcript.importers.report import (
    FROM_START,
    Entry,
    Event,
    Mark,
    Other,
    Resume,
    SessionFound,
    TakenBack,
    Trouble,
    without_marks,
)
from lcm_mcp.transcript.importers.whole import document_object
from lcm_mcp.transcript.importers.whole import is_document as begins_document
from lcm_mcp.transcript.model import BEGINNING, Draft, Json

NOTES = frozenset(("info", "warning", "error"))
_HEAD_BYTES = 4096
# How far back a rewind may lead, in messages, and a message may be written again, in entries.
_KEPT_MESSAGES = 2_000
_KEPT_ENTRIES = 400
_REMEMBERED = frozenset(("key", "parent", "project", "named", "last", "under", "order", "told"))


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a chat as events, lines in bounded memory; `session_key` overrides its own. Raises OSError."""
    with open_transcript(path) as file:
        head = file.read(_HEAD_BYTES)
        if begins_document(head):
            yield from _read_document(path, session_key)
            return
        file.seek(0)
        yield from without_marks(follow(path, file, session_key))


def follow(
    path: Path, file: Readable, session_key: str | None = None, resume: Resume = FROM_START
) -> Iterator[Event | Mark]:
    """The same of an open file of lines from where it was left, with a Mark after each line."""
    reading = _Reading(path, session_key)
    reading.remember(resume.memory)
    return follow_lines(reading, file, resume.place)


def is_line(value: Block) -> bool:
    """Whether an object can only be of such a file: its header, a message of the model, an edit of them."""
    if "$rewindTo" in value or isinstance(value.get("$set"), dict):
        return True
    if "sessionId" in value and "projectHash" in value:
        return True
    return kind_of(value) == "gemini" and "id" in value and "content" in value


def is_document(document: Json) -> bool:
    """Whether a document is a chat, or a checkpoint of one that was saved."""
    return (isinstance(document, dict) and is_line(document)) or _saved(document) is not None


@dataclass(slots=True)
class _Reading(Remembering):
    """What has to be remembered of earlier lines.

    order are the messages still there, each with its last entry; told the newest entries by what they said.
    last is the newest row of the path, under the row that the next one hangs under.
    """

    remembered = _REMEMBERED

    path: Path
    wanted_key: str | None
    key: str | None = None
    parent: str | None = None
    project: str | None = None
    named: bool = False
    last: str | None = None
    under: str | None = None
    order: list[list[str]] = field(default_factory=list[list[str]])
    told: dict[str, str] = field(default_factory=dict[str, str])
    spoken: bool = False

    def events(self, found: Object) -> Iterator[Event]:
        value = found.value
        target, changed = text_of(value, "$rewindTo"), object_of(value, "$set")
        if target is not None:
            yield Other("$rewindTo", found.line)
            yield from self._rewind(target)
        elif changed:
            yield Other("$set", found.line)
            yield from self._messages(list_of(changed, "messages"), found.line)
        elif "sessionId" in value and "type" not in value:
            self._meet(value)
            yield Other("header", found.line)
            yield from self._messages(list_of(value, "messages"), found.line)
        else:
            yield from self._message(value, found.line)

    # --- who it is

    def _meet(self, header: Block) -> None:
        if self.key is not None:
            return
        self.key = self.wanted_key or text_of(header, "sessionId")
        folders = [each for each in list_of(header, "directories") if isinstance(each, str)]
        self.project = _project(self.path) or next(iter(folders), None)
        # A subagent's chat is in a folder named by the session that started it.
        if header.get("kind") == "subagent" and self.path.parent.parent.name == "chats":
            self.parent = self.path.parent.name

    def _session(self, title: str | None) -> SessionFound:
        self.key = self.key or self.wanted_key or self.path.stem
        self.spoken = True
        if self.named:
            return SessionFound(self.key, None, None, self.parent)
        self.named = True
        return SessionFound(self.key, title or _title(self.path), self.project, self.parent)

    # --- rows

    def document(self, chat: Block) -> Iterator[Event]:
        """A chat in one piece."""
        self._meet(chat)
        for place, message in enumerate(list_of(chat, "messages"), 1):
            if isinstance(message, dict):
                yield from self._message(message, place)
            else:
                yield Trouble(place, "a message is no object")

    def _messages(self, messages: list[Json], line: int) -> Iterator[Event]:
        """All messages of a checkpoint in a line; the path goes on from the last of them."""
        for message in messages:
            found = self._message(message, line) if isinstance(message, dict) else ()
            for event in found:
                if not isinstance(event, Other):  # the line is counted
                    yield replace(event, more=True) if isinstance(event, Entry) else event
        last = messages[-1] if messages else None
        name = text_of(last, "id") if isinstance(last, dict) else None
        end = next((entry for known, entry in reversed(self.order) if known == name), None)
        if end is not None and end != self.last:
            self.under = end

    def _message(self, message: Block, line: int) -> Iterator[Event]:
        if kind_of(message) in NOTES:
            yield Other(kind_of(message), line)
            return
        name = text_of(message, "id")
        drafts = message_drafts(message, name or f"line:{line}")
        fresh = [draft for draft in drafts if self._is_fresh(draft)]
        if not fresh:
            yield Other("repeated", line)
            return
        if not self.spoken:
            yield self._session(title_of(plain_text(fresh[0].parts)) if fresh[0].role == "user" else None)
        before = self.last
        for number, draft in enumerate(fresh):
            placed = self._placed(draft, before)
            yield Entry(self.key or "", placed, line, None if name else line, more=number > 0)
        if name is not None:
            self.order = [each for each in self.order if each[0] != name][-_KEPT_MESSAGES:]
            self.order.append([name, self.last or ""])

    def _is_fresh(self, draft: Draft) -> bool:
        """Whether an entry says something that was not told under its id."""
        said = blake2b(repr(draft.parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        if self.told.get(draft.entry_id or "") == said:
            return False
        self.told[draft.entry_id or ""] = said
        while len(self.told) > _KEPT_ENTRIES:
            del self.told[next(iter(self.told))]
        return True

    def _placed(self, draft: Draft, before: str | None) -> Draft:
        under, self.under = self.under, None
        self.last = draft.entry_id
        prompt_under = before if draft.role == "user" and under is None else None
        return replace(draft, parent=under, prompt_under=prompt_under)

    def _rewind(self, target: str) -> Iterator[Event]:
        names = [name for name, _ in self.order]
        if target in names:
            place = names.index(target)
        elif len(names) < _KEPT_MESSAGES:
            place = 0  # as the client does
        else:
            return
        self.under = self.order[place - 1][1] if place else BEGINNING
        self.order = self.order[:place]
        if place and self.last is not None:
            if not self.spoken:
                yield self._session(None)
            yield TakenBack(self.key or "", self.last, self.under)
            self.last = self.under


def _read_document(path: Path, session_key: str | None) -> Iterator[Event]:
    found = document_object(path)
    if isinstance(found, BadLine):
        yield Trouble(1, found.problem)
        return
    if found.repaired:
        yield Trouble(1, "bytes that are no UTF-8 were replaced", "repaired")
    document = found.value["document"]
    saved = _saved(document)
    if saved is not None:
        yield from _read_saved(path, session_key, saved)
    elif isinstance(document, dict):
        yield from _Reading(path, session_key).document(document)
    else:
        yield Trouble(1, "it is no chat")


def _saved(document: Json) -> list[Json] | None:
    """The turns of a saved checkpoint, bare or with what else was saved."""
    turns = document.get("history") if isinstance(document, dict) else document
    if not isinstance(turns, list) or not turns:
        return None
    first = turns[0]
    return turns if isinstance(first, dict) and "role" in first and "parts" in first else None


def _read_saved(path: Path, session_key: str | None, turns: list[Json]) -> Iterator[Event]:
    """A checkpoint has neither a name nor ids: it is known by its file, its turns by their place."""
    drafts = saved_drafts(turns)
    title = next((title_of(plain_text(draft.parts)) for draft in drafts if draft.role == "user"), None)
    key = session_key or path.stem
    yield SessionFound(key, title, None, native_id=None if session_key else str(path.resolve()))
    for place, draft in enumerate(drafts, 1):
        yield Entry(key, draft, place, place)


def _project(path: Path) -> str | None:
    """The folder that a chat is about, where the client noted it beside its chats."""
    for above in path.parents[:3]:
        try:
            noted = (above / ".project_root").read_text("utf-8", "replace").strip()
        except OSError:
            continue
        return noted or None
    return None


def _title(path: Path) -> str | None:
    """What was first said by a person."""
    for found in first_objects(path):
        if kind_of(found.value) == "user":
            title = title_of(plain_text(parts_of(found.value.get("content"))))
            if title is not None:
                return title
    return None
