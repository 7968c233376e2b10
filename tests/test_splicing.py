"""What a client holds of an earlier request and is given since makes the request, message for message."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import apsw
import pytest
from histories import Entry, batches
from holding import Holding, held_in_full, hold
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from turns import KEY, Writer, turns, using

from lcm_mcp.dag.cuts import last_cut
from lcm_mcp.projection.model import FORMATS, Format
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript import sessions

LONG = "LCM_LONG" in os.environ or os.environ.get("HYPOTHESIS_PROFILE") == "long"

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


# --- at random


@dataclass(frozen=True, slots=True)
class Say:
    """Rows are appended, unseen by the client where it does not append them itself."""

    entries: list[Entry]
    unseen: bool


@dataclass(frozen=True, slots=True)
class Fold:
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Switch:
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Name:
    model: str


@dataclass(frozen=True, slots=True)
class Back:
    """The history is moved so many rows back, as far as the tail reaches."""

    rows: int


Deed = Say | Fold | Switch | Name | Back
strategies: st.SearchStrategy[Strategy] = st.sampled_from(["lcm", "rolling"])
says = st.builds(Say, batches, st.sampled_from([False, False, True]))
others: st.SearchStrategy[Deed] = st.one_of(
    st.builds(Fold, strategies),
    st.builds(Fold, strategies),
    st.builds(Switch, strategies),
    st.builds(Name, st.sampled_from(["one", "two"])),
    st.builds(Back, st.integers(1, 6)),
)
deeds: st.SearchStrategy[Deed] = st.integers(0, 9).flatmap(lambda n: others if n > 6 else says)
steps = st.tuples(deeds, st.sampled_from([0, 0, 0, 1, 1, 2, 3]))


@settings(
    max_examples=2000 if LONG else 60,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    form=st.sampled_from(FORMATS),
    doing=st.integers(3, 10).flatmap(lambda size: st.lists(steps, min_size=size, max_size=size)),
)
def test_what_is_held_and_what_is_given_make_the_request_in_every_format(
    form: Format, doing: list[tuple[Deed, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(partial(live, Path(folder), form, doing))


async def live(folder: Path, form: Format, doing: list[tuple[Deed, int]]) -> None:
    """Do one deed after another, and after each ask with what was held so many requests ago."""
    async with using(folder / "lcm.sqlite", Writer(), settings={"strategy": "none"}) as service:
        holding = [await hold(service, PrepareQuery(KEY, append=turns(1, 1), format=form))]
        for number, (deed, back) in enumerate(doing):
            note(f"deed {number}, holding {holding[-1 - min(back, len(holding) - 1)].prepared}")
            query = await do(service, deed, form)
            before = holding[-1 - min(back, len(holding) - 1)]
            now = await hold(service, query, before)
            is_the_request(before, now, await held_in_full(service, query))
            holding.append(now)


async def do(service: Service, deed: Deed, form: Format) -> PrepareQuery:
    """Do it, or give the request that does."""
    match deed:
        case Say(entries, unseen=False):
            return PrepareQuery(KEY, append=entries, format=form)
        case Say(entries):
            await service.append(KEY, entries)
        case Fold(strategy):
            await service.prepare(
                PrepareQuery(KEY, strategy=strategy, window_tokens=1000, compact="force", given=False)
            )
        case Switch(strategy):
            return PrepareQuery(KEY, strategy=strategy, format=form)
        case Name(model):
            return PrepareQuery(KEY, model=model, format=form)
        case Back(rows):
            await service.work.store.write(move_back, rows)
    return PrepareQuery(KEY, format=form)


def move_back(db: apsw.Connection, rows: int) -> None:
    """What a rewind writes: the leaf; every cut made of the rows after it is none any more."""
    session = sessions.find_by_key(db, KEY)
    assert session is not None
    cuts = [last_cut(db, session.id, strategy) for strategy in ("lcm", "rolling")]
    floor = max([1, *(cut.tail_from for cut in cuts if cut is not None)])
    leaf = session.leaf
    for _ in range(rows):
        before: int = db.execute("SELECT prev FROM row WHERE session = ? AND seq = ?", (session.id, leaf)).get
        if before < floor:
            break
        leaf = before
    db.execute("UPDATE session SET leaf = ? WHERE id = ?", (leaf, session.id))


def is_the_request(before: Holding, now: Holding, whole: Holding) -> None:
    assert now.prepared == whole.prepared
    assert now.lines == whole.lines
    assert now.answer.cache_breakpoints == whole.answer.cache_breakpoints
    if now.answer.change == "none":
        assert now.lines == before.lines
    if now.answer.keep_from is not None:
        kept = before.messages[now.answer.omit : now.answer.omit + now.answer.keep]
        refs = [ref for _, sources in kept for ref in sources]
        assert refs[0] == now.answer.keep_from
