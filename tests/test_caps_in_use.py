"""Caps as users meet them, processes that share them, and that a key stands nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from endpoint import KEY, Endpoint, endpoint
from paying import TALK, force, lines, node, told, using
from turns import turns

from lcm_mcp.dag import spending
from lcm_mcp.service.answers import Strategy
from lcm_mcp.storage.connections import Store


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", KEY)


# --- caps


@pytest.mark.parametrize("cap", ["summarizerCallTokens", "summarizerPassTokens", "summarizerDayTokens"])
@pytest.mark.parametrize("strategy", ["lcm", "rolling"])
async def test_a_call_beyond_a_cap_is_not_made_and_the_next_of_the_chain_writes(
    cap: str, strategy: Strategy, store_path: Path
) -> None:
    with endpoint() as found:
        async with using(store_path, found.entry("openai"), **{cap: 1000}) as service:
            await told(service)
            seen = await force(service, strategy)
            assert (await service.stats()).spent == {}
        assert found.asked == []
    assert seen.status == "compacted"
    assert seen.done.model_calls == 0
    assert lines(seen.notes, f"beyond {cap} (1,000), so nothing was sent")


async def test_a_day_that_is_used_up_lasts_for_all_sessions_and_a_pass_for_itself(store_path: Path) -> None:
    with endpoint() as found:
        found.usage = (6000, 100)
        settings = {"summarizerDayTokens": 30_000, "summarizerPassTokens": 18_000}
        async with using(store_path, found.entry("openai"), **settings) as service:
            await told(service, 60)
            first = await force(service)
            assert len(lines(first.notes, "beyond summarizerPassTokens (18,000)")) == 1
            assert first.done.model_calls == 2
            for number in (61, 81, 101):
                await service.append(TALK, turns(number, number + 19))
                last = await force(service)
            assert lines(last.notes, "beyond summarizerDayTokens (30,000)")
            assert (await service.stats("*")).spent_today_tokens <= 30_000
            assert await service.work.store.read(spending.counted_on, "2020-01-01") == 0


def _run(path: Path, found: Endpoint, session: str, **variables: str) -> subprocess.Popen[str]:
    """Another process that compacts a session, as a user starts it."""
    entry = json.dumps([found.entry("openai")])
    environment = {**os.environ, "LCM_SUMMARIZERS": entry, "LCM_LCM_LEAF_CHUNK_TOKENS": "512", **variables}
    command = [sys.executable, "-m", "lcm_mcp", "--db", str(path), "--session", session, "compact", "lcm"]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


async def test_processes_share_the_cap_of_the_day(store_path: Path) -> None:
    async with using(store_path) as service:
        for session in ("one", "two"):
            await service.append(session, turns(1, 40))
    cap = 40_000
    with endpoint() as found:
        found.usage = (4000, 100)
        both = [
            _run(store_path, found, session, LCM_SUMMARIZER_DAY_TOKENS=str(cap)) for session in ("one", "two")
        ]
        said = [process.communicate(timeout=120) for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        assert 0 < len(found.asked) * 4100 <= cap
        async with using(store_path) as service:
            assert (await service.stats("*")).spent_today_tokens == len(found.asked) * 4100
    assert KEY not in str(said)
    assert KEY.encode() not in b"".join(part.read_bytes() for part in store_path.parent.glob("lcm.sqlite*"))


async def test_what_a_dead_process_put_down_stays_counted(store_path: Path) -> None:
    async with using(store_path) as service:
        await service.append("one", turns(1, 20))
        with endpoint("silent") as found:
            process = _run(store_path, found, "one")
            try:
                assert await anyio.to_thread.run_sync(found.arrived.wait, 60)
            finally:
                process.kill()
                process.communicate()
        spent = (await service.stats("*")).spent["loopback-1"]
        assert (spent.calls, spent.input_tokens) == (1, 0)
        assert spent.unsettled_tokens > len(json.dumps(found.asked[0]["messages"])) - 500


# --- the key


async def test_a_key_stands_in_no_file_observation_or_answer(store_path: Path) -> None:
    with endpoint("400", "401", "echo") as found:
        entries = [found.entry("anthropic"), found.entry("openai")]
        async with using(store_path, *entries) as service:
            await told(service)
            seen = [await force(service), await service.doctor(), await service.stats("*")]
            seen.append((await node(service)).text)
            for _ in range(3):
                await service.append(TALK, turns(21, 30))
                seen.append(await force(service))

            def everything(db: Any) -> str:
                tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
                return str(
                    [
                        list(db.execute(f"SELECT * FROM {name}"))
                        for name in tables
                        if not name.startswith(("gram", "word"))
                    ]
                )

            stored = await service.work.store.read(everything)
        assert len(found.asked) > 2
    files = b"".join(part.read_bytes() for part in store_path.parent.glob("lcm.sqlite*"))
    assert KEY not in f"{seen} {stored}"
    assert KEY.encode() not in files


def test_a_store_is_not_locked_while_a_model_is_asked(store_path: Path) -> None:
    async def look() -> None:
        with endpoint("silent") as found:
            async with using(store_path, found.entry("openai")) as service:
                await told(service)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(force, service)
                    assert await anyio.to_thread.run_sync(found.arrived.wait, 30)
                    other = Store.open(store_path)
                    try:
                        started = time.monotonic()
                        await other.write(lambda db: db.execute("UPDATE session SET title = 'x'").get)
                        assert time.monotonic() - started < 5
                    finally:
                        await other.close()
                    tasks.cancel_scope.cancel()

    anyio.run(look)
