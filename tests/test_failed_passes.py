"""A pass beside the requests that fails: told to the next request, and not tried again in vain."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from turns import KEY, Writer, ask, plain, shown, turns, using

from lcm_mcp.errors import SessionForgotten
from lcm_mcp.service import Service
from lcm_mcp.service.compaction import Wanted, compact
from lcm_mcp.service.windows import Window
from lcm_mcp.transcript import sessions

ASYNC = {"strategy": "lcm", "lcm.swapPercent": 60, "lcm.leafChunkTokens": 800}


async def ended(service: Service) -> None:
    """Wait for the pass that a request has started, which may have ended before that was answered."""
    session = await service.work.store.read(sessions.find_by_key, KEY)
    assert session is not None
    under_way = service.background.at_work(session.id)
    if under_way is not None:
        await under_way.ended.wait()


async def test_the_next_request_says_that_it_failed_and_tries_no_more_until_rows_are_added(
    store_path: Path,
) -> None:
    writer = Writer(failing={1, 2})
    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        assert (await ask(service, 4000, append=turns(1, 12))).status == "scheduled"
        await ended(service)
        for _ in range(3):
            view = await ask(service, 4000)
            assert (view.status, view.cut, shown(view)) == ("failed", None, plain(turns(1, 12)))
            assert any("writer failed: no network" in note for note in view.notes)
        assert len(writer.asked) == 1
        told_once_more = await ask(service, 4000, append=turns(13, 13))
        assert (told_once_more.status, len(writer.asked)) == ("failed", 1)
        assert (await ask(service, 4000)).status == "scheduled"
        await ended(service)
        assert len(writer.asked) == 2


async def test_after_a_failure_was_told_the_next_pass_may_succeed(store_path: Path) -> None:
    writer = Writer(failing={1})
    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        assert (await ask(service, 4000, append=turns(1, 12))).status == "scheduled"
        await ended(service)
        assert (await ask(service, 4000, append=turns(13, 13))).status == "failed"
        assert (await ask(service, 4000)).status == "scheduled"
        await ended(service)
        assert (await ask(service, 4000)).cut == "c1"


async def test_a_failure_is_told_no_more_once_another_compaction_has_succeeded(store_path: Path) -> None:
    writer = Writer(failing={1})
    async with using(store_path, writer, settings=ASYNC) as service, service.background.running():
        assert (await ask(service, 4000, append=turns(1, 12))).status == "scheduled"
        await ended(service)
        assert (await ask(service, 4000, compact="force")).status == "compacted"
        view = await ask(service, 4000, append=turns(13, 20))
        assert view.status == "scheduled"
        assert not any("writer failed" in note for note in view.notes)
        await ended(service)


async def test_a_session_forgotten_before_its_pass_begins_is_no_fault_for_the_log(
    store_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with using(store_path, Writer(), settings=ASYNC) as service, service.background.running():
        await ask(service, 100_000, append=turns(1, 12))
        session = await service.work.store.read(sessions.find_by_key, KEY)
        assert session is not None
        await service.forget(KEY)
        wanted = Wanted(session.id, "lcm", Window(4000, 0, 3600, 2400, 1000, 1000, 0))
        gone = service.background.start(session.id, partial(compact, service.work, wanted))
        await gone.ended.wait()
    assert isinstance(gone.fault, SessionForgotten)
    assert capfd.readouterr().err == ""
