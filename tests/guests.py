"""Programs of others that try ours, each in a folder of its own: a fixed version from npm or from PyPI.

They are no part of the tests, which need no network. Where one cannot be had, that is said, and what it would
have tried is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

GETTING_S = 900
"""How long getting one may take: a network without a way out says nothing."""


def from_npm(folder: Path, *packages: str) -> Path | None:
    """The folder of the programs of these packages, or None."""
    npm = shutil.which("npm")
    if npm is None:
        return _left_out(packages[0], "npm is not here")
    folder.mkdir(parents=True, exist_ok=True)
    # A Node of its own: that of the system may be too old for them.
    if not _got(npm, "install", "--silent", "--prefix", folder, "node@22", *packages):
        return _left_out(packages[0], "npm could not get it")
    return folder / "node_modules" / ".bin"


def from_pypi(folder: Path, package: str) -> Path | None:
    """The folder of the programs of this package, in an environment without ours, or None."""
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    if not _got(sys.executable, "-m", "venv", folder) or not _got(
        *(programs / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", package)
    ):
        return _left_out(package, "pip could not get it")
    return programs


def _got(*command: str | Path) -> bool:
    try:
        return subprocess.run(command, check=False, timeout=GETTING_S).returncode == 0
    except (subprocess.TimeoutExpired, OSError):
        return False


def _left_out(package: str, reason: str) -> None:
    say(f"Not tried: {package}; {reason}.")


def say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()
