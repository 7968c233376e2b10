"""Files in foreign formats for tests, and what their readers say of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from lcm_mcp.transcript.importers import FORMATS, Entry, Event, ImportReport, SessionFound, tally

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_file(name: str) -> Path:
    """A file of the real conversations beside the checkout."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is one of the shared files, and {SHARED} is absent")
    return path


def write(path: Path, *lines: object) -> Path:
    """A file of JSON lines; bytes and strings are written as they are."""
    written = [
        line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in written))
    return path


def events_of(format: str, path: Path) -> list[Event]:
    return list(FORMATS[format].read(path, None))


def report_of(format: str, path: Path) -> ImportReport:
    return tally(str(path), format, FORMATS[format].read(path, None))


def entries(events: Iterable[Event]) -> list[Entry]:
    return [event for event in events if isinstance(event, Entry)]


def sessions(events: Iterable[Event]) -> list[SessionFound]:
    return [event for event in events if isinstance(event, SessionFound)]


def told(events: Iterable[Event]) -> list[tuple[str, str]]:
    """Each entry as its role and the text that is searched."""
    from lcm_mcp.transcript.sealing import seal

    return [(entry.draft.role, seal(entry.draft).text) for entry in entries(events)]
