"""The driver's side of the pipe: a library in a process of its own, asked one thing after another.

An answer that does not come in time ends the process; what is asked of it then raises Gone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
ANSWER_S: Final = 240.0
"""The longest wait for an answer that has no budget of its own."""


class Gone(Exception):
    """The process ended, or was ended because it did not answer in time."""


class Failed(Exception):
    """The library raised; the text is its error."""


class Missing(Exception):
    """The library has nothing that does this."""


@dataclass(frozen=True, slots=True)
class Library:
    """What a row of cells is about: its name, the adapter's module and the Python that runs it."""

    name: str
    module: str
    python: Path

    @contextmanager
    def opened(self, folder: Path, window: int) -> Generator[Process]:
        """A new process with the memory in this folder open, closed at the end where it still answers."""
        folder.mkdir(parents=True, exist_ok=True)
        home = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        with (folder / "said").open("ab") as said:
            child = subprocess.Popen(
                [self.python, "-m", self.module],
                cwd=folder,
                env={**os.environ, **home},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        process = Process(child)
        try:
            process.ask("open", folder=str(folder), window=window)
            yield process
            process.ask("close")
        finally:
            child.kill()
            with suppress(BrokenPipeError):
                child.communicate()


@dataclass(frozen=True, slots=True)
class Process:
    child: subprocess.Popen[bytes]

    def ask(self, job: str, *, wait: float = ANSWER_S, **arguments: object) -> dict[str, Any]:
        """What the adapter answers. Raises Gone, Failed, Missing."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        timer = Timer(wait, self.child.kill)
        timer.start()
        try:
            self.child.stdin.write(json.dumps({"do": job, **arguments}).encode("ascii") + b"\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline()
        except BrokenPipeError as error:
            raise Gone from error
        finally:
            timer.cancel()
        if not line:
            raise Gone
        told = json.loads(line)
        if "missing" in told:
            raise Missing
        if "error" in told:
            raise Failed(told["error"])
        return told
