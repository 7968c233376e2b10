"""A program writes a followed file and is killed, again and again; two servers read the store meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from growing import caught_up, look, said, texts
from stores import child, serving, tell, told

ROUNDS = 8


def complete(path: Path) -> list[str]:
    """The texts of the complete lines of a file; what a kill left glued together is no JSON."""
    found: list[str] = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        with suppress(ValueError):
            found.append(json.loads(line)["content"])
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_the_transcript_is_the_union_of_all_complete_lines_that_were_ever_written(
    seed: int, tmp_path: Path, store_path: Path
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "live.jsonl"
    path.write_bytes(said("the beginning"))
    union = set(complete(path))
    async with serving(store_path) as one, serving(store_path) as two:
        await one.import_file(path, "neutral", fold=False)
        for turn in range(ROUNDS):
            how = chance.choice(["append", "append", "truncate", "rotate", "rewrite"])
            with child("scribble", path, f"r{turn}", how) as writer:
                assert told(writer.stdout) == "ready"
                tell(writer, "go")
                end = time.monotonic() + chance.uniform(0.02, 0.2)
                while time.monotonic() < end:  # both read the same lines at the same time
                    async with anyio.create_task_group() as both:
                        both.start_soon(look, one)
                        both.start_soon(look, two)
            writer.wait()
            union |= set(complete(path))
            await caught_up(chance.choice([one, two]))
        rows = Counter(await texts(one))
        checks = {check.name: check.ok for check in (await one.doctor()).checks}
    assert set(rows) == union
    assert set(rows.values()) == {1}
    assert all(checks.values())
    assert len(union) > ROUNDS
