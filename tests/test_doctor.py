"""Doctor: what it finds in a store whose content was changed behind its back."""

from __future__ import annotations

from pathlib import Path

from stores import serving

from lcm_mcp.service.doctoring import repair


async def test_a_changed_row_is_told_even_after_its_checksum_was_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "lcm.sqlite"
    async with serving(path) as service:
        await service.append("s", [{"role": "user", "content": f"row {n}: 1000 EUR"} for n in range(300)])
        assert (await service.doctor()).healthy
    content = path.read_bytes()
    assert content.count(b"row 150: 1000 EUR") == 1
    path.write_bytes(content.replace(b"row 150: 1000 EUR", b"row 150: 9000 EUR"))
    assert "Checksums were rewritten" in repair(path)
    async with serving(path) as service:
        diagnosis = await service.doctor()
    (failed,) = [check for check in diagnosis.checks if not check.ok]
    assert failed.name == "contents"
    assert "s1/e151" in failed.detail
