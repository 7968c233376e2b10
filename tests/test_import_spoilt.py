"""Some of the spoilt files of `make fuzz`: whatever is wrong, an import ends in a report or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fuzzing import fuzz
from stores import serving
from test_import_fuzz import LINES, lines_of

_IDS = ("id", "uuid", "call_id", "agentId", "sessionId", "session", "parentId", "toolCallId", "$rewindTo")


async def test_spoilt_files_of_every_format_leave_a_sound_store(tmp_path: Path, store_path: Path) -> None:
    seen: list[int] = []
    async with serving(store_path) as service:
        await fuzz(service, tmp_path, range(60), seen.append)
        report = await service.doctor()
        assert [each.name for each in report.checks if not each.ok] in ([], ["following"])
    assert len(seen) == 60


@pytest.mark.parametrize("named", [True, False], ids=["all", "but for the entries, which have none"])
@pytest.mark.parametrize("name", LINES)
async def test_ids_that_no_file_can_hold_are_imported_and_followed(
    name: str, named: bool, tmp_path: Path, store_path: Path
) -> None:
    header, *records = [_with_odd_ids(record) for record in LINES[name]]
    if not named:
        records = [{key: each for key, each in record.items() if key not in _IDS} for record in records]
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines_of(name, [header, *records]))
    async with serving(store_path) as service:
        first = await service.import_file(path, name, fold=False, follow=True)
        assert first.report.rows_added > 0
        path.write_bytes(lines_of(name, [header, *records, *records]))
        await service.import_file(path, name, fold=False, follow=True)
        again = await service.import_file(path, name, fold=False, follow=True)
        assert again.report.rows_added == 0
        report = await service.doctor()
        assert [each.name for each in report.checks if not each.ok] in ([], ["following"])


def _with_odd_ids(value: Any) -> Any:
    """The same with a lone surrogate in every id."""
    if isinstance(value, list):
        return [_with_odd_ids(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    odd: dict[str, Any] = {}
    for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
        is_id = key in _IDS and isinstance(each, str)
        odd[str(key)] = f"{each}\ud800" if is_id else _with_odd_ids(each)  # pyright: ignore
    return odd
