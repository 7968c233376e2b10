"""Backups and exports: a copy of the store, and a conversation that comes back as it was."""

from __future__ import annotations

import base64
import gzip
import stat
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from commands import Cli
from stores import all_sessions, opened, path_of, serving

from lcm_mcp.errors import SessionForgotten, StoreUnavailable
from lcm_mcp.ids import Seq
from lcm_mcp.service import Service
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.exporting import ExportFormat
from lcm_mcp.transcript.model import Row
from lcm_mcp.transcript.path import Segment, all_marks
from lcm_mcp.transcript.pins import pinned
from lcm_mcp.transcript.store import read_rows

DEMO = "orphaned-sessions.jsonl.gz"
CLAUDE_CODE = Path(__file__).with_name("data") / "claude-code"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "image", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}
CALL = {"type": "tool_call", "call_id": "c1", "name": "read", "arguments": {"path": "/a", "n": 2**70}}
RESULT = {"type": "tool_result", "call_id": "c1", "content": [{"type": "text", "text": "found"}, IMAGE]}
TALK: Sequence[dict[str, Any]] = (
    {"role": "system", "content": "Be brief.", "at": 1_700_000_000_000},
    {"role": "user", "content": "look at /a\n```\ncode\n```", "entry_id": "u1", "pin": True},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "sig"}, CALL]},
    {"role": "user", "content": [RESULT]},
    {"role": "user", "content": "a summary that a client made", "active": False},
    {"role": "assistant", "content": "lone \ud800 and nul \x00", "message_id": "m1"},
    {"role": "assistant", "content": [{"type": "unknown", "x": [1, None]}], "message_id": "m1"},
    {"role": "user", "content": []},
    {"role": "assistant", "content": "to be left"},
    {"role": "user", "content": "another way", "parent": "u1"},
    {"role": "assistant", "content": "", "entry_id": "@3"},
)


def rows_of(db: apsw.Connection, number: int) -> list[Row]:
    return list(read_rows(db, all_sessions(db)[number], [Segment(Seq(1), Seq(2**40))], images=True))


def told(db: apsw.Connection, number: int = 0) -> object:
    """A session as it is told apart from another: rows and parts, places, totals, pins, the active path."""
    session = all_sessions(db)[number]
    found = sessions.find_by_id(db, session)
    assert found is not None
    rows = [(row.seq, row.role, row.at, row.message_id, row.parts) for row in rows_of(db, number)]
    active = [(part.low, part.high) for part in path_of(db, session).segments()]
    return found.key, found.title, found.project, rows, all_marks(db, session), pinned(db, session), active


async def exported(service: Service, key: str | None, to: Path) -> Path:
    to.write_bytes(b"".join([page async for page in service.export(key)]))
    return to


async def copied(tmp_path: Path, key: str | None = None) -> tuple[object, object]:
    """What is told of a session, and of what an import of its export makes in another store."""
    async with serving(tmp_path / "lcm.sqlite") as service:
        before = await service.work.store.read(told)
        file = await exported(service, key, tmp_path / "out.jsonl")
    async with serving(tmp_path / "other.sqlite") as other:
        outcome = await other.import_file(file)
        assert outcome.report.bad_lines == 0
        again = await other.import_file(file)
        assert sum(each.rows_added for each in again.sessions) == 0
        assert sum(len(each.conflicts) for each in again.sessions) == 0
        return before, await other.work.store.read(told)


# --- backups


async def test_a_backup_is_a_whole_store_of_its_own_while_others_write(tmp_path: Path) -> None:
    path, kept = tmp_path / "lcm.sqlite", tmp_path / "kept.sqlite"
    async with serving(path) as service:
        await service.append("s", [{"role": "user", "content": f"row {n} " * 200} for n in range(500)])

        async def write_on() -> None:
            for n in range(20):
                await service.append("s", [{"role": "user", "content": f"later {n}"}])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_on)
            await service.back_up(kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.sqlite", "lcm.sqlite"]
    async with serving(kept) as service:
        assert (await service.doctor()).healthy
        page = await service.sessions(project="*")
        assert 500 <= page.sessions[0].rows <= 520


async def test_a_backup_carries_checksums_as_its_store_does(tmp_path: Path) -> None:
    async with opened(tmp_path / "lcm.sqlite") as store:
        await store.write(lambda db: db.execute("INSERT INTO text(body) VALUES('a plain text')"))
        await store.back_up(tmp_path / "kept.sqlite")
        checksummed = store.checksummed
    raw = bytearray((tmp_path / "kept.sqlite").read_bytes())
    raw[raw.index(b"a plain text")] ^= 1
    (tmp_path / "kept.sqlite").write_bytes(raw)
    assert Store.is_sound(tmp_path / "kept.sqlite") is not checksummed


@pytest.mark.parametrize("there", ["file", "folder", "link", "the store"])
async def test_a_backup_replaces_nothing(tmp_path: Path, there: str) -> None:
    path, kept = tmp_path / "lcm.sqlite", tmp_path / "kept"
    match there:
        case "file":
            kept.write_text("mine")
        case "folder":
            kept.mkdir()
        case "link":
            kept.symlink_to("nowhere")
        case _:
            kept = path
    async with serving(path) as service:
        await service.append("s", [{"role": "user", "content": "hello"}])
        names = sorted(each.name for each in tmp_path.iterdir())
        with pytest.raises(StoreUnavailable, match="something already"):
            await service.back_up(kept)
        assert sorted(each.name for each in tmp_path.iterdir()) == names
        assert (await service.doctor()).healthy


async def test_a_backup_without_a_folder_for_it_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        with pytest.raises(StoreUnavailable, match="No such file"):
            await service.back_up(tmp_path / "nowhere" / "kept.sqlite")


# --- exports


async def test_what_was_exported_imports_as_the_same_rows_under_the_same_numbers(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", TALK, title="A talk", project="/p")
    before, after = await copied(tmp_path)
    assert after == before


async def test_long_sessions_are_exported_page_by_page(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        for n in range(5):
            entries = [{**entry, "entry_id": f"{n}-{i}"} for i, entry in enumerate(TALK)]
            entries[9]["parent"] = f"{n}-1"
            await service.append("talk", entries)
            await service.append("talk", [{"role": "user", "content": f"{n}.{i}"} for i in range(60)])
    before, after = await copied(tmp_path)
    assert after == before


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
async def test_an_export_of_a_session_that_is_forgotten_meanwhile_does_not_look_whole(
    tmp_path: Path, form: ExportFormat
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service, serving(tmp_path / "lcm.sqlite") as other:
        await service.append("talk", [{"role": "user", "content": f"row {n}"} for n in range(250)])
        pages = service.export("talk", form)
        assert b"row 0" in await anext(pages)
        await other.forget("talk")
        with pytest.raises(SessionForgotten, match="s1 was forgotten meanwhile"):
            await anext(pages)


@pytest.mark.parametrize("name", [None, *sorted(path.name for path in CLAUDE_CODE.glob("*.jsonl"))])
async def test_a_clients_own_conversation_comes_back_as_it_was(tmp_path: Path, name: str | None) -> None:
    file = tmp_path / "demo.jsonl" if name is None else CLAUDE_CODE / name
    if name is None:
        file.write_bytes(gzip.decompress(resources.files("lcm_mcp.demo").joinpath(DEMO).read_bytes()))
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(file, fold=False)
        first = await service.work.store.read(lambda db: next(sessions.every(db)).key)
    before, after = await copied(tmp_path, first)
    assert after == before


async def test_markdown_shows_the_active_path_and_nothing_as_markup(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("talk", TALK, title="A talk")
        text = b"".join([page async for page in service.export("talk", "markdown")]).decode()
    assert text.startswith("# A talk\n\nSession talk")
    assert "## e1 system, 2023-11-14 22:13\n\nBe brief.\n" in text
    assert "to be left" not in text
    assert text.count("\n## e") == len(TALK) - 7
    assert "\n````\n[call" not in text


def test_backup_and_export_are_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cli = Cli(capsys, tmp_path / "lcm.sqlite")
    file = tmp_path / "talk.jsonl"
    file.write_text('{"session": "talk"}\n{"role": "user", "content": "hello"}\n')
    cli.done("--quiet", "import", file, "--no-follow")
    assert cli.done("export", "--session", "talk").splitlines()[0] == '{"session":"talk"}'
    assert "hello" in cli.done("export", "--format", "markdown")
    answer = cli.answer("backup", tmp_path / "kept.sqlite")
    assert answer["file_bytes"] == (tmp_path / "kept.sqlite").stat().st_size
    assert "something already" in cli.refusal("backup", tmp_path / "kept.sqlite")
    assert Cli(capsys, tmp_path / "kept.sqlite").done("export").count("hello") == 1
