"""Which rows a cut quotes before its tail: pinned ones, what a divided unit was asked, rolling's recap.

Chosen when the cut is made and kept in it. A pinned row is quoted whole or, where its share of the window
has no room for it, named in a note; the others are quoted by their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import apsw

from lcm_mcp.dag.cuts import Cut, Quote
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.projection.labels import quote_block
from lcm_mcp.service.tails import Tail
from lcm_mcp.service.windows import RECAP_CHARACTERS, RECAP_ROWS, Window
from lcm_mcp.tokens import BYTES_PER_TOKEN, text_tokens
from lcm_mcp.transcript import pins, store
from lcm_mcp.transcript.model import RowMark
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

OPENER_CHARACTERS = 4000
OPENER_SHARE = 20
"""The request that a divided unit is about is quoted up to a twentieth of the window."""


@frozen
class Quotes:
    """The quotes of a cut, rendered, and the pinned rows that found no room."""

    quotes: tuple[Quote, ...]
    blocks: tuple[str, ...]
    crowded_out: tuple[Seq, ...]


def quotes_for(
    db: apsw.Connection,
    session: Session,
    path: Path,
    tail_from: Seq,
    tail: Tail,
    window: Window,
    recap: Sequence[Seq] = (),
) -> Quotes:
    """The quotes of a cut whose tail starts at row `tail_from`; recap are rows to be quoted between."""
    pinned, crowded_out = _pinned(db, session, path, tail_from, window)
    opener = _opener(db, session, path, tail_from, tail, window)
    asked = None if opener is None else opener.seq
    said = [Quote("recap", seq, RECAP_CHARACTERS) for seq in recap if seq != asked]
    chosen = [*said, *([] if opener is None else [opener])]
    known = {quote.seq for quote in pinned}
    quotes = (*pinned, *(quote for quote in chosen if quote.seq not in known))
    return Quotes(quotes, tuple(quote_blocks(db, session.id, quotes)), tuple(crowded_out))


def quote_blocks(db: apsw.Connection, session: SessionId, quotes: Iterable[Quote]) -> list[str]:
    """Quotes as they are shown: always the same words for the same quotes."""
    blocks: list[str] = []
    for quote in quotes:
        row = store.read_row(db, session, quote.seq)
        assert row is not None
        label = {
            "pin": f"pinned e{quote.seq} {row.role}",
            "opener": f"request e{quote.seq} {row.role}, still being worked on",
            "recap": f"quote e{quote.seq} {row.role}",
        }[quote.kind]
        blocks.append(quote_block(label, row.text, quote.characters))
    return blocks


def recap_rows(
    db: apsw.Connection, session: Session, path: Path, tail_from: Seq, in_force: Cut | None
) -> list[Seq]:
    """The last RECAP_ROWS user rows before row `tail_from`, oldest first; reads what was newly evicted, and
    goes on with those that the cut in force quotes, as whatever it does."""
    before = Path(db, session.id, path.before(tail_from)) if tail_from in path else None
    floor = 0 if in_force is None else in_force.tail_from
    found = [] if before is None else list(islice(_user_rows(before.marks_back(), floor), RECAP_ROWS))
    quoted = sorted({quote.seq for quote in in_force.quotes}) if in_force is not None else []
    earlier = [seq for seq in quoted if _opens(store.read_mark(db, session.id, seq))]
    return [*earlier, *reversed(found)][-RECAP_ROWS:]


def _user_rows(marks: Iterable[RowMark], floor: int) -> Iterable[Seq]:
    for mark in marks:
        if mark.seq < floor:
            return
        if _opens(mark):
            yield mark.seq


def _opens(mark: RowMark | None) -> bool:
    return mark is not None and mark.role == "user" and mark.unit == mark.seq


def _pinned(
    db: apsw.Connection, session: Session, path: Path, tail_from: Seq, window: Window
) -> tuple[list[Quote], list[Seq]]:
    """Pinned rows of the path before the tail, oldest first, as far as their share of the window goes."""
    quotes: list[Quote] = []
    crowded_out: list[Seq] = []
    room = window.in_rule_tokens(window.pins)
    for seq in pins.pinned(db, session.id):
        if seq >= tail_from or seq not in path:
            continue
        quote = Quote("pin", seq, None)
        price = text_tokens(quote_blocks(db, session.id, [quote])[0] + "\n\n")
        if price > room:
            crowded_out.append(seq)
            continue
        room -= price
        quotes.append(quote)
    return quotes, crowded_out


def _opener(
    db: apsw.Connection, session: Session, path: Path, tail_from: Seq, tail: Tail, window: Window
) -> Quote | None:
    """The row that opened the newest unit, where the tail starts inside of it."""
    mark = store.read_mark(db, session.id, tail_from)
    if mark is None or tail_from < tail.unit or mark.unit == tail_from or mark.unit not in path:
        return None
    opener = store.read_mark(db, session.id, mark.unit)
    if opener is None or opener.role != "user":
        return None
    most = window.in_rule_tokens(window.tokens) * BYTES_PER_TOKEN // OPENER_SHARE
    return Quote("opener", mark.unit, min(OPENER_CHARACTERS, most))
