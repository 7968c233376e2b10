"""Semantic search, with the real model and the real extension; and a store that has it without either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import apsw
import pytest
from stores import settings_for
from test_recall import PIECES, QUESTIONS, by_index, refs, said

from lcm_mcp.errors import SettingsError
from lcm_mcp.search import meaning, vectors
from lcm_mcp.search.meaning import Meaning, far
from lcm_mcp.service import Service, indexing
from lcm_mcp.service.answers import HitPage
from lcm_mcp.service.requests import GrepQuery, PrepareQuery

installed = pytest.mark.skipif(not meaning.is_installed(), reason="the extra semantic is not installed")
MEANING = Meaning()
FILL = "The minutes of that week list what was bought, who paid and where the receipts are kept."
TALK = [
    "The physician examined the sick child in the hospital.",
    "We paint the boat's hull dark green before summer.",
    *[f"{FILL} {n}" for n in range(40)],
    "Our cat sleeps on the warm windowsill all afternoon.",
]
DOCTORS = "doctors treating ill kids"
"""Shares no word with the row that it means."""


@asynccontextmanager
async def semantic(path: Path, *, on: bool = True) -> AsyncGenerator[Service]:
    service = Service.open(settings_for(path).model_copy(update={"semantic_search": on}))
    if on:  # one model for all tests: its files are read once
        service = Service(replace(service.work, meaning=MEANING))
    try:
        yield service
    finally:
        await service.close()


async def ask(service: Service, question: str, **wanted: Any) -> HitPage:
    return await service.grep(replace(GrepQuery(question, "words", "talk"), **wanted))


async def count(service: Service) -> int:
    return await service.work.store.read(lambda db: int(db.execute("SELECT count(*) FROM vector").get))


@installed
def test_what_means_the_same_differs_in_few_bits() -> None:
    near, other = (
        far(MEANING.bits(TALK[0]), MEANING.bits(DOCTORS)),
        far(MEANING.bits(TALK[1]), MEANING.bits(DOCTORS)),
    )
    assert near < other
    assert len(MEANING.bits("")) == meaning.BYTES
    assert MEANING.bits("a" + "b" * meaning.MOST_CHARACTERS) == MEANING.bits(
        "a" + "b" * 9 * meaning.MOST_CHARACTERS
    )


@installed
@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("few", [0, 1000])
async def test_a_row_is_found_that_shares_no_word_with_the_question(
    store_path: Path, fed: bool, few: int
) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        if fed:
            await service.index()
        with by_index(few=few):
            page = await ask(service, DOCTORS)
            assert refs(page)[0] == "e1"
            assert page.hits[0].snippet.startswith("The physician")
            assert "or near in meaning" in page.searched
            assert refs(await ask(service, "which colour is the boat painted"))[0] == "e2"
            assert "e1" not in refs(await ask(service, DOCTORS, role="assistant"))
    async with semantic(store_path, on=False) as service:
        assert refs(await ask(service, DOCTORS)) == []


@installed
async def test_later_pages_go_on_while_rows_come_in_and_are_fed(store_path: Path) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        whole = refs(await ask(service, "where are the receipts of hospitals", limit=50))
        seen: list[str] = []
        page = await ask(service, "where are the receipts of hospitals")
        while page.next_cursor is not None:
            seen += refs(page)
            await service.append("talk", said(f"{FILL} again"))
            await service.index()
            page = await ask(service, "where are the receipts of hospitals", cursor=page.next_cursor)
        assert [*seen, *refs(page)] == whole
        assert len(whole) == len(TALK)


@installed
async def test_what_is_not_known_yet_is_said(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "TAIL_TEXTS", 10)
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        page = await ask(service, DOCTORS)
        assert "e1" not in refs(page)
        assert f"({len(TALK) - 10} newer rows by their words alone, as yet)" in page.searched
        await service.index()
        page = await ask(service, DOCTORS)
        assert refs(page)[0] == "e1"
        assert "as yet" not in page.searched


@installed
async def test_a_server_feeds_beside_the_requests_in_slices(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "SLICE_CHARACTERS", 500)
    async with semantic(store_path, on=False) as service:
        await service.append("talk", said(*TALK))
        await service.compact("talk", "lcm")
        await service.index()
        assert await count(service) == 0
    async with semantic(store_path) as service, service.running():
        with anyio.fail_after(20):
            while await service.work.store.read(vectors.behind, MEANING):
                await anyio.sleep(0.01)
        assert await count(service) == len(TALK)
        assert (await service.doctor()).healthy


@installed
async def test_bits_of_another_model_are_made_anew(store_path: Path) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.index()

        def age(db: apsw.Connection) -> None:
            db.execute("UPDATE vector SET bits = zeroblob(?)", (meaning.BYTES,))
            db.execute("UPDATE vector_state SET model = 'an older one'")

        await service.work.store.write(age)
        assert refs(await ask(service, DOCTORS))[0] == "e1"
        await service.index()
        assert refs(await ask(service, DOCTORS))[0] == "e1"
        assert not await service.work.store.read(vectors.behind, MEANING)


@installed
async def test_what_is_forgotten_leaves_no_bits_and_repair_makes_false_ones_anew(store_path: Path) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.append("secret", said("The xylophone is buried below the third oak", FILL))
        await service.index()
        bits = MEANING.bits("The xylophone is buried below the third oak")
        assert bits in all_bytes(store_path)
        await service.forget("secret")
        assert bits not in all_bytes(store_path)
        assert (await service.doctor()).healthy

        def spoil(db: apsw.Connection) -> None:
            db.execute("DELETE FROM vector WHERE text = 1")
            db.execute("INSERT INTO vector VALUES(9999, x'00')")

        await service.work.store.write(spoil)
        assert [check.name for check in (await service.doctor()).checks if not check.ok] == ["index"]
        await service.mend()
        assert (await service.doctor()).healthy
        assert await count(service) == len(TALK)
        assert refs(await ask(service, DOCTORS))[0] == "e1"


def all_bytes(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


@installed
async def test_rows_near_in_meaning_are_recalled_in_a_request(store_path: Path) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK, *[f"{FILL} {n}" for n in range(61)], "and now"))
        await service.prepare(PrepareQuery("talk", strategy="lcm", window_tokens=1000, compact="force"))
        asked = PrepareQuery("talk", strategy="lcm", window_tokens=1000, query=DOCTORS)
        assert "[lcm:recalled e1 user]" in str((await service.prepare(asked)).messages[-1])


@installed
async def test_no_question_raises(store_path: Path) -> None:
    luck = Random("meanings")
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.index()
        for number in range(QUESTIONS // 2):
            pieces = luck.choice((1, 2, 5, 20, 500))
            question = "".join(luck.choice(PIECES) + luck.choice(("", " ")) for _ in range(pieces))[:500]
            with by_index(few=(number % 2) * 1000):
                assert len((await ask(service, question, limit=50)).hits) == len(TALK)


async def test_without_its_packages_the_setting_says_what_to_install(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "is_installed", lambda: False)
    with pytest.raises(SettingsError, match=r"pip install 'lcm-mcp\[semantic\]'"):
        Service.open(settings_for(store_path).model_copy(update={"semantic_search": True}))
    assert not store_path.exists()


ALONE = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {packages} else super().find_spec(name, path, target)
sys.meta_path[:] = [Without if each is PathFinder else each for each in sys.meta_path]
from lcm_mcp.cli import main
main()
"""


def alone(path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of an installation that has none of the packages."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            ALONE.replace("{packages}", str(meaning.PACKAGES)),
            "--db",
            str(path),
            *arguments,
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@installed
async def test_a_store_with_meanings_is_whole_where_the_extra_is_missing(
    store_path: Path, tmp_path: Path
) -> None:
    async with semantic(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.append("secret", said("The xylophone is buried below the third oak", FILL))
        await service.index()
    commands: Sequence[Sequence[str]] = (
        ("grep", "--mode", "words", "sick child", "--session", "talk"),
        ("fork", "e2", "--session", "talk", "--as", "branch"),
        ("backup", str(tmp_path / "copy.sqlite")),
        ("export", "--session", "talk"),
        ("forget", "secret", "--yes"),
        ("doctor", "--repair"),
    )
    for command in commands:
        done = alone(store_path, *command)
        assert done.returncode == 0, (command, done)
    assert MEANING.bits("The xylophone is buried below the third oak") not in all_bytes(store_path)
    refused = alone(store_path, "sessions", LCM_SEMANTIC_SEARCH="on")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "pip install 'lcm-mcp[semantic]'" in refused.stderr


@installed
def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    code = (
        "import sys, lcm_mcp.cli, lcm_mcp.server, lcm_mcp.service\n"
        f"print([name for name in {meaning.PACKAGES} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout.replace("'", '"')) == []
