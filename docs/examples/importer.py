"""A reader of transcripts, as small as one can be: lines such as `{"me": "hello"}` and `{"it": "hi"}`.

`docs/contributing.md` says where it is put, and what the readers of the package do beyond this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers import Entry, Event, Format, Other, SessionFound, Trouble
from lcm_mcp.transcript.importers.jsonl import Object, read_objects
from lcm_mcp.transcript.model import Draft, Role, Text

ROLES: dict[str, Role] = {"me": "user", "it": "assistant"}


def read(path: Path, session_key: str | None = None) -> Iterator[Event]:
    """Read a file as one session. Raises OSError."""
    key = session_key or path.stem
    yield SessionFound(key, title=None, project=None)
    for found in read_objects(path):
        if not isinstance(found, Object):
            yield Trouble(found.line, found.problem)  # told, counted, and no reason to stop
            continue
        said: list[tuple[Role, object]] = [
            (ROLES[name], text) for name, text in found.value.items() if name in ROLES
        ]
        for role, text in said:
            # Without ids of its own an entry is known by its place.
            yield Entry(key, Draft(role, (Text(str(text)),), f"@{found.line}"), found.line, found.line)
        if not said:
            yield Other("unknown", found.line)


def is_line(value: Block) -> bool:
    """Whether only this format can have written the object."""
    return len(value) == 1 and value.keys() <= ROLES.keys()


FORMAT = Format("me-and-it", read, None, is_line)
