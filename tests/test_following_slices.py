"""A file that is read as it grows, in whatever pieces, gives what one import of it gives."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from growing import Transcript, caught_up, transcript
from stores import serving
from transcripts import SAMPLES

LARGE = Path(__file__).resolve().parents[2] / "shared" / "data" / "claude-code"
_SMALL_NAMES = sorted(path.name for path in SAMPLES.glob("*.jsonl"))
_LARGE_NAMES = (
    "inline-sidechains.jsonl",
    "glued-objects.jsonl",
    "compact-and-microcompact.jsonl",
    "fork-heavy-dangling-parents.jsonl",
    "orphans-both-ways.jsonl",
    "series-growing/5.jsonl",
    "image-twice-961kb-line.jsonl",
)


async def whole(path: Path, store: Path) -> Transcript:
    async with serving(store) as service:
        await service.import_file(path, "claude-code", fold=False)
        return await service.work.store.read(transcript)


async def in_pieces(source: Path, path: Path, store: Path, cuts: list[int]) -> Transcript:
    """The file written piece by piece, cut at these bytes, and read after each by two servers in turns."""
    content = source.read_bytes()
    ends = [*sorted(cuts), len(content)]
    path.touch()
    async with serving(store) as one, serving(store) as two:
        await one.follow_folder(path.parent, "claude-code", None, fold=False)
        start = 0
        for number, end in enumerate(ends):
            with path.open("ab") as file:
                file.write(content[start:end])
            start = end
            await caught_up((one, two)[number % 2])
        if not content.endswith(b"\n"):
            with path.open("ab") as file:
                file.write(b"\n")
        await caught_up(one)
        return await one.work.store.read(transcript)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", _SMALL_NAMES)
async def test_any_slicing_of_a_small_file_gives_what_one_import_gives(
    name: str, seed: int, tmp_path: Path
) -> None:
    await check(SAMPLES / name, tmp_path, anywhere(SAMPLES / name, random.Random(seed), 25))


@pytest.mark.parametrize("name", _LARGE_NAMES)
async def test_any_slicing_of_a_large_file_gives_what_one_import_gives(name: str, tmp_path: Path) -> None:
    if not (LARGE / name).is_file():
        pytest.skip(f"{name} is one of the large files, and {LARGE} is absent")
    await check(LARGE / name, tmp_path, anywhere(LARGE / name, random.Random(name), 12))


def anywhere(source: Path, chance: random.Random, pieces: int) -> list[int]:
    size = source.stat().st_size
    return [chance.randrange(size) for _ in range(pieces)]


@pytest.mark.parametrize("name", _SMALL_NAMES)
async def test_a_small_file_that_comes_line_by_line_gives_what_one_import_gives(
    name: str, tmp_path: Path
) -> None:
    await check(SAMPLES / name, tmp_path, line_ends((SAMPLES / name).read_bytes()))


async def test_subagents_that_begin_in_later_readings_hang_on_the_calls_of_earlier_ones(
    tmp_path: Path,
) -> None:
    calls = [
        message(
            "assistant", f"call-{n}", [{"type": "tool_use", "id": n, "name": "Task", "input": {"prompt": n}}]
        )
        for n in ("look", "search")
    ]
    roots = [message("user", f"{n}-root", n, side=True) for n in ("look", "search")]
    more = [message("assistant", f"{n}-more", "done", f"{n}-root", side=True) for n in ("look", "search")]
    source = tmp_path / "main.jsonl"
    source.write_bytes(b"".join([message("user", "u", "Find it."), *calls, *roots, *more]))
    rows = await check(source, tmp_path, line_ends(source.read_bytes()))
    assert [tuple(row) for row in rows[0] if row[4] == "child"] == [
        ("main/look-roo", "import:claude-code", "main/look-roo", "/p", "child", "main", "call-look"),
        ("main/search-r", "import:claude-code", "main/search-r", "/p", "child", "main", "call-search"),
    ]


def message(kind: str, uuid: str, content: object, parent: str | None = None, *, side: bool = False) -> bytes:
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": side, "sessionId": "main"}
    line |= {"cwd": "/p", "message": {"role": kind, "content": content}}
    return json.dumps(line).encode() + b"\n"


def line_ends(content: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]


async def check(source: Path, folder: Path, cuts: list[int]) -> Transcript:
    grown = folder / "grown"
    grown.mkdir()
    expected = await whole(source, folder / "whole.sqlite")
    found = await in_pieces(source, grown / source.name, folder / "pieces.sqlite", cuts)
    assert found == expected
    assert expected[1]
    return found
