"""A client that holds a request's messages and is given what is new, by the rule of docs/agent-loops.md."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from lcm_mcp.service import Service
from lcm_mcp.service.prepared import Prepared
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript.model import Json

Shown = tuple[dict[str, Json], tuple[str, ...]]
"""A message with its sources."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The messages of the projection `prepared`, and the answer that they came by."""

    prepared: str
    messages: tuple[Shown, ...]
    answer: Prepared

    @property
    def lines(self) -> list[tuple[bytes, tuple[str, ...]]]:
        return [(canonical(message), sources) for message, sources in self.messages]


def canonical(message: dict[str, Json]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_SORT_KEYS)


async def hold(service: Service, query: PrepareQuery, held: Holding | None = None) -> Holding:
    """Prepare, follow the pages, and put what is given into what is held already."""
    if held is not None:
        query = replace(query, have=held.prepared)
    first = page = await service.prepare(query)
    mine = [] if held is None else list(held.messages[first.omit : first.omit + first.keep])
    piece = ""
    while True:
        mine += [(shown.message, shown.sources) for shown in page.messages]
        for shown in page.insert:
            mine.insert(shown.index, (shown.message, shown.sources))
        if page.fragment is not None:
            assert page.fragment.offset == len(piece)
            piece += page.fragment.json
            if len(piece) == page.fragment.total:
                mine.insert(page.fragment.index, (orjson.loads(piece), page.fragment.sources))
                piece = ""
        if page.next_cursor is None:
            break
        page = await service.prepare(
            PrepareQuery(query.session, format=query.format, cursor=page.next_cursor)
        )
        assert (page.change, page.omit, page.keep, page.keep_from, page.total_messages) == (
            first.change,
            first.omit,
            first.keep,
            first.keep_from,
            first.total_messages,
        )
    assert piece == ""
    assert len(mine) == first.total_messages
    return Holding(first.prepared, tuple(mine), first)


async def held_in_full(service: Service, query: PrepareQuery) -> Holding:
    """The same projection as a client is given it that holds nothing; leaves no trace."""
    look = replace(query, append=(), after=None, have=None, strategy=None, compact="never", keep=False)
    return await hold(service, look)
