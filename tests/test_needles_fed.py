"""Literal search against a plain reference in a session that the index serves, however far it was fed.

Fed wholly, fed in part, and while another process appends and feeds. LCM_LONG makes 2,000 needles in each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import pytest
from test_needles import PAGE, Kept, agrees, all_hits, kept_rows, needles, reference

from benchmarks.generating import write_sessions
from lcm_mcp.search import index, streams
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.settings import load_settings

ROWS = 1_600
NEEDLES, PAUSE_S = (1_000, 0.1) if "LCM_LONG" in os.environ else (30, 0.01)
"""And between two rows of the other process: each needle is looked for in all of them, in Python too."""
CASES = pytest.mark.parametrize("case_sensitive", [True, False], ids=["with case", "without case"])
_APPENDING = """
import sys
import anyio
from benchmarks.generating import Author
from lcm_mcp.service import Service
from lcm_mcp.settings import load_settings

async def main(db, key, pause_s):
    service = Service.open(load_settings({"db": db}, {}))
    async with service.running():
        for number, entry in enumerate(Author(99).session(1_000_000, 1_000, planted=False)):
            await service.append(key, [entry])
            if number == 3:
                print("appending", flush=True)
            await anyio.sleep(float(pause_s))

anyio.run(main, *sys.argv[1:])
"""


@asynccontextmanager
async def unfed(store: Path, folder: Path) -> AsyncGenerator[tuple[Service, str]]:
    """A session of many rows, none of them indexed."""
    service = Service.open(load_settings({"db": str(store)}, {}))
    try:
        file = next(write_sessions(folder, ROWS))
        yield service, (await service.import_file(file, fold=False, follow=False)).sessions[0].session
    finally:
        await service.close()


@contextmanager
def another_process_appends(store: Path, key: str) -> Generator[None]:
    """And feeds the index, as long as this lasts."""
    command = [sys.executable, "-W", "error", "-c", _APPENDING, str(store), key, str(PAUSE_S)]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as appending:
        assert appending.stdout is not None
        try:
            assert appending.stdout.readline() == b"appending\n"
            yield
            assert appending.poll() is None
        finally:
            appending.kill()


def asked(key: str, kept: list[Kept], case_sensitive: bool) -> Generator[GrepQuery]:
    luck = Random(f"{case_sensitive}")
    for needle in needles([one.texts[0] for one in kept], luck, NEEDLES):
        yield GrepQuery(needle, session=key, scope="rows", case_sensitive=case_sensitive, limit=PAGE)


@CASES
@pytest.mark.parametrize("part", ["none", "some", "all"])
async def test_grep_is_exact_however_far_the_index_was_fed(
    store_path: Path, tmp_path: Path, part: str, case_sensitive: bool
) -> None:
    assert ROWS > streams.SMALL_ROWS
    async with unfed(store_path, tmp_path) as (service, key):
        if part == "all":
            await service.index()
        for _ in range(6 if part == "some" else 0):
            await service.work.store.write(index.feed)
        left = await service.work.store.read(index.unindexed)
        assert (left == 0, left == ROWS) == (part == "all", part == "none")
        kept = kept_rows(store_path)
        for query in asked(key, kept, case_sensitive):
            await agrees(service, query, kept)


@CASES
async def test_grep_is_exact_while_another_process_appends(
    store_path: Path, tmp_path: Path, case_sensitive: bool
) -> None:
    async with unfed(store_path, tmp_path) as (service, key):
        await service.index()
        with another_process_appends(store_path, key):
            queries = list(asked(key, kept_rows(store_path), case_sensitive))
            for query in queries:
                before = [ref for ref, _ in reference(kept_rows(store_path), query.pattern, query)]
                found = [hit.ref for hit in await all_hits(service, query)]
                after = [ref for ref, _ in reference(kept_rows(store_path), query.pattern, query)]
                # The hits of the newest page's moment, and whatever came while the pages were turned is none.
                assert found[: len(before)] == before, repr(query.pattern)
                assert found == after[: len(found)], repr(query.pattern)
        assert len(kept_rows(store_path)) > ROWS + len(queries) // 10
