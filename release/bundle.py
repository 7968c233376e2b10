"""The wheel, and what leads to it: a bundle for Claude Desktop and the entry for the MCP registry.

All three say the same name, version and description, which stand in pyproject.toml and the package. The
bundle (.mcpb) carries the wheel and leaves its dependencies to uv, which the client brings; it serves the
toolset of chat clients. Nothing is uploaded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lcm_mcp import __version__

ROOT: Final = Path(__file__).resolve().parent.parent
REGISTRY_NAME: Final = "io.github.lcm-mcp/lcm-mcp"
"""What the README says after `mcp-name:`, by which the registry knows that the package is its own."""

_PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_PROJECT: Final[dict[str, Any]] = _PYPROJECT["project"]
_SHORT: Final = "Memory for agents: whole conversations and summaries that lead back to every word."
_SERVER: Final = """\
from lcm_mcp.cli import main

main(["serve", "--toolset", "read"])
"""


@dataclass(frozen=True, slots=True)
class Built:
    wheel: Path
    bundle: Path
    server_json: Path


def build(into: Path) -> Built:
    """Make all three in that folder; the wheel is of the tree as it is."""
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into.resolve())],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    wheel = into / f"lcm_mcp-{__version__}-py3-none-any.whl"
    bundle = into / f"lcm-mcp-{__version__}.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", _json(manifest()))
        archive.writestr("pyproject.toml", _pyproject(wheel.name))
        archive.writestr("server.py", _SERVER)
        archive.write(wheel, wheel.name)
    server_json = into / "server.json"
    server_json.write_text(_json(registry_entry()), encoding="utf-8")
    return Built(wheel, bundle, server_json)


def manifest() -> dict[str, Any]:
    """The bundle's manifest, version 0.4."""
    return {
        "manifest_version": "0.4",
        "name": _PROJECT["name"],
        "display_name": "lcm-mcp",
        "version": __version__,
        "description": _SHORT,
        "long_description": _PROJECT["description"],
        "author": {"name": "The lcm-mcp authors"},
        "license": _PROJECT["license"],
        "keywords": _PROJECT["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {"command": "uv", "args": ["run", "--directory", "${__dirname}", "server.py"]},
        },
        "compatibility": {
            "platforms": ["darwin", "win32", "linux"],
            "runtimes": {"python": _PROJECT["requires-python"]},
        },
    }


def registry_entry() -> dict[str, Any]:
    """The server.json of the MCP registry: the package on PyPI, spoken to over stdio."""
    package = {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": _PROJECT["name"],
        "version": __version__,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}],
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": "lcm-mcp",
        "description": _SHORT,
        "version": __version__,
        "packages": [package],
    }


def _pyproject(wheel: str) -> str:
    return (
        f'[project]\nname = "lcm-mcp-bundle"\nversion = "{__version__}"\n'
        f'requires-python = "{_PROJECT["requires-python"]}"\ndependencies = ["{_PROJECT["name"]}"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\n{_PROJECT["name"]} = {{ path = "{wheel}" }}\n'
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    built = build(ROOT / "dist")
    for made in (built.wheel, built.bundle, built.server_json):
        print(f"{made.relative_to(ROOT)}  {made.stat().st_size:,} bytes")
