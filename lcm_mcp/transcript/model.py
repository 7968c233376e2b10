"""The values of a transcript: parts, drafts, rows.

A row's content is an ordered tuple of parts, in no provider's form: importers and tools translate
into these once, wire formats translate out of them. Nothing here touches a database, and nothing
here drops what it does not know: an unknown block is an Opaque part, an unknown field goes to `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from lcm_mcp.ids import FileId, Seq, TextId
from lcm_mcp.tokens import Size
from lcm_mcp.values import frozen

Role = Literal["user", "assistant", "tool", "system"]
ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "system")

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = Mapping[str, Json]

BEGINNING = "e0"
"""As a draft's parent: it follows no row, whatever stands there already."""


def _nothing() -> JsonObject:
    return {}


@frozen
class Text:
    text: str
    extra: JsonObject = field(default_factory=_nothing)


@frozen
class Reasoning:
    """A model's reasoning; its signature, where it has one, is in extra["signature"]."""

    text: str
    extra: JsonObject = field(default_factory=_nothing)


@frozen
class Image:
    """An image by content: `data` are its raw bytes (never base64), None where they were not loaded."""

    media_type: str
    sha256: str
    size_bytes: int
    width: int | None
    height: int | None
    data: bytes | None = field(default=None, repr=False)
    extra: JsonObject = field(default_factory=_nothing)


@frozen
class Opaque:
    """A block of a type we do not interpret (documents, server tool blocks …), kept verbatim."""

    raw: Json

    @property
    def kind(self) -> str:
        """The block's own word for its type, or "unknown"."""
        kind = self.raw.get("type") if isinstance(self.raw, dict) else None
        return kind if isinstance(kind, str) else "unknown"


@frozen
class ToolCall:
    """A model's call; `arguments` is the JSON object sent, or the raw string where it was not JSON."""

    call_id: str
    name: str
    arguments: Json
    extra: JsonObject = field(default_factory=_nothing)


ResultPart = Text | Image | Opaque


@frozen
class ToolResult:
    call_id: str
    content: tuple[ResultPart, ...]
    is_error: bool = False
    extra: JsonObject = field(default_factory=_nothing)


Part = Text | Reasoning | ToolCall | ToolResult | Image | Opaque


@frozen
class Draft:
    """An entry on its way into a transcript, not yet numbered.

    entry_id is the source's own identity (None: the caller has none and a repeat is a new row);
    message_id is shared by the lines of one model message; at is milliseconds since 1970 UTC.
    An inactive draft is kept and readable but stands off the active path. A pinned one is marked to be
    quoted later; the mark is no content, so it never tells two drafts apart, and neither is any link.

    parent is the row it follows, by entry_id or address (None: the one before it); branch: right after it,
    even where rows of one message and what answers them would stay together. prompt_under is the
    entry_id that a source has a prompt under: a second prompt under one row makes a branch. outcome_of is
    the session, started from this one, whose outcome it tells.
    """

    role: Role
    parts: tuple[Part, ...]
    entry_id: str | None = None
    message_id: str | None = None
    at: int | None = None
    active: bool = True
    pin: bool = False
    parent: str | None = None
    branch: bool = False
    prompt_under: str | None = None
    outcome_of: str | None = None


@frozen
class Sealed:
    """A draft made ready outside any transaction: what the row will store, and what it weighs.

    text is the derived text; payload holds what the text alone cannot give back (None: nothing): together
    they are the draft's parts. digest tells same content from other content under one entry_id; calls and
    results are the ids of its tool calls and of those that it answers, in order. The rest is the draft's.
    """

    role: Role
    text: str
    payload: bytes | None
    size: Size
    images: tuple[Image, ...]
    digest: bytes
    calls: tuple[str, ...]
    results: tuple[str, ...]
    entry_id: str | None
    message_id: str | None
    at: int | None
    active: bool
    pin: bool
    parent: str | None
    branch: bool
    prompt_under: str | None
    outcome_of: str | None


@frozen
class RowMark:
    """A row's place and weight, without its content: what planning and paging work on.

    unit and round are the first seq of the unit and the round the row belongs to, as known when it
    was appended; a later answer to an earlier call may join units (see units.py). before is the
    weight of the path before this row, upto includes it.
    """

    seq: Seq
    prev: Seq
    unit: Seq
    round: Seq
    role: Role
    before: Size
    upto: Size

    @property
    def size(self) -> Size:
        return self.upto - self.before


@frozen
class File:
    """A large tool result whose call named a path, without its body.

    part is its place among the row's parts; its body is the row's text from start on, so many characters
    long, and content the SHA-256 of that. kind, summary and head are what exploring it found.
    """

    id: FileId
    seq: Seq
    part: int
    path: str
    kind: str
    content: str
    summary: str
    head: str
    start: int
    characters: int


@frozen
class Row:
    """A stored row whole. parts carry image bytes only where the reader asked for them.

    files are given where a reader asked for descriptors; text and parts then hold those in place of bodies.
    """

    seq: Seq
    role: Role
    at: int
    entry_id: str | None
    message_id: str | None
    text_id: TextId
    text: str
    parts: tuple[Part, ...]
    files: tuple[File, ...] = ()
