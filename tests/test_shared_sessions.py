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
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from asking import View, dump, look, nodes_of, prepared, same
from deeds import Settings
from lawbook import chain_on, holds_cover, holds_every_part, holds_everything_once, holds_memory, holds_shrink
from moods import Watched
from quotebook import holds_labels
from told import Told, newest_round, newest_unit, told, weight
from viewbook import history_text, holds_border, holds_estimate, holds_fit, holds_order
from wire_order import check_order
from world import opened

from lcm_mcp.projection.model import FORMATS
from lcm_mcp.service import Service
from lcm_mcp.service.answers import ImportOutcome, Strategy
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.settings import load_settings
from lcm_mcp.transcript import appending, sessions
from lcm_mcp.transcript.importers import Entry, claude_code
from lcm_mcp.transcript.model import Draft
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.transcript.sessions import NewSession

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "claude-code"
NAMES = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*.jsonl")) or ["absent"]
TRANSCRIPTS = [name for name in NAMES if name != "not-jsonl-at-all.jsonl"]
STRATEGIES: tuple[Strategy, ...] = ("rolling", "lcm")
WINDOWS = (16_000, 32_000, 64_000, 200_000)
PREAMBLE = 500

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared/data/claude-code is not beside this checkout"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the store: active where the path leads through it."""

    session: str
    entry_id: str
    role: str
    text: str
    active: bool


@asynccontextmanager
async def service_on(store: Path) -> AsyncGenerator[Service]:
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
    content: Any = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else message
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
        for window, strategy in product(WINDOWS if "/" not in key else WINDOWS[:1], STRATEGIES):
            copy = store.with_suffix(".copy")
            shutil.copy(store, copy)
            await _one_window(copy, key, active, window, strategy)
            copy.unlink()


async def _memory_at_rest(store: Path, key: str, active: list[Told]) -> None:
    async with service_on(store) as service:
        await holds_memory(service, key, active)
        await holds_cover(service, key, chain_on(active))
        await holds_shrink(service, key, chain_on(active))
        await holds_every_part(service, key, active)


async def _one_window(store: Path, key: str, active: list[Told], window: int, strategy: Strategy) -> None:
    query = PrepareQuery(session=key, strategy=strategy, window_tokens=window, preamble_tokens=PREAMBLE)
    async with service_on(store) as service:
        view = await prepared(service, query)
        before = await dump(service)
        views = await look(service, query)
        holds_order(views)
        holds_labels(history_text(views["messages"]), strategy, view.shown)
        holds_estimate(views, active, query)
        holds_fit(view.observation)
        _plain_or_smaller(view, active, window)
        if strategy == "lcm" or view.cut is None:
            await holds_everything_once(service, key, view.shown, view.tail, active)
        if view.cut is not None:
            holds_border(int(view.tail[0][1:]), active, set(), split=False)
            await holds_cover(service, key, chain_on(active))
            await holds_shrink(service, key, chain_on(active))
        await same(service, before)
    newest = weight(active[newest_unit(active) :]).tokens
    assert (view.status == "limited") == (PREAMBLE + newest > window)


REPLAYED = [name for name in NAMES if name in ("inline-sidechains.jsonl", "three-compactions.jsonl")]
LEAST_HISTORY = 2_500
"""Tokens that the shortest summary with its quotes may take."""
TURNS = 1 if "LCM_LONG" in os.environ else 6
"""Every turn is a request, or (in the short run) every sixth one is."""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", REPLAYED)
async def test_replayed_turn_by_turn_each_request_fits_and_no_pass_works_for_nothing(
    name: str, strategy: Strategy, tmp_path: Path
) -> None:
    """Whole runs in one unit fit as well, since older rounds may be folded here."""
    drafts = [event.draft for event in claude_code.read(DATA / name) if isinstance(event, Entry)]
    for window in (16_000, 64_000, 200_000):
        watched = Watched()
        overrides: Settings = {"strategy": strategy, f"{strategy}.splitOversizedUnit": True}
        _, service = opened(tmp_path / str(window), overrides, [watched])
        try:
            await _replay(service, drafts, watched, window)
        finally:
            await service.close()


async def _replay(service: Service, drafts: list[Draft], watched: Watched, window: int) -> None:
    session = await service.work.store.write(sessions.create, NewSession("main"), 1)
    cut, start, turn = None, 0, 0
    for end, draft in enumerate(drafts):
        if draft.role != "assistant" or end == 0:
            continue
        turn += 1
        if turn % TURNS:
            continue
        sealed = [seal(each) for each in drafts[start:end]]
        now = await service.work.store.read(sessions.find_by_id, session.id)
        assert now is not None
        await service.work.store.write(appending.append, now, sealed, 1)
        start, calls = end, watched.calls
        nodes = len(await nodes_of(service, "main"))
        form = FORMATS[turn // TURNS % 4]
        view = await prepared(service, PrepareQuery("main", window_tokens=window, format=form))
        assert check_order(view.messages, form) == []
        holds_fit(view.observation)
        rows = [told(number, each) for number, each in enumerate(drafts[:end], 1) if each.active]
        round_too_long = weight(rows[newest_round(rows) :]).tokens + LEAST_HISTORY > window
        assert (view.status == "limited") <= round_too_long, view.notes
        assert view.status in ("not_needed", "compacted", "limited")
        assert watched.calls == calls or view.cut != cut or len(await nodes_of(service, "main")) > nodes
        cut = view.cut
    assert turn > 20


def _plain_or_smaller(view: View, active: list[Told], window: int) -> None:
    """Laws 5 and 6: below the trigger the plain history, else strictly less than it."""
    plain = PREAMBLE + weight(active).tokens
    assert view.observation.before.tokens == plain
    if plain < window * 90 // 100:
        assert (view.status, view.cut, view.shown) == ("not_needed", None, [])
    elif view.cut is not None:
        assert view.tokens < plain


# --- what becomes of the lines


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_no_user_or_assistant_line_is_lost_or_inactive_but_compact_summaries(
    name: str, stores: dict[str, Path]
) -> None:
    notes = {f"line:{line}" for line, value in lines_of(name) if value.get("type") == "queue-operation"}
    rows = [row for row in stored(await store_of(stores, name)) if row.entry_id not in notes]
    lines = messages_of(name)
    assert sorted(row.entry_id for row in rows) == sorted(uuid for uuid, _ in lines)
    by_id = {row.entry_id: row for row in rows}
    for uuid, line in lines:
        row = by_id[uuid]
        assert row.active == (line.get("isCompactSummary") is not True), uuid
        assert ("/" in row.session) == (line.get("isSidechain") is True), uuid
        assert all(text in row.text for text in said_in(line.get("message"))), uuid
    for session in {row.session for row in rows}:
        kept = [row.entry_id for row in rows if row.session == session]
        assert kept == [uuid for uuid, _ in lines if by_id[uuid].session == session]


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_importing_a_real_session_twice_changes_nothing(name: str, stores: dict[str, Path]) -> None:
    async with service_on(await store_of(stores, name)) as service:
        before = await dump(service)
        report = (await service.import_file(DATA / name)).report
        assert report.rows_added == 0
        assert report.duplicates + len(report.conflicts) == report.user + report.assistant + report.queued
        await same(service, before)


WATCHED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
unit = 1024 if sys.platform == "darwin" else 1
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // unit, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and says on stderr how many KB of memory it took at most."""


def test_three_compactions_imports_with_its_counted_figures_and_little_memory(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", WATCHED, sys.executable, "-m", "lcm_mcp", "--db", str(tmp_path / "a")]
    file = str(DATA / "three-compactions.jsonl")
    done = subprocess.run([*command, "import", "--json", file], capture_output=True, check=True)
    assert int(done.stderr.split()[-1]) < 200 * 1024
    said = done.stdout
    report = json.loads(said)["files"][0]["report"]
    assert (report["lines"], report["user"], report["assistant"]) == (893, 260, 518)
    assert sum(report["other"].values()) == 115
    assert (report["tool_calls"], report["tool_results"], report["reasoning"]) == (206, 206, 225)
    assert (report["unanswered"], report["orphans"], report["compact_summaries"]) == (0, 0, 3)
    assert report["rows_added"] == 778


# --- series of files


def series(name: str, *numbers: int) -> list[str]:
    return [f"series-{name}/{number}.jsonl" for number in numbers]


async def test_snapshots_of_a_growing_session_give_one_transcript_in_any_order(tmp_path: Path) -> None:
    await imported(tmp_path / "alone", *series("growing", 5))
    alone = stored(tmp_path / "alone")
    assert len(alone) == 34 + 79
    for order in ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (3, 1, 5, 2, 4), (2, 4, 1, 3, 5)):
        store = tmp_path / "-".join(map(str, order))
        await imported(store, *series("growing", *order))
        assert stored(store) == alone


async def test_a_later_shorter_file_loses_nothing_in_any_order(tmp_path: Path) -> None:
    await imported(tmp_path / "alone", *series("stale-shorter", 3))
    alone = stored(tmp_path / "alone")
    assert len(alone) == 244 + 464
    for order in permutations((3, 4, 5)):
        store = tmp_path / "-".join(map(str, order))
        await imported(store, *series("stale-shorter", *order))
        assert stored(store) == alone


SLICES = {4: 18, 5: 133, 6: 97, 7: 18}
"""Messages of each slice, counted."""


async def test_slices_in_file_order_give_each_row_once_and_none_late(tmp_path: Path) -> None:
    outcomes = await imported(tmp_path / "a", *series("slices", *SLICES))
    assert [outcome.report.rows_added for outcome in outcomes] == list(SLICES.values())
    assert [outcome.report.late for outcome in outcomes] == [0, 0, 0, 0]
    wanted = [uuid for name in series("slices", *SLICES) for uuid, _ in messages_of(name)]
    assert [row.entry_id for row in stored(tmp_path / "a")] == wanted


@pytest.mark.parametrize("order", [(7, 6, 5, 4), (5, 4, 7, 6), (4, 6, 5, 7)])
async def test_slices_out_of_order_give_each_row_once_and_the_earlier_ones_as_late(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    outcomes = await imported(tmp_path / "a", *series("slices", *order))
    latest = 0
    for number, outcome in zip(order, outcomes, strict=True):
        assert outcome.report.rows_added == SLICES[number]
        assert outcome.report.late == (SLICES[number] if number < latest else 0)
        latest = max(latest, number)
    wanted = [uuid for name in series("slices", *SLICES) for uuid, _ in messages_of(name)]
    assert sorted(row.entry_id for row in stored(tmp_path / "a")) == sorted(wanted)


async def test_a_changed_text_under_a_known_uuid_is_a_conflict_and_the_first_stays(tmp_path: Path) -> None:
    names = series("same-uuid-changed-text", 1, 2)
    first, second = await imported(tmp_path / "a", *names)
    assert (first.report.conflicts, len(second.report.conflicts)) == ((), 2)
    old, new = (dict(messages_of(name)) for name in names)
    changed = [uuid for uuid in old if uuid in new and old[uuid]["message"] != new[uuid]["message"]]
    rows = {row.entry_id: row for row in stored(tmp_path / "a")}
    assert len(changed) == 2
    assert set(rows) == {*old, *new}
    for uuid in changed:
        assert all(text in rows[uuid].text for text in said_in(old[uuid]["message"]))
        assert not all(text in rows[uuid].text for text in said_in(new[uuid]["message"]))
    await imported(tmp_path / "b", *reversed(names))
    again = {row.entry_id: row for row in stored(tmp_path / "b")}
    assert [uuid for uuid in rows if rows[uuid].text != again[uuid].text] == changed
