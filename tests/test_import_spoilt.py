"""Some of the spoilt files of `make fuzz`: whatever is wrong, an import ends in a report or a refusal."""

from __future__ import annotations

from pathlib import Path

from fuzzing import fuzz
from stores import serving


async def test_spoilt_files_of_every_format_leave_a_sound_store(tmp_path: Path, store_path: Path) -> None:
    seen: list[int] = []
    async with serving(store_path) as service:
        await fuzz(service, tmp_path, range(60), seen.append)
        report = await service.doctor()
        assert [each.name for each in report.checks if not each.ok] in ([], ["following"])
    assert len(seen) == 60
