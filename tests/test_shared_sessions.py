"""The laws on real sessions, and what must come of each file, counted by a parser of the tests' own.

The files lie in ../shared/data and are skipped where that is absent. Each is imported once; every window
then starts from a copy of that store.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from lawbook import (
    Told,
    View,
    dump,
    history_text,
    holds_cover,
    holds_estimate,
    holds_every_part,
    holds_everything_once,
    holds_fit,
    holds_memory,
    holds_order,
    holds_pairs,
    holds_shrink,
    look,
    newest_unit,
    prepared,
    same,
    told,
    weight,
)

from lcm_mcp.service import Service
from lcm_mcp.service.answers import ImportOutcome
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.settings import load_settings
from lcm_mcp.transcript.importers import Entry, claude_code
from lcm_mcp.transcript.sealing import readable

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "claude-code"
NAMES = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*.jsonl")) or ["absent"]
TRANSCRIPTS = [name for name in NAMES if name != "not-jsonl-at-all.jsonl"]
WINDOWS = (16_000, 32_000, 64_000, 200_000)
PREAMBLE = 500

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/claude-code is not beside this checkout")


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the store: active where the path leads through it."""

    session: str
    entry_id: str
    role: str
    text: str
    active: bool


@asynccontextmanager
async def service_on(store: Path) -> AsyncIterator[Service]:
    service = Service.open(load_settings({"db": str(store)}, {}))
    try:
        yield service
    finally:
        await service.close()


async def imported(store: Path, *names: str) -> list[ImportOutcome]:
    async with service_on(store) as service:
        return [await service.import_file(DATA / name) for name in names]


def stored(store: Path) -> list[Stored]:
    """All rows, session by session in the order of their keys."""
    db = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        active: set[tuple[int, int]] = set()
        for session, leaf in db.execute("SELECT id, leaf FROM session"):
            while leaf:
                active.add((session, leaf))
                leaf = db.execute("SELECT prev FROM row WHERE session = ? AND seq = ?", (session, leaf)).get
        return [
            Stored(key, entry_id, role, body, (session, seq) in active)
            for session, seq, key, entry_id, role, body in db.execute(
                """SELECT session.id, seq, key, entry_id, role, body FROM row JOIN session
                    ON session.id = row.session JOIN text ON text.id = row.text ORDER BY key, seq"""
            )
        ]
    finally:
        db.close()


def lines_of(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every JSON object of a file with its line, glued ones too, by the standard library alone."""
    for number, line in enumerate((DATA / name).read_text(encoding="utf-8").split("\n"), start=1):
        rest = line.strip()
        while rest:
            try:
                value, end = json.JSONDecoder(strict=False).raw_decode(rest)
            except ValueError:
                break
            if not isinstance(value, dict):
                break
            yield number, cast("dict[str, Any]", value)
            rest = rest[end:].strip()


def messages_of(name: str) -> list[tuple[str, dict[str, Any]]]:
    """User and assistant lines by their uuid, each uuid's first only."""
    found: dict[str, dict[str, Any]] = {}
    for number, value in lines_of(name):
        if value.get("type") in ("user", "assistant"):
            found.setdefault(str(value.get("uuid") or f"line:{number}"), value)
    return list(found.items())


def said_in(message: Any) -> list[str]:
    """The texts that stand in a message, tools' answers and called tools' names included."""
    content = message.get("content") if isinstance(message, dict) else message
    blocks = cast("list[Any]", [content] if isinstance(content, (str, dict)) else content or [])
    found: list[str] = []
    for block in blocks:
        if isinstance(block, str):
            found.append(block)
        elif block.get("type") in ("text", "tool_use"):
            found.append(block["text"] if block["type"] == "text" else block["name"])
        elif block.get("type") == "tool_result":
            found += said_in(block)
    return [readable(text) for text in found]


def rows_told(name: str) -> dict[str, list[Told]]:
    """What each session's active path has to be."""
    rows: dict[str, list[Told]] = {}
    seen: dict[str, set[str]] = {}
    for event in claude_code.read(DATA / name):
        if isinstance(event, Entry):
            known = seen.setdefault(event.session_key, set())
            active = rows.setdefault(event.session_key, [])
            if event.draft.entry_id in known:
                continue
            known.add(str(event.draft.entry_id))
            if event.draft.active:
                active.append(told(len(known), event.draft))
    return rows


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Stores by file name, made on first use."""
    return {"": tmp_path_factory.mktemp("shared")}


async def store_of(stores: dict[str, Path], name: str) -> Path:
    if name not in stores:
        stores[name] = stores[""] / f"{name.replace('/', '-')}.sqlite"
        await imported(stores[name], name)
    return stores[name]


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_the_laws_hold_on_every_real_session_at_every_window(
    name: str, stores: dict[str, Path]
) -> None:
    store = await store_of(stores, name)
    for key, active in rows_told(name).items():
        await _memory_at_rest(store, key, active)
        for window in WINDOWS if "/" not in key else WINDOWS[:1]:
            copy = store.with_suffix(".copy")
            shutil.copy(store, copy)
            await _one_window(copy, key, active, window)
            copy.unlink()


async def _memory_at_rest(store: Path, key: str, active: list[Told]) -> None:
    async with service_on(store) as service:
        await holds_memory(service, key, active)
        await holds_cover(service, key, active)
        await holds_shrink(service, active, key)
        await holds_every_part(service, key, active)


async def _one_window(store: Path, key: str, active: list[Told], window: int) -> None:
    query = PrepareQuery(session=key, window_tokens=window, preamble_tokens=PREAMBLE)
    async with service_on(store) as service:
        view = await prepared(service, query)
        before = await dump(service)
        views = await look(service, query)
        holds_order(views)
        holds_estimate(views, active)
        holds_fit(view)
        await holds_everything_once(service, key, view.shown, view.tail, active)
        _plain_or_smaller(view, active, window)
        if view.cut is not None:
            holds_pairs([int(view.tail[0][1:])], active, set(), at_units=True)
            await holds_cover(service, key, active)
            await holds_shrink(service, active, key)
        await same(service, before)
    newest = weight(active[newest_unit(active) :]).tokens
    assert (view.status == "limited") == (PREAMBLE + newest > window)


def _plain_or_smaller(view: View, active: list[Told], window: int) -> None:
    """Laws 5 and 6: below the trigger the plain history, else strictly less than it."""
    plain = PREAMBLE + weight(active).tokens
    assert view.observation.tokens_before == plain
    if plain < window * 90 // 100:
        assert (view.status, view.cut, view.shown) == ("not_needed", None, [])
    elif view.cut is not None:
        assert view.tokens < plain
