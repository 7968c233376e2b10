"""What `make bundle` makes: a wheel that works by itself, and what registries and clients ask of the rest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lcm_mcp import __version__
from lcm_mcp.server.inspector.pages import FOLDER
from release.bundle import Built, build

_HERE = Path(__file__).parent
_MANIFEST_FIELDS = {  # the specification of version 0.4 refuses any other
    *("$schema", "manifest_version", "name", "display_name", "version", "description", "long_description"),
    *("author", "repository", "homepage", "documentation", "support", "icon", "icons", "screenshots"),
    *("localization", "server", "tools", "tools_generated", "prompts", "prompts_generated", "keywords"),
    *("license", "privacy_policies", "compatibility", "user_config", "_meta"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"))


def test_the_manifest_is_one_of_version_0_4_for_uv(built: Built) -> None:
    with zipfile.ZipFile(built.bundle) as archive:
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
        names = set(archive.namelist())
        project = tomllib.loads(archive.read("pyproject.toml").decode())
    assert manifest["manifest_version"] == "0.4"
    assert {"name", "version", "description", "author", "server"} <= set(manifest) <= _MANIFEST_FIELDS
    assert manifest["version"] == __version__
    assert set(manifest["author"]) <= {"name", "email", "url"}
    assert manifest["author"]["name"]
    server = manifest["server"]
    assert set(server) == {"type", "entry_point", "mcp_config"}
    assert server["type"] == "uv"
    assert server["entry_point"] in names
    assert set(server["mcp_config"]) <= {"command", "args", "env", "platform_overrides"}
    assert server["mcp_config"]["args"][-1] == server["entry_point"]
    assert set(manifest["compatibility"]) <= {"claude_desktop", "platforms", "runtimes"}
    assert set(manifest["compatibility"]["platforms"]) <= {"darwin", "win32", "linux"}
    (wheel,) = (source["path"] for source in project["tool"]["uv"]["sources"].values())
    assert wheel in names
    assert not [name for name in names if name.startswith(("server/lib/", "server/venv/"))]


def test_the_registry_entry_names_the_package_as_the_package_names_it(built: Built) -> None:
    entry = json.loads(built.server_json.read_text(encoding="utf-8"))
    assert entry["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["description"]) <= 100
    assert entry["version"] == __version__
    (package,) = entry["packages"]
    assert {"registryType", "identifier", "version", "transport"} <= set(package)
    assert (package["registryType"], package["version"]) == ("pypi", __version__)
    assert package["transport"] == {"type": "stdio"}
    with zipfile.ZipFile(built.wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
    assert f"\nName: {package['identifier']}\n" in told
    assert re.findall(r"mcp-name: (\S+)", told) == [entry["name"]]


def test_the_wheel_works_where_the_source_is_not(built: Built, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", "--target", str(site), str(built.wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "LCM_DB": str(tmp_path / "lcm.sqlite")}

    def run(*arguments: str) -> str:
        return subprocess.check_output(
            [sys.executable, *arguments], env=environment, cwd=tmp_path, text=True, stderr=subprocess.STDOUT
        )

    assert run("-c", "import lcm_mcp; print(lcm_mcp.__file__)").startswith(str(site))
    assert run("-m", "lcm_mcp", "--version") == f"lcm-mcp {__version__}\n"
    run("-m", "lcm_mcp", "import", str(_HERE / "data" / "claude-code" / "tiny.jsonl"))
    assert json.loads(run("-m", "lcm_mcp", "sessions", "--json"))["total"] == 1
    assert "lcm-mcp grep" in run("-m", "lcm_mcp", "demo")


def test_the_wheel_holds_the_inspectors_page(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if "/inspector/" in name}
    assert held >= {file.name for folder in ("page", "view") for file in FOLDER.with_name(folder).iterdir()}
