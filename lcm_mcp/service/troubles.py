"""The trouble of hooks, kept where doctor finds it though the store itself may be what is wrong.

A hook has nobody to tell: its client goes on and shows nothing. So what went wrong is written into a file
beside the store, a line each, of which the newest are kept. A hook that went well after a failed one says so
there too; one that goes well otherwise writes nothing. Nothing here raises.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import cast

import orjson

from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.values import frozen

KEPT = 20
_MOST_CHARACTERS = 500


@frozen
class Trouble:
    """How a hook's call ended: at an instant (milliseconds since 1970 UTC), with a problem or (None) well."""

    at: int
    client: str
    problem: str | None


def place_of(db: Path) -> Path:
    """Where the trouble of a store's hooks is kept."""
    return db.with_name(f"{db.name}.hooks")


def note(db: Path, client: str, problem: str) -> None:
    """Keep what went wrong."""
    _write(db, [*kept(db), Trouble(now_ms(), readable(client)[:40], readable(problem)[:_MOST_CHARACTERS])])


def note_well(db: Path, client: str) -> None:
    """Keep that a hook went well, where the one before it did not."""
    before = kept(db)
    if before and before[-1].problem is not None:
        _write(db, [*before, Trouble(now_ms(), readable(client)[:40], None)])


def kept(db: Path) -> Sequence[Trouble]:
    """What is kept, oldest first."""
    try:
        lines = place_of(db).read_bytes().splitlines()
    except OSError:
        return ()
    return [found for line in lines if (found := _read(line)) is not None]


def told(db: Path) -> tuple[bool, str]:
    """Whether the last hook went well, and a sentence on those that did not."""
    found = kept(db)
    wrong = [each for each in found if each.problem is not None]
    if not wrong:
        return True, "no hook has reported trouble"
    last = wrong[-1]
    said = f"the hook of {last.client} failed at {iso(last.at)}: {last.problem}"
    return (
        (True, f"well again since {iso(found[-1].at)}; before, {said}")
        if found[-1].problem is None
        else (
            False,
            said,
        )
    )


def _read(line: bytes) -> Trouble | None:
    try:
        value = cast("dict[str, object]", orjson.loads(line))
        at, client, problem = value["at"], value["client"], value["problem"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if isinstance(at, int) and isinstance(client, str) and (problem is None or isinstance(problem, str)):
        return Trouble(at, client, problem)
    return None


def _write(db: Path, troubles: Sequence[Trouble]) -> None:
    lines = b"".join(orjson.dumps(asdict(each)) + b"\n" for each in troubles[-KEPT:])
    path = place_of(db)
    half = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(lines)
        half.replace(path)
