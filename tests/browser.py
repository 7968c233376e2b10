"""A browser for the tests of the inspector: found, or got by `make browser`, which `make test` asks for.

Chromium is no Python package. On Linux npm has one that needs nothing of the system; elsewhere Playwright
gets its own. Without either the tests of the page are left out and say so; nothing is ever sent anywhere.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

CHROMIUM = "@sparticuz/chromium@147.0.0"
PATIENCE_MS = 20_000
"""How long what should appear may take."""
GETTING_S = 300
"""How long each step of getting a browser may take: a network without a way out says nothing."""
_FOLDER = Path(sys.prefix) / "browser"
_OWN = _FOLDER / "chromium"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_UNPACK = "import('@sparticuz/chromium').then((found) => found.default.executablePath())"
_ARGUMENTS = ("--no-sandbox", "--headless=shell", "--no-zygote", "--disable-gpu")


def found() -> Path | None:
    """The browser to use: the one CHROMIUM names, the one we got, one of the system, or Playwright's."""
    named = os.environ.get("CHROMIUM")
    candidates = [Path(named)] if named else [_OWN, *map(Path, filter(None, map(shutil.which, _NAMES)))]
    ours = next((path for path in candidates if os.access(path, os.X_OK)), None)
    if ours is not None or named:
        return ours
    with sync_playwright() as playwright:
        theirs = Path(playwright.chromium.executable_path)
    return theirs if os.access(theirs, os.X_OK) else None


@contextmanager
def browser() -> Generator[Browser]:
    """A browser for as long as the block runs; without one the test is left out."""
    path = found()
    if path is None:
        pytest.skip("no browser is here; `make browser` gets one from npm, or Playwright's")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield opened
        finally:
            opened.close()


def main() -> int:
    """Get a browser where there is none; failing is no fault, the tests say what they leave out."""
    if found() is None:
        with suppress(subprocess.SubprocessError, OSError):
            _get()
    if found() is None:
        sys.stdout.write("No browser was got: the tests of the inspector's page are left out.\n")
    return 0


def _get() -> None:
    """npm's Chromium puts itself into the folder of temporary files, which is ours here."""
    npm = shutil.which("npm") if shutil.which("node") else None
    if not (npm and sys.platform == "linux" and platform.machine() == "x86_64"):
        _run(sys.executable, "-m", "playwright", "install", "chromium-headless-shell")
        return
    _FOLDER.mkdir(exist_ok=True)
    _run(npm, "install", "--silent", "--no-save", "--fetch-retries", "1", "--prefix", _FOLDER, CHROMIUM)
    _run("node", "--eval", _UNPACK)


def _run(*command: str | Path) -> None:
    place = {**os.environ, "TMPDIR": str(_FOLDER)}
    folder = _FOLDER if _FOLDER.exists() else None
    subprocess.run(command, check=True, timeout=GETTING_S, cwd=folder, env=place)


if __name__ == "__main__":
    sys.exit(main())
