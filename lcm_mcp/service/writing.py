"""lcm_append: entries on their way into a session.

Entries are read and sealed before the transaction; an append is whole or nothing, and acknowledged only
once it is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import anyio.to_thread
import apsw

from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Measured
from lcm_mcp.errors import AppendConflict, InvalidArgument, MalformedEntry
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.service.answers import Receipt
from lcm_mcp.service.linking import branch_notes, link_outcomes
from lcm_mcp.service.requests import Usage
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import appending, placing, sessions
from lcm_mcp.transcript.appending import Appended
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.model import Draft, Sealed
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.redacting import Masking
from lcm_mcp.transcript.sealing import readable, seal
from lcm_mcp.transcript.sessions import MAX_KEY_CHARACTERS, NewSession, Session
from lcm_mcp.values import frozen

MAX_ENTRIES = 5000
NOT_MEASURED = (
    "usage was not kept: no preparation of this session is remembered under that name "
    "(the last 1,000 are); give `prepared` as it was answered."
)


@frozen
class Guard:
    """What the client believes about the session's end; nothing is appended where it is wrong."""

    after: str | None = None
    expect_last_seq: int | None = None


UNGUARDED = Guard()


def checked_key(key: str, argument: str = "session") -> str:
    """A session key fit to be stored. Raises InvalidArgument."""
    key = readable(key)
    if not key.strip() or len(key) > MAX_KEY_CHARACTERS:
        raise InvalidArgument(
            argument, "it is empty or too long", f"Give a key of 1 to {MAX_KEY_CHARACTERS} characters."
        )
    return key


async def sealed(entries: Sequence[object], masking: Masking | None = None) -> list[Sealed]:
    """Entries read and sealed in a worker thread; masking masks the keys in them before.

    Raises MalformedEntry and InvalidArgument.
    """
    if len(entries) > MAX_ENTRIES:
        # Refused before it is stored: a receipt too large to be answered would read as a failure.
        raise InvalidArgument(
            "entries",
            f"there are {len(entries)}",
            f"Append at most {MAX_ENTRIES} in one call; nothing was stored.",
        )
    return await anyio.to_thread.run_sync(
        lambda: [_sealed(parse_entry(entry, index), masking) for index, entry in enumerate(entries)]
    )


def _sealed(draft: Draft, masking: Masking | None) -> Sealed:
    return seal(draft if masking is None else masking.draft(draft))


async def append(
    work: Workplace,
    key: str,
    entries: Sequence[object],
    guard: Guard = UNGUARDED,
    title: str | None = None,
    project: str | None = None,
    usage: Usage | None = None,
) -> Receipt:
    """Append entries to a session, creating it where there is none; usage is what the request that they
    answer was counted as."""
    wanted = checked_key(key)
    masking = Masking(sized=True) if work.settings.redact_stored else None
    ready = await sealed(entries, masking)
    receipt = await work.store.write(_append, work, wanted, ready, guard, title, project, usage)
    told = () if masking is None else masked_notes(masking.masked)
    return replace(receipt, notes=(*receipt.notes, *told))


def masked_notes(masked: Mapping[str, int]) -> tuple[str, ...]:
    """What was masked before it was stored, in words."""
    if not masked:
        return ()
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(masked.items()))
    return (f"Masked before it was stored, for good (redactStored): {kinds}.",)


def keep_usage(db: apsw.Connection, session: SessionId, usage: Usage) -> bool:
    """Put a provider's figures beside the preparation they are of; False where none is remembered."""
    counted = Measured(usage.input_tokens, usage.cached_tokens)
    return observations.measure(db, session, usage.prepared, counted)


def _append(
    db: apsw.Connection,
    work: Workplace,
    key: str,
    entries: Sequence[Sealed],
    guard: Guard,
    title: str | None,
    project: str | None,
    usage: Usage | None,
) -> Receipt:
    now = now_ms()
    found = sessions.find_by_key(db, key)
    session = found or sessions.create(db, NewSession(key, project=work.project), now)
    if found is None or title is not None or project is not None:
        sessions.describe(
            db,
            session.id,
            readable(title) if title is not None else _title(entries),
            None if project is None else readable(project),
        )
    done = appending.append(db, session, entries, now, work.settings.large_file_chars)
    # A refusal from here on undoes the whole transaction.
    if done.added:
        _check(db, session, guard, done)
    if done.lost:
        raise MalformedEntry(
            done.lost[0], "parent: it names no row of this session, by ref or entry_id, and no earlier entry"
        )
    link_outcomes(db, session, entries, done)
    return Receipt(
        session=session.key,
        created=found is None,
        refs=tuple(f"e{seq}" for seq in done.refs),
        duplicates=tuple(f"e{seq}" for seq in done.duplicates),
        conflicts=tuple(f"e{seq}" for seq in done.conflicts),
        last_seq=session.next_seq - 1 + done.added,
        notes=(
            *(branch_notes(db, session, done.leaf) if done.branched else ()),
            *(() if usage is None or keep_usage(db, session.id, usage) else (NOT_MEASURED,)),
        ),
    )


def _check(db: apsw.Connection, session: Session, guard: Guard, done: Appended) -> None:
    """Compare what the client believed with how the session ended before this append.

    Entries of this call that stood there already, right after the row it names, are the client's own.
    """
    last = session.next_seq - 1
    if guard.expect_last_seq is not None and guard.expect_last_seq != last:
        raise AppendConflict(f"e{guard.expect_last_seq}", f"e{last}")
    if guard.after is None:
        return
    believed = _seq_of(db, session, guard.after)
    for seq in takewhile(set(done.duplicates).__contains__, done.refs):
        if RowPath(db, session.id, seq).before(seq) == believed:
            believed = seq
    if believed != session.leaf:
        raise AppendConflict(guard.after, f"e{session.leaf}")


def _seq_of(db: apsw.Connection, session: Session, name: str) -> Seq:
    """The row that a ref or an entry_id names."""
    found = placing.find_row(db, session.id, readable(name))
    if found is None:
        raise InvalidArgument(
            "after",
            f"{name[:80]!r} is neither a row nor an entry_id of this session",
            "Use a ref such as e104.",
        )
    return found


def _title(entries: Sequence[Sealed]) -> str | None:
    """A name for a session nobody named: how its first user row begins."""
    for entry in entries:
        if entry.role == "user" and entry.text.strip():
            return " ".join(entry.text[:400].split())[:80]
    return None
