"""The page on context tells the truth: each statement names a test that exists, each setting its default."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import get_args

import pytest

from lcm_mcp.service.answers import Status
from lcm_mcp.settings import KEYS, load_settings

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = (_ROOT / "docs" / "context.md").read_text(encoding="utf-8")
MARKER = re.compile(r"<!-- shown by (tests/\w+\.py)::(\w+) -->")
_SETTING = re.compile(r"`((?:rolling|lcm)\.\w+|strategy|pinnedRowsPercent)`(?: \((\w+)\))?")


@lru_cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def sections() -> Iterator[tuple[str, str]]:
    """Headings with what stands under them, up to the next heading; what opens the page is none."""
    pieces = re.split(r"^#{2,3} (.+)$", _PAGE, flags=re.MULTILINE)
    return zip(pieces[1::2], pieces[2::2], strict=True)


def statements(section: str) -> Iterator[str]:
    """Each list item and paragraph with the markers after it; no table or block, and no opening of a list."""
    for paragraph in section.strip().split("\n\n"):
        items = re.split(r"^(?=- )", paragraph, flags=re.MULTILINE)
        yield from (item for item in items if item and item[0] not in "|`" and not item.endswith(":"))


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = dict(sections())[heading]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_every_marker_names_a_test_that_exists() -> None:
    markers = [(match[1], match[2]) for match in MARKER.finditer(_PAGE)]
    assert len(markers) > 50
    assert _PAGE.count("<!--") == len(markers)
    assert [f"{file}::{name}" for file, name in markers if name not in functions_of(file)] == []


@pytest.mark.parametrize(("heading", "section"), list(sections()))
def test_every_statement_is_shown_by_a_test(heading: str, section: str) -> None:
    assert [said for said in statements(section) if MARKER.search(said) is None] == [], heading


def test_every_setting_is_named_with_its_default() -> None:
    wanted = [key for key in KEYS if "." in key or key in ("strategy", "pinnedRowsPercent")]
    defaults = {setting.name: setting.value for setting in load_settings({}, {}).in_force()}
    stated: dict[str, set[str]] = {}
    for key, default in _SETTING.findall(_PAGE):
        stated.setdefault(key, set()).add(default)
    assert sorted(stated) == sorted(wanted)
    for key in wanted:
        default = defaults[key]
        shown = "" if default is None else json.dumps(default).strip('"')
        assert stated[key] - {""} == {shown} - {""}, key


def test_the_settings_shown_are_accepted(tmp_path: Path) -> None:
    (written,) = re.findall(r"^```json\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "settings.json"
    file.write_text(written, encoding="utf-8")
    settings = load_settings({}, {"LCM_SETTINGS": str(file)})
    assert (settings.strategy, settings.lcm.swap, settings.rolling.tail_percent) == ("lcm", 60, 25)


def test_the_status_words_are_those_that_are_answered() -> None:
    assert sorted(word for word, _ in rows_of("Looking at a request")) == sorted(get_args(Status))
