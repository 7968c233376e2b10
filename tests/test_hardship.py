"""Bad bytes, a full disk, a read-only file: told in a sentence, and nothing acknowledged is lost."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest
from commands import Cli
from stores import serving

from lcm_mcp.errors import StoreError, StoreUnavailable
from lcm_mcp.service.requests import GrepQuery

FLIPS = 200


async def answers(path: Path) -> str:
    async with serving(path) as service:
        rows = await service.expand("e1..e40", "s", max_bytes=100_000)
        hits = await service.grep(GrepQuery("number 3", session="s", limit=50))
        nodes = await service.list_nodes("s")
        said = repr((rows, hits, nodes))
        # What stands beside a right answer may tell the fault: that followed files could not be looked at.
        return said if "is damaged" not in said else ""


async def test_200_flipped_bytes_are_reported_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "lcm.sqlite"
    async with serving(path) as service:
        if not service.work.store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        rows = [{"role": ("user", "assistant")[n % 2], "content": f"number {n} " * 30} for n in range(40)]
        await service.append("s", rows)
        await service.compact("s", "lcm")
        await service.index()
    right, whole = await answers(path), path.read_bytes()
    chance, reported = random.Random(7), 0
    for position in chance.sample(range(len(whole)), FLIPS):
        path.write_bytes(
            whole[:position] + bytes([whole[position] ^ 1 << position % 8]) + whole[position + 1 :]
        )
        try:
            assert await answers(path) in (right, ""), position
            async with serving(path) as service:
                reported += not (await service.doctor()).healthy
        except StoreError:
            reported += 1
        for side in ("-wal", "-shm"):
            path.with_name(path.name + side).unlink(missing_ok=True)
    assert reported > FLIPS * 0.9
    path.write_bytes(whole)
    assert await answers(path) == right


async def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("s", [{"role": "user", "content": "kept"}])

        def limit(db: apsw.Connection, more: int) -> None:
            db.pragma("max_page_count", db.pragma("page_count") + more)

        await service.work.store.write(limit, 8)
        acknowledged = 1
        with pytest.raises(StoreUnavailable, match=r"the disk is full\. Free some space"):  # noqa: PT012
            while True:
                await service.append("s", [{"role": "user", "content": f"{acknowledged} " * 2000}])
                acknowledged += 1
        assert (await service.sessions(project="*")).sessions[0].rows == acknowledged
        failed = [check for check in (await service.doctor()).checks if not check.ok]
        assert [check.name for check in failed] in ([], ["writing"])
        await service.work.store.write(limit, 10_000)
        await service.append("s", [{"role": "user", "content": "there is space again"}])
        assert (await service.doctor()).healthy


async def test_a_store_that_becomes_read_only_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.append("s", [{"role": "user", "content": "kept"}])
        # As the file system would answer; root may write to a file without permission.
        service.work.store._writer.pragma("query_only", 1)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreUnavailable, match="read-only"):
            await service.append("s", [{"role": "user", "content": "lost"}])
        failed = [check for check in (await service.doctor()).checks if not check.ok]
        assert [check.name for check in failed] == ["writing"]
        service.work.store._writer.pragma("query_only", 0)  # pyright: ignore[reportPrivateUsage]
        assert (await service.sessions(project="*")).sessions[0].rows == 1


def test_damage_is_one_line_and_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cli = Cli(capsys, tmp_path / "lcm.sqlite")
    file = tmp_path / "talk.jsonl"
    file.write_text('{"session": "talk"}\n{"role": "user", "content": "hello"}\n')
    cli.done("--quiet", "import", file, "--no-follow")
    whole = cli.db.read_bytes()
    for size in (len(whole) // 2, 8192 * 3 + 17, 700):
        cli.db.write_bytes(whole[:size])
        assert "lcm-mcp: " in cli.refusal("expand", "e1", "--session", "talk")
        assert cli("doctor").code == 1
        assert cli("doctor", "--repair").code == 1
