"""The pages of docs/ are true: made from the code, quoting errors that there are, with examples that run."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import figures
import pytest
from commands import Cli
from harbour import memory, talk
from reference import DOCS, pages

import lcm_mcp
from lcm_mcp.ids import format_address, parse_address
from lcm_mcp.settings import load_settings
from lcm_mcp.transcript.importers import FORMATS

_PACKAGE = Path(lcm_mcp.__file__).parent
_EXAMPLES = DOCS / "examples"


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", _EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_made_from_the_code_are_as_the_code_is() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make reference`"


def test_the_figures_of_how_it_works_are_what_its_commands_print() -> None:
    page = figures.PAGE.read_text(encoding="utf-8")
    assert len(figures.SHOWN.findall(page)) >= 4
    assert figures.refreshed(page) == page, "run `make readme`"


def test_each_word_of_the_glossary_is_used_and_its_addresses_are_addresses() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words: list[str] = re.findall(r"^\| ([\w ]+) \| .{10,120} \|$", page, re.MULTILINE)
    words = [word for word in words if word != "word"]
    assert len(words) == page.count("\n| ") - page.count("\n| word |")
    used = "".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("tools", "context"))
    assert [word for word in words if not re.search(rf"\b{word}(s|ed)?\b", used, re.IGNORECASE)] == []
    addresses = [shown for shown in re.findall(r"`([#efs]\d[^`]*)`", page) if shown != "s7"]
    assert len(addresses) >= 5
    assert [format_address(parse_address(shown)) for shown in addresses] == addresses


def _sentences() -> Iterator[str]:
    """All texts in the package, with … for what is put into them."""
    for path in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if _is_text(part) else "…" for part in node.values)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def test_the_errors_of_the_page_on_troubles_are_said_by_the_code() -> None:
    said = "\n".join(_sentences())
    quoted = re.findall(
        r"^\*\*(.+?)\*\*", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(quoted) > 25
    for error in quoted:
        # What names an argument, or ends a sentence that the code puts together, stands outside of it.
        wanted = error.removeprefix("cursor: ").rstrip(".")
        assert wanted in said, error


def test_the_settings_shown_hold_and_the_refusals_shown_are_said(tmp_path: Path) -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    (document,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    file = tmp_path / "settings.json"
    file.write_text(document)
    held = load_settings({}, {"LCM_SETTINGS": str(file)})
    assert (held.strategy, held.lcm.trigger_percent, held.lcm.swap_percent) == ("lcm", 80, 60)
    assert held.fold_imports is False
    (refusals,) = re.findall(r"^```\n(\$ LCM.*?)^```", page, re.MULTILINE | re.DOTALL)
    for asked, answer in re.findall(r"^\$ (.*)\n(.*)$", refusals, re.MULTILINE):
        name, _, value = shlex.split(asked)[0].partition("=")
        ended = subprocess.run(
            [sys.executable, "-m", "lcm_mcp", *shlex.split(asked)[2:]],
            env={**os.environ, name: value},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 1
        assert ended.stderr.startswith(answer.rstrip("…\n"))


def test_the_importer_shown_reads_its_format_and_is_found_by_the_content(
    store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _example("importer").FORMAT
    monkeypatch.setitem(FORMATS, made.name, made)
    file = tmp_path / "talk.jsonl"
    file.write_text('{"me": "How long is pier 4?"}\nnot json\n{"it": "218 metres"}\n{"other": 1}\n')
    run = Cli(capsys, store_path)
    (report,) = run.answer("import", file)["files"]
    assert report["report"]["format"] == made.name
    assert (report["report"]["bad_lines"], report["report"]["other"]) == (1, {"unknown": 1})
    user, assistant = run.answer("expand", "e1..e2")["rows"]
    assert (user["role"], user["text"]) == ("user", "How long is pier 4?")
    assert (assistant["role"], assistant["text"]) == ("assistant", "218 metres")
    (again,) = run.answer("import", file)["files"]
    assert [session["rows_added"] for session in again["sessions"]] == [0]


async def test_the_tool_shown_answers_in_both_channels(store_path: Path) -> None:
    tool = _example("tool").TOOL
    async with memory(store_path) as service:
        await service.append("harbour", talk(2))
        answer = await tool.call(service, {})
    assert answer.text == 'Session "harbour": 8 rows.\nassistant: 4\nuser: 4'
    assert json.dumps(answer.structured["rows_by_role"]) == '{"assistant": 4, "user": 4}'
    assert tool.output_schema["required"]


def test_every_page_is_linked_and_every_link_leads_somewhere() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    linked: set[Path] = set()
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                found = (page.parent / target).resolve()
                assert found.exists(), f"{page.name}: {target}"
                linked.add(found)
    assert {page.name for page in DOCS.glob("*.md") if page.resolve() not in linked} == set()
