"""File handles: large tool results whose call named a path, each with what exploring its body found.

The body stays where it is, in its row's text; a handle says where it stands there, and two handles of the
same body have one content id. A large result whose call named no path is recorded as such, so that "no
files here" is told from a rule that missed. Handles are made in the append's own transaction, and for rows of
earlier builds slice by slice afterwards: both are derived from rows, never from a file on disk. Functions
take a connection and never begin or commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import apsw

from lcm_mcp.ids import FileId, Seq, SessionId
from lcm_mcp.transcript.model import File, Part, Row, Text, ToolCall, ToolResult
from lcm_mcp.transcript.naming import named_path
from lcm_mcp.transcript.path import Segment
from lcm_mcp.transcript.placing import bindable
from lcm_mcp.transcript.sealing import Large, large_results, readable, unseal

LARGE_CHARACTERS = 32_000
HASHED_CHARACTERS = 1 << 20
SLICE_TEXTS = 2_000
SLICE_BYTES = 4_000_000

_COLUMNS = "id, seq, part, path, kind, content, summary, head, start, characters"
_INSERT = f"""INSERT INTO file(session, {_COLUMNS})
    VALUES(?1, (SELECT coalesce(max(id), 0) + 1 FROM file WHERE session = ?1), ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_CALL = """SELECT text.body, payload.parts, answer.call_n
    FROM answer JOIN row ON row.session = answer.session AND row.seq = answer.call_seq
    JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
    WHERE answer.session = ? AND answer.id = ? AND answer.seq = ?
    ORDER BY answer.call_seq DESC, answer.call_n DESC LIMIT 1"""
_BACKLOG = """SELECT id, octet_length(body) FROM text WHERE id BETWEEN ? AND ? AND octet_length(body) > ?"""
_ROWS_OF_TEXT = """SELECT row.session, row.seq, text.body, payload.parts
    FROM row JOIN text ON text.id = row.text LEFT JOIN payload ON payload.text = row.text
    WHERE row.text = ?1 AND row.results > 0
    AND NOT EXISTS(SELECT 1 FROM file WHERE file.session = row.session AND file.seq = row.seq)
    AND NOT EXISTS(
        SELECT 1 FROM large_inline AS large WHERE large.session = row.session AND large.seq = row.seq)"""


def keep(
    db: apsw.Connection,
    session: SessionId,
    seq: Seq,
    parts: Sequence[Part],
    text: str,
    large_chars: int = LARGE_CHARACTERS,
) -> None:
    """Make the handles of a row that is stored, with its answers, by now."""
    if len(text) <= large_chars:
        return
    from lcm_mcp.transcript.exploring import explore  # many patterns, which most servers never need

    for large in large_results(parts, large_chars):
        path = _path(db, session, seq, large)
        if path is None:
            db.execute(
                "INSERT INTO large_inline VALUES(?, ?, ?, ?)", (session, seq, large.part, large.characters)
            )
            continue
        end = large.start + large.characters
        found = explore(path, text, large.start, end)
        content = _content_id(text, large.start, end)
        described = (readable(path), found.kind, content, readable(found.summary), readable(found.head))
        db.execute(_INSERT, (session, seq, large.part, *described, large.start, large.characters))


def _content_id(text: str, start: int, end: int) -> str:
    """The SHA-256 of a piece of text in UTF-8, made without copying it whole."""
    digest = hashlib.sha256()
    for at in range(start, end, HASHED_CHARACTERS):
        digest.update(text[at : min(end, at + HASHED_CHARACTERS)].encode())
    return digest.hexdigest()


def _path(db: apsw.Connection, session: SessionId, seq: Seq, large: Large) -> str | None:
    """The path that was named by the call which a result of row `seq` answers."""
    found = next(db.execute(_CALL, (session, bindable(large.call_id), seq)), None)
    if found is None:
        return None
    body, payload, place = found
    calls = [part for part in unseal(body, payload) if isinstance(part, ToolCall)]
    return named_path(calls[int(place)])


# --- rows of earlier builds


def behind(db: apsw.Connection) -> int:
    """How many texts of earlier builds are still to be looked through."""
    following, upto = next(db.execute("SELECT next, upto FROM file_state"))
    return max(0, upto - following + 1)


def catch_up(db: apsw.Connection, large_chars: int) -> None:
    """Make the handles of the next slice of earlier rows, in the order in which they were stored."""
    following, upto = next(db.execute("SELECT next, upto FROM file_state"))
    last = min(upto, following + SLICE_TEXTS - 1)
    looked_at = 0
    for text, size in list(db.execute(_BACKLOG, (following, last, large_chars))):
        for session, seq, body, payload in list(db.execute(_ROWS_OF_TEXT, (text,))):
            keep(db, SessionId(session), Seq(seq), unseal(body, payload), body, large_chars)
        looked_at += size
        if looked_at > SLICE_BYTES:
            last = text
            break
    db.execute("UPDATE file_state SET next = ?", (last + 1,))


# --- reading


def find(db: apsw.Connection, session: SessionId, number: FileId) -> File | None:
    return next(_read(db, "session = ? AND id = ?", (session, number)), None)


def of_rows(db: apsw.Connection, session: SessionId, segments: Iterable[Segment]) -> list[File]:
    """The files of the rows of some segments, in their order."""
    where = "session = ? AND seq BETWEEN ? AND ? ORDER BY seq, part"
    return [file for part in segments for file in _read(db, where, (session, part.low, part.high))]


def of_row(db: apsw.Connection, session: SessionId, seq: Seq) -> list[File]:
    return of_rows(db, session, [Segment(seq, seq)])


def same_body(
    db: apsw.Connection, session: SessionId, file: File, most: int
) -> tuple[list[tuple[SessionId, FileId]], int]:
    """Other handles of a file's content, at most so many, with their sessions; and how many there are."""
    others = "FROM file WHERE content = ? AND (session, id) != (?, ?)"
    bindings = (file.content, session, file.id)
    found = db.execute(f"SELECT session, id {others} ORDER BY session, id LIMIT ?", (*bindings, most))
    number: int = db.execute(f"SELECT count(*) {others}", bindings).get
    return [(SessionId(own), FileId(id)) for own, id in found], number


def counts(db: apsw.Connection, low: int, high: int) -> tuple[int, int]:
    """How many files sessions low..high have, and how many large results whose call named no path."""
    files: int = db.execute("SELECT count(*) FROM file WHERE session BETWEEN ? AND ?", (low, high)).get
    inline: int = db.execute(
        "SELECT count(*) FROM large_inline WHERE session BETWEEN ? AND ?", (low, high)
    ).get
    return files, inline


def _read(db: apsw.Connection, where: str, bindings: tuple[int, ...]) -> Iterator[File]:
    for number, seq, *rest in db.execute(f"SELECT {_COLUMNS} FROM file WHERE {where}", bindings):
        yield File(FileId(number), Seq(seq), *rest)


# --- what a summarizer reads


def described(db: apsw.Connection, session: SessionId, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows with each file's descriptor in place of its body, in their text and in their parts."""
    for row in rows:
        files = of_row(db, session, row.seq)
        yield _with_descriptors(row, files) if files else row


def descriptor(file: File) -> str:
    """A file in a few lines: where it was read, what it is and has in it, and how it begins."""
    return "\n".join(
        (
            f"[file f{file.id}] {file.path}",
            f"{file.kind}, {file.characters:,} characters, content {file.content[:12]}",
            file.summary,
            "It begins:",
            file.head,
        )
    )


def _with_descriptors(row: Row, files: Sequence[File]) -> Row:
    text, parts = row.text, list(row.parts)
    for file in reversed(files):
        told = descriptor(file)
        text = f"{text[: file.start]}{told}{text[file.start + file.characters :]}"
        result = parts[file.part]
        assert isinstance(result, ToolResult)
        parts[file.part] = replace(result, content=(Text(told),))
    return replace(row, text=text, parts=tuple(parts), files=tuple(files))
