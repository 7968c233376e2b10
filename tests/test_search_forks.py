"""A text that forks hold is one hit, on whichever page, when they came and where the time ran out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from stores import serving
from test_search import summarize

from lcm_mcp.ids import SessionId
from lcm_mcp.search import scan as scanning
from lcm_mcp.service import searching
from lcm_mcp.service.requests import GrepQuery


async def test_a_text_is_one_hit_though_a_fork_comes_to_hold_it_between_two_pages(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": f"duck {n}"} for n in range(4)])
        query = GrepQuery("duck", session="*", order="oldest", limit=2)
        page = await service.grep(query)
        await service.fork("s", "e4", "f")
        rest = await service.grep(replace(query, cursor=page.next_cursor))
        assert [hit.ref for hit in (*page.hits, *rest.hits)] == ["e1", "e2", "s1/e3", "s1/e4"]
        assert rest.total == 4


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_search_runs_out_of_time_between_texts_and_never_among_those_who_hold_one(
    store_path: Path, order: Literal["newest", "oldest"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SCAN_S", -1)
    monkeypatch.setattr(scanning, "CLOCK_EVERY", 2)
    async with serving(store_path) as service:
        await service.append("s", [{"role": "user", "content": f"duck {n}"} for n in range(4)])
        for fork in ("f", "g"):
            await service.fork("s", "e4", fork)
        hits: list[str] = []
        page = await service.grep(GrepQuery("duck", session="*", order=order))
        hits += [hit.ref for hit in page.hits]
        pages = 1
        while page.next_cursor is not None:
            page = await service.grep(GrepQuery("duck", session="*", order=order, cursor=page.next_cursor))
            hits += [hit.ref for hit in page.hits]
            pages += 1
        assert sorted(hits) == ["s1/e1", "s1/e2", "s1/e3", "s1/e4"]
        assert (pages, page.total) == (4, 4)


async def test_a_summary_that_a_fork_took_along_is_one_hit_though_another_fork_has_its_own_of_these_rows(
    store_path: Path,
) -> None:
    async with serving(store_path) as service:
        hens = [{"role": "user", "content": f"hen {n}"} for n in range(4)]
        await service.append("s", hens)
        await service.fork("s", "e4", "apart")
        await service.work.store.write(summarize, SessionId(1), 4, "a duck among hens")
        await service.work.store.write(summarize, SessionId(2), 4, "a duck of its own")
        await service.append("s", hens)
        await service.fork("s", "e8", "along")
        page = await service.grep(GrepQuery("duck", session="*"))
        assert [(hit.ref, hit.also) for hit in page.hits] == [("s2/#1", ()), ("s1/#1", ("along",))]
