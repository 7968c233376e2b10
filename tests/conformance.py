"""Clients of others at our server: `make conformance` runs them (tests/guests.py says where they come from).

The protocol's own scenarios over HTTP, in both eras; what fails for want of the suite's own test tools
stands in conformance.yaml. Then two command lines over stdio, the inspector's and mcp-cli, call tools on a
store that holds a conversation, and the inspector's strict look at our schemas may find nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from guests import from_npm, from_pypi, say

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
MCP_CLI = "mcp-cli==0.20.1"
VERSIONS = ("2025-11-25", "2026-07-28")
_HERE = Path(__file__).parent
_OURS = [sys.executable, "-m", "lcm_mcp", "--db"]
_SAMPLE = _HERE / "data" / "claude-code" / "tiny.jsonl"
_CALLS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("lcm_sessions", {}, "1 session in the whole store"),
    ("lcm_grep", {"pattern": "checkpoint"}, "e4"),
    ("lcm_expand", {"id": "e4"}, "checkpoint"),
)
"""Tools, what they are given, and what their text then holds."""


def main(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        store = f"{scratch}/lcm.sqlite"
        subprocess.run([*_OURS, store, "--quiet", "import", _SAMPLE], check=True)
        failed = [*_of_npm(folder, store), *_of_pypi(folder / "mcp-cli", store)]
    for what in failed:
        say(f"Failed: {what}")
    return int(bool(failed))


def _of_npm(folder: Path, store: str) -> list[str]:
    programs = from_npm(folder, SUITE, INSPECTOR)
    if programs is None:
        return []
    inspector = [programs / "node", programs / "mcp-inspector", "--cli", *_OURS, store, "serve", "--method"]
    failed = [f"scenarios of {version}" for version in VERSIONS if not _scenarios(programs, store, version)]
    listed = subprocess.run([*inspector, "tools/list", "--strict"], check=False, capture_output=True)
    findings = listed.stderr.decode()
    failed += [f"strict look at the schemas: {findings}"] if listed.returncode or findings.strip() else []
    for tool, arguments, words in _CALLS:
        given = [f"{name}={value}" for name, value in arguments.items()]
        call = [*inspector, "tools/call", "--tool-name", tool, *(["--tool-arg", *given] if given else [])]
        failed += [] if _says(call, words) else [f"{tool} called by the inspector"]
    return failed


def _scenarios(programs: Path, store: str, version: str) -> bool:
    serve = [*_OURS, store, "serve", "--transport", "http", "--port", "0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"http://\S+/mcp", server.stderr.readline())
        assert found is not None
        suite = [programs / "node", programs / "conformance", "server", "--url", found[0], "--suite", "all"]
        expected = ["--expected-failures", _HERE / "conformance.yaml"]
        ended = subprocess.run([*suite, *expected, "--spec-version", version], check=False)
        server.terminate()
    return ended.returncode == server.returncode == 0


def _of_pypi(folder: Path, store: str) -> list[str]:
    programs = from_pypi(folder, MCP_CLI)
    if programs is None:
        return []
    file = folder / "servers.json"
    command, *arguments = [*_OURS, store, "serve"]
    file.write_text(json.dumps({"mcpServers": {"lcm": {"command": command, "args": arguments}}}))
    cli = [programs / "mcp-cli", "cmd", "--config-file", file, "--server", "lcm", "--raw"]
    return [
        f"{tool} called by mcp-cli"
        for tool, arguments, words in _CALLS
        if not _says([*cli, "--tool", tool, "--tool-args", json.dumps(arguments)], words)
    ]


def _says(command: Sequence[str | Path], words: str) -> bool:
    """Whether it ends well and has said these words."""
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=120)
    return ended.returncode == 0 and words in ended.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
