"""The protocol's own scenarios against a server of ours, in both eras, then the inspector's command line:
a strict look at the schemas of our tools, and a call. `make conformance` runs it.

They need Node, which npm gets; without npm that is said, and nothing is run. What fails for want of the
suite's own test tools stands in conformance.yaml. It is no part of the tests, which need no network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
VERSIONS = ("2025-11-25", "2026-07-28")
_EXPECTED = Path(__file__).with_suffix(".yaml")


def main(folder: Path) -> int:
    npm = shutil.which("npm")
    if npm is None:
        sys.stdout.write("Not run: the scenarios need npm, which is not here.\n")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([npm, "install", "--silent", "--prefix", folder, "node@22", SUITE, INSPECTOR], check=True)
    programs = folder / "node_modules" / ".bin"
    with tempfile.TemporaryDirectory() as scratch:
        serve = ["--db", f"{scratch}/lcm.sqlite", "serve", "--transport", "http", "--port", "0"]
        with subprocess.Popen(
            [sys.executable, "-m", "lcm_mcp", *serve], stderr=subprocess.PIPE, text=True
        ) as server:
            assert server.stderr is not None
            found = re.search(r"http://\S+/mcp", server.stderr.readline())
            assert found is not None
            suite = [programs / "node", programs / "conformance", "server", "--url", found[0]]
            options = ["--suite", "all", "--expected-failures", _EXPECTED]
            ended = [
                subprocess.run([*suite, *options, "--spec-version", version], check=False).returncode
                for version in VERSIONS
            ]
            server.terminate()
        server_of = [sys.executable, "-m", "lcm_mcp", "--db", f"{scratch}/lcm.sqlite", "serve"]
        inspector = [programs / "node", programs / "mcp-inspector", "--cli", *server_of, "--method"]
        asked = (["tools/list", "--strict"], ["tools/call", "--tool-name", "lcm_sessions"])
        ended += [
            subprocess.run([*inspector, *each], check=False, stdout=subprocess.DEVNULL).returncode
            for each in asked
        ]
    return int(any([*ended, server.returncode]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
