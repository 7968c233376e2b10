"""Appending rows: numbered, placed and inserted, many at a time.

Rows are numbered inside the append's transaction and never edited. An entry_id names one row of its
session for ever: the same content again changes nothing, other content is kept beside the row as a
variant and reported. Rows wait in memory as long as they follow one another, so that a thousand cost a few
statements; whatever must be asked of the tables has them inserted first. Functions take a connection and
never begin or commit; an append costs the rows appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.transcript import files, pins
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import Json, Sealed
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.placing import (
    Call,
    Head,
    answered_calls,
    bindable,
    followed,
    head_at,
    message_id_of,
    place,
)
from lcm_mcp.transcript.sealing import parts_of
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen


@frozen
class Appended:
    """What became of each entry, in order; duplicates and conflicts are among refs too.

    lost are places of entries that named a parent which is not there; they followed the row before. branched:
    an entry followed another row than the path's end.
    """

    refs: tuple[Seq, ...]
    duplicates: tuple[Seq, ...]
    conflicts: tuple[Seq, ...]
    leaf: Seq
    lost: tuple[int, ...]
    branched: bool

    @property
    def added(self) -> int:
        return len(self.refs) - len(self.duplicates) - len(self.conflicts)


def append(
    db: apsw.Connection,
    session: Session,
    entries: Sequence[Sealed],
    now: int,
    large_chars: int = files.LARGE_CHARACTERS,
) -> Appended:
    """Append entries after the session's leaf, or where they say, whole or (if the transaction fails) not at
    all. The last active one is the leaf from then on. A tool result of more than large_chars is kept as a
    file where its call named a path."""
    rows = _Rows(db, session.id, now, large_chars, head_at(db, session.id, session.leaf), session.next_seq)
    refs: list[Seq] = []
    duplicates: list[Seq] = []
    conflicts: list[Seq] = []
    lost: list[int] = []
    # The write lock is held, so what is not known here cannot appear before the INSERT.
    known = _known_entries(db, session, entries)
    for index, entry in enumerate(entries):
        entry_id = entry.entry_id
        found = None if entry_id is None else known.get(entry_id)
        if found is None:
            seq = rows.next_seq
            if not rows.add(entry):
                lost.append(index)
            if entry_id is not None:
                known[entry_id] = seq, entry.digest
            refs.append(seq)
            continue
        seq, digest = found
        refs.append(seq)
        if digest == entry.digest:
            duplicates.append(seq)
        else:
            conflicts.append(seq)
            _keep_variant(db, session.id, seq, entry)
    rows.insert()
    if rows.next_seq > session.next_seq:
        newest = max(now if entry.at is None else entry.at for entry in entries)
        db.execute(
            "UPDATE session SET leaf = ?, next_seq = ?, active_at = max(active_at, ?) WHERE id = ?",
            (rows.head.leaf, rows.next_seq, newest, session.id),
        )
    return Appended(
        tuple(refs), tuple(duplicates), tuple(conflicts), rows.head.leaf, tuple(lost), rows.branched
    )


def _known_entries(
    db: apsw.Connection, session: Session, entries: Sequence[Sealed]
) -> dict[str, tuple[Seq, bytes]]:
    """Rows that bear the entries' ids already, and their digests."""
    names: list[Json] = [entry.entry_id for entry in entries if entry.entry_id is not None]
    if session.next_seq == 1 or not names:
        return {}
    # Not IN: without statistics SQLite would go through all rows of the session.
    rows = db.execute(
        """SELECT entry_id, seq, digest FROM json_each(?)
            CROSS JOIN row ON row.session = ? AND row.entry_id = json_each.value""",
        (encode(names).decode(), session.id),
    )
    return {entry_id: (Seq(seq), digest) for entry_id, seq, digest in rows}


def _keep_variant(db: apsw.Connection, session: SessionId, seq: Seq, entry: Sealed) -> None:
    content = encode([part_to_json(part) for part in parts_of(entry)])
    db.execute(
        """INSERT INTO variant(session, seq, digest, role, at, content) VALUES(?, ?, ?, ?, ?, ?)
            ON CONFLICT DO NOTHING""",
        (session, seq, entry.digest, entry.role, entry.at, content),
    )


_ROW = """INSERT INTO row(session, seq, prev, unit, round, role, entry_id, message_id, at, results, digest,
    bytes, fixed, cum_bytes, cum_inputs, cum_fixed, text)
    VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_STATEMENTS = (
    "INSERT INTO text(id, body) VALUES(?, ?)",
    "INSERT INTO payload(text, parts) VALUES(?, ?)",
    """INSERT INTO image(sha256, media_type, width, height, data) VALUES(?, ?, ?, ?, ?)
        ON CONFLICT(sha256) DO NOTHING""",
    _ROW,
    "INSERT INTO call(session, id, seq, n) VALUES(?, ?, ?, ?)",
    "INSERT INTO answer(session, id, call_seq, call_n, seq) VALUES(?, ?, ?, ?, ?)",
)
_LAST_TEXT = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'text'"


@dataclass(slots=True)
class _Waiting:
    """Values to be inserted, a list for each of _STATEMENTS; first is the number of the first row."""

    first: Seq
    text: int
    texts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    payloads: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    images: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    rows: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    calls: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    answers: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    message_ids: list[str | None] = field(default_factory=list[str | None])
    open: dict[str, list[Call]] = field(default_factory=dict[str, list[Call]])
    """The calls of waiting rows that nothing has answered yet, oldest first, by their ids."""


@dataclass(slots=True)
class _Rows:
    """Rows of one session on their way into it; end is the entry_id of the row at the head, where known."""

    db: apsw.Connection
    session: SessionId
    now: int
    large_chars: int
    head: Head
    next_seq: Seq
    end: str | None = None
    branched: bool = False
    waiting: _Waiting | None = None

    def insert(self) -> None:
        """Put what waits into the tables."""
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        values = (
            waiting.texts,
            waiting.payloads,
            waiting.images,
            waiting.rows,
            waiting.calls,
            waiting.answers,
        )
        for statement, rows in zip(_STATEMENTS, values, strict=True):
            if rows:
                self.db.executemany(statement, rows)

    def add(self, entry: Sealed) -> bool:
        """Number a row and place it; an inactive one leaves the head where it is, whatever it hangs under.
        False where its parent is not there, so that it follows the row before."""
        seq = self.next_seq
        follows = self._followed(entry)
        head = self.head if follows is None else follows
        placed = self._add(entry, seq, head)
        if entry.active:
            self.branched = self.branched or head is not self.head
            self.head, self.end = placed, entry.entry_id
        self.next_seq = Seq(seq + 1)
        if entry.pin or len(entry.text) > self.large_chars:
            self.insert()
            files.keep(self.db, self.session, seq, parts_of(entry), entry.text, self.large_chars)
            if entry.pin:
                pins.pin(self.db, self.session, seq, self.now)
        return follows is not None

    def _followed(self, entry: Sealed) -> Head | None:
        named = entry.prompt_under if entry.parent is None else entry.parent
        if named is None or named == self.end:
            return self.head
        self.insert()
        return followed(self.db, self.session, self.head, entry)

    def _add(self, entry: Sealed, seq: Seq, head: Head) -> Head:
        """Let a row wait to be inserted after that head; the head it would make."""
        size = entry.size
        # Off the path a row neither calls nor answers: an active result must find its call still open.
        calls, results = (entry.calls, entry.results) if entry.active else ((), ())
        answered = self._answered(results, head.leaf) if results else []
        unit, round_, message_id = place(seq, head, entry, answered, self._message_id)
        total = head.total + size
        waiting = self.waiting or self._wait(seq)
        text = waiting.text
        waiting.text += 1
        waiting.texts.append((text, entry.text))
        if entry.payload is not None:
            waiting.payloads.append((text, entry.payload))
        for image in entry.images:
            if image.data is not None:
                waiting.images.append((image.sha256, image.media_type, image.width, image.height, image.data))
        waiting.message_ids.append(entry.message_id)
        waiting.rows.append(
            (
                self.session,
                seq,
                head.leaf,
                unit,
                round_,
                entry.role,
                entry.entry_id,
                entry.message_id,
                self.now if entry.at is None else entry.at,
                len(entry.results),
                entry.digest,
                size.bytes,
                size.fixed,
                total.bytes,
                total.inputs,
                total.fixed,
                text,
            )
        )
        for n, call in enumerate(map(bindable, calls)):
            waiting.calls.append((self.session, call, seq, n))
            waiting.open.setdefault(call, []).append(Call(call, seq, n, unit, round_))
        for call in answered:
            waiting.answers.append((self.session, call.id, call.seq, call.n, seq))
        return Head(seq, unit, round_, message_id, total)

    def _wait(self, seq: Seq) -> _Waiting:
        last: int = self.db.execute(_LAST_TEXT).get
        self.waiting = _Waiting(seq, last + 1)
        return self.waiting

    def _answered(self, results: Sequence[str], leaf: Seq) -> list[Call]:
        """The calls on the path to `leaf` that results of these ids answer."""
        wanted = Counter(map(bindable, results))
        waiting = {} if self.waiting is None else self.waiting.open
        if any(len(waiting.get(call_id, ())) < times for call_id, times in wanted.items()):
            self.insert()
            return answered_calls(self.db, self.session, leaf, wanted)
        return [waiting[call_id].pop() for call_id, times in wanted.items() for _ in range(times)]

    def _message_id(self, seq: Seq) -> str | None:
        if self.waiting is not None and seq >= self.waiting.first:
            return self.waiting.message_ids[seq - self.waiting.first]
        return message_id_of(self.db, self.session, seq)
