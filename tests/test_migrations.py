"""An older file is brought up to date in place, with everything that is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import dump, expanded
from older import BACK_TO_PLAIN_PAYLOADS, as_the_first_version_wrote_it
from stores import database, serving

from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript import packing, repacking


async def test_a_file_of_the_first_version_shows_the_same_request_and_takes_all_that_is_new(
    store_path: Path,
) -> None:
    shown = PrepareQuery("s", strategy="lcm", window_tokens=3000, compact="force")
    async with serving(store_path) as service:
        for turn in range(30):
            entries = [
                {"role": "user", "content": f"Do {turn}. " * 40},
                {"role": "assistant", "content": "ok"},
            ]
            await service.append("s", entries)
        before = await service.prepare(shown)
        assert (before.status, before.prepared[:2]) == ("compacted", "c1")
    as_the_first_version_wrote_it(store_path)
    async with serving(store_path) as service:
        after = await service.prepare(shown)
        assert (after.prepared, after.messages) == (before.prepared, before.messages)
        assert (await dump(service))["pin"] == []
        assert (await service.pin(["e1"], "s")).changed == ("e1",)
        assert (await service.prepare(PrepareQuery("s", strategy="rolling", window_tokens=2000))).prepared
        assert (await service.doctor()).healthy


async def test_payloads_that_were_stored_long_are_shortened_and_say_the_same(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repacking, "SLICE_PAYLOADS", 3)
    thought = [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": f"{n}, so {n + 1}. " * 40}]}
        for n in range(8)
    ]
    with monkeypatch.context() as patch:
        patch.setattr(packing, "LEAST_BYTES", 1 << 30)
        async with serving(store_path) as service:
            await service.append("s", thought)
            rows = await expanded(service, "s", "e1..e8", 6000, payload=True)
    with database(store_path) as db, db:
        for statement in BACK_TO_PLAIN_PAYLOADS:
            db.execute(statement)
        db.pragma("user_version", 12)
    async with serving(store_path) as service:
        assert await expanded(service, "s", "e1..e8", 6000, payload=True) == rows
        long = await sizes(service)
        await service.index()
        assert 0 < await sizes(service) < long / 2
        assert await expanded(service, "s", "e1..e8", 6000, payload=True) == rows
        assert (await service.doctor()).healthy


async def sizes(service: Service) -> int:
    return await service.work.store.read(
        lambda db: int(db.execute("SELECT sum(length(parts)) FROM payload").get)
    )
