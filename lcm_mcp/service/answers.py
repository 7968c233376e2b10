"""What the use cases answer: plain frozen values, one shape for tools, command line and JSON.

Addresses, times (ISO 8601, UTC) and cursors are strings here, ready to be shown; sizes are tokens
by our own estimate unless the name says bytes or characters. Every field is present in every answer;
what does not apply is null. behind tells of followed files that have more to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from lcm_mcp.transcript.importers.report import ImportReport
from lcm_mcp.transcript.model import Json, Role
from lcm_mcp.values import frozen

Status = Literal["not_needed", "compacted", "scheduled", "limited", "unknown_window", "failed"]
"""How a preparation went. scheduled: a compaction is not at its end yet; it goes on beside the requests, or
with the next call."""
Strategy = Literal["rolling", "lcm", "none"]
Format = Literal["messages", "anthropic", "openai", "text"]


@frozen
class SessionLine:
    """One stored session; parent is the key of the session it belongs to, with the link's kind.

    opener is the row of the parent that it starts from, outcome the one that tells what came of it.
    """

    id: str
    key: str
    title: str | None
    project: str | None
    source: str
    rows: int
    tokens: int
    nodes: int
    strategy: Strategy
    parent: str | None
    link: Literal["fork", "child"] | None
    opener: str | None
    outcome: str | None
    first_at: str | None
    last_at: str | None


@frozen
class SessionPage:
    """scope says whose sessions were looked at: a project's or the whole store's."""

    scope: str
    sessions: tuple[SessionLine, ...]
    total: int
    next_cursor: str | None
    note: str | None
    behind: str | None = None


@frozen
class NodeLine:
    """One node; span is its first and last row, preview at most 200 characters of its summary.

    removed: its rows are off the active path, so no request shows it until they are back.
    """

    id: str
    depth: int
    span: tuple[str, str]
    rows: int
    tokens: int
    source_tokens: int
    level: int
    frontier: bool
    removed: bool
    preview: str
    made_at: str


@frozen
class NodePage:
    """Nodes in the order of the rows they cover, a parent before its children.

    covered_end is the last row under the frontier, leaf the session's last row: what lies between has
    no summary yet. note says how to make nodes where there are none.
    """

    session: str
    nodes: tuple[NodeLine, ...]
    total: int
    covered_end: str | None
    leaf: str | None
    next_cursor: str | None
    note: str | None
    behind: str | None = None


@frozen
class Hit:
    """One row or summary that matches; offset is the match's first character in its text."""

    ref: str
    kind: Literal["row", "summary"]
    session: str
    role: Role | None
    at: str
    snippet: str
    offset: int
    node: str | None
    removed: bool
    also: tuple[str, ...]


@frozen
class HitPage:
    """Hits in one order; total where the search came to its end, else at_least so many.

    complete is false where a deadline ended the search early, with the reason; searched says in
    words what was looked through. A literal search without a hit offers near hits instead: rows
    that hold all its words, which are not matches of the pattern.
    """

    scope: str
    hits: tuple[Hit, ...]
    near: tuple[Hit, ...]
    total: int | None
    at_least: int
    complete: bool
    reason: str | None
    searched: str
    next_cursor: str | None
    behind: str | None = None


@frozen
class TierLine:
    """A tier, and what the answers cost that it took; usd is null where no price is known."""

    kind: Literal["primary", "rich"]
    tokens: int
    level: int
    model: str
    cost_tokens: int
    cost_usd: float | None


@frozen
class FileLine:
    """A large tool result whose call named a path, in a line: summary says what is in it."""

    id: str
    ref: str
    path: str
    kind: str
    characters: int
    summary: str


@frozen
class SupersededLine:
    """A text that a node had before it was made again; requests show it until the next cut."""

    superseded_at: str
    tokens: int
    level: int
    model: str
    text: str


@frozen
class NodeDescription:
    """A node whole: text is its most thorough tier, superseded the last of what it said before, newest
    first, files the first of the files that its rows hold, each with how many there are."""

    id: str
    header: str
    depth: int
    span: tuple[str, str]
    rows: int
    children: tuple[str, ...]
    parents: tuple[str, ...]
    tokens: int
    source_tokens: int
    level: int
    model: str
    tiers: tuple[TierLine, ...]
    frontier: bool
    removed: bool
    made_at: str
    text: str
    files: tuple[FileLine, ...]
    file_count: int
    superseded: tuple[SupersededLine, ...]
    superseded_count: int


@frozen
class PartLine:
    """A part by its kind and size, with the tool's name, the media type or the file's id where it has one."""

    kind: str
    bytes: int
    detail: str | None


@frozen
class RowDescription:
    """A row's place: parts are its first 200 of part_count; variants counts other content that came under its
    entry_id.

    child_sessions are the first of child_count that start from it, forks among them; outcome_of the first of
    outcome_count whose outcome it tells.
    """

    ref: str
    role: Role
    at: str
    entry_id: str | None
    tokens: int
    characters: int
    parts: tuple[PartLine, ...]
    part_count: int
    unit: str
    node: str | None
    removed: bool
    pinned: bool
    variants: int
    child_sessions: tuple[str, ...]
    child_count: int
    outcome_of: tuple[str, ...]
    outcome_count: int


@frozen
class FileDescription:
    """A file that a tool read, without its body: head is how that begins, same_content its other handles, the
    first 200 of same_content_count.

    content is the SHA-256 of the body; node is the one that covers its row.
    """

    id: str
    ref: str
    path: str
    kind: str
    characters: int
    content: str
    summary: str
    head: str
    node: str | None
    removed: bool
    same_content: tuple[str, ...]
    same_content_count: int


@frozen
class Description:
    """Exactly one of node, row and file is given."""

    session: str
    node: NodeDescription | None
    row: RowDescription | None
    file: FileDescription | None = None
    behind: str | None = None


@frozen
class PayloadPiece:
    """A piece of the JSON list of a row's parts, too long for one answer: join json until total is reached.

    offset and total count characters of that JSON.
    """

    offset: int
    total: int
    json: str


@frozen
class ExpandedRow:
    """A row or a piece of one: offset counts characters of the derived text; complete: the text ends here.

    Where it was asked for, payload gives every part as neutral JSON once the text is complete; parts too
    long for one answer come in payload_piece instead, on pages of their own.
    """

    ref: str
    role: Role
    at: str
    text: str
    offset: int
    complete: bool
    removed: bool
    payload: tuple[dict[str, Json], ...] | None
    payload_piece: PayloadPiece | None


@frozen
class Expansion:
    session: str
    id: str
    rows: tuple[ExpandedRow, ...]
    next_cursor: str | None
    behind: str | None = None


@frozen
class Receipt:
    """What an append did: a ref for each entry in order, those known already, those with other content."""

    session: str
    created: bool
    refs: tuple[str, ...]
    duplicates: tuple[str, ...]
    conflicts: tuple[str, ...]
    last_seq: int
    notes: tuple[str, ...]


@frozen
class Check:
    """One thing the doctor looked at; detail says what was found and, if not ok, what to do."""

    name: str
    ok: bool
    detail: str


@frozen
class SettingLine:
    name: str
    value: Json
    origin: str


@frozen
class Diagnosis:
    path: str
    healthy: bool
    checks: tuple[Check, ...]
    settings: tuple[SettingLine, ...]


@frozen
class Folded:
    """What folding a session at import made."""

    leaves: int
    parents: int
    source_tokens: int
    summary_tokens: int


@frozen
class Imported:
    """One session that an import fed."""

    session: str
    created: bool
    rows_added: int
    duplicates: int
    conflicts: tuple[str, ...]
    late: int
    folded: Folded | None


@frozen
class ImportOutcome:
    """What one file held, and what became of it; masked counts, by kind, keys that were not stored."""

    report: ImportReport
    sessions: tuple[Imported, ...]
    masked: Mapping[str, int] = field(default_factory=dict[str, int])
