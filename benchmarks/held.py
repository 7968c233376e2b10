"""Whether a store that was loaded holds what it acknowledged, read from its file once no server has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from benchmarks.filling import serving
from benchmarks.loading import Told

_ROWS = """SELECT row.entry_id, text.body FROM row JOIN text ON text.id = row.text
    JOIN session ON session.id = row.session WHERE session.key = ? ORDER BY row.seq"""
_COUNTS = "SELECT (SELECT count(*) FROM node), (SELECT count(*) FROM cut)"


@dataclass(frozen=True, slots=True)
class Held:
    """What was found: acknowledged rows, and what is wrong with them, in words; nodes and cuts there are."""

    acknowledged: int
    wrong: Sequence[str]
    nodes: int
    cuts: int
    log_left: bool


async def check(db: Path, told: Sequence[Told]) -> Held:
    """Each acknowledged row is there once, as it was sent, in its client's order; nothing else is; the doctor
    finds nothing wrong."""
    left = db.with_name(f"{db.name}-wal").exists()
    wrong: list[str] = []
    async with serving(db) as service:
        read = service.work.store.read
        for session in sorted({key for each in told for key in each.kept}):
            wrong += _compared(session, await read(_rows_of, session), told)
        diagnosis = await service.doctor()
        wrong += [f"{each.name}: {each.detail}" for each in diagnosis.checks if not each.ok]
        nodes, cuts = await read(lambda opened: next(opened.execute(_COUNTS)))
    acknowledged = sum(len(ids) for each in told for ids in each.kept.values())
    return Held(acknowledged, wrong, nodes, cuts, left)


def _rows_of(db: apsw.Connection, session: str) -> list[tuple[str, str]]:
    return list(db.execute(_ROWS, (session,)))


def _compared(session: str, rows: Sequence[tuple[str, str]], told: Sequence[Told]) -> list[str]:
    wrong: list[str] = []
    expected = Counter(entry for each in told for entry in each.kept.get(session, ()))
    found = Counter(entry for entry, _ in rows)
    # What was not acknowledged may be there all the same, where a call failed on its way back.
    if lost := expected - found:
        wrong.append(f"{session}: {lost.total()} rows lost, such as {next(iter(lost))}")
    place = {entry: number for number, (entry, _) in enumerate(rows)}
    for each in told:
        places = [place[entry] for entry in each.kept.get(session, ()) if entry in place]
        if places != sorted(places):
            wrong.append(f"{session}: rows of a client are out of order")
    words = {entry: text for each in told for entry, text in each.texts.items()}
    changed = [entry for entry, body in rows if entry in words and words[entry] not in body]
    if changed:
        wrong.append(f"{session}: {len(changed)} rows say something else, such as {changed[0]}")
    return wrong
