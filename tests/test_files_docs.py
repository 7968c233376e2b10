"""docs/files.md shows what exploring real files gives, and that is what it gives."""

from __future__ import annotations

import re

from explored import FILES, PAGE, ROOT, shown

from lcm_mcp.transcript.exploring import explore


def test_the_page_shows_what_exploring_gives() -> None:
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown() in blocks, "run tests/explored.py and put what it prints into docs/files.md"


def test_it_shows_fifteen_kinds_at_least() -> None:
    kinds = {explore(name, (ROOT / name).read_text(encoding="utf-8")).kind for name in FILES}
    assert len(kinds - {"unknown"}) >= 15
