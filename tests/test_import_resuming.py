"""A file that is read on line by line tells what one reading of it tells."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from imported import shared_file
from stores import serving
from test_import_fuzz import LINES, lines_of

from lcm_mcp.service.followed_state import following_state
from lcm_mcp.service.following import catch_up_all
from lcm_mcp.transcript import followed
from lcm_mcp.transcript.importers import FORMATS, Event, Mark, Resume, SessionFound
from lcm_mcp.transcript.importers.report import FROM_START
from lcm_mcp.transcript.packing import decode, encode

FILES = (
    *(("codex", f"codex/{name}.jsonl") for name in ("edges", "patch", "rollout-subagent", "sample")),
    *(("pi", f"pi/{name}.jsonl") for name in ("branching", "full_format", "multi_compaction", "v1_legacy")),
)


def line_by_line(format: str, path: Path) -> list[Event]:
    """What readings of one line each tell, each knowing only what the one before remembered."""
    follow = FORMATS[format].follow
    assert follow is not None
    told: list[Event] = []
    resume = FROM_START
    for line in path.read_bytes().splitlines(keepends=True):
        for event in follow(path, io.BytesIO(line), None, resume):
            if isinstance(event, Mark):
                memory = decode(encode(event.memory()))
                assert isinstance(memory, dict)
                resume = Resume(event.place, memory)
            else:
                told.append(event)
    return told


def check(format: str, path: Path) -> None:
    whole = [event for event in FORMATS[format].read(path, None) if not isinstance(event, SessionFound)]
    pieces = line_by_line(format, path)
    assert [event for event in pieces if not isinstance(event, SessionFound)] == whole
    named = [event for event in pieces if isinstance(event, SessionFound) and event.title is not None]
    assert [event.key for event in named] == list(dict.fromkeys(event.key for event in named))


@pytest.mark.parametrize("format", LINES)
def test_a_made_file_read_line_by_line_tells_what_one_reading_tells(format: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of(format, LINES[format] * 2))
    check(format, path)


@pytest.mark.parametrize(("format", "name"), FILES)
def test_a_real_file_read_line_by_line_tells_what_one_reading_tells(format: str, name: str) -> None:
    check(format, shared_file(name))


@pytest.mark.parametrize(("format", "name"), [("codex", "codex/patch.jsonl"), ("pi", "pi/full_format.jsonl")])
async def test_a_session_that_grows_is_read_on_by_what_reads_the_store(
    format: str, name: str, tmp_path: Path
) -> None:
    lines = shared_file(name).read_bytes().splitlines(keepends=True)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(lines[:9]))
    async with serving(tmp_path / "lcm.sqlite") as service, serving(tmp_path / "b.sqlite") as other:
        await service.import_file(path, fold=False)
        path.write_bytes(b"".join(lines))
        (grown,) = (await service.sessions(project="*")).sessions
        await other.import_file(path, format, fold=False)
        (whole,) = (await other.sessions(project="*")).sessions
    assert (grown.key, grown.rows, grown.title) == (whole.key, whole.rows, whole.title)


async def test_what_cannot_be_read_on_is_followed_and_read_once_while_it_stays(
    tmp_path: Path,
) -> None:
    path = shared_file("gemini/thoughts.json")
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(path, fold=False)
        assert (await following_state(service.work)).files == 1
        assert await catch_up_all(service.work) == {}


async def test_after_a_reader_died_as_it_began_again_nothing_is_added(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "hello"}\n{"role": "assistant", "content": "hi"}\n')
    async with serving(tmp_path / "lcm.sqlite") as service:
        first = await service.import_file(file, "neutral", "talk")
        assert first.report.rows_added == 2
        (record,) = await service.work.store.read(followed.of_path, file)
        assert await service.work.store.write(followed.start_over, record, anew=False)
        again = await service.import_file(file, "neutral", "talk")
        assert (again.report.rows_added, again.report.duplicates) == (0, 2)
