"""What `make bundle` made, tried by programs of others (tests/guests.py): the wheel as `uvx lcm-mcp` runs
it, the bundle as a client starts it, and its manifest under the format's own check.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import anyio
from guests import from_npm, from_pypi, say

from lcm_mcp import __version__
from lcm_mcp.server.verifying import tools_of

UV = "uv==0.13.9"
MCPB = "@anthropic-ai/mcpb@2.1.2"
_SAMPLE = Path(__file__).parent / "data" / "claude-code" / "tiny.jsonl"


def main(dist: Path, folder: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = Path(scratch) / "bundle"
        with zipfile.ZipFile(dist / f"lcm-mcp-{__version__}.mcpb") as archive:
            archive.extractall(unpacked)
        programs = from_npm(folder, MCPB)
        if programs is not None:
            check = [programs / "node", programs / "mcpb", "validate", unpacked / "manifest.json"]
            subprocess.run(check, check=True)
        programs = from_pypi(folder / "uv", UV)
        if programs is not None:
            uv = str(programs / "uv")
            _wheel(uv, dist / f"lcm_mcp-{__version__}-py3-none-any.whl", f"{scratch}/lcm.sqlite")
            _bundle(uv, unpacked)
    return 0


def _wheel(uv: str, wheel: Path, store: str) -> None:
    uvx = ["tool", "run", "--quiet", "--from", str(wheel), "lcm-mcp"]
    told = subprocess.check_output([uv, *uvx, "--version"], text=True)
    assert told == f"lcm-mcp {__version__}\n", told
    ours = [*uvx, "--db", store]
    subprocess.run([uv, *ours, "--quiet", "import", _SAMPLE], check=True)
    assert json.loads(subprocess.check_output([uv, *ours, "sessions", "--json"]))["total"] == 1
    tools = anyio.run(tools_of, uv, ["--offline", *ours, "serve"])  # all of it was got just now
    say(f"uvx lcm-mcp serve, from the wheel, offers {len(tools)} tools.")


def _bundle(uv: str, unpacked: Path) -> None:
    started = json.loads((unpacked / "manifest.json").read_text())["server"]["mcp_config"]
    assert started["command"] == "uv"
    arguments = [word.replace("${__dirname}", str(unpacked)) for word in started["args"]]
    subprocess.run([uv, *arguments], check=True, stdin=subprocess.DEVNULL)  # what it needs is got here
    say(f"The bundle, as its manifest starts it, offers {len(anyio.run(tools_of, uv, arguments))} tools.")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
