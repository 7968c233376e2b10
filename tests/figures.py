"""The figures of docs/how-it-works.md, made by running the commands they show; `make readme` puts them in.

A block that begins with `$ lcm-mcp …` shows what that command prints, in the order of the page, on a store
that holds the demo's conversation and a small talk with branches. It shows as many lines as it has; where
one of them is an ellipsis, those before it are the first and those after it the last.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-it-works.md"
CONVERSATION = "orphaned-sessions.jsonl"
SHOWN = re.compile(r"^```\n\$ (lcm-mcp .*)\n((?:.*\n)*?)```$", re.MULTILINE)
_TALK = (
    ("user", "How do I open the file?"),
    ("assistant", "With open(), in a with block."),
    ("user", "And close it?"),
    ("assistant", "The with block does that."),
)
_ASIDE = (("user", "And never close it?"), ("assistant", "Then the system does, at the end."))
_AT_MS = 1_768_000_000_000


def refreshed(page: str) -> str:
    """The page's text with its figures as they are printed now."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(Path(folder))
        return SHOWN.sub(lambda found: _block(found, Path(folder)), page)


def _block(found: re.Match[str], folder: Path) -> str:
    printed = [line.rstrip() for line in _printed(folder, *shlex.split(found[1])[1:]).splitlines()]
    wanted = found[2].splitlines()
    cut = next((place for place, line in enumerate(wanted) if line.strip(" │") == "…"), None)
    if cut is None:
        shown = printed[: len(wanted)]
    else:
        shown = [*printed[:cut], wanted[cut], *printed[len(printed) - (len(wanted) - cut - 1) :]]
    return "\n".join(("```", f"$ {found[1]}", *shown, "```"))


def _fill(folder: Path) -> None:
    """The talk first, so that the demo's conversation is the one that was active last."""
    shown = [entry(number, *said) for number, said in enumerate(_TALK, 1)]
    aside = [entry(number, *said) for number, said in enumerate(_ASIDE, 5)]
    aside[0]["parent"] = "2"
    _write(folder / "talk.jsonl", [*shown, *aside])
    packed = resources.files("lcm_mcp") / "demo" / f"{CONVERSATION}.gz"
    (folder / CONVERSATION).write_bytes(gzip.decompress(packed.read_bytes()))
    for command in (
        ("import", "--no-follow", "--session", "talk", "talk.jsonl"),
        ("fork", "--session", "talk", "e6", "--as", "try"),
        ("rewind", "--session", "talk", "e4"),
        ("import", "--no-follow", CONVERSATION),
    ):
        _printed(folder, *command)


def entry(number: int, role: str, content: str) -> dict[str, object]:
    return {"role": role, "content": content, "entry_id": str(number), "at": _AT_MS + number * 1000}


def _write(file: Path, entries: list[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")


def _printed(folder: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LCM_")}
    return subprocess.run(
        [sys.executable, "-m", "lcm_mcp", "--db", str(folder / "lcm.sqlite"), *words],
        cwd=folder,
        env={**kept, "COLUMNS": "80", "PYTHONUTF8": "1"},
        check=True,
        capture_output=True,
        timeout=120,
        encoding="utf-8",
    ).stdout


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
