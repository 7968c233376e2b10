"""Imports through the service: which sessions a file feeds, and what listing and searching then show."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from stores import serving

from lcm_mcp.errors import ImportRefused, InvalidArgument
from lcm_mcp.service import Service
from lcm_mcp.service.answers import SessionLine
from lcm_mcp.service.requests import GrepQuery


def claude_line(
    uuid: str, text: str, *, side: bool = False, parent: str | None = None, cwd: str = "/p"
) -> bytes:
    line = {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": side,
        "sessionId": "main",
        "cwd": cwd,
        "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": "user", "content": text},
    }
    return orjson.dumps(line) + b"\n"


def written(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


async def by_key(service: Service) -> dict[str, SessionLine]:
    return {line.key: line for line in (await service.sessions(project="*")).sessions}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["subagent first", "main first"])
async def test_a_subagents_own_file_joins_its_main_session_in_either_order(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    files = (
        written(tmp_path / "agent-1.jsonl", claude_line("a1", "look around", side=True)),
        written(tmp_path / "main.jsonl", claude_line("m1", "please explore")),
    )
    async with serving(tmp_path / "lcm.sqlite") as service:
        for index in order:
            await service.import_file(files[index], format="claude-code")
        found = await by_key(service)
    child = found["main/a1"]
    assert (child.parent, child.link, child.rows) == ("main", "child", 1)
    assert (found["main"].rows, found["main"].title) == (1, "please explore")


async def test_nameless_files_of_one_name_in_two_folders_are_two_conversations(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "talk.jsonl" for folder in ("a", "b")]
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path, word in zip(paths, ("apple", "banana"), strict=True):
            path.parent.mkdir()
            written(path, orjson.dumps({"role": "user", "content": word}) + b"\n")
            await service.import_file(path)
            again = await service.import_file(path)
            assert (again.report.rows_added, again.report.conflicts) == (0, ())
        found = await by_key(service)
        hits = (await service.grep(GrepQuery("banana", session="*"))).hits
    assert set(found) == {"talk", "talk-2"}
    assert [hit.session for hit in hits] == ["talk-2"]


async def test_a_file_whose_key_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    lines = (orjson.dumps({"session": "k" * 300}), orjson.dumps({"role": "user", "content": "hello"}))
    path = written(tmp_path / "long.jsonl", b"\n".join(lines))
    async with serving(tmp_path / "lcm.sqlite") as service:
        with pytest.raises(ImportRefused, match=r"long\.jsonl.*--session"):
            await service.import_file(path)


async def test_more_entries_than_a_receipt_can_answer_for_are_refused_before_they_are_stored(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        with pytest.raises(InvalidArgument, match="at most 5000"):
            await service.append("s", [{"role": "user", "content": "x"}] * 5001)
        assert (await service.sessions()).total == 0


async def test_without_a_project_the_sessions_of_this_folder_are_listed_if_it_has_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    theirs = written(tmp_path / "theirs.jsonl", claude_line("t1", "elsewhere", cwd="/elsewhere"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(theirs, format="claude-code")
        nothing_here = await service.sessions()
        await service.append("mine", [{"role": "user", "content": "hello"}])
        mine, everything = await service.sessions(), await service.sessions(project="*")
    assert (nothing_here.scope, nothing_here.total) == ("the whole store", 1)
    assert (mine.scope, [line.key for line in mine.sessions]) == (f"project {here}", ["mine"])
    assert {line.key for line in everything.sessions} == {"mine", "main"}


async def test_a_search_without_a_session_leaves_other_projects_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = written(tmp_path / "theirs.jsonl", claude_line("t1", "a needle", cwd="/elsewhere"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(theirs, format="claude-code")
        for key in ("one", "two"):
            await service.append(key, [{"role": "user", "content": f"a needle in {key}"}])
        page = await service.grep(GrepQuery("needle"))
        named = await service.grep(GrepQuery("needle", session="main"))
    assert [(hit.session, hit.ref) for hit in page.hits] == [("two", "s3/e1"), ("one", "s2/e1")]
    assert page.searched.endswith("; 2 rows and 0 summaries had to be read")
    assert [(hit.session, hit.ref) for hit in named.hits] == [("main", "e1")]


async def test_the_newest_conversation_is_the_one_a_read_means_not_the_one_imported_last(
    tmp_path: Path,
) -> None:
    old = written(tmp_path / "old.jsonl", claude_line("o1", "long ago"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("today", [{"role": "user", "content": "hello"}])
        await service.import_file(old, format="claude-code")
        assert (await service.list_nodes()).session == "today"
        assert [line.key for line in (await service.sessions(project="*")).sessions] == ["today", "main"]


async def test_rows_without_a_time_have_that_of_their_file_so_an_old_one_is_not_listed_as_new(
    tmp_path: Path,
) -> None:
    old = written(tmp_path / "old.jsonl", b'{"role": "user", "content": "long ago"}\n')
    os.utime(old, (1_600_000_000, 1_600_000_000))
    new = written(tmp_path / "new.jsonl", b'{"role": "user", "content": "yesterday"}\n')
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(new)
        await service.import_file(old)
        listed = (await service.sessions()).sessions
    assert [Path(each.key).stem for each in listed] == ["new", "old"]
    assert listed[1].last_at == "2020-09-13T12:26:40.000Z"


async def test_a_row_without_a_time_stands_at_that_of_its_neighbour(tmp_path: Path) -> None:
    times = [None, "2025-06-14T10:00:00Z", None, "2025-06-14T10:02:00Z", None]
    lines = [
        orjson.dumps({"role": "user", "content": f"row {n}", **({"at": at} if at else {})}) + b"\n"
        for n, at in enumerate(times)
    ]
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(written(tmp_path / "s.jsonl", *lines), session="s")
        rows = (await service.expand("e1..e5", "s")).rows
    assert [row.at[14:16] for row in rows] == ["00", "00", "00", "02", "02"]
