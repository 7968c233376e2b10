"""Cursor's conversations, from its state database (state.vscdb): read only, and all of them.

A conversation lists its messages ("bubbles"), which are records of their own or, in old ones, stand in the
list. The list tells the order and what is still there. A bubble's thinking and text are one entry, its call
another, the call's result a third. A prompt that stands under another row than it did makes a branch: Cursor
drops what comes after a prompt that is written anew. A database cannot be read on from a place: it is
imported again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.databases import SIGNATURE, opened
from lcm_mcp.transcript.importers.fields import list_of, object_of, text_of, title_of, without
from lcm_mcp.transcript.importers.report import Entry, Event, Other, SessionFound, Trouble
from lcm_mcp.transcript.importers.whole import json_object
from lcm_mcp.transcript.model import Draft, Json, Opaque, Part, Reasoning, Text, ToolCall, ToolResult

_PREFIX = "composerData:"
_KEYS = """SELECT CAST(key AS BLOB) FROM cursorDiskKV
    WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"""
_VALUE = "SELECT CAST(value AS BLOB) FROM cursorDiskKV WHERE key = ?"
_TABLE = "cursorDiskKV"
_USER = 1


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read all conversations; `session_key` overrides the key of the only one. Raises OSError."""
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            yield Trouble(1, "it is no database")
            return
    place = 0
    try:
        with opened(path) as db:
            names = [key.decode("utf-8", "replace") for (key,) in db.execute(_KEYS) if isinstance(key, bytes)]
            wanted = session_key if len(names) == 1 else None
            for name in names:
                for event in _conversation(db, name, wanted, place):
                    if isinstance(event, (Entry, Other, Trouble)):
                        place = max(place, event.line)
                    yield event
    except OSError as error:
        if error.errno is not None:  # not of the database: it may be read later
            raise
        yield Trouble(place, str(error))


def is_line(value: Block) -> bool:
    """No line is of this format."""
    return False


def is_database(tables: frozenset[str]) -> bool:
    return _TABLE in tables


def _conversation(db: apsw.Connection, name: str, wanted: str | None, place: int) -> Iterator[Event]:
    """A conversation's events; its messages are counted on from `place`."""
    composer = name.removeprefix(_PREFIX)
    data = _value(db, name)
    if data is None:
        yield Trouble(place + 1, "a conversation cannot be read")
        return
    key, named, last = wanted or composer, False, None
    for bubble in _bubbles(db, composer, data):
        place += 1
        if bubble is None:
            yield Trouble(place, "a message is missing or cannot be read")
            continue
        drafts = _drafts(bubble, f"{composer}/{place}", last)
        if not drafts:
            yield Other("empty", place)
            continue
        if not named:
            yield _session(key, data)
            named = True
        for number, draft in enumerate(drafts):
            yield Entry(key, draft, place, more=number > 0)
        last = drafts[-1].entry_id


def _session(key: str, data: Block) -> SessionFound:
    parent = text_of(object_of(data, "subagentInfo"), "parentComposerId")
    folder = text_of(object_of(object_of(data, "workspaceIdentifier"), "uri"), "fsPath")
    return SessionFound(key, title_of(text_of(data, "name")), folder, None if parent == key else parent)


def _bubbles(db: apsw.Connection, composer: str, data: Block) -> Iterator[Block | None]:
    for bubble in list_of(data, "conversation"):
        yield bubble if isinstance(bubble, dict) else None
    for header in list_of(data, "fullConversationHeadersOnly"):
        name = text_of(header, "bubbleId") if isinstance(header, dict) else None
        bubble = None if name is None else _value(db, f"bubbleId:{composer}:{name}")
        yield None if bubble is None else {**bubble, "bubbleId": name}


def _value(db: apsw.Connection, key: str) -> Block | None:
    content: object = db.execute(_VALUE, (key.encode("utf-8", "replace").decode(),)).get
    return json_object(content) if isinstance(content, bytes) else None


def _drafts(bubble: Block, place: str, before: str | None) -> list[Draft]:
    """A bubble's drafts; `place` names it where it has no id, `before` is the newest row before it."""
    name, at = text_of(bubble, "bubbleId") or place, read_instant(bubble.get("createdAt"))
    text = text_of(bubble, "text")
    if bubble.get("type") == _USER:
        return [Draft("user", (Text(text),), name, name, at, prompt_under=before)] if text else []
    thinking = object_of(bubble, "thinking")
    thought = text_of(thinking, "text")
    said: list[Part] = [] if thought is None else [Reasoning(thought, without(thinking, "text"))]
    if text is not None:
        said.append(Text(text))
    drafts = [Draft("assistant", tuple(said), name, name, at)] if said else []
    call = object_of(bubble, "toolFormerData")
    return drafts + (_call_drafts(call, name, at) if call else [])


def _call_drafts(call: Block, name: str, at: int | None) -> list[Draft]:
    call_id, tool = text_of(call, "toolCallId") or name, text_of(call, "name")
    if tool is None:
        return [Draft("assistant", (Opaque(call),), f"{name}/call", name, at)]
    asked = ToolCall(call_id, tool, _arguments(call.get("rawArgs") or call.get("params")))
    drafts = [Draft("assistant", (asked,), f"{name}/call", name, at)]
    result, status = call.get("result"), text_of(call, "status")
    if result is None and status not in ("completed", "error", "cancelled"):
        return drafts
    content = () if result is None else (Text(result) if isinstance(result, str) else Opaque(result),)
    answer = ToolResult(call_id, content, status in ("error", "cancelled"), {"name": tool})
    return [*drafts, Draft("tool", (answer,), f"{name}/result")]


def _arguments(arguments: Json) -> Json:
    """The object that a call's text holds, or what stands there."""
    if not isinstance(arguments, str):
        return arguments
    return json_object(arguments.encode("utf-8", "replace")) or arguments
