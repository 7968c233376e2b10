"""Somebody else writes between any two steps of a call: it answers or refuses, and the store stays sound.

A call reads, thinks and writes in steps, and other processes write the same file between them. Here another
service does so before the first step, before the second, and so on to the call's last one.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import apsw
import pytest
from growing import add, said
from paying import using
from stores import assert_sound, serving

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Summary
from lcm_mcp.dag.redoing import supersede
from lcm_mcp.errors import LcmError, StoreError
from lcm_mcp.ids import NodeId
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import batches, sessions

Deed = Callable[[Service], Awaitable[object]]
WINDOW = 6000


def talk(first: int, turns: int) -> list[dict[str, str]]:
    return [
        {"role": role, "content": f"Decision {n}: {role} takes port {8000 + n}. " * 24}
        for n in range(first, first + turns)
        for role in ("user", "assistant")
    ]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose nodes stand before any cut, and which has more to fold."""
    path = tmp_path_factory.mktemp("template") / "lcm.sqlite"
    anyio.run(_fill, path)
    return path


async def _fill(path: Path) -> None:
    async with serving(path) as service:
        await service.append("s", talk(0, 30))
        while (given := await service.next_summary("s")).task is not None and given.depth == 0:
            await service.submit_summary(given.task, f"Ports of {given.span}.")
        await service.append("s", talk(30, 12))
        await service.append("other", talk(0, 2))
        await service.work.store.write(say(rich=True))


def prepare(strategy: Strategy, compact: Literal["auto", "force"] = "auto") -> Deed:
    query = PrepareQuery("s", strategy=strategy, compact=compact, window_tokens=WINDOW)
    return lambda service: service.prepare(query)


async def submit(service: Service) -> None:
    given = await service.next_summary("s")
    if given.task is not None:
        await service.submit_summary(given.task, "Ports were chosen.")


CALLS: Mapping[str, Deed] = {
    "prepare by lcm": prepare("lcm"),
    "prepare by rolling": prepare("rolling"),
    "compact by lcm": lambda service: service.compact("s", "lcm"),
    "compact by rolling": lambda service: service.compact("s", "rolling"),
    "append": lambda service: service.append("s", talk(50, 1)),
    "rewind": lambda service: service.rewind("e10", "s"),
    "fork": lambda service: service.fork("s", "e10"),
    "redo": lambda service: service.redo("#1", "s"),
    "write a summary": submit,
    "expand": lambda service: service.expand("#1", "s"),
    "find": lambda service: service.grep(GrepQuery("Decision", session="s")),
    "ask": lambda service: service.expand_query("Which port?", session="s"),
    "measure": lambda service: service.stats("s"),
    "glance": lambda service: service.glance("s", WINDOW),
    "pin": lambda service: service.pin(["e3"], "s"),
    "select": lambda service: service.select("s", "lcm"),
    "forget": lambda service: service.forget("s"),
}


def say(rich: bool) -> Callable[[apsw.Connection], None]:
    """Let every node say something else, in two tiers or in one."""

    def job(db: apsw.Connection) -> None:
        session = sessions.find_by_key(db, "s")
        if session is None:
            return
        for node in range(1, session.next_node):
            was = dag.tiers(db, session.id, NodeId(node))["primary"]
            made = replace(was, text=f"{was.text} Ports.")
            thorough = replace(made, kind="rich", text=f"{was.text} Ports, all of them.")
            supersede(db, session.id, NodeId(node), was.text, Summary(made, thorough if rich else None), 1)

    return job


MEDDLING: Mapping[str, Deed] = {
    "forgets it": lambda service: service.forget("s"),
    "rewinds it": lambda service: service.rewind("e6", "s"),
    "appends": lambda service: service.append("s", talk(70, 2)),
    "compacts by lcm": prepare("lcm", "force"),
    "compacts by rolling": prepare("rolling", "force"),
    "says less of each node": lambda service: service.work.store.write(say(rich=False)),
    "says more of each node": lambda service: service.work.store.write(say(rich=True)),
    "writes a summary": submit,
}


@dataclass
class Steps:
    """Before one step of a store, once, somebody else does something."""

    of: Store
    before: int
    deed: Callable[[], Awaitable[object]]
    taken: int = 0

    async def step(self, store: Store) -> None:
        if store is not self.of:
            return
        self.taken += 1
        if self.taken == self.before + 1:
            # What waits for the call itself (one process at a time compacts) does not come in between.
            with anyio.move_on_after(0.1), suppress(LcmError):
                await self.deed()


@contextmanager
def between(monkeypatch: pytest.MonkeyPatch, steps: Steps) -> Generator[None]:
    with monkeypatch.context() as patched:
        for name in ("read", "read_soon", "write", "write_derived"):
            real = getattr(Store, name)

            async def stepping(store: Store, *args: object, _real: Any = real, **kwargs: object) -> object:
                await steps.step(store)
                return await _real(store, *args, **kwargs)

            patched.setattr(Store, name, stepping)
        yield


async def refusing(call: Awaitable[object]) -> None:
    """Let a call answer or refuse; what it says of the store is no refusal, for nothing is wrong with it."""
    try:
        await call
    except StoreError:
        raise
    except LcmError:
        pass


@dataclass
class Stage:
    """A store as it was, as often as it is wanted."""

    template: Path
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    open: Callable[[Path], AbstractAsyncContextManager[Service]] = serving

    async def interrupt(self, call: Deed, meddling: Deed) -> None:
        """Make a call as often as it takes steps, with somebody meddling before another one each time."""
        before = 0
        while True:
            path = self.folder / f"{before}.sqlite"
            shutil.copy(self.template, path)
            async with self.open(path) as service, serving(path) as other:
                steps = Steps(service.work.store, before, partial(meddling, other))
                with between(self.monkeypatch, steps):
                    await refusing(call(service))
                await service.work.store.read(assert_sound)
            path.unlink()
            if steps.taken <= before:
                break
            before += 1
        assert before


@pytest.fixture
def stage(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(template, tmp_path, monkeypatch)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("meddling", MEDDLING)
async def test_a_call_answers_or_refuses_whatever_others_write_between_its_steps(
    call: str, meddling: str, stage: Stage
) -> None:
    await stage.interrupt(CALLS[call], MEDDLING[meddling])


@pytest.mark.parametrize("call", ["redo", "ask", "compact by lcm", "compact by rolling", "upgrade"])
@pytest.mark.parametrize("meddling", ["forgets it", "rewinds it", "says less of each node"])
async def test_so_it_is_where_a_model_is_asked_between_two_steps(
    call: str, meddling: str, stage: Stage
) -> None:
    stage.open = partial(using, summarizers=[{"kind": "command", "command": ["echo", "Some ports."]}])
    calls: Mapping[str, Deed] = {**CALLS, "upgrade": lambda service: service.upgrade("s")}
    await stage.interrupt(calls[call], MEDDLING[meddling])


@pytest.mark.parametrize("call", ["catch up", "import it again", "import another into it", "find"])
@pytest.mark.parametrize("meddling", ["forgets it", "rewinds it", "appends", "catches up"])
async def test_so_it_is_where_a_followed_file_has_grown(
    call: str, meddling: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "WHOLE", batches.Most(2, batches.WHOLE.bytes))
    file, another = stage.folder / "s.jsonl", stage.folder / "another.jsonl"
    for each in (file, another):
        add(each, *(said(f"{each.stem} {n}") for n in range(9)))
    stage.template = stage.folder / "following.sqlite"
    async with serving(stage.template) as service:
        await service.import_file(file, session="s")
    add(file, *(said(f"More {n}") for n in range(9)))
    calls: Mapping[str, Deed] = {
        **CALLS,
        "catch up": lambda service: service.catch_up(),
        "import it again": lambda service: service.import_file(file, session="s"),
        "import another into it": lambda service: service.import_file(another, session="s"),
    }
    catch_up: Deed = lambda service: service.catch_up()  # noqa: E731
    await stage.interrupt(calls[call], {**MEDDLING, "catches up": catch_up}[meddling])
