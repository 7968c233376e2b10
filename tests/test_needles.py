"""Literal search against a plain reference: 2,000 needles cut from real sessions, in both case modes.

Needles are pieces of the stored texts, from one character to 500, across lines, in other letters' case, or
with a character exchanged; the reference is Python's `in` over texts read from the file itself.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import apsw
import pytest
from transcripts import SAMPLES

from lcm_mcp.search.match import is_caseless
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Hit
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.settings import load_settings

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "claude-code"
LENGTHS = (1, 1, 2, 3, 4, 6, 9, 14, 25, 60, 160, 500)
PAGE = 50


@dataclass(frozen=True, slots=True)
class Kept:
    """A text as it is stored: a row's one, or a summary's, the thorough one first.

    place is its order in a search: a summary stands right after the last row it covers.
    """

    place: tuple[int, int]
    ref: str
    texts: tuple[str, ...]
    active: bool


_ROWS = """WITH RECURSIVE path(seq) AS (SELECT leaf FROM session UNION
        SELECT prev FROM row JOIN path ON row.seq = path.seq)
    SELECT seq, body, seq IN path FROM row JOIN text ON text.id = row.text"""
_SUMMARIES = """SELECT node.last, node.id, group_concat(body, char(0) ORDER BY kind DESC) FROM node
    JOIN tier ON tier.session = node.session AND tier.node = node.id
    JOIN text ON text.id = tier.text GROUP BY node.id"""


def kept_rows(store: Path) -> list[Kept]:
    """The rows of a store that holds one session."""
    return [Kept((seq, 0), f"e{seq}", (body,), active == 1) for seq, body, active in _read(store, _ROWS)]


def kept_summaries(store: Path) -> list[Kept]:
    found = _read(store, _SUMMARIES)
    return [
        Kept((last, node), f"#{node}", tuple(str(bodies).split("\0")), True) for last, node, bodies in found
    ]


def _read(store: Path, query: str) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(db.execute(query))
    finally:
        db.close()


def needles(texts: Sequence[str], luck: Random, count: int) -> list[str]:
    pieces = [text for text in texts if text]
    made: list[str] = []
    while len(made) < count:
        text = luck.choice(pieces)
        length = luck.choice(LENGTHS)
        start = luck.randrange(len(text))
        if luck.random() < 0.2 and "\n" in text:
            start = max(0, text.index("\n", luck.randrange(text.rindex("\n") + 1)) - length // 2)
        made.append(_bent(text[start : start + length], luck)[:500])
    return made


def _bent(piece: str, luck: Random) -> str:
    """Half of the needles as they stand, the others in another case or with one character exchanged."""
    match luck.randrange(8):
        case 0:
            return piece.swapcase()
        case 1:
            return piece.upper()
        case 2:
            return "".join(luck.choice((str.upper, str.lower))(character) for character in piece)
        case 3:
            at = luck.randrange(len(piece))
            return piece[:at] + luck.choice("eE %_*\\\"'é語\n") + piece[at + 1 :]
        case _:
            return piece


def reference(kept: Sequence[Kept], needle: str, query: GrepQuery) -> list[tuple[str, int]]:
    """The refs of all texts that hold the needle, oldest first, with where it begins in the text compared."""

    def place(text: str) -> int:
        return text.find(needle) if query.case_sensitive else text.casefold().find(needle.casefold())

    found: list[tuple[str, int]] = []
    for one in sorted(kept, key=lambda one: one.place):
        places = [at for at in map(place, one.texts) if at >= 0]
        if places and (one.active or query.include_removed):
            found.append((one.ref, places[0]))
    return found


async def agrees(service: Service, query: GrepQuery, kept: Sequence[Kept]) -> None:
    hits = await all_hits(service, query)
    wanted = reference(kept, query.pattern, query)
    assert [hit.ref for hit in hits] == [ref for ref, _ in wanted], repr(query.pattern)
    if query.case_sensitive:  # folding may lengthen a text, and its places with it
        assert [hit.offset for hit in hits] == [at for _, at in wanted], repr(query.pattern)


async def all_hits(service: Service, query: GrepQuery) -> list[Hit]:
    """The hits of all pages, oldest first."""
    hits: list[Hit] = []
    cursor: str | None = None
    while True:
        page = await service.grep(replace(query, cursor=cursor))
        hits += page.hits
        assert page.complete
        cursor = page.next_cursor
        if cursor is None:
            assert (page.total, page.at_least) == (len(hits), len(hits))
            return hits if query.order == "oldest" else hits[::-1]
        assert len(page.hits) == query.limit
        assert (page.total, page.at_least) == (None, len(hits) + 1)


@asynccontextmanager
async def imported(store: Path, file: Path) -> AsyncGenerator[tuple[Service, str]]:
    service = Service.open(load_settings({"db": str(store)}, {}))
    try:
        yield service, (await service.import_file(file)).sessions[0].session
    finally:
        await service.close()


NEEDLES = {
    SAMPLES / "planted-bad-lines.jsonl": 200,
    SAMPLES / "subagent-task.jsonl": 200,
    SHARED / "series-growing" / "5.jsonl": 400,
    SHARED / "glued-objects.jsonl": 400,
    SHARED / "compact-and-microcompact.jsonl": 300,
    SHARED / "orphans-both-ways.jsonl": 300,
    SHARED / "ansi-escapes.jsonl": 200,
}


@pytest.mark.parametrize("case_sensitive", [True, False], ids=["with case", "without case"])
@pytest.mark.parametrize("file", NEEDLES, ids=lambda file: file.name)
async def test_grep_finds_exactly_the_rows_that_hold_a_needle(
    store_path: Path, file: Path, case_sensitive: bool
) -> None:
    if not file.exists():
        pytest.skip("../shared/data/claude-code is not beside this checkout")
    luck = Random(file.name)
    async with imported(store_path, file) as (service, key):
        kept = kept_rows(store_path)
        for needle in needles([one.texts[0] for one in kept], luck, NEEDLES[file]):
            query = GrepQuery(
                needle,
                session=key,
                scope="rows",
                case_sensitive=case_sensitive,
                include_removed=luck.random() < 0.3,
                order=luck.choice(("newest", "oldest")),
                limit=PAGE,
            )
            await agrees(service, query, kept)


@pytest.mark.parametrize("case_sensitive", [True, False], ids=["with case", "without case"])
async def test_grep_finds_exactly_the_summaries_and_rows_that_hold_a_needle(
    store_path: Path, shared_data: Path, case_sensitive: bool
) -> None:
    luck = Random(7)
    async with imported(store_path, shared_data / "claude-code" / "glued-objects.jsonl") as (service, key):
        summaries = kept_summaries(store_path)
        assert len(summaries) > 5
        scopes: dict[Literal["all", "summaries"], list[Kept]] = {
            "summaries": summaries,
            "all": [*summaries, *kept_rows(store_path)],
        }
        for needle in needles([text for one in summaries for text in one.texts], luck, 150):
            for scope, kept in scopes.items():
                query = GrepQuery(needle, session=key, scope=scope, case_sensitive=case_sensitive, limit=7)
                await agrees(service, query, kept)


def test_what_is_found_as_it_stands_is_what_no_folding_makes_or_changes() -> None:
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    folded = [character for character in every if character.casefold() != character]
    made = {part for character in folded for part in character.casefold()}
    assert [character for character in (*folded, *made) if is_caseless(character)] == []
    assert is_caseless("}])?.[0]!; 404 鯨油記録 →")
