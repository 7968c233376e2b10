"""Transcript files that grow, and what a store holds of them: everything a transcript is made of.

Two stores hold the same transcript where `transcript` says the same of them, whatever numbers and times the
rows got on their way in.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from lcm_mcp.service import Service

Transcript = list[list[tuple[object, ...]]]
_QUESTIONS = (
    """SELECT s.key, s.source, s.native_id, s.project, s.link, p.key, o.entry_id FROM session s
        LEFT JOIN session p ON p.id = s.parent
        LEFT JOIN row o ON o.session = s.parent AND o.seq = s.opener ORDER BY s.key""",
    """SELECT s.key, seq, prev, unit, round, role, entry_id, message_id, results, digest, cum_bytes,
        cum_inputs, cum_fixed, body, parts FROM row
        JOIN session s ON s.id = row.session JOIN text ON text.id = row.text
        LEFT JOIN payload ON payload.text = row.text ORDER BY s.key, seq""",
    """SELECT s.key, a.id, call_seq, call_n, seq FROM answer a JOIN session s ON s.id = a.session
        ORDER BY s.key, a.seq, call_seq, call_n""",
    """SELECT s.key, seq, hex(digest) FROM variant JOIN session s ON s.id = variant.session
        ORDER BY s.key, seq, digest""",
)


def transcript(db: apsw.Connection) -> Transcript:
    """Sessions and their links, rows in their order with all they hold, pairs, variants."""
    return [[tuple(row) for row in db.execute(question)] for question in _QUESTIONS]


async def texts(service: Service) -> list[str]:
    """The text of every row of every session, in the order they came."""

    def read(db: apsw.Connection) -> list[str]:
        rows = db.execute("SELECT body FROM row JOIN text ON text.id = row.text ORDER BY session, seq")
        return [str(body) for (body,) in rows]

    return await service.work.store.read(read)


async def look(service: Service) -> str | None:
    """A read of everything, which catches up; what it says of files with more to read."""
    return (await service.sessions(project="*")).behind


async def caught_up(service: Service) -> None:
    """Read until nothing is behind."""
    for _ in range(1000):
        if await look(service) is None:
            return
    raise AssertionError("the files never came to their end")


def said(text: str, **more: object) -> bytes:
    """A line of a neutral file, without an id unless one is given."""
    return json.dumps({"role": "user", "content": text, **more}).encode() + b"\n"


def add(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))
