"""Asking the service as a client would: pages followed to their end, pieces joined, tables compared."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import apsw
import orjson

from lcm_mcp.projection.model import FORMATS, Format, Message
from lcm_mcp.service import Service
from lcm_mcp.service.answers import ExpandedRow, NodeLine
from lcm_mcp.service.prepared import Observation
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript.model import Json, JsonObject


@dataclass(frozen=True, slots=True)
class View:
    """A projection whole, all its pages joined."""

    form: Format
    prepared: str
    status: str
    notes: tuple[str, ...]
    tokens: int
    messages: tuple[Message, ...]
    observation: Observation

    @property
    def cut(self) -> str | None:
        return self.observation.cut

    @property
    def tail(self) -> list[str]:
        return [ref for message in self.messages for ref in message.sources]

    @property
    def shown(self) -> list[str]:
        sections = self.observation.sections
        return [id for section in sections if section.kind == "summaries" for id in section.sources]

    @property
    def preamble(self) -> int:
        return sum(section.tokens for section in self.observation.sections if section.kind == "preamble")


async def prepared(service: Service, query: PrepareQuery) -> View:
    """Prepare once, with everything the query asks for, and follow the pages."""
    page = first = await service.prepare(replace(query, detail=True))
    messages: list[Message] = []
    piece = ""
    while True:
        assert page.first_message == len(messages)
        messages += [_message(shown.message, shown.sources) for shown in page.messages]
        if page.fragment is not None:
            assert (page.fragment.index, page.fragment.offset) == (len(messages), len(piece))
            piece += page.fragment.json
            if len(piece) == page.fragment.total:
                messages.append(_message(orjson.loads(piece), page.fragment.sources))
                piece = ""
        if page.next_cursor is None:
            break
        following = PrepareQuery(session=query.session, format=query.format, cursor=page.next_cursor)
        page = await service.prepare(following)
        assert (page.prepared, page.status, page.estimated_input_tokens) == (
            first.prepared,
            first.status,
            first.estimated_input_tokens,
        )
    assert piece == ""
    assert len(messages) == first.total_messages
    assert first.observation is not None
    return View(
        query.format,
        first.prepared,
        first.status,
        first.notes,
        first.estimated_input_tokens,
        tuple(messages),
        first.observation,
    )


def _message(body: JsonObject, sources: tuple[str, ...]) -> Message:
    return Message(str(body["role"]), body, sources)


async def look(service: Service, query: PrepareQuery) -> dict[Format, View]:
    """What a session shows in every format, without appending or compacting, and leaving no trace."""
    quiet = replace(query, append=(), usage=None, strategy=None, compact="never", keep=False)
    return {form: await prepared(service, replace(quiet, format=form)) for form in FORMATS}


async def nodes_of(service: Service, key: str, *, frontier: bool = False) -> list[NodeLine]:
    """Every node (of the memory's frontier), page by page."""
    found: list[NodeLine] = []
    cursor: str | None = None
    while True:
        page = await service.list_nodes(key, frontier_only=frontier, limit=7, cursor=cursor)
        found += page.nodes
        cursor = page.next_cursor
        if cursor is None:
            assert len(found) == page.total
            return found


async def expanded(
    service: Service, key: str, id: str, max_bytes: int, *, payload: bool = False
) -> list[ExpandedRow]:
    """All rows of an address, their pieces joined."""
    rows: list[ExpandedRow] = []
    cursor: str | None = None
    while True:
        page = await service.expand(id, key, max_bytes, payload, cursor)
        for piece in page.rows:
            if rows and piece.ref == rows[-1].ref:
                rows[-1] = _joined(rows[-1], piece)
            else:
                assert piece.offset == 0
                rows.append(piece)
        cursor = page.next_cursor
        if cursor is None:
            assert all(row.complete for row in rows)
            return rows


def _joined(row: ExpandedRow, piece: ExpandedRow) -> ExpandedRow:
    assert row.payload is None
    assert piece.offset == len(row.text)
    parts = row.payload_piece
    if piece.payload_piece is not None:
        assert piece.payload_piece.offset == (0 if parts is None else len(parts.json))
        earlier = "" if parts is None else parts.json
        parts = replace(piece.payload_piece, json=earlier + piece.payload_piece.json)
    return replace(
        row,
        text=row.text + piece.text,
        complete=piece.complete,
        payload=piece.payload,
        payload_piece=parts,
    )


def parts_of(row: ExpandedRow) -> list[Json]:
    if row.payload is not None:
        return [*row.payload]
    assert row.payload_piece is not None
    assert len(row.payload_piece.json) == row.payload_piece.total
    return json.loads(row.payload_piece.json)


async def same(service: Service, before: Dump) -> None:
    """Laws 8 and 10: nothing but observations and leases has been written since."""
    now = await dump(service)
    changed = [name for name in before if now[name] != before[name]]
    assert not changed, [(name, repr(set(now[name]) ^ set(before[name]))[:400]) for name in changed]


Dump = dict[str, list[tuple[object, ...]]]


async def dump(service: Service) -> Dump:
    """Every table but observations, leases, what is noted of followed files, and the search index."""
    return await service.work.store.read(_dump)


def _dump(db: apsw.Connection) -> Dump:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    passing = ("observation", "lease", "followed", "gram", "word", "sqlite_")
    kept = [name for name in names if not name.startswith(passing) or name.startswith("followed_")]
    return {name: list(db.execute(f'SELECT * FROM "{name}"')) for name in kept}
