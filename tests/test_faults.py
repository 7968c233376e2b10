"""A disk that fails at any call, is full from then on, or loses its power: nothing promised is lost.

Every call that changes a file is failed in turn, over a store's whole life in small; a usual run takes some
of them, `make crash` all.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import apsw
import pytest
from faulting import LoneStore, Trouble, faulting, power_cut
from living import assert_kept, live, live_early
from older import as_the_first_version_wrote_it, version_left
from stores import serving, settings_for

from lcm_mcp.errors import StoreError
from lcm_mcp.service import Service
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.storage import schema
from lcm_mcp.storage.connections import Store
from lcm_mcp.summarizers.extractive import Extractive

ROUNDS = int(os.environ.get("LCM_CRASH_ROUNDS", "6"))
"""Read before conftest takes every LCM_ variable out of the environment."""
ALL = 25
"""From so many rounds on, every call is failed."""


async def lived(path: Path, trouble: Trouble, said: list[str], name: str = "one") -> None:
    """One life of a store at that path; what was said before it ended is in `said`."""
    with faulting(trouble):
        service = Service(Workplace(LoneStore.open(path), settings_for(path), (Extractive(),)))
        try:
            await live(service, path.parent, name, said.append, copies=False)
        finally:
            await service.close()


@contextmanager
def told() -> Generator[None]:
    """What fails is said in a sentence that names the file; some of it is made good, and not said."""
    try:
        yield
    except StoreError as failure:
        if "lcm.sqlite" not in str(failure):
            raise


def some_calls(tmp_path: Path, made: bool) -> Sequence[int]:
    """Numbers of calls to be failed, of all there are in a life; made: from a store that is there."""
    path, trouble = tmp_path / "counted" / "lcm.sqlite", Trouble()
    path.parent.mkdir()
    if made:
        anyio.run(Store.open(path).close)
    anyio.run(lived, path, trouble, list[str]())
    return some(trouble.calls)


def some(calls: int) -> Sequence[int]:
    every = range(1, calls + 1)
    return every if ROUNDS >= ALL else sorted(random.Random(3).sample(every, ROUNDS))


@pytest.mark.parametrize(("error", "lasts"), [(apsw.IOError, False), (apsw.FullError, True)])
def test_whichever_call_fails_is_told_and_what_was_promised_is_there(
    error: type[apsw.Error], lasts: bool, tmp_path: Path
) -> None:
    async def once(call: int) -> None:
        path, said = tmp_path / str(call) / "lcm.sqlite", list[str]()
        path.parent.mkdir()
        trouble = Trouble(call, error, lasts)
        with told():
            await lived(path, trouble, said)
        assert trouble.failed
        await assert_kept(path, said)
        await lived(path, Trouble(), said, "two")  # the disk is well again
        await assert_kept(path, said)

    for call in some_calls(tmp_path, made=False):
        anyio.run(once, call)


def test_after_a_call_failed_the_same_server_goes_on(tmp_path: Path) -> None:
    async def once(call: int) -> None:
        path, said = tmp_path / str(call) / "lcm.sqlite", list[str]()
        path.parent.mkdir()
        await Store.open(path).close()
        trouble = Trouble()
        with faulting(trouble):
            service = Service(Workplace(LoneStore.open(path), settings_for(path), (Extractive(),)))
            trouble.call = trouble.calls + call
            with told():
                await live(service, path.parent, "one", said.append, copies=False)
            trouble.call = 0
            await live(service, path.parent, "two", said.append, copies=False)
            await service.close()
        await assert_kept(path, said)

    for call in some_calls(tmp_path, made=True):
        anyio.run(once, call)


def test_a_power_cut_takes_nothing_that_was_promised(tmp_path: Path) -> None:
    async def once(call: int) -> None:
        path, said = tmp_path / str(call) / "lcm.sqlite", list[str]()
        path.parent.mkdir()
        await Store.open(path).close()
        trouble = Trouble(call, lasts=True, keeps_synced=True, synced={str(path): path.read_bytes()})
        with told():
            await lived(path, trouble, said)
        left = power_cut(trouble, path, path.parent / "left", random.Random(call))
        await assert_kept(left, said)

    for call in some_calls(tmp_path, made=True):
        anyio.run(once, call)


def test_whichever_call_fails_as_an_older_store_is_brought_up_to_date_it_is_whole(tmp_path: Path) -> None:
    """The steps of the migration, and the indexes fed after it: an I/O error, a full disk, a power cut."""
    first, said, versions = tmp_path / "lcm.sqlite", list[str](), set[int]()

    async def live_then() -> None:
        async with serving(first) as service:
            await live_early(service, "early", said.append)

    async def upgraded(path: Path, trouble: Trouble) -> None:
        with faulting(trouble):
            service = Service(Workplace(LoneStore.open(path), settings_for(path), (Extractive(),)))
            try:
                await service.index()
            finally:
                await service.close()

    def copied(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        return Path(shutil.copy(first, folder))

    async def once(call: int, error: type[apsw.Error], lasts: bool) -> None:
        path = copied(f"{call}-{error.__name__}-{lasts}")
        cut = lasts and error is apsw.IOError
        synced = {str(path): path.read_bytes()} if cut else {}
        trouble = Trouble(call, error, lasts, keeps_synced=cut, synced=synced)
        with told():
            await upgraded(path, trouble)
        assert trouble.failed
        if cut:
            path = power_cut(trouble, path, path.parent / "left", random.Random(call))
        versions.add(version_left(path))
        await assert_kept(path, said)
        assert version_left(path) == schema.VERSION

    anyio.run(live_then)
    as_the_first_version_wrote_it(first)
    counted = Trouble()
    anyio.run(upgraded, copied("counted"), counted)
    for call in some(counted.calls):
        for error, lasts in ((apsw.IOError, False), (apsw.FullError, True), (apsw.IOError, True)):
            anyio.run(once, call, error, lasts)
    assert len(versions) > 1  # some were left amid the steps
