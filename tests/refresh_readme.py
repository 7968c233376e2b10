"""Puts what the demo prints now into the README's blocks; `make readme` runs it after a change of either.

A block that begins with `$ lcm-mcp NAME` shows the first lines of the demo's screen of that command, as
many as it has.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
_SHOWN = re.compile(r"^```\n(\$ lcm-mcp (\w+).*?)\n```$", re.MULTILINE | re.DOTALL)


def refreshed(text: str) -> str:
    """The README's text with its shown output as the demo prints it."""
    printed = _demo()

    def block(found: re.Match[str]) -> str:
        start = next(n for n, line in enumerate(printed) if line.startswith(f"$ lcm-mcp {found[2]}"))
        length = found[1].count("\n") + 1
        return "```\n" + "\n".join(printed[start : start + length]).rstrip() + "\n```"

    return _SHOWN.sub(block, text)


def _demo() -> list[str]:
    command = [sys.executable, "-m", "lcm_mcp", "demo"]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=120)
    return [line.rstrip() for line in ended.stdout.decode().splitlines()]


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")
