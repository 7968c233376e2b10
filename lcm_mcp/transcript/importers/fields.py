"""What readers of agents' own files share: fields of JSON that may be of any type, titles, lines one by one.

A field of another type than expected is as if it were not there; nothing here raises for what a file holds.
No format is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import ClassVar, Protocol, cast

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.jsonl import BadLine, LineEnd, Object, Place, Readable, read_lines
from lcm_mcp.transcript.importers.report import Event, Mark, Trouble
from lcm_mcp.transcript.model import Json, JsonObject, Part, Text

TITLE_CHARACTERS = 80
_SCANNED_OBJECTS = 200


class LineReading(Protocol):
    """What remembers earlier lines and says what one more object means."""

    def memory(self) -> dict[str, Json]: ...

    def events(self, found: Object) -> Iterator[Event]: ...


class Remembering:
    """A reading whose memory is some of its fields, by name: those of JSON that it does not begin with."""

    __slots__ = ()
    remembered: ClassVar[frozenset[str]]

    def memory(self) -> dict[str, Json]:
        """All of it but what a reading begins with."""
        return {name: deepcopy(cast("Json", getattr(self, name))) for name in sorted(self.remembered)}

    def remember(self, memory: JsonObject) -> None:
        """Go on from what another reading of the same file remembered."""
        for name in self.remembered & memory.keys():
            setattr(self, name, memory[name])


def follow_lines(reading: LineReading, file: Readable, place: Place) -> Iterator[Event | Mark]:
    """The events of all lines from a place on, with a Mark after each."""
    memory = reading.memory
    for found in read_lines(file, place):
        match found:
            case Object():
                if found.repaired:
                    yield Trouble(found.line, "bytes that are no UTF-8 were replaced", "repaired")
                yield from reading.events(found)
            case LineEnd():
                yield Mark(found.place, memory)
            case BadLine():
                yield Trouble(found.line, found.problem, "unfinished" if found.unfinished else "bad")


def text_of(value: JsonObject, key: str) -> str | None:
    """A field's text, None where it is none or an empty one."""
    text = value.get(key)
    return text if isinstance(text, str) and text else None


def object_of(value: JsonObject, key: str) -> Block:
    """A field's object, an empty one where it is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def list_of(value: JsonObject, key: str) -> list[Json]:
    """A field's list, an empty one where it is none."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def without(value: JsonObject, *known: str) -> Block:
    """The fields beyond those known that say anything."""
    return {key: field for key, field in value.items() if key not in known and field is not None}


def kind_of(value: JsonObject) -> str:
    """A record's own word for its kind."""
    return text_of(value, "type") or "unknown"


def title_of(text: str | None) -> str | None:
    """A text's beginning as one line of at most TITLE_CHARACTERS; None where it says nothing."""
    line = " ".join((text or "")[: TITLE_CHARACTERS * 20].split())
    if len(line) > TITLE_CHARACTERS:
        line = line[: TITLE_CHARACTERS - 1].rstrip() + "…"
    return line or None


def place_name(found: Object) -> str:
    """What an entry without an id is known by: its line, and where on it an object before it ends."""
    return f"line:{found.line}+{found.offset}" if found.glued else f"line:{found.line}"


def plain_text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def first_objects(path: Path) -> Iterator[Object]:
    """The objects that a file of lines begins with, whatever stands between them. Raises OSError."""
    with open_transcript(path) as file:
        found = (each for each in read_lines(file) if not isinstance(each, LineEnd))
        yield from (each for each in islice(found, _SCANNED_OBJECTS) if isinstance(each, Object))


def first_text(path: Path, said: Callable[[Block], str | None]) -> str | None:
    """As a title, what the first object says of which `said` gives a text."""
    texts = (title_of(said(found.value)) for found in first_objects(path))
    return next((text for text in texts if text), None)
