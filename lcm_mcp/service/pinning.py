"""Pinning: which rows of a session stay quoted once a request no longer shows them word for word.

Only rows can be pinned, those of one session in a call: nodes, ranges and a mixture of sessions are
refused with a sentence, and all rows are checked before any is pinned. A call that names no row only
lists, and writes nothing. A pin shows from the next cut on; nothing here makes one.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import RowAddress, Seq, parse_address
from lcm_mcp.service.times import iso, now_ms
from lcm_mcp.service.workplace import Workplace, addressed, existing_row, wanted_session
from lcm_mcp.transcript import pins, store
from lcm_mcp.transcript.model import Role
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

PREVIEW_CHARACTERS = 200


@frozen
class PinLine:
    """A pinned row; at is the row's own time, preview at most 200 characters of its text on one line."""

    ref: str
    role: Role
    at: str
    tokens: int
    removed: bool
    preview: str


@frozen
class Pins:
    """The pinned rows of a session, in their order; changed are those that this call pinned or unpinned."""

    session: str
    changed: tuple[str, ...]
    pinned: tuple[PinLine, ...]


async def pin(work: Workplace, refs: Sequence[str], key: str | None, off: bool) -> Pins:
    """Pin or unpin the rows named, all or none, and list what is pinned then."""
    addresses = [_row_address(ref) for ref in refs]
    if not addresses:
        return await work.store.read(_list, work, key)
    return await work.store.write(_change, work, addresses, key, off)


def _row_address(ref: str) -> RowAddress:
    address = parse_address(ref)
    if isinstance(address, RowAddress):
        return address
    raise InvalidArgument(
        "refs", f"{ref[:80]!r} is no row", "Only rows can be pinned: name them one by one, such as e104."
    )


def _list(db: apsw.Connection, work: Workplace, key: str | None) -> Pins:
    return _pins(db, wanted_session(db, work, key), ())


def _change(
    db: apsw.Connection, work: Workplace, addresses: Sequence[RowAddress], key: str | None, off: bool
) -> Pins:
    session = _common_session(db, work, addresses, key)
    now = now_ms()
    changed = [
        address.seq
        for address in addresses
        if (pins.unpin(db, session.id, address.seq) if off else pins.pin(db, session.id, address.seq, now))
    ]
    return _pins(db, session, changed)


def _common_session(
    db: apsw.Connection, work: Workplace, addresses: Sequence[RowAddress], key: str | None
) -> Session:
    """The session that all the addresses lie in, every one of them a stored row's."""
    found: dict[str, Session] = {}
    for address in addresses:
        session, _ = addressed(db, work, address, key)
        existing_row(db, session, address.seq)
        found[session.key] = session
    first, *others = found.values()
    if others:
        raise InvalidArgument(
            "refs",
            f"they lie in {len(found)} sessions, s{first.id} and s{others[0].id} among them",
            "Pin those of one session at a time; nothing was changed.",
        )
    return first


def _pins(db: apsw.Connection, session: Session, changed: Sequence[Seq]) -> Pins:
    path = Path(db, session.id, session.leaf)
    return Pins(
        session=session.key,
        changed=tuple(f"e{seq}" for seq in changed),
        pinned=tuple(_line(db, session, path, seq) for seq in pins.pinned(db, session.id)),
    )


def _line(db: apsw.Connection, session: Session, path: Path, seq: Seq) -> PinLine:
    row = existing_row(db, session, seq)
    mark = store.read_mark(db, session.id, seq)
    assert mark is not None
    return PinLine(
        ref=f"e{seq}",
        role=row.role,
        at=iso(row.at),
        tokens=mark.size.tokens,
        removed=seq not in path,
        preview=" ".join(row.text[: PREVIEW_CHARACTERS * 2].split())[:PREVIEW_CHARACTERS],
    )
