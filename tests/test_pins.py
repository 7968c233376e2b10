"""Pins: made with a row or later, by address, all or none, and never by repeating what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from harbour import call
from stores import NOW, add, database, draft, new_session, serving
from transcripts import neutral_file

from lcm_mcp.cli import main
from lcm_mcp.errors import LcmError
from lcm_mcp.ids import Seq
from lcm_mcp.service import Service
from lcm_mcp.service.pinning import PinLine
from lcm_mcp.transcript import pins
from lcm_mcp.transcript.sealing import seal

_RULE = "Never touch\nprod."


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    with database(tmp_path / "pins.sqlite") as opened:
        yield opened


def since(db: apsw.Connection) -> dict[int, int]:
    return dict(db.execute("SELECT seq, pinned_at FROM pin"))


async def talk(service: Service, key: str, *pinned: int, rows: int = 4) -> None:
    """A session whose rows (numbers from 1) are short, some pinned."""
    entries = [
        {"role": "user", "content": f"{_RULE} {key} {n}", "entry_id": f"{n}", "pin": n in pinned}
        for n in range(1, rows + 1)
    ]
    await service.append(key, entries)


async def refs(service: Service, key: str) -> list[str]:
    return [line.ref for line in (await service.pin([], key)).pinned]


# --- in the store


def test_rows_are_pinned_as_they_are_appended_on_the_path_or_off_it(db: apsw.Connection) -> None:
    session, other = new_session(db), new_session(db)
    rule = replace(draft("user", _RULE), pin=True)
    add(db, session, draft("user", "hello"), rule, draft("assistant", "yes"), replace(rule, active=False))
    add(db, other, draft("user", "hello"), draft("assistant", "hi"))
    assert pins.pinned(db, session) == [2, 4]
    assert pins.pinned(db, other) == []
    assert since(db) == {2: NOW, 4: NOW}


def test_an_entry_that_is_there_neither_pins_nor_unpins_its_row(db: apsw.Connection) -> None:
    session = new_session(db)
    plain, rule = draft("user", "hello", id="a"), replace(draft("user", _RULE, id="b"), pin=True)
    add(db, session, plain, rule)
    again = add(db, session, replace(plain, pin=True), replace(rule, pin=False))
    assert again.duplicates == (1, 2)
    other = add(db, session, replace(draft("user", "other words", id="a"), pin=True))
    assert other.conflicts == (1,)
    assert pins.pinned(db, session) == [2]
    assert pins.unpin(db, session, Seq(2))
    assert add(db, session, rule).duplicates == (2,)
    assert pins.pinned(db, session) == []


def test_a_pin_is_no_part_of_what_tells_contents_apart() -> None:
    rule = draft("user", _RULE)
    assert replace(seal(replace(rule, pin=True)), pin=False) == seal(rule)


def test_a_row_is_pinned_once_and_stays_pinned_since_the_first_time(db: apsw.Connection) -> None:
    session = new_session(db)
    add(db, session, *(draft("user", f"row {n}") for n in range(3)))
    assert [pins.pin(db, session, Seq(seq), NOW + seq) for seq in (3, 1, 3)] == [True, True, False]
    assert pins.pin(db, session, Seq(1), NOW + 9) is False
    assert pins.pinned(db, session) == [1, 3]
    assert since(db) == {1: NOW + 1, 3: NOW + 3}
    assert [pins.is_pinned(db, session, Seq(seq)) for seq in (1, 2, 3)] == [True, False, True]
    assert [pins.unpin(db, session, Seq(seq)) for seq in (2, 3, 3)] == [False, True, False]
    assert pins.pinned(db, session) == [1]


# --- by address


async def test_rows_are_pinned_and_unpinned_by_their_addresses(store_path: Path) -> None:
    async with serving(store_path) as service:
        await talk(service, "talk", 3)
        done = await service.pin(["e4", "e2", "e3", "e4"], "talk")
        assert (done.session, done.changed) == ("talk", ("e4", "e2"))
        assert [line.ref for line in done.pinned] == ["e2", "e3", "e4"]
        undone = await service.pin(["e1", "e3"], "talk", off=True)
        assert undone.changed == ("e3",)
        assert [line.ref for line in undone.pinned] == ["e2", "e4"]
    async with serving(store_path) as service:
        assert await refs(service, "talk") == ["e2", "e4"]


async def test_a_row_of_another_session_is_pinned_there(store_path: Path) -> None:
    async with serving(store_path) as service:
        await talk(service, "first")
        await talk(service, "last")
        done = await service.pin(["s1/e4"])
        assert (done.session, done.changed) == ("first", ("e4",))
        assert await refs(service, "last") == []
        assert (await service.pin([])).session == "last"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("e9", "e9 names nothing in session 'talk'"),
        ("#1", "refs: '#1' is no row. Only rows can be pinned"),
        ("e1..e2", "refs: 'e1..e2' is no row"),
        ("all", "'all' is not an address"),
        ("s9/e1", "There is no session 's9'"),
        ("s2/e1", "'talk' is not the session that s2/e1 lies in"),
    ],
)
async def test_one_wrong_address_is_refused_and_nothing_is_pinned(
    store_path: Path, wrong: str, words: str
) -> None:
    async with serving(store_path) as service:
        await talk(service, "talk", 3)
        await talk(service, "other")
        for named, off in ((["e1", wrong], False), ([wrong, "e1"], False), (["e3", wrong], True)):
            with pytest.raises(LcmError) as refusal:
                await service.pin(named, "talk", off)
            assert words in str(refusal.value)
        assert await refs(service, "talk") == ["e3"]
        assert await refs(service, "other") == []


async def test_rows_of_two_sessions_are_not_pinned_at_once(store_path: Path) -> None:
    async with serving(store_path) as service:
        await talk(service, "talk")
        await talk(service, "other")
        with pytest.raises(LcmError, match="they lie in 2 sessions, s1 and s2 among them"):
            await service.pin(["s1/e1", "s2/e1"])
        assert await refs(service, "talk") == await refs(service, "other") == []


async def test_listing_needs_no_write_lock(store_path: Path) -> None:
    async with serving(store_path) as service:
        await talk(service, "talk", 1)
        holder = apsw.Connection(str(store_path))
        try:
            holder.execute("BEGIN IMMEDIATE")
            assert await refs(service, "talk") == ["e1"]
        finally:
            holder.close()


async def test_a_listed_row_says_what_it_is_in_at_most_200_characters(store_path: Path) -> None:
    long = {"role": "user", "content": "Never\n touch  prod. " * 40, "pin": True, "at": 0}
    async with serving(store_path) as service:
        await service.append("talk", [long])
        (line,) = (await service.pin([], "talk")).pinned
    assert line == PinLine("e1", "user", "1970-01-01T00:00:00.000Z", 212, False, line.preview)
    assert line.preview == ("Never touch prod. " * 40)[:200]


async def test_a_removed_row_keeps_its_pin_and_is_listed_as_removed(store_path: Path) -> None:
    with database(store_path) as db:
        session = new_session(db, "talk")
        add(db, session, draft("user", "hello"), replace(draft("user", _RULE, active=False), pin=True))
    async with serving(store_path) as service:
        assert [(line.ref, line.removed) for line in (await service.pin([], "talk")).pinned] == [("e2", True)]


# --- at the edges


async def test_tools_pin_with_an_append_and_tell_by_describing(store_path: Path) -> None:
    async with serving(store_path) as service:
        entries = [{"role": "user", "content": _RULE, "pin": True}, {"role": "assistant", "content": "yes"}]
        await call(service, "lcm_append", session="talk", entries=entries)
        rule, answer = [await call(service, "lcm_describe", id=ref) for ref in ("e1", "e2")]
    assert (rule.structured["row"]["pinned"], answer.structured["row"]["pinned"]) == (True, False)
    assert ", pinned" in rule.text
    assert ", not pinned" in answer.text


async def test_an_import_pins_what_its_entries_say(store_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    lines = [{"session": "talk"}, {"role": "user", "content": "hello"}]
    lines += [{"role": "user", "content": _RULE, "pin": True}, {"role": "user", "content": "x", "pin": "no"}]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    async with serving(store_path) as service:
        outcome = await service.import_file(file)
        assert outcome.report.bad == ((4, "pin: it is a text, neither true nor false"),)
        assert await refs(service, "talk") == ["e2"]
        await service.pin(["e2"], "talk", off=True)
        await service.import_file(file)
        assert await refs(service, "talk") == []


def run(capsys: pytest.CaptureFixture[str], db: Path, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["--db", str(db), *map(str, arguments)])
    out, err = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, out, err


def test_the_command_pins_unpins_and_lists(
    capsys: pytest.CaptureFixture[str], store_path: Path, tmp_path: Path
) -> None:
    def done(*arguments: str | Path) -> str:
        code, out, err = run(capsys, store_path, *arguments)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines()), default=0) <= 80
        return out

    done("import", neutral_file(tmp_path / "talk.jsonl", "never \x1b[31mtouch prod", "I will not", "good"))
    assert "No row of talk is pinned.\nPin one with lcm-mcp pin e104" in done("pin")
    shown = done("pin", "e1", "e3")
    assert shown.startswith("Pinned e1, e3.\ntalk  2 pinned rows\ne1  user  ")
    assert "\n    never touch prod\n" in shown
    assert "from the next cut on" in shown
    assert done("pin", "e1").startswith("Nothing changed.\ntalk  2 pinned rows\n")
    assert "pinned    yes" in done("describe", "e1")
    assert "pinned" not in done("describe", "e2")
    assert done("pin", "--off", "e1", "e3", "--quiet") == ""
    assert done("pin", "s1/e2").startswith("Pinned e2.\n")
    assert done("pin", "--off", "e2").startswith("Unpinned e2.\nNo row of talk is pinned.\n")


def test_the_command_answers_in_json_and_refuses_in_a_line(
    capsys: pytest.CaptureFixture[str], store_path: Path, tmp_path: Path
) -> None:
    run(capsys, store_path, "import", neutral_file(tmp_path / "talk.jsonl", _RULE, "yes"))
    _, out, _ = run(capsys, store_path, "pin", "e1", "--session", "talk", "--json")
    answer = json.loads(out)
    assert (answer["session"], answer["changed"]) == ("talk", ["e1"])
    (line,) = answer["pinned"]
    assert line.keys() == {"ref", "role", "at", "tokens", "removed", "preview"}
    assert line["preview"] == "Never touch prod."
    code, out, err = run(capsys, store_path, "pin", "e1", "e9")
    assert (code, out) == (1, "")
    assert err.startswith("lcm-mcp: e9 names nothing in session 'talk'.")
    code, _, err = run(capsys, store_path, "pin", "--off")
    assert code == 2
    assert "--off needs the rows to unpin" in err
