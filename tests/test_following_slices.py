"""A file that is read as it grows, in whatever pieces, gives what one import of it gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from growing import caught_up, transcript
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


async def whole(path: Path, store: Path) -> list[list[tuple[object, ...]]]:
    async with serving(store) as service:
        await service.import_file(path, "claude-code", fold=False)
        return await service.work.store.read(transcript)


async def in_pieces(source: Path, path: Path, store: Path, cuts: list[int]) -> list[list[tuple[object, ...]]]:
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
    await check(SAMPLES / name, tmp_path, random.Random(seed), 25)


@pytest.mark.parametrize("name", _LARGE_NAMES)
async def test_any_slicing_of_a_large_file_gives_what_one_import_gives(name: str, tmp_path: Path) -> None:
    if not (LARGE / name).is_file():
        pytest.skip(f"{name} is one of the large files, and {LARGE} is absent")
    await check(LARGE / name, tmp_path, random.Random(name), 12)


async def check(source: Path, folder: Path, chance: random.Random, pieces: int) -> None:
    content = source.read_bytes()
    cuts = [chance.randrange(len(content)) for _ in range(pieces)]
    grown = folder / "grown"
    grown.mkdir()
    expected = await whole(source, folder / "whole.sqlite")
    found = await in_pieces(source, grown / source.name, folder / "pieces.sqlite", cuts)
    assert found == expected
    assert expected[1]
