"""The other libraries, and an environment of its own for each, filled from the package registry.

Versions are fixed. What cannot be had (no such Python, no registry) is no failure: it is said in a
sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INSTALL_S: Final = 600


class Skipped(Exception):
    """The library cannot be measured here; the text says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A library; bare means that what it asks for beside itself is left out.

    openlcm asks for every framework that it has an adapter for, two gigabytes, and needs none of them.
    """

    name: str
    version: str
    module: str
    python: tuple[int, int]
    bare: bool = False


PEERS: Final = (
    Peer("mnesis", "0.4.0", "benchmarks.peers.mnesis", (3, 12)),
    Peer("openlcm", "0.1.4", "benchmarks.peers.openlcm", (3, 11), bare=True),
    Peer("lossless-hermes-py", "0.1.6", "benchmarks.peers.lossless_hermes", (3, 10)),
)


def interpreter_of(peer: Peer, folder: Path) -> Path:
    """The Python of the library's environment, made where it is not there yet. Raises Skipped."""
    home = folder / f"{peer.name}-{peer.version}"
    python = home / "bin" / "python"
    ready = home / "installed"
    if ready.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    _run([_python_for(peer), "-m", "venv", "--without-pip", str(home)], "no environment could be made")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    wanted = [*(["--no-deps"] if peer.bare else []), f"{peer.name}=={peer.version}"]
    _run([*pip, "install", *wanted], "the package registry did not give it")
    ready.touch()
    return python


def _python_for(peer: Peer) -> str:
    asked = ["-c", "import sys; print(*sys.version_info[:2])"]
    for python in _pythons():
        told = subprocess.run([python, *asked], capture_output=True, text=True, check=False)
        if told.returncode == 0 and tuple(map(int, told.stdout.split())) >= peer.python:
            return python
    major, minor = peer.python
    raise Skipped(f"it needs Python {major}.{minor} or newer; LCM_PEERS_PYTHON may name one")


def _pythons() -> Iterator[str]:
    yield sys.executable
    if named := os.environ.get("LCM_PEERS_PYTHON"):
        yield named
    for minor in (12, 13, 14):
        if found := shutil.which(f"python3.{minor}"):
            yield found


def _run(command: Sequence[str], trouble: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skipped(f"{trouble} ({type(error).__name__})") from error
    if done.returncode != 0:
        raise Skipped(trouble)
