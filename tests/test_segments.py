"""The pieces of the indexes: few once nobody waits, and searches find the same whatever they are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import add, database, draft, new_session, scope_of, serving

from lcm_mcp.search import index, segments, words
from lcm_mcp.search.match import literal
from lcm_mcp.search.scan import Wanted, scan
from lcm_mcp.service import indexing
from lcm_mcp.service.requests import GrepQuery

WORDS = [
    "harbour",
    "pier",
    "ledger",
    "crane",
    "tide",
    "rope",
    "anchor",
    "whale",
    "lantern",
    "mast",
    "sail",
    "cargo",
    "quay",
    "buoy",
]


def said(luck: Random, number: int) -> str:
    return f"{number} " + " ".join(luck.choices(WORDS, k=400))


def pages(db: apsw.Connection) -> int:
    count: int = db.execute("SELECT count(*) FROM gram_data").get
    return count


def test_pieces_that_were_put_together_are_few_and_smaller_and_hold_the_same(tmp_path: Path) -> None:
    luck = Random(7)
    with database(tmp_path / "s") as db:
        session = new_session(db)
        for number in range(60):
            add(db, session, draft("user", said(luck, number)))
            index.feed(db)
            words.feed(db)
        before, size = [segments.count(db, one) for one in segments.INDEXES], pages(db)
        assert min(before) > 3
        for one in segments.INDEXES:
            while segments.put_together(db, one):
                pass
        assert max(segments.count(db, one) for one in segments.INDEXES) <= 2
        assert pages(db) < size
        assert [index.faults(db, 100), words.faults(db, 100)] == [[], []]
        for number in (0, 31, 59):
            page = scan(
                db, scope_of(db, session), Wanted(literal(f"{number} ", case_sensitive=True)), 50, None, 60
            )
            assert number + 1 in {hit.seq for hit in page.found}
        changed = db.total_changes()
        assert [segments.put_together(db, one) for one in segments.INDEXES] == [False, False]
        assert db.total_changes() - changed == 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["feed", "together", "forget"]), max_size=14), st.randoms())
def test_feeding_and_putting_together_may_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[str], luck: Random
) -> None:
    with database(tmp_path_factory.mktemp("segments") / "s") as db:
        for number, deed in enumerate(deeds):
            match deed:
                case "feed":
                    add(db, new_session(db), draft("user", said(luck, number)))
                    index.feed(db)
                    words.feed(db)
                case "together":
                    for one in segments.INDEXES:
                        segments.put_together(db, one)
                case _:
                    text: int | None = db.execute("SELECT min(id) FROM text").get
                    if text is not None:
                        index.forget(db, [text])
                        words.forget(db, [text])
                        db.execute("DELETE FROM row WHERE text = ?", (text,))
                        db.execute("DELETE FROM text WHERE id = ?", (text,))
        assert [index.faults(db, 100), words.faults(db, 100)] == [[], []]


async def test_a_server_that_is_left_alone_puts_the_pieces_together(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "QUIET_S", 0.05)
    monkeypatch.setattr(segments, "MANY", 2)
    luck = Random(3)
    async with serving(store_path) as service, service.running():
        for number in range(40):
            await service.append("s", [{"role": "user", "content": said(luck, number)}])
            while await service.work.store.read(index.behind):
                await service.work.store.write_derived(index.feed)
        with anyio.fail_after(30):
            while await service.work.store.read(segments.count, "gram") > 2:
                await anyio.sleep(0.05)
        assert (await service.grep(GrepQuery("39 "))).at_least >= 1


async def test_an_index_that_was_fed_whole_is_left_in_few_pieces(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    luck = Random(5)
    monkeypatch.setattr(index, "SLICE_BYTES", 8_000)
    async with serving(store_path) as service:
        for number in range(300):
            await service.append("s", [{"role": "user", "content": said(luck, number)}])
        monkeypatch.setattr(segments, "MANY", 1000)
        await service.index()
        assert await service.work.store.read(segments.count, "gram") > 8  # not worth the work, as it seems
        monkeypatch.setattr(segments, "MANY", 8)
        await service.index()
        assert await service.work.store.read(segments.count, "gram") <= 2
