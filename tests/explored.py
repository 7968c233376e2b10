"""What docs/files.md shows: real files of many kinds, each with what exploring gives; run, it prints that."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import wrap

from lcm_mcp.transcript.exploring import explore

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "files.md"
FILES = (
    "tests/told.py",
    "docs/examples/agent_loop.ts",
    "tests/data/files/comparator.js",
    "tests/data/files/Find-VisualStudio.cs",
    "tests/data/files/extension.cpp",
    "tests/data/files/xxmodule.c",
    "tests/data/files/main.go",
    "tests/data/files/main.rs",
    "tests/data/files/Encoder.php",
    "tests/data/files/RNStorage.kt",
    "tests/data/files/RNStorage.swift",
    "tests/data/files/Activate.ps1",
    "tests/data/files/seg--1.1.sql",
    "tests/data/files/debian.csv",
    "tests/data/files/example.yaml",
    "tests/data/files/NOTICE.md",
    "tests/data/claude-code/tiny.jsonl",
    "claude_desktop_config.example.json",
    "LICENSE",
)


def shown() -> str:
    """Each file's path and kind, and its summary below it."""
    lines: list[str] = []
    for name in FILES:
        found = explore(name, (ROOT / name).read_text(encoding="utf-8"))
        lines += [
            f"{name}  {found.kind}",
            *wrap(found.summary, 100, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(shown())
