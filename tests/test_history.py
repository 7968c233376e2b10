"""Histories that move: what a fork, a rewind, an export and a forgotten session must not be taken for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from asking import dump, look, same
from harbour import call
from stores import serving
from test_keeping import copied, told
from turns import turns

from lcm_mcp.errors import InvalidArgument, UnknownSession
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery, PrepareQuery


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def lines(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in said(*texts)))
    return path


async def added(service: Service, path: Path, session: str) -> tuple[int, int]:
    report = (await service.import_file(path, session=session)).report
    assert report.conflicts == ()
    return report.rows_added, report.duplicates


async def texts(service: Service, session: str, last: int) -> list[str]:
    return [row.text for row in (await service.expand(f"e1..e{last}", session)).rows]


# --- files without ids, in a fork


@pytest.mark.parametrize("parent_is_there", [True, False])
async def test_a_file_put_into_a_fork_is_no_other_file_and_its_parents_is_the_same(
    tmp_path: Path, parent_is_there: bool
) -> None:
    theirs = lines(tmp_path / "theirs.jsonl", "one", "two", "three")
    async with serving(tmp_path / "lcm.sqlite") as service:
        assert await added(service, theirs, "talk") == (3, 0)
        await service.fork("talk", "e2", "try")
        if parent_is_there:
            assert await added(service, theirs, "try") == (1, 2)
            assert await added(service, theirs, "try") == (0, 3)
        else:
            await service.forget("talk")
        ours = lines(tmp_path / "ours.jsonl", "one", "another")
        assert await added(service, ours, "try") == (2, 0)
        assert await added(service, ours, "try") == (0, 2)
        assert await added(service, lines(ours, "one", "another", "more"), "try") == (1, 2)


async def test_other_versions_of_a_row_come_along_into_a_fork(tmp_path: Path) -> None:
    one, other = ({"role": "user", "content": text, "entry_id": "u1"} for text in ("this", "that"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", [one, other])
        await service.fork("talk", None, "try")
        for key in ("talk", "try"):
            before = await dump(service)
            assert (await service.append(key, [other])).conflicts == ("e1",)
            await same(service, before)
            described = (await service.describe("e1", key)).row
            assert described is not None
            assert described.variants == 1
        await service.forget("talk")
        assert (await service.doctor()).healthy
        assert len((await dump(service))["variant"]) == 1


# --- the very beginning


async def test_a_rewind_to_the_beginning_removes_every_row_and_what_follows_starts_anew(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("one", "two"))
        await service.append("talk", turns(1, 9))
        await service.compact("talk", "lcm")
        shown = await look(service, PrepareQuery("talk"))
        tables = await dump(service)
        moved = await service.rewind("e0", "talk")
        assert (moved.removed, moved.restored, moved.leaf) == (20, 0, "e0")
        assert (await service.rewind("s1/e0", "talk")).removed == 0
        assert (await look(service, PrepareQuery("talk")))["messages"].messages == ()
        assert not (await service.grep(GrepQuery("turn", session="talk"))).hits
        assert all(node.removed for node in (await service.list_nodes("talk")).nodes)
        assert (await service.doctor()).healthy
        with pytest.raises(InvalidArgument, match="before its first row"):
            await service.fork("talk", None, "try")
        await service.rewind("e20", "talk")
        await same(service, tables)
        again = (await look(service, PrepareQuery("talk")))["messages"]
        assert again.messages == shown["messages"].messages
        await service.rewind("e0", "talk")
        await service.append("talk", said("anew"))
        view = (await look(service, PrepareQuery("talk")))["messages"]
        assert view.tail == ["e21"]
        tree = await service.tree("talk")
        assert [(branch.after, branch.active, branch.rows) for branch in tree.branches] == [
            (None, True, 1),
            (None, False, 20),
        ]


async def test_a_path_may_end_at_a_row_that_never_stood_on_it_and_go_back(tmp_path: Path) -> None:
    """Such as a client's own summary: it is then the last row, and neither calls nor answers."""
    beside = {"role": "user", "content": "a client's summary", "active": False}
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", [*said("one", "two"), beside, *said("three")])
        before = await dump(service)
        moved = await service.rewind("e3", "talk")
        assert (moved.removed, moved.restored, moved.leaf) == (1, 1, "e3")
        assert (await look(service, PrepareQuery("talk")))["messages"].tail == ["e1", "e2", "e3"]
        assert (await service.doctor()).healthy
        moved = await service.rewind("e4", "talk")
        assert (moved.removed, moved.restored) == (1, 1)
        await same(service, before)
        await service.rewind("e3", "talk")
        await service.append("talk", said("and on"))
        assert (await look(service, PrepareQuery("talk")))["messages"].tail == ["e1", "e2", "e3", "e5"]
        assert (await service.doctor()).healthy


# --- exports


@pytest.mark.parametrize("leaf", ["e0", "e1", "e3", "e5", "e8", "e9"])
async def test_an_export_of_a_rewound_session_ends_where_it_did(tmp_path: Path, leaf: str) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("one", "two", "three", "four"))
        await service.append("talk", [{**entry, "parent": "e2"} for entry in said("again")])
        await service.append("talk", said("more", "yet more"))
        await service.rewind("e0", "talk")
        await service.append("talk", said("from the beginning", "on"))
        await service.rewind(leaf, "talk")
    before, after = await copied(tmp_path)
    assert after == before


async def test_an_export_keeps_a_branch_that_starts_inside_of_a_message(tmp_path: Path) -> None:
    result = {"type": "tool_result", "call_id": "a", "content": "x"}
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("look"))
        for id in "ab":
            called: dict[str, Any] = {"type": "tool_call", "call_id": id, "name": "ls", "arguments": {}}
            await service.append("talk", [{"role": "assistant", "content": [called], "message_id": "m"}])
        await service.append("talk", [{"role": "tool", "content": [result]}])
        await service.rewind("e2", "talk")
        await service.append("talk", [{"role": "tool", "content": [result]}])
        assert (await look(service, PrepareQuery("talk")))["messages"].tail == ["e1", "e2", "e5"]
    before, after = await copied(tmp_path)
    assert after == before


async def test_an_export_that_is_imported_again_moves_nothing_that_went_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("one", "two", "three", "four"))
        await service.rewind("e2", "talk")
        file = tmp_path / "out.jsonl"
        file.write_bytes(b"".join([page async for page in service.export("talk")]))
    async with serving(tmp_path / "other.sqlite") as other:
        await other.import_file(file)
        await other.append("talk", said("five"))
        await other.import_file(file)
        assert (await look(other, PrepareQuery("talk")))["messages"].tail == ["e1", "e2", "e5"]


@pytest.mark.parametrize("at", ["e7", "e9"])
async def test_an_export_of_a_fork_leaves_out_the_numbers_that_it_has_no_rows_of(
    tmp_path: Path, at: str
) -> None:
    file = tmp_path / "out.jsonl"
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("one", "two", "three", "four"))
        await service.append("talk", [{**entry, "parent": "e2"} for entry in said("again")])
        await service.append("talk", said("more", "yet more"))
        await service.rewind("e0", "talk")
        await service.append("talk", said("from the beginning", "on"))
        await service.fork("talk", at, "try")
        await service.append("try", said("and on"))
        before = await service.work.store.read(told, 1)
        file.write_bytes(b"".join([page async for page in service.export("try")]))
    async with serving(tmp_path / "other.sqlite") as other:
        for added in (6 if at == "e7" else 3, 0):
            outcome = await other.import_file(file)
            assert (outcome.report.rows_added, outcome.report.bad_lines) == (added, 0)
            assert await other.work.store.read(told) == before
        assert (await other.doctor()).healthy
        assert (await other.append("try", said("later"))).refs == (f"e{int(at[1:]) + 2}",)


async def test_a_number_that_is_taken_or_absurd_moves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    odd = [{"next_number": number} for number in (1, 2**60, -3)]
    file.write_text("".join(json.dumps(line) + "\n" for line in [*said("one", "two"), *odd, *said("three")]))
    async with serving(tmp_path / "lcm.sqlite") as service:
        report = (await service.import_file(file, "neutral", "talk")).report
        assert (report.rows_added, report.bad_lines) == (3, 2)
        assert await texts(service, "talk", 3) == ["one", "two", "three"]


# --- what is gone


async def test_the_number_of_a_forgotten_session_is_given_to_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("one", said("one"))
        await service.append("two", said("two"))
        await service.forget("two")
        for number, make in enumerate(("append", "fork", "again"), 3):
            if make == "fork":
                assert (await service.fork("one", None, make)).id == f"s{number}"
            else:
                await service.append(make, said(make))
            with pytest.raises(UnknownSession):
                await service.expand("s2/e1")
        listed = (await service.sessions(project="*")).sessions
        assert {line.id for line in listed} == {"s1", "s3", "s4", "s5"}


# --- redo


async def test_a_node_that_says_the_same_again_is_told_as_it_stands(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", turns(1, 9))
        await service.compact("talk", "lcm")
        await service.work.store.write(lambda db: db.execute("UPDATE tier SET model = 'another'"))
        before = await dump(service)
        redone = await service.redo("#1", "talk")
        assert (redone.changed, redone.model) == (False, "another")
        await same(service, before)


# --- a search


async def test_a_search_that_finds_removed_rows_alone_says_how_many(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", said("one", "a needle", "needle again", "end"))
        await service.rewind("e1", "talk")
        found = await service.grep(GrepQuery("needle", session="talk"))
        assert found.hits == ()
        assert "removed rows left out, of which 2 match (include_removed); " in found.searched
        for pattern, removed in (("needle", True), ("nowhere", False), ("one", False)):
            found = await service.grep(GrepQuery(pattern, session="talk", include_removed=removed))
            assert "match" not in found.searched


# --- descriptions


async def test_a_row_of_thousands_of_parts_is_described_by_the_first_and_their_number(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": f"part {n}"} for n in range(5000)]
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", [{"role": "user", "content": parts}])
        described = (await service.describe("e1", "talk")).row
        assert described is not None
        assert (len(described.parts), described.part_count) == (200, 5000)
        told = (await call(service, "lcm_describe", id="e1", session="talk")).text
        assert "5000 parts:" in told
        assert "(+4800 more; lcm_expand with include_payload gives all)" in told
        assert len(told) < 10_000


def spoil(db: apsw.Connection, text: str) -> None:
    db.execute("UPDATE text SET body = ? WHERE id = (SELECT text FROM tier WHERE node = 1)", (text,))


async def test_a_node_made_again_many_times_shows_what_it_said_last_and_how_often(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", turns(1, 9))
        await service.compact("talk", "lcm")
        for n in range(7):
            await service.work.store.write(spoil, f"bad {n}")
            assert (await service.redo("#1", "talk")).changed
        node = (await service.describe("#1", "talk")).node
        assert node is not None
        assert [old.text for old in node.superseded] == [f"bad {n}" for n in (6, 5, 4, 3, 2)]
        assert node.superseded_count == 7
        assert "(+2 earlier ones)" in (await call(service, "lcm_describe", id="#1", session="talk")).text
