"""A turn costs what is new: what prepare_context answers a client that says what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from histories import HUGE, Entry, a_call, entry, one_result
from holding import Holding, held_in_full, hold
from turns import KEY, Writer, said, turn, turns, using, work

from lcm_mcp.errors import AppendConflict
from lcm_mcp.projection.model import FORMATS, Format
from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.tools.prepare_context import TOOL
from lcm_mcp.tools.text import written

WIRE: tuple[Format, ...] = ("messages", "anthropic", "openai")


def asking(**more: Any) -> PrepareQuery:
    return PrepareQuery(KEY, **more)


async def next_turn(service: Service, held: Holding, **more: Any) -> Holding:
    """The next request, made of what is held; checked against the whole of it."""
    now = await hold(service, asking(**more), held)
    whole = await held_in_full(service, asking(**more))
    assert now.lines == whole.lines
    assert now.answer.cache_breakpoints == whole.answer.cache_breakpoints
    return now


@pytest.mark.parametrize("form", WIRE)
async def test_a_turn_is_given_its_new_messages_only(store_path: Path, form: Format) -> None:
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 20), format=form))
        assert (held.answer.change, len(held.messages)) == ("full", 40)
        now = await next_turn(service, held, append=turn("turn 21"), format=form)
        answer = now.answer
        assert (answer.change, answer.omit, answer.keep, answer.keep_from) == ("splice", 0, 40, "e1")
        assert [(shown.index, shown.sources) for shown in answer.insert] == [(40, ("e41",)), (41, ("e42",))]
        assert (answer.messages, answer.fragment, answer.next_cursor) == ((), None, None)


async def test_what_is_kept_begins_at_a_row_that_is_shown(store_path: Path) -> None:
    """After a rewind to before the first row, that is another one."""
    async with using(store_path) as service:
        await hold(service, asking(append=turns(1, 2)))
        await service.rewind("e0", KEY)
        held = await hold(service, asking(append=turns(3, 4)))
        same = await next_turn(service, held)
        grown = await next_turn(service, held, append=turn("turn 5"))
        told = [(now.answer.change, now.answer.keep_from) for now in (same, grown)]
        assert told == [("none", "e5"), ("splice", "e5")]


async def test_a_last_message_that_grows_is_given_again(store_path: Path) -> None:
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 3), format="anthropic"))
        now = await next_turn(service, held, append=[said("assistant", "and more", 50)], format="anthropic")
        assert (now.answer.omit, now.answer.keep) == (0, 5)
        assert [(shown.index, shown.sources) for shown in now.answer.insert] == [(5, ("e6", "e7"))]


@pytest.mark.parametrize("form", FORMATS)
async def test_where_nothing_is_new_nothing_is_given(store_path: Path, form: Format) -> None:
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 3), format=form))
        now = await next_turn(service, held, format=form)
        assert (now.answer.change, now.answer.insert, now.answer.messages) == ("none", (), ())
        assert now.messages == held.messages


@pytest.mark.parametrize("form", WIRE)
@pytest.mark.parametrize("strategy", ["lcm", "rolling"])
async def test_over_a_cut_the_tail_is_kept_behind_another_beginning(
    store_path: Path, strategy: str, form: Format
) -> None:
    async with using(store_path, Writer(), settings={"strategy": strategy}) as service:
        held = await hold(service, asking(append=turns(1, 8), format=form, window_tokens=2000))
        now = await next_turn(service, held, append=turn("turn 9"), format=form, window_tokens=2000)
        answer = now.answer
        assert (answer.prepared, answer.change) == ("c1.e18", "splice")
        assert answer.omit > 0
        assert answer.keep > 0
        assert answer.insert[0].index == 0
        assert "[lcm:history]" in str(answer.insert[0].message)
        assert [shown.sources for shown in answer.insert][-2:] == [("e17",), ("e18",)]
        assert answer.keep_from == held.messages[answer.omit][1][0]


def calling(call_id: str) -> list[Entry]:
    return [said("user", "again", 50), entry("assistant", [a_call(call_id, {})]), one_result(call_id, 2)]


@pytest.mark.parametrize(
    "ids", [["a", "b", "a", "b"], ["a", "a", "a"], ["a", "b.c", "d", "b_c"], ["a_2", "a", "a"]]
)
async def test_ids_that_were_used_before_stay_unique(store_path: Path, ids: list[str]) -> None:
    """In Anthropic's form an id is new in its request, so what is spliced depends on what is kept."""
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 1), format="anthropic"))
        for call_id in [*ids, "e", "f"]:
            held = await next_turn(service, held, append=calling(call_id), format="anthropic")
            assert held.answer.change == "splice"


async def test_a_row_that_shows_nothing_is_no_place_to_splice_at(store_path: Path) -> None:
    """In OpenAI's form an assistant's reasoning is left out, and the users around it become one message."""
    thinking = entry("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}])
    async with using(store_path) as service:
        held = await hold(service, asking(append=[*turns(1, 2), said("user", "one", 50)], format="openai"))
        for n in range(4):
            held = await next_turn(
                service, held, append=[thinking, said("user", f"{n}", 50)], format="openai"
            )
            assert len(held.messages) == 5


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"have": "c0.e999"}, "no request of this session is remembered as 'c0.e999'"),
        ({"have": "banana"}, "no request of this session is remembered as 'banana'"),
        ({"have": "c0.e4", "format": "openai"}, "another format or for another model"),
        ({"have": "c0.e4", "model": "another"}, "another format or for another model"),
        ({"have": "c0.e4", "provider": "another"}, "another format or for another model"),
        ({"have": "c0.e2"}, "no request of this session is remembered as 'c0.e2'"),  # another session's
    ],
)
async def test_a_list_that_cannot_be_proved_is_answered_in_full(
    store_path: Path, asked: dict[str, Any], why: str
) -> None:
    async with using(store_path) as service:
        await service.prepare(PrepareQuery("other", append=turns(1, 1), format="anthropic"))
        named: dict[str, Any] = {"format": "anthropic", "model": "one", "provider": "some"}
        await hold(service, asking(append=turns(1, 2), **named))
        answer = await service.prepare(asking(append=turns(3, 3), **{**named, **asked}))
        assert (answer.change, answer.omit, answer.keep, answer.insert) == ("full", 0, 0, ())
        assert len(answer.messages) == answer.total_messages == 6
        assert any(note.startswith("have: ") and why in note for note in answer.notes), answer.notes


async def test_compacting_at_once_does_not_take_away_what_is_held(store_path: Path) -> None:
    async with using(store_path, Writer(), settings={"strategy": "lcm"}) as service:
        held = await hold(service, asking(append=turns(1, 8), format="openai", window_tokens=2000))
        await service.compact(KEY)
        held = await next_turn(service, held, format="openai", window_tokens=2000)
        assert (held.prepared, held.answer.change) == ("c1.e16", "splice")
        held = await next_turn(service, held, append=turn("turn 9"), format="openai", window_tokens=2000)
        assert (held.answer.change, held.answer.omit) == ("splice", 0)


# --- retries


async def test_a_call_repeated_after_a_lost_answer_gives_what_the_first_would_have(store_path: Path) -> None:
    entries = [made | {"entry_id": f"n{n}"} for n, made in enumerate(turns(1, 3))]
    async with using(store_path) as service:
        held = await hold(service, asking(append=entries[:4], format="openai"))
        query = asking(append=entries[4:], after="n3", format="openai")
        first = await hold(service, query, held)
        again = await hold(service, query, held)
        assert (again.prepared, again.lines) == (first.prepared, first.lines)
        assert again.answer.duplicates == first.answer.refs == ("e5", "e6")


async def test_a_guard_takes_entries_of_its_own_call_that_stand_there_already(store_path: Path) -> None:
    entries = [made | {"entry_id": f"n{n}"} for n, made in enumerate(turns(1, 4))]
    async with using(store_path) as service:
        await service.prepare(asking(append=entries[:4]))
        more = await service.prepare(asking(append=entries[2:6], after="n1"))
        assert (more.refs, more.duplicates) == (("e3", "e4", "e5", "e6"), ("e3", "e4"))
        # Here e5 and e6 are another's: this call never named them.
        with pytest.raises(AppendConflict):
            await service.prepare(asking(append=[*entries[2:4], entries[6]], after="n1"))
        assert (await service.prepare(asking())).prepared == "c0.e6"


async def test_the_guard_refuses_an_append_to_a_session_that_moved_on(store_path: Path) -> None:
    async with using(store_path) as service:
        await service.prepare(asking(append=turns(1, 2)))
        with pytest.raises(AppendConflict):
            await service.prepare(asking(append=turns(3, 3), after="e2"))
        assert (await service.prepare(asking(append=turns(3, 3), after="e4"))).prepared == "c0.e6"


# --- size


async def test_a_turn_of_a_session_of_200_000_tokens_is_under_20_kb(store_path: Path) -> None:
    async with using(store_path, settings={"strategy": "none"}) as service:
        history = [row for n in range(200) for row in [*turn(f"turn {n}", 400), *work(n, 600)]]
        held = await hold(service, asking(append=history, format="anthropic"))
        assert held.answer.estimated_input_tokens >= 200_000
        given = {
            "session": KEY,
            "format": "anthropic",
            "have": held.prepared,
            "append": [*turn("turn 200", 400), *work(200, 600)],
        }
        answered = await TOOL.call(service, given)
        assert answered.structured["change"] == "splice"
        assert len(written(answered.text)) + len(written(answered.structured)) < 20_000


async def test_a_splice_over_a_page_comes_in_pages(store_path: Path) -> None:
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 5), format="openai"))
        large = [entry("assistant", HUGE), entry("user", HUGE), *turn("turn 6")]
        now = await next_turn(service, held, append=large, format="openai")
        assert (now.answer.change, now.answer.keep) == ("splice", 9)
        assert now.answer.next_cursor is not None


# --- marks and words


async def test_marks_stand_at_the_summaries_before_the_newest_unit_and_at_the_end(store_path: Path) -> None:
    async with using(store_path, Writer(), settings={"strategy": "lcm"}) as service:
        held = await hold(service, asking(append=turns(1, 8), format="anthropic", window_tokens=2000))
        assert held.answer.cache_breakpoints == (13, 15)
        asked: dict[str, Any] = {"format": "anthropic", "window_tokens": 2000}
        held = await next_turn(service, held, append=turn("turn 9"), **asked)
        total = len(held.messages)
        assert held.answer.cache_breakpoints == (0, total - 3, total - 1)
        # In the same unit only the last one moves.
        held = await next_turn(service, held, append=work(1, 40), **asked)
        assert held.answer.cache_breakpoints == (0, total - 3, len(held.messages) - 1)


async def test_the_text_says_what_to_do_with_what_is_held(store_path: Path) -> None:
    async with using(store_path) as service:
        held = await hold(service, asking(append=turns(1, 2), format="openai"))
        given: dict[str, object] = {"session": KEY, "format": "openai", "have": held.prepared}
        none = await TOOL.call(service, given)
        assert "Change none: the 4 messages you hold are the request" in none.text
        spliced = await TOOL.call(service, {**given, "append": turn("turn 3")})
        assert (
            "Change splice: of the messages you hold leave out the first 0, keep the next 4 (rows e1 on) and "
            "no more, then put each one given here in at its [place], in this order; 6 messages in all as "
            "openai. 2 here, one a line:\n[4] rows e5: {" in spliced.text
        )
        assert "Cache breakpoints after messages [3], [5]." in spliced.text
