"""Where a new row goes: after which row, into which unit and round, and which calls it answers.

A row follows the path's end unless it names another row as its parent: then it starts a branch there, and
what came after its parent is off the path. Rows of one model message, and what answers it, are siblings and
no branches, whichever of them they name. Nothing is inserted here; what is asked is asked along one path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import apsw

from lcm_mcp.errors import MalformedAddress
from lcm_mcp.ids import RowAddress, Seq, SessionId, parse_address
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.model import BEGINNING, Sealed
from lcm_mcp.transcript.path import Path
from lcm_mcp.values import frozen


@frozen
class Head:
    """Where a path ends: what the next row's place and totals are made from."""

    leaf: Seq
    unit: Seq
    round: Seq
    message_id: str | None
    total: Size


@frozen
class Call:
    """A stored call: its row, its place among that row's calls, and that row's unit and round."""

    id: str
    seq: Seq
    n: int
    unit: Seq
    round: Seq


def head_at(db: apsw.Connection, session: SessionId, leaf: Seq) -> Head:
    """The end of the path to row `leaf`; 0 is before the first row."""
    if leaf == 0:
        return Head(Seq(0), Seq(0), Seq(0), None, Size())
    unit, round_, cum_bytes, cum_inputs, cum_fixed = next(
        db.execute(
            "SELECT unit, round, cum_bytes, cum_inputs, cum_fixed FROM row WHERE session = ? AND seq = ?",
            (session, leaf),
        )
    )
    message_id = message_id_of(db, session, round_)
    return Head(leaf, unit, round_, message_id, Size(cum_bytes, cum_inputs, cum_fixed))


def find_row(db: apsw.Connection, session: SessionId, name: str) -> Seq | None:
    """The stored row that an entry_id or an address names in the session."""
    found = find_entry(db, session, name)
    if found is not None:
        return found
    try:
        address = parse_address(name)
    except MalformedAddress:
        return None
    if not isinstance(address, RowAddress) or address.session not in (None, session):
        return None
    stored: int = db.execute(
        "SELECT EXISTS(SELECT 1 FROM row WHERE session = ? AND seq = ?)", (session, address.seq)
    ).get
    return address.seq if stored else None


def find_end(db: apsw.Connection, session: SessionId, entry_id: str) -> Seq | None:
    """Where a path may end: the row that an entry_id names, or (BEGINNING) before the first."""
    found = find_entry(db, session, entry_id)
    return Seq(0) if found is None and entry_id == BEGINNING else found


def find_entry(db: apsw.Connection, session: SessionId, entry_id: str) -> Seq | None:
    """The row that an entry_id names."""
    seq: int | None = db.execute(
        "SELECT seq FROM row WHERE session = ? AND entry_id = ?", (session, entry_id)
    ).get
    return None if seq is None else Seq(seq)


# --- branches


def followed(db: apsw.Connection, session: SessionId, head: Head, entry: Sealed) -> Head | None:
    """The end of the path that an entry goes on with; None where it names a parent that is not there."""
    if entry.parent is not None:
        parent = Seq(0) if entry.parent == BEGINNING else find_row(db, session, entry.parent)
        if parent is None:
            return None
        if parent == head.leaf or (not entry.branch and _is_sibling(db, session, head, parent)):
            return head
        return head_at(db, session, parent)
    if entry.prompt_under is not None:
        return _for_prompt(db, session, head, entry.prompt_under)
    return head


def _is_sibling(db: apsw.Connection, session: SessionId, head: Head, parent: Seq) -> bool:
    """Whether nothing but the parent's own round comes after it on the path."""
    path = Path(db, session, head.leaf)
    if parent not in path or path.marks(parent, parent)[0].round != head.round:
        return False
    return all(mark.round == head.round for mark in path.marks(parent, head.leaf))


def _for_prompt(db: apsw.Connection, session: SessionId, head: Head, under: str) -> Head:
    """What a prompt follows whose source has it under the row `under`: a second prompt there makes a branch.

    Anything else its source may mean by that (a resumed or compacted session, a row it does not have)
    follows what came before it.
    """
    parent = find_entry(db, session, under)
    path = Path(db, session, head.leaf)
    if parent is None or parent not in path:
        return head
    last, opened = parent, path.marks(parent, parent)[0].round
    while (following := path.after(last)) is not None:
        mark = path.marks(following, following)[0]
        if mark.round != opened:
            return head_at(db, session, last) if mark.unit == following else head
        last = following
    return head


# --- unit, round, calls


def place(
    seq: Seq,
    head: Head,
    entry: Sealed,
    answered: Sequence[Call],
    message_id_at: Callable[[Seq], str | None],
) -> tuple[Seq, Seq, str | None]:
    """The unit and round of a new row, and the message_id of the row that opens that round."""
    if head.leaf == 0 or (entry.role == "user" and not entry.results and entry.active):
        return seq, seq, entry.message_id
    unit = min([head.unit, *(call.unit for call in answered)]) if answered else head.unit
    same_message = entry.message_id is not None and entry.message_id == head.message_id
    if entry.role == "assistant" and not entry.results and not same_message:
        return unit, seq, entry.message_id
    round_ = min([head.round, *(call.round for call in answered)]) if answered else head.round
    return unit, round_, head.message_id if round_ == head.round else message_id_at(round_)


_CALLS = """SELECT call.seq, call.n, row.unit, row.round
    FROM call JOIN row ON row.session = call.session AND row.seq = call.seq
    WHERE call.session = ? AND call.id = ? ORDER BY call.seq DESC, call.n DESC"""
_ANSWERS = "SELECT seq FROM answer WHERE session = ? AND id = ? AND call_seq = ? AND call_n = ?"


def answered_calls(
    db: apsw.Connection, session: SessionId, leaf: Seq, wanted: Mapping[str, int]
) -> list[Call]:
    """The calls that so many results of each (bindable) id answer: the nearest unanswered ones on the path to
    `leaf`.

    A call counts as unanswered where all its answers are on other branches.
    """
    path = Path(db, session, leaf)
    return [call for call_id, times in wanted.items() for call in _open(db, session, path, call_id, times)]


def _open(db: apsw.Connection, session: SessionId, path: Path, call_id: str, times: int) -> list[Call]:
    found: list[Call] = []
    for seq, n, unit, round_ in db.execute(_CALLS, (session, call_id)):
        answers = db.execute(_ANSWERS, (session, call_id, seq, n))
        if seq in path and not any(answer in path for (answer,) in answers):
            found.append(Call(call_id, Seq(seq), n, Seq(unit), Seq(round_)))
            if len(found) == times:
                break
    return found


def bindable(call_id: str) -> str:
    """A call id that SQLite can hold; ids that differ only in lone surrogates are one."""
    return call_id.encode("utf-8", "replace").decode("utf-8")


def message_id_of(db: apsw.Connection, session: SessionId, seq: Seq) -> str | None:
    """A stored row's own."""
    found: str | None = db.execute(
        "SELECT message_id FROM row WHERE session = ? AND seq = ?", (session, seq)
    ).get
    return found
