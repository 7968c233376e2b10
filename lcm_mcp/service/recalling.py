"""prepare_context with a query: rows that a request no longer shows, quoted at the end of its last message.

What is recalled is named by rows and places in them, so a later page quotes the same; it is never stored, is
counted in the estimate, and stands behind everything that a provider caches. Whoever holds a request with it
is given that message again without it. Rows in the tail are shown anyway and never recalled. Functions take
a read-only connection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import apsw

from lcm_mcp.ids import Seq
from lcm_mcp.projection.formats import DIALECTS
from lcm_mcp.projection.labels import fence_recalled, quote_block
from lcm_mcp.projection.model import Message
from lcm_mcp.search.match import words
from lcm_mcp.search.meaning import Meaning
from lcm_mcp.search.ranked import newest_text, question, rank
from lcm_mcp.search.scan import Found, Wanted
from lcm_mcp.search.scope import Scope
from lcm_mcp.service.answers import Format
from lcm_mcp.service.splicing import Change, Piece, change_since
from lcm_mcp.service.viewing import View
from lcm_mcp.tokens import text_tokens
from lcm_mcp.transcript import store
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.path import FIRST, Path
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.values import frozen

MOST_ROWS = 6
MOST_CHARACTERS = 900
"""Of a row: what stands around the best place."""
MOST_TOKENS = 1500
SEARCH_S = 2.0
_MARK = re.compile(r"(\d{1,18})\.(\d{1,18})")

SHOWN_ANYWAY = "query: every row is shown word for word, so nothing had to be recalled."
NOT_THE_USERS = "query: nothing was recalled, since the last message is not the user's."
NO_ROOM = "query: the window has no room for recalled rows."
NOTHING_FOUND = "query: no row that is no longer shown holds a word of it."


@frozen
class Mark:
    """A recalled row, and the character its passage starts with."""

    seq: Seq
    start: int


@frozen
class Recalled:
    """What was recalled, oldest first, as it is shown; and why nothing was, where that is so."""

    marks: Sequence[Mark] = ()
    block: str = ""
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """What it adds to the estimate."""
        return text_tokens(self.block)

    @property
    def written(self) -> str:
        """The marks as a cursor holds them."""
        return ",".join(f"{mark.seq}.{mark.start}" for mark in self.marks)


def recall(
    db: apsw.Connection, view: View, asked: str, room: int | None, meaning: Meaning | None
) -> Recalled:
    """The rows before the tail that answer a question best, as many as fit into so many tokens."""
    rows = Path(db, view.session.id, view.leaf).between(FIRST, Seq(view.floor - 1))
    if not rows:
        return Recalled(notes=(SHOWN_ANYWAY,))
    wanted = Wanted(words(asked, case_sensitive=False), summaries=False)
    scope = Scope(db, session=view.session, leaf=view.leaf, rows=rows)
    terms = question(db, readable(asked), meaning)
    ranked = rank(db, scope, wanted, terms, (0, MOST_ROWS), newest_text(db), SEARCH_S)
    most = MOST_TOKENS if room is None else min(MOST_TOKENS, room)
    marks: list[Mark] = []
    for found in ranked.found:
        more = sorted([*marks, _mark(found)], key=lambda mark: mark.seq)
        if text_tokens(_block(db, view, more)) <= most:
            marks = more
    if not marks:
        return Recalled(notes=(NO_ROOM if ranked.found else NOTHING_FOUND,))
    return Recalled(marks, _block(db, view, marks))


def recalled_again(db: apsw.Connection, view: View, written: str) -> Recalled:
    """What a cursor's marks name."""
    marks = [Mark(Seq(int(seq)), int(start)) for seq, start in _MARK.findall(written)]
    known = [mark for mark in marks if store.read_mark(db, view.session.id, mark.seq) is not None]
    return Recalled(known, _block(db, view, known)) if known else Recalled()


def _mark(found: Found) -> Mark:
    assert found.seq is not None
    lead = max(0, MOST_CHARACTERS - (found.place.end - found.place.start)) // 3
    start = max(0, min(found.place.start - lead, len(found.text) - MOST_CHARACTERS))
    return Mark(found.seq, start)


def _block(db: apsw.Connection, view: View, marks: Sequence[Mark]) -> str:
    blocks: list[str] = []
    for mark in marks:
        row = store.read_row(db, view.session.id, mark.seq)
        assert row is not None
        passage = row.text[mark.start : mark.start + MOST_CHARACTERS]
        part = "" if len(passage) == len(row.text) else f", from character {mark.start}"
        blocks.append(quote_block(f"recalled e{mark.seq} {row.role}{part}", passage, None))
    return fence_recalled(blocks)


def with_recalled(
    db: apsw.Connection, view: View, form: Format, change: Change, recalled: Recalled
) -> tuple[Change, Recalled]:
    """The change with what is recalled as the last block of its last message, given anew if it was held."""
    if not recalled.block:
        return change, recalled
    given = _giving(db, view, form, change, change.wire.messages - 1)
    if not given.pieces or given.pieces[-1].message.role != "user":
        return change, Recalled(notes=(NOT_THE_USERS,))
    *before, last = given.pieces
    message = _appended(last.message, recalled.block, form)
    marks = tuple(mark for mark in change.wire.cache_breakpoints if mark != last.index)
    wire = replace(given.wire, recalled=True, cache_breakpoints=marks)
    return replace(given, pieces=[*before, Piece(last.index, message)], wire=wire), recalled


def without_recalled(db: apsw.Connection, view: View, form: Format, change: Change) -> Change:
    """The change such that the client keeps no message in which something was recalled for it."""
    held = change.held
    if held is None or not held.wire.recalled or change.omit + change.keep < held.wire.messages:
        return change
    given = {piece.index for piece in change.pieces}
    kept = [index for index in range(change.wire.messages) if index not in given]
    change = _giving(db, view, form, change, kept[-1])
    if not change.wire.recalled:
        return change
    # The very projection that is held: its last message is the last again that a cache may end at.
    marks = (*change.wire.cache_breakpoints, *([change.wire.messages - 1] if form in DIALECTS else []))
    return replace(change, wire=replace(change.wire, recalled=False, cache_breakpoints=marks))


def _giving(db: apsw.Connection, view: View, form: Format, change: Change, index: int) -> Change:
    """The change with the message at `index` given, which is the last one kept or given already."""
    if any(piece.index == index for piece in change.pieces):
        return change
    whole = change_since(db, view, form, None)
    if change.keep <= 1:
        return whole
    pieces = sorted([*change.pieces, whole.pieces[index]], key=lambda piece: piece.index)
    return replace(change, pieces=pieces, keep=change.keep - 1)


def _appended(message: Message, block: str, form: Format) -> Message:
    content = message.body.get("content")
    if form == "text":
        return replace(message, body={**message.body, "content": f"{content}\n\n{block}"})
    blocks: list[Json] = [*content] if isinstance(content, list) else [_text(str(content or ""))]
    return replace(message, body={**message.body, "content": [*blocks, _text(block)]})


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
