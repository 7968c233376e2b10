"""Claude Code session files: a line that carries a message is one draft, in the order of the file.

The order of lines is the order of the conversation. parentUuid is not used to reorder or to drop:
after a compaction, an interrupt or a resume it leads nowhere, and following it would lose most of a
long session. It is followed among sidechain lines, to tell one subagent from another; each becomes a
child session. Of a user's prompt it is told, so that a second one under the same row makes a branch.
All other messages of a file are one session, whatever sessionId they bear, so a fork has the rows that it
replays as its own. A prompt that waited in the queue is a message once it was given to the model, also where
only the notes of the queue tell of it. Envelopes, toolUseResult (the message's content again) and other lines
without a message are not stored.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import cast

from lcm_mcp.transcript.blocks import Block, parse_content
from lcm_mcp.transcript.entries import read_instant
from lcm_mcp.transcript.importers.claude_companions import has_subagent, queued_prompt, whole_results
from lcm_mcp.transcript.importers.claude_queue import Queue
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.fields import (
    first_objects,
    follow_lines,
    kind_of,
    object_of,
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
    without_marks,
)
from lcm_mcp.transcript.model import Draft, Json, JsonObject, Opaque, Part, Role, Text, ToolCall, ToolResult

_MESSAGE_TYPES = ("user", "assistant")
_SUBAGENT_TOOLS = ("Task", "Agent")
_KEY_CHARACTERS = 8
# What the client writes into user messages by itself: no title for a person to recognise.
_MACHINE_TEXT = ("<", "Caveat:", "[Request interrupted")


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a session file as events, in bounded memory; `session_key` overrides the file's own.

    The title comes from the first lines: a summary of one of them, else what the user first wrote.
    Raises OSError.
    """
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
    """Whether an object can only be a line of such a file: a message, or a record of its client."""
    kind = value.get("type")
    if kind in _MESSAGE_TYPES:
        return "message" in value and "role" not in value
    marks = {"summary": "leafUuid", "file-history-snapshot": "snapshot", "queue-operation": "operation"}
    if isinstance(kind, str) and kind in marks:
        return marks[kind] in value
    return kind in ("system", "progress") and "parentUuid" in value


@dataclass(slots=True)
class _Reading:
    """What has to be remembered of earlier lines: keys, sidechains by uuid, and open Task calls.

    openers knows a prompt by its digest; named are the sessions spoken of in this reading.
    """

    path: Path
    wanted_key: str | None
    main_key: str | None = None
    main_found: bool = False
    parent: str | None = None
    last_main_id: str | None = None
    by_uuid: dict[str, str] = field(default_factory=dict[str, str])
    by_agent: dict[str, str] = field(default_factory=dict[str, str])
    taken: set[str] = field(default_factory=set[str])
    openers: defaultdict[str, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    beside: dict[str, str] = field(default_factory=dict[str, str])
    calls: dict[str, str] = field(default_factory=dict[str, str])
    queue: Queue = field(default_factory=Queue)
    last_message: str | None = None
    named: set[str] = field(default_factory=set[str])

    def memory(self) -> dict[str, Json]:
        """All of it but what a reading begins with."""
        rows: dict[str, Json] = {}
        for uuid, key in self.by_uuid.items():
            cast("list[Json]", rows.setdefault(key, [])).append(uuid)
        return {
            "main": self.main_key,
            "found": self.main_found,
            "parent": self.parent,
            "last": self.last_main_id,
            "sidechains": rows,
            "agents": dict(self.by_agent),
            "openers": {prompt: list(ids) for prompt, ids in self.openers.items() if ids},
            "beside": dict(self.beside),
            "calls": dict(self.calls),
            "queue": self.queue.memory(),
            "message": self.last_message,
        }

    def remember(self, memory: JsonObject) -> None:
        """Go on from what another reading of the same file remembered."""
        if not memory:
            return
        self.main_key, self.last_main_id = text_of(memory, "main"), text_of(memory, "last")
        self.main_found, self.parent = memory["found"] is True, text_of(memory, "parent")
        rows = cast("dict[str, list[str]]", memory["sidechains"])
        self.by_uuid = {uuid: key for key, uuids in rows.items() for uuid in uuids}
        self.by_agent = dict(cast("dict[str, str]", memory["agents"]))
        self.taken = {*rows, *self.by_agent.values()}
        for prompt, ids in cast("dict[str, list[str]]", memory["openers"]).items():
            self.openers[prompt].extend(ids)
        self.beside = dict(cast("dict[str, str]", memory["beside"]))
        self.calls = dict(cast("dict[str, str]", memory.get("calls", {})))  # older memories have none
        self.queue.remember(memory.get("queue"))
        self.last_message = text_of(memory, "message")

    def events(self, found: Object) -> Iterator[Event]:
        value = found.value
        if value.get("type") not in _MESSAGE_TYPES:
            prompt = queued_prompt(value)
            if prompt is None:
                self._pass_by(value, found.line)
                yield Other(kind_of(value), found.line)
                return
            value = prompt
        draft = self._draft(value, found)
        entry_id = draft.entry_id or ""
        ordinal = None if text_of(value, "uuid") else found.line
        if self.main_key is None:
            self.main_key = self.wanted_key or text_of(value, "sessionId") or self.path.stem
        if value.get("isSidechain") is True:
            key = self._known_sidechain(value)
            if key is None:
                key = self._new_sidechain(value, entry_id)
                yield self._sidechain_found(key, self.main_key, value, draft)
            elif key not in self.named:
                yield SessionFound(key, None, None, self.main_key)
            self.by_uuid[entry_id] = key
        else:
            key = self.main_key
            if key not in self.named:
                yield self._main_found(key, value, draft)
            yield from self._queued(key, draft, found.line)
            self._note_main(draft, entry_id)
            draft = self._hung(value, draft)
        self.named.add(key)
        yield Entry(key, draft, found.line, ordinal)
        yield from self._subagents_beside(value, draft)

    def _draft(self, value: Block, found: Object) -> Draft:
        message = value.get("message")
        return Draft(
            role=_role(value, message),
            parts=whole_results(self.path, _parts(value, message)),
            entry_id=text_of(value, "uuid") or f"line:{found.line}",
            message_id=text_of(message, "id") if isinstance(message, dict) else None,
            at=read_instant(value.get("timestamp")),
            active=value.get("isCompactSummary") is not True,
        )

    def _queued(self, key: str, draft: Draft, line: int) -> Sequence[Entry]:
        """Before the model goes on, the prompts that it was given and that no message has told."""
        if draft.role == "user":
            if self.queue.waiting or self.queue.given:
                self.queue.tell(plain_text(draft.parts))
            return ()
        last, self.last_message = self.last_message, draft.message_id
        if last is not None and last == draft.message_id:
            return ()
        return [Entry(key, given.draft(), line, given.line, queued=True) for given in self.queue.untold()]

    def _subagents_beside(self, value: Block, draft: Draft) -> Iterator[SessionFound]:
        """The subagent whose outcome a row tells, where it has a file of its own, and the row of its call."""
        if not self.calls:
            return
        for part in draft.parts:
            opener = self.calls.pop(part.call_id, None) if isinstance(part, ToolResult) else None
            agent = None if opener is None else text_of(object_of(value, "toolUseResult"), "agentId")
            if agent is not None and has_subagent(self.path, agent):
                yield SessionFound(f"{self.main_key}/{agent}", None, None, self.main_key, opener)

    def _main_found(self, key: str, value: Block, draft: Draft) -> SessionFound:
        """The session of the file, which may begin as a fork of another."""
        title, project = None, None
        if not self.main_found:
            self.main_found = True
            parent = text_of(object_of(value, "forkedFrom"), "sessionId")
            self.parent = None if parent == key else parent
            title = _title(self.path) or title_of(plain_text(draft.parts))
            project = text_of(value, "cwd")
        return SessionFound(key, title, project, self.parent, link="fork" if self.parent else "child")

    def _note_main(self, draft: Draft, entry_id: str) -> None:
        self.last_main_id = entry_id
        for part in draft.parts:
            if isinstance(part, ToolCall) and part.name in _SUBAGENT_TOOLS:
                self.calls[part.call_id] = entry_id
                if prompt := _subagent_prompt(part):
                    self.openers[_digest(prompt)].append(entry_id)

    def _pass_by(self, value: Block, line: int) -> None:
        """Remember what a line that is not stored hangs under: a prompt may hang under that line."""
        if kind_of(value) == "queue-operation":
            self.queue.note(value, line)
        uuid, parent = text_of(value, "uuid"), text_of(value, "parentUuid")
        if uuid is not None and parent is not None:
            self.beside[uuid] = self.beside.get(parent, parent)

    def _hung(self, value: Block, draft: Draft) -> Draft:
        """A user's prompt with the stored line that it hangs under; any other line as it is."""
        if draft.role != "user" or not draft.active or value.get("isMeta") is True:
            return draft
        if any(isinstance(part, ToolResult) for part in draft.parts):
            return draft
        parent = text_of(value, "parentUuid")
        return draft if parent is None else replace(draft, prompt_under=self.beside.get(parent, parent))

    def _sidechain_found(self, key: str, main: str, value: Block, draft: Draft) -> SessionFound:
        text = plain_text(draft.parts)
        return SessionFound(key, title_of(text), text_of(value, "cwd"), main, self._opener(text))

    def _known_sidechain(self, value: Block) -> str | None:
        agent = text_of(value, "agentId")
        if agent is not None:
            return self.by_agent.get(agent)
        return self.by_uuid.get(text_of(value, "parentUuid") or "")

    def _new_sidechain(self, root: Block, identity: str) -> str:
        agent = text_of(root, "agentId")
        key = f"{self.main_key}/{agent or identity[:_KEY_CHARACTERS]}"
        if key in self.taken:  # another root begins with the same characters
            key = f"{self.main_key}/{identity}"
        self.taken.add(key)
        if agent is not None:
            self.by_agent[agent] = key
        return key

    def _opener(self, text: str) -> str | None:
        """The row whose Task call bears the sidechain's first text; each call opens one sidechain."""
        waiting = self.openers.get(_digest(text.strip()))
        return waiting.popleft() if waiting else self.last_main_id


def _digest(prompt: str) -> str:
    return blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _role(value: Block, message: Json) -> Role:
    said = message.get("role") if isinstance(message, dict) else None
    kind = said if said in _MESSAGE_TYPES else value.get("type")
    return "assistant" if kind == "assistant" else "user"


def _parts(value: Block, message: Json) -> tuple[Part, ...]:
    """The message's content; a message of another shape whole, and without one the line itself."""
    if isinstance(message, dict) and "content" in message:
        return parse_content(message["content"])
    if isinstance(message, (str, list)):
        return parse_content(message)
    return (Opaque(value if message is None else message),)


def _subagent_prompt(part: ToolCall) -> str | None:
    prompt = part.arguments.get("prompt") if isinstance(part.arguments, dict) else None
    return prompt.strip() if isinstance(prompt, str) else None


def _title(path: Path) -> str | None:
    """The title that the file's first objects give, None where they give none."""
    summaries: list[tuple[str, str]] = []
    seen: set[str] = set()
    first_text: str | None = None
    for found in first_objects(path):
        value = found.value
        seen.add(text_of(value, "uuid") or "")
        if value.get("type") == "summary":
            summaries.append((text_of(value, "leafUuid") or "", text_of(value, "summary") or ""))
        elif not first_text:
            first_text = _user_text(value)
    # The client also notes summaries of other sessions here: those of a line of this one come first.
    own = [text for leaf, text in summaries if leaf in seen]
    candidates = [*reversed(own), first_text or "", *(text for _, text in summaries)]
    return next((title for title in map(title_of, candidates) if title), None)


def _user_text(value: Block) -> str | None:
    """What a person wrote in this line, None where nobody did."""
    message = value.get("message")
    if value.get("type") != "user" or not isinstance(message, dict):
        return None
    if any(value.get(mark) is True for mark in ("isSidechain", "isMeta", "isCompactSummary")):
        return None
    texts = (part.text for part in parse_content(message.get("content")) if isinstance(part, Text))
    return next((text for text in texts if text and not text.lstrip().startswith(_MACHINE_TEXT)), None)
