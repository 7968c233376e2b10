"""Codex rollouts: a line that the model was sent or answered is one draft, in the order of the file.

What Codex notes beside them for its own screen repeats them and is not stored; only a prompt that stands
nowhere else is. A roll-back makes a branch: what follows it hangs under the row before the turns it took
back. A compaction's text is kept off the path, and what it keeps of earlier rows is not stored again. A fork
replays its parent's rows and has them as its own; a subagent's replay is its parent's and is passed over.
Items have no ids of their own: an entry is known by its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers import codex_items
from lcm_mcp.transcript.importers.codex_items import item_draft, prompt_of
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.fields import (
    Remembering,
    first_text,
    follow_lines,
    kind_of,
    object_of,
    place_name,
    plain_text,
    text_of,
    title_of,
)
from lcm_mcp.transcript.importers.jsonl import Object, Readable
from lcm_mcp.transcript.importers.report import (
    FROM_START,
    Entry,
    Event,
    Mark,
    Other,
    Resume,
    SessionFound,
    TakenBack,
    without_marks,
)
from lcm_mcp.transcript.model import BEGINNING, Draft, Json, Reasoning, ToolCall

_RECORDS = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted"))
# Turns of more than this many lie too far back to be taken back.
_KEPT_TURNS = 2_000
_UUID7_MARK = 14
_TURN_BEGINS = ("task_started", "turn_started")
_REMEMBERED = frozenset(
    (
        *("key", "own", "project", "parent", "forked", "named", "last", "under", "turns"),
        *("told", "twin", "mute", "replayed", "spawning"),
    )
)


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a rollout as events, in bounded memory; `session_key` overrides its own. Raises OSError."""
    with open_transcript(path) as file:
        yield from without_marks(follow(path, file, session_key))


def follow(
    path: Path, file: Readable, session_key: str | None = None, resume: Resume = FROM_START
) -> Iterator[Event | Mark]:
    """The same of an open file from where it was left, with a Mark after each line."""
    reading = _Reading(path, session_key)
    reading.remember(resume.memory)
    return follow_lines(reading, file, resume.place)


def is_line(value: Block) -> bool:
    """Whether an object can only be a line of a rollout: a record, or the header that old ones begin with."""
    if kind_of(value) in _RECORDS:
        return isinstance(value.get("payload"), dict)
    return "type" not in value and "instructions" in value and "timestamp" in value and "id" in value


@dataclass(slots=True)
class _Reading(Remembering):
    """What has to be remembered of earlier lines.

    own is the session's id in its file. last is the newest row, under the row that the next one hangs under,
    turns those before each prompt that is still there, oldest first. told are the prompts right before this
    line, twin one that stood in a note alone; mute means the last row was reasoning that cannot be read.
    replayed: up to when (milliseconds) turns are the parent's, None where lines are the session's own.
    """

    remembered = _REMEMBERED

    path: Path
    wanted_key: str | None
    key: str | None = None
    own: str | None = None
    project: str | None = None
    parent: str | None = None
    forked: bool = False
    named: bool = False
    last: str | None = None
    under: str | None = None
    turns: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    twin: str | None = None
    mute: bool = False
    replayed: int | None = None
    spawning: dict[str, str] = field(default_factory=dict[str, str])
    spoken: bool = False

    def events(self, found: Object) -> Iterator[Event]:
        """What a line means; lines of old rollouts are the items themselves."""
        value, kind = found.value, kind_of(found.value)
        payload = object_of(value, "payload")
        if kind == "session_meta" or (kind == "unknown" and is_line(value)):
            yield self._meta(payload or value, found.line)
            return
        self._note_turn(payload)
        if self.replayed is not None:
            yield Other("replayed", found.line)
        elif kind == "event_msg":
            yield from self._event(payload, found)
        elif kind == "compacted":
            yield from self._row(codex_items.compacted_draft(payload), found)
        elif kind == "response_item":
            yield from self._item(payload, found)
        elif kind in codex_items.KINDS and "payload" not in value:
            yield from self._item(value, found)
        else:
            yield Other(kind, found.line)

    # --- who it is

    def _meta(self, meta: Block, line: int) -> Other:
        """The first such line tells the session; a second one is its parent's, and a replay follows it."""
        own = text_of(meta, "id")
        if self.key is None:
            self.key = self.wanted_key or own or self.path.stem
            self.project = text_of(meta, "cwd")
            spawned = _spawned_by(meta)
            self.parent = spawned or _forked_from(meta)
            self.forked = spawned is None and self.parent is not None
            self.own = own
        elif self.parent is not None and not self.forked and own == self.parent and self.last is None:
            self.replayed = _minted(self.own or "")
        return Other("session_meta", line)

    def _note_turn(self, payload: Block) -> None:
        """A turn of the session's own, told by when its id was made, ends the replay; so does one that has no
        id, since its rows could be the session's own and would be lost."""
        if self.replayed is None:
            return
        turn = text_of(payload, "turn_id")
        if turn is None and kind_of(payload) not in _TURN_BEGINS:
            return
        minted = None if turn is None else _minted(turn)
        if minted is None or minted >= self.replayed:
            self.replayed = None

    def _session(self) -> SessionFound:
        if self.key is None:  # a rollout whose beginning is missing
            self.key = self.wanted_key or self.path.stem
        self.spoken = True
        link = "fork" if self.forked else "child"
        if self.named:
            return SessionFound(self.key, None, None, self.parent, link=link)
        self.named = True
        title = first_text(self.path, _said)
        return SessionFound(self.key, title, self.project, self.parent, link=link)

    # --- rows

    def _item(self, item: Block, found: Object) -> Iterator[Event]:
        kind, prompt = kind_of(item), prompt_of(item)
        if kind in codex_items.UNSTORED or (prompt is not None and prompt == self.twin):
            self.twin = None
            yield Other(kind, found.line)
            return
        draft = item_draft(item)
        for part in draft.parts:
            if isinstance(part, ToolCall) and part.name == "spawn_agent":
                self.spawning[part.call_id] = place_name(found)
        yield from self._row(draft, found, prompt)
        self.told = [*self.told[-3:], plain_text(draft.parts)] if draft.role == "user" else []
        self.twin = None
        self.mute = any(isinstance(part, Reasoning) and not part.text for part in draft.parts)

    def _event(self, note: Block, found: Object) -> Iterator[Event]:
        """Something that was shown: a row where no other line tells it."""
        kind, draft, prompt = kind_of(note), None, None
        match kind:
            case "thread_rolled_back":
                yield from self._roll_back(note.get("num_turns"))
            case "user_message":
                prompt = text_of(note, "message")
                if prompt is not None and not any(prompt.strip() in text for text in self.told):
                    draft, self.twin = codex_items.prompt_draft(note), prompt
            case "agent_reasoning_raw_content":
                text = text_of(note, "text")
                draft = Draft("assistant", (Reasoning(text),)) if self.mute and text else None
            case "collab_agent_spawn_end":
                yield from self._spawned(note)
            case _:
                pass
        if draft is None:
            yield Other(kind, found.line)
        else:
            yield from self._row(draft, found, prompt)

    def _row(self, draft: Draft, found: Object, prompt: str | None = None) -> Iterator[Event]:
        if not self.spoken:
            yield self._session()
        named = place_name(found)
        if prompt is not None:
            self.turns = [*self.turns[-_KEPT_TURNS:], self.under or self.last or BEGINNING]
        draft = replace(
            draft,
            entry_id=named,
            at=read_instant(found.value.get("timestamp")),
            parent=self.under if draft.active else None,
        )
        if draft.active:
            self.last, self.under = named, None
        yield Entry(self.key or "", draft, found.line, found.line)

    def _roll_back(self, turns: Json) -> Iterator[Event]:
        if not isinstance(turns, int) or isinstance(turns, bool) or turns < 1 or not self.turns:
            return
        self.under = self.turns[-turns:][0]
        del self.turns[-turns:]
        self.told.clear()
        if self.under != BEGINNING and self.last is not None:
            if not self.spoken:
                yield self._session()
            yield TakenBack(self.key or "", self.last, self.under)
            self.last = self.under

    # --- subagents

    def _spawned(self, payload: Block) -> Iterator[SessionFound]:
        """A subagent's session, with the row that started it; its own file tells the rest."""
        child = text_of(payload, "new_thread_id")
        opener = self.spawning.pop(text_of(payload, "call_id") or "", None)
        if child is not None and opener is not None and child != self.key:
            yield SessionFound(child, title_of(text_of(payload, "prompt")), self.project, self.key, opener)


def _spawned_by(meta: Block) -> str | None:
    """The session that started this one as its subagent."""
    subagent = object_of(object_of(meta, "source"), "subagent")
    parent = text_of(object_of(subagent, "thread_spawn"), "parent_thread_id")
    if parent is None and (subagent or text_of(meta, "thread_source") == "subagent"):
        parent = text_of(meta, "parent_thread_id") or text_of(meta, "forked_from_id")
    return parent if parent != text_of(meta, "id") else None


def _forked_from(meta: Block) -> str | None:
    """The session that this one is a fork of."""
    parent = text_of(meta, "forked_from_id")
    return parent if parent != text_of(meta, "id") else None


def _minted(uuid: str) -> int | None:
    """When an id of the seventh version was made, in milliseconds; None for any other."""
    digits = uuid.replace("-", "")
    if len(digits) != 32 or uuid[_UUID7_MARK : _UUID7_MARK + 1] != "7":
        return None
    try:
        return int(digits[:12], 16)
    except ValueError:
        return None


def _said(value: Block) -> str | None:
    """What a person wrote in this line, None where nobody did."""
    item = object_of(value, "payload") or value
    if kind_of(value) == "event_msg":
        return text_of(item, "message") if kind_of(item) == "user_message" else None
    return prompt_of(item)
