"""The house: who may import whom, which library stops on which floor, and how large a room may get.

Every import in the package is read, those inside functions and under TYPE_CHECKING included. The
table below is the architecture; a new room is written into it before it is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import lcm_mcp

_PACKAGE = Path(lcm_mcp.__file__).parent
_TESTS = Path(__file__).parent

# A room is a module or package right under lcm_mcp. Rooms of one floor do not see each other, but for
# the pairs in _BESIDE.
_FLOORS: tuple[tuple[str, ...], ...] = (
    ("values",),
    ("errors", "ids", "chain", "wording", "__init__"),
    ("settings", "tokens", "models", "clients", "redaction"),
    ("storage",),
    ("transcript",),
    ("search", "dag"),
    ("projection",),
    ("summarizers",),
    ("service",),
    ("tools",),
    ("server", "cli", "__main__"),
)
_BESIDE = {("ids", "errors"), ("__main__", "cli"), ("cli", "server")}
# What a room may see of a floor below it, where that is less than all.
_ONLY = {
    # What a DAG needs of a transcript is where its rows are, never what they say.
    ("dag", "transcript"): {
        "lcm_mcp.transcript.model",
        "lcm_mcp.transcript.units",
        "lcm_mcp.transcript.path",
    },
    ("projection", "dag"): {"lcm_mcp.dag.model"},
}
_NEVER = {("projection", "storage"), ("projection", "search"), ("summarizers", "storage")}
_LIBRARIES = {
    "apsw": {"storage", "transcript", "search", "dag", "service"},
    "mcp": {"server"},
    "mcp_types": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "pydantic": {"chain", "settings", "tools", "server"},
    "anyio": {"storage", "summarizers", "service", "tools", "server", "cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "platformdirs": {"settings"},
    "tomlkit": {"clients"},
    "genai_prices": {"models"},
    "re2": {"search"},
    "numpy": {"search"},
    "safetensors": {"search"},
    "sqlite_vec": {"search"},
    "tokenizers": {"search"},
    "anthropic": {"summarizers"},
    "openai": {"summarizers"},
}
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's module, by its full name, as seen from a module of ours."""

    by: str
    of: str
    line: int

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of}"


def _name(path: Path) -> str:
    parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, ast.Module]:
    paths = sorted(_PACKAGE.rglob("*.py"))
    return {_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths}


def _room(module: str) -> str:
    """The room of one of our modules; the package's own __init__ is a room by that name."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def _imports() -> tuple[Import, ...]:
    return tuple(found for module, tree in _modules().items() for found in _imports_of(module, tree))


def _imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively; say the whole name"
            of = node.module or ""
            for alias in node.names:
                inner = f"{of}.{alias.name}"
                yield Import(module, inner if inner in _modules() else of, node.lineno)


def _ours(module: str) -> bool:
    return module.split(".")[0] == "lcm_mcp"


def _inside() -> list[Import]:
    return [each for each in _imports() if _ours(each.of)]


def _floor(room: str) -> int:
    for number, rooms in enumerate(_FLOORS):
        if room in rooms:
            return number
    pytest.fail(f"lcm_mcp/{room} stands on no floor: write it into the table")


def _allowed(each: Import) -> bool:
    above, below = _room(each.by), _room(each.of)
    if above == below or (above, below) in _BESIDE:
        return True
    only = _ONLY.get((above, below))
    if only is not None and each.of not in only:
        return False
    return (above, below) not in _NEVER and _floor(below) < _floor(above)


def test_every_room_stands_on_a_floor() -> None:
    assert {_room(module) for module in _modules()} <= {room for floor in _FLOORS for room in floor}


def test_imports_go_strictly_down() -> None:
    assert [str(each) for each in _inside() if not _allowed(each)] == []


def test_each_library_stays_on_its_floors() -> None:
    strays = [
        str(each)
        for each in _imports()
        if (rooms := _LIBRARIES.get(each.of.split(".")[0])) is not None and _room(each.by) not in rooms
    ]
    assert strays == []


def test_the_service_knows_of_apsw_only_the_connection_it_passes_on() -> None:
    used = {
        f"{module}: apsw.{node.attr}"
        for module, tree in _modules().items()
        if _room(module) == "service"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "apsw"
        if node.attr != "Connection"
    }
    assert used == set()


def test_modules_of_one_room_do_not_import_each_other_in_circles() -> None:
    edges: dict[str, set[str]] = {module: set() for module in _modules()}
    for each in _inside():
        edges[each.by].add(each.of)
    while free := {module for module, targets in edges.items() if not targets & edges.keys() - {module}}:
        for module in free:
            del edges[module]
    assert sorted(edges) == []


def test_every_module_opens_with_its_idea() -> None:
    silent = [module for module, tree in _modules().items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


@pytest.mark.parametrize("folder", [_PACKAGE, _TESTS], ids=["lcm_mcp", "tests"])
def test_no_file_and_no_function_outgrows_its_reader(folder: Path) -> None:
    too_long: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if (lines := text.count("\n")) > MAX_FILE_LINES:
            too_long.append(f"{path.name}: {lines} lines")
        too_long += [f"{path.name}:{what}" for what in _long_functions(ast.parse(text))]
    assert too_long == []


def _long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.lineno} {node.name}: {lines} lines"
