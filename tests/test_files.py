"""File handles: large tool results whose call named a path, from the append to the summaries over them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from asking import nodes_of
from commands import Cli
from harbour import call, memory
from lawbook import chain_on, holds_cover, holds_every_part, holds_memory, holds_shrink
from older import BACK_TO_ANY_FILE_FOR_EVERY_PROJECT
from stores import add, database, draft, new_session, serving
from told import told
from turns import Writer

from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.storage import schema
from lcm_mcp.tools.tool import Answered
from lcm_mcp.transcript import files
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.model import Text, ToolCall, ToolResult

KEY = "harbour"
LARGE = 32_000
MOST_MEGABYTES = 300
BEFORE_FILES = 8
"""The version of a store that had no handles."""
CODE = "class Pier:\n    ...\n\n" + "def measure():\n    return 'the tide at pier 7'\n\n" * 800

Entry = dict[str, object]


def reading(number: int, body: str, arguments: Mapping[str, object], name: str = "Read") -> list[Entry]:
    """A turn in which a tool is called with these arguments and answers with this body."""
    used = {"type": "tool_use", "id": f"c{number}", "name": name, "input": dict(arguments)}
    answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": body}
    return [
        {"role": "user", "content": f"look at file {number}"},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": f"File {number} is as it should be."},
    ]


async def test_a_large_result_of_a_call_that_named_a_path_is_a_file(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append(KEY, reading(1, CODE, {"file_path": "/src/pier.py"}))
        found = (await service.describe("f1", KEY)).file
        assert found is not None
        assert (found.path, found.kind, found.ref) == ("/src/pier.py", "python", "e3")
        assert found.summary == "2,403 lines: class Pier; def measure"
        assert (found.characters, found.head) == (len(CODE), CODE[:1000])
        row = (await service.describe("e3", KEY)).row
        assert row is not None
        assert [part.detail for part in row.parts] == ["f1"]
        assert (await service.describe("s1/f1")).file == found


async def test_expanding_a_file_gives_its_body_and_nothing_else(store_path: Path) -> None:
    async with memory(store_path) as service:
        entries = reading(1, CODE, {"path": "pier.py"})
        other = {"type": "tool_result", "tool_use_id": "x", "content": "before"}
        answer = {"type": "tool_result", "tool_use_id": "c1", "content": CODE}
        entries[2]["content"] = [other, answer, {"type": "text", "text": "after"}]
        await service.append(KEY, entries)
        pieces: list[str] = []
        cursor: str | None = None
        while True:
            page = await service.expand("f1", KEY, 10_000, cursor=cursor)
            pieces += [row.text for row in page.rows]
            assert [row.ref for row in page.rows] == ["e3"]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert "".join(pieces) == CODE
        (row,) = (await service.expand("e3", KEY, 150_000)).rows
        first = (await service.expand("f1", KEY, 10_000)).rows[0]
        assert row.text[first.offset :].startswith(CODE)


async def test_a_large_result_without_a_path_is_large_inline_and_a_small_one_is_neither(
    store_path: Path,
) -> None:
    async with memory(store_path) as service:
        await service.append(KEY, reading(1, CODE, {"command": "make"}, "Bash"))
        await service.append(KEY, reading(2, CODE[:LARGE], {"file_path": "/src/pier.py"}))
        await service.append(KEY, reading(3, CODE[: LARGE + 1], {"file_path": "/src/pier.py"}))
        details = [(await service.describe(ref, KEY)).row for ref in ("e3", "e7", "e11")]
        assert [row and row.parts[0].detail for row in details] == ["large-inline", None, "f1"]
        stats = await service.stats(KEY)
        assert (stats.files, stats.large_inline) == (1, 1)
        (told,) = [check for check in (await service.doctor()).checks if check.name == "files"]
        assert told.detail == "1 file that tools read, 1 large result without a path (large-inline)"


async def test_the_same_body_is_one_content_wherever_it_was_read(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append(KEY, reading(1, CODE, {"uri": "file:///a.py"}))
        await service.append("other", reading(1, CODE, {"paths": ["b.py", "c.py"]}))
        await service.append("other", reading(2, CODE + "#", {"notebook_path": "b.py"}))
        found = [(await service.describe(id)).file for id in ("s1/f1", "s2/f1", "s2/f2")]
        assert [file and file.path for file in found] == ["/a.py", "b.py", "b.py"]
        assert [file and file.same_content for file in found] == [("s2/f1",), ("s1/f1",), ()]
        assert len({file and file.content for file in found}) == 2


def test_a_body_read_more_often_than_is_listed_says_how_often(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lcm_mcp.service.reading.FILES_LISTED", 2)

    async def read_it_four_times() -> Answered:
        async with memory(store_path) as service:
            for turn in range(1, 5):
                await service.append(KEY, reading(turn, CODE, {"path": f"/{turn}.py"}))
            return await call(service, "lcm_describe", id="f2")

    answer = anyio.run(read_it_four_times)
    assert answer.structured["file"]["same_content"] == ["s1/f1", "s1/f3"]
    assert answer.structured["file"]["same_content_count"] == 3
    assert "the same body: s1/f1, s1/f3 (+1 more)" in answer.text
    assert "same body  s1/f1, s1/f3, +1 more" in Cli(capsys, store_path).done("describe", "f2")


async def test_a_summarizer_reads_the_descriptor_and_not_the_body(store_path: Path) -> None:
    async with memory(store_path) as service:
        writer = Writer()
        asking = Service(replace(service.work, chain=(writer,)))
        await asking.append(
            KEY, [*reading(1, CODE, {"path": "/src/pier.py"}), {"role": "user", "content": "on"}]
        )
        await asking.compact(KEY, "lcm")
        read = repr([request.source for request in writer.asked])
        assert "[file f1] /src/pier.py" in read
        assert "2,403 lines: class Pier; def measure" in read
        assert len(read) < 8_000
        assert read.count("the tide at pier 7") < 80


async def test_the_built_in_summarizer_names_the_file_and_what_is_in_it(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append(
            KEY, [*reading(1, CODE, {"path": "/src/pier.py"}), {"role": "user", "content": "on"}]
        )
        await service.compact(KEY, "lcm")
        (node,) = await nodes_of(service, KEY)
        described = (await service.describe(node.id, KEY)).node
        assert described is not None
        assert "src/pier.py (file f1, python): 2,403 lines: class Pier; def measure" in described.text
        assert [(file.id, file.ref, file.path) for file in described.files] == [("f1", "e3", "/src/pier.py")]
        told = (await call(service, "lcm_describe", id=node.id, session=KEY)).text
        assert "  f1 e3 /src/pier.py (python, 38421 characters): 2,403 lines: class Pier" in told


def fifty() -> list[Entry]:
    """A session of fifty large files of twelve kinds."""
    rows = [{"pier": number, "metres": number * 7} for number in range(2500)]
    bodies = {
        "a.py": CODE,
        "a.ts": "export const tide = 1\n" * 1600,
        "a.go": "package a\n\nfunc Tide() {}\n" * 1300,
        "a.rs": "pub fn tide() {}\n" * 2000,
        "A.java": "public class Pier {}\n" * 1700,
        "a.c": "int tide(void) {\n}\n" * 1800,
        "a.json": json.dumps(rows),
        "a.jsonl": "\n".join(map(json.dumps, rows)),
        "a.csv": "pier,metres\n" + "7,14\n" * 7000,
        "a.md": "# Harbour\n\n## Piers\n\n" + "The tide is low.\n" * 2000,
        "a.xml": f"<?xml version='1.0'?><piers>{'<pier/>' * 5000}</piers>",
        "a.txt": "The tide is low. " * 2000,
    }
    named = list(bodies.items())
    entries: list[Entry] = []
    for number in range(50):
        name, body = named[number % len(named)]
        entries += reading(number, f"{body}\n", {"file_path": f"/src/{number}/{name}"})
    return [*entries, {"role": "user", "content": "well done"}]


async def test_fifty_files_of_twelve_kinds_keep_the_laws_and_are_listed_under_every_ancestor(
    store_path: Path,
) -> None:
    async with serving(store_path, 6000) as service:
        entries = fifty()
        receipt = await service.append(KEY, entries)
        active = [told(number, parse_entry(entry, 0)) for number, entry in enumerate(entries, 1)]
        assert len(receipt.refs) == len(active)
        await call(
            service, "prepare_context", session=KEY, compact="force", strategy="lcm", window_tokens=12_000
        )
        await holds_memory(service, KEY, active)
        await holds_cover(service, KEY, chain_on(active))
        await holds_every_part(service, KEY, active)
        await holds_shrink(service, KEY, chain_on(active))
        nodes = await nodes_of(service, KEY)
        assert max(node.depth for node in nodes) > 0
        for node in nodes:
            described = (await service.describe(node.id, KEY)).node
            assert described is not None
            first, last = (int(ref[1:]) for ref in node.span)
            within = [number for number in range(50) if first <= number * 4 + 3 <= last]
            assert [file.ref for file in described.files] == [f"e{number * 4 + 3}" for number in within]
            assert described.file_count == len(within)
        kinds = {(await service.describe(f"f{number}", KEY)).file for number in range(1, 51)}
        assert len({file.kind for file in kinds if file}) == 12


async def test_a_body_is_searched_like_any_other_text(store_path: Path) -> None:
    async with memory(store_path) as service:
        body = f"{CODE}def the_needle(): ...\n{CODE}"
        await service.append(KEY, reading(1, body, {"path": "/src/pier.py"}))
        found = await service.grep(GrepQuery("def the_needle", session=KEY))
        assert [hit.ref for hit in found.hits] == ["e3"]


async def test_a_fork_has_its_rows_files_under_their_numbers(store_path: Path) -> None:
    async with memory(store_path) as service:
        for number in range(3):
            await service.append(KEY, reading(number, CODE, {"path": f"/{number}.py"}))
        made = await service.fork(KEY, "e8", "fork")
        assert made.rows == 8
        await service.append("fork", reading(7, CODE, {"path": "/7.py"}))
        paths = [(await service.describe(f"f{number}", "fork")).file for number in (1, 2, 3)]
        assert [file and file.path for file in paths] == ["/0.py", "/1.py", "/7.py"]
        (body,) = (await service.expand("f2", "fork", 150_000)).rows
        assert (body.ref, body.text) == ("e7", CODE)


def test_rows_of_an_earlier_build_get_the_handles_that_they_would_have_got(store_path: Path) -> None:
    with database(store_path) as db:
        session = new_session(db)
        for number in range(5):
            called = ToolCall(
                f"c{number}", "Read", {"path": f"/{number}.py"} if number else {"command": "ls"}
            )
            add(db, session, draft("user", "look"), draft("assistant", called))
            add(db, session, draft("user", ToolResult(f"c{number}", (Text(CODE),))))
        made = handles(db)
        assert [len(rows) for rows in made] == [4, 1]
        with db:
            for statement in BACK_TO_ANY_FILE_FOR_EVERY_PROJECT:
                db.execute(statement)
            since = " ".join(" ".join(statements) for statements in schema.MIGRATIONS[BEFORE_FILES:])
            for table in re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", since):
                db.execute(f"DROP TABLE {table}")
            db.pragma("user_version", BEFORE_FILES)
        schema.migrate(db)
        assert handles(db) == ([], [])
        while files.behind(db):
            with db:
                files.catch_up(db, LARGE)
        assert handles(db) == made


def handles(db: apsw.Connection) -> tuple[list[object], list[object]]:
    return [*db.execute("SELECT * FROM file")], [*db.execute("SELECT * FROM large_inline")]


# --- very long lines

_MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
unit = 1024 if sys.platform == "darwin" else 1
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // unit, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and says on stderr how many KB of memory it took at most."""


def imported(folder: Path, body: str) -> tuple[dict[str, Any], int]:
    """What an import of a session with such a result reports, and the memory it took in MB."""
    entries = reading(1, body, {"file_path": "/a.txt"})
    lines = [
        {"uuid": f"u{number}", "sessionId": "long", "type": entry["role"], "message": entry}
        for number, entry in enumerate(entries)
    ]
    (folder / "long.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    lcm = [sys.executable, "-m", "lcm_mcp", "--db", str(folder / "lcm.sqlite")]
    command = [sys.executable, "-c", _MEASURED, *lcm, "import", "--json", str(folder / "long.jsonl")]
    done = subprocess.run(command, capture_output=True, check=False)
    return json.loads(done.stdout), int(done.stderr.split()[-1]) // 1024


def test_a_line_of_64_mb_is_stored_and_explored_in_little_memory(tmp_path: Path) -> None:
    report, megabytes = imported(tmp_path, "the tide " * 7_400_000)
    assert report["files"][0]["sessions"][0]["rows_added"] == 4
    assert megabytes < MOST_MEGABYTES


def test_a_line_over_the_limit_is_reported_and_the_others_are_kept(tmp_path: Path) -> None:
    report, megabytes = imported(tmp_path, "the tide " * 8_000_000)
    assert "the line is longer than 64 MB" in json.dumps(report["files"][0]["report"])
    assert report["files"][0]["sessions"][0]["rows_added"] == 3
    assert megabytes < MOST_MEGABYTES
