"""A long file is read by a process of its own, and nothing that is stored or told tells it from another."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from imported import shared_file
from stores import serving

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript import apart, batches
from lcm_mcp.transcript.batches import Batch, Batches, Most, Reading, Source, whole_file
from lcm_mcp.transcript.importers import ImportReport
from lcm_mcp.transcript.redacting import Masking

FILES = (
    ("claude-code", "claude-code/inline-sidechains.jsonl"),
    ("claude-code", "claude-code/image-twice-961kb-line.jsonl"),
    ("claude-code", "claude-code/not-jsonl-at-all.jsonl"),
    ("codex", "codex/edges.jsonl"),
    ("pi", "pi/branching.jsonl"),
)


@pytest.fixture(autouse=True)
def _every_file_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LEAST_BYTES", 0)
    monkeypatch.setattr(apart, "cores", lambda: 2)


def all_of(reading: Batches) -> tuple[list[Batch], ImportReport, object]:
    with closing(reading):
        found = list(iter(reading.next_batch, None))
        return found, reading.report(), dict(reading.masked)


def key_lines(path: Path, count: int) -> Path:
    """Neutral lines, each with a key in it, of more bytes than a pipe holds."""
    said = [{"role": "user", "content": f"sk-ant-{n:032} " + "word " * 400} for n in range(count)]
    path.write_text("".join(json.dumps(line) + "\n" for line in said))
    return path


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(("format", "name"), FILES)
def test_its_batches_are_those_of_a_reading_here(format: str, name: str, marked: bool) -> None:
    source = Source(shared_file(name), format, None, marked)
    found = apart.open_file(source, None)
    assert not isinstance(found, Reading)
    assert all_of(found) == all_of(whole_file(source))


def test_keys_are_masked_and_counted_there_too(tmp_path: Path) -> None:
    source = Source(key_lines(tmp_path / "keys.jsonl", 1100), "neutral", "keys", True)
    found, report, masked = all_of(apart.open_file(source, Masking(sized=True)))
    assert (found, report, masked) == all_of(whole_file(source, Masking(sized=True)))
    assert masked == {"anthropic-key": 1100}
    assert len(found) > 1


async def test_what_is_imported_so_is_whole_and_known_again(tmp_path: Path) -> None:
    path = shared_file("claude-code/inline-sidechains.jsonl")
    async with serving(tmp_path / "apart.sqlite") as one, serving(tmp_path / "here.sqlite") as other:
        first = await one.import_file(path, fold=False)
        assert (await one.import_file(path, fold=False)).report.rows_added == 0
        assert (await one.doctor()).healthy
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apart, "cores", lambda: 1)
            assert await other.import_file(path, fold=False) == first


async def test_an_import_whose_process_is_killed_is_refused_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "WHOLE", Most(100, 1 << 20))
    path = key_lines(tmp_path / "long.jsonl", 8000)
    started: list[subprocess.Popen[bytes]] = []

    class Seen(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], stdin: int, stdout: int, pipesize: int) -> None:
            super().__init__(command, stdin=stdin, stdout=stdout, pipesize=pipesize)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Seen)
    async with serving(tmp_path / "lcm.sqlite") as service:
        with pytest.raises(ImportRefused, match="was ended"):
            await service.import_file(
                path, "neutral", "long", fold=False, on_rows=lambda rows: started[0].kill()
            )
        monkeypatch.setattr(apart, "cores", lambda: 1)
        outcome = await service.import_file(path, "neutral", "long", fold=False)
        assert 0 < outcome.report.rows_added < 8000
        assert (await service.doctor()).healthy
    assert started[0].returncode is not None


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false", "/bin/echo"])
def test_where_it_cannot_be_started_the_file_is_read_here(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    source = Source(shared_file("pi/branching.jsonl"), "pi", None, True)
    with closing(apart.open_file(source, None)) as found:
        assert isinstance(found, Reading)
        assert found.next_batch() is not None


def test_it_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    source = Source(key_lines(tmp_path / "long.jsonl", 8000), "neutral", "long", True)
    found = apart.open_file(source, None)
    assert found.next_batch() is not None
    process: subprocess.Popen[bytes] = vars(found)["_process"]
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 0
    found.close()


def test_a_short_file_and_one_core_start_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(key_lines(tmp_path / "one.jsonl", 1), "neutral", "one", True)
    with monkeypatch.context() as patch:
        patch.setattr(apart, "cores", lambda: 1)
        with closing(apart.open_file(source, None)) as found:
            assert isinstance(found, Reading)
    monkeypatch.setattr(apart, "LEAST_BYTES", 1 << 20)
    with closing(apart.open_file(source, None)) as found:
        assert isinstance(found, Reading)
