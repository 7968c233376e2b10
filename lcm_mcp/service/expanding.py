"""lcm_expand: the way back from an address to the original words, a page at a time.

Pages joined in order give every row's derived text, character by character, and where it is asked for
every part of every row. A row longer than a page comes in pieces, and so do parts; nothing is shortened
or left out, but an image that fits no page is given by its resource. A page reads little more than it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import apsw

from lcm_mcp.ids import FileAddress, Seq, format_address, parse_address
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import ExpandedRow, Expansion, PayloadPiece
from lcm_mcp.service.pictures import LARGEST_BYTES, bare_blocks, base64_length, blocks_of
from lcm_mcp.service.times import iso
from lcm_mcp.service.workplace import Workplace, addressed, chain_of, existing_file
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript import store
from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.model import File, Row
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.path import Path, Segment
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

PAYLOAD_BYTES = 150_000
"""JSON of parts in one page, without images; both channels of an answer together then stay below 400 KB."""
ROW_BYTES = 40
"""What a row takes around its text, so that many short rows make a page as well."""
READ_ROWS = 8


@frozen
class _Place:
    """Where to go on: a row, characters of its text given, and of its parts' JSON (None: not begun)."""

    seq: Seq
    text: int = 0
    parts: int | None = None


def expand(
    db: apsw.Connection,
    work: Workplace,
    id: str,
    key: str | None,
    max_bytes: int,
    include_payload: bool,
    cursor: str | None,
) -> Expansion:
    """The rows an address stands for, word for word, as many as fit into max_bytes of UTF-8 text. Of a file
    its body alone, which is a piece of its row."""
    session, address = addressed(db, work, parse_address(id), key)
    chain = chain_of(db, session, address)
    file = existing_file(db, session, address.file) if isinstance(address, FileAddress) else None
    asked = ("expand", session.id, format_address(replace(address, session=None)), include_payload)
    place = _Place(chain.first, 0 if file is None else file.start)
    if cursor is not None:
        seq, text, parts = (int(value) for value in cursors.read(cursor, asked, int, int, int))
        place = _Place(Seq(seq), text, None if parts < 0 else parts)
    page = _Page(db, session, max_bytes, include_payload)
    for row in _rows_from(db, session, chain.path, place.seq, chain.last, include_payload):
        row = row if file is None else _only(row, file)
        following = page.take(row, place if row.seq == place.seq else _Place(row.seq))
        if following is not None:
            position = (following.seq, following.text, -1 if following.parts is None else following.parts)
            return Expansion(session.key, id, tuple(page.rows), cursors.make(asked, position))
    return Expansion(session.key, id, tuple(page.rows), None)


def _only(row: Row, file: File) -> Row:
    """A row up to where a file's body ends, with the part that holds it."""
    end = file.start + file.characters
    return replace(row, text=row.text[:end], parts=(row.parts[file.part],))


def _rows_from(
    db: apsw.Connection, session: Session, path: Path, first: Seq, last: Seq, images: bool
) -> Iterator[Row]:
    """Rows of the path from `first` on, a few at a time."""
    for part in path.between(first, last):
        low = part.low
        while low <= part.high:
            high = Seq(min(part.high, low + READ_ROWS - 1))
            few = [Segment(low, high)]
            yield from store.read_rows(db, session.id, few, images=images, largest=LARGEST_BYTES)
            low = Seq(high + 1)


class _Page:
    """Room for rows: takes what fits of each, and says where the next page goes on once it is full."""

    def __init__(self, db: apsw.Connection, session: Session, max_bytes: int, include_payload: bool) -> None:
        self._db = db
        self._session = session
        self._room = max_bytes
        self._parts_room = PAYLOAD_BYTES
        self._images_room = LARGEST_BYTES
        self._include_payload = include_payload
        self._active = Path(db, session.id, session.leaf)
        self.rows: list[ExpandedRow] = []

    def take(self, row: Row, place: _Place) -> _Place | None:
        """Take of a row what fits from `place` on; None where it was taken to its end."""
        if place.parts is not None:
            return self._take_parts(row, place.parts)
        piece = self._piece(row.text, place.text)
        if piece is None:
            return place
        end = place.text + len(piece)
        complete = end >= len(row.text)
        parts = self._parts(row) if complete and self._include_payload else None
        self._add(row, piece, place.text, complete, parts)
        if not complete:
            return _Place(row.seq, end)
        if self._include_payload and parts is None:
            return _Place(row.seq, end, 0)
        return None

    def _piece(self, text: str, start: int) -> str | None:
        """As much of `text` from `start` as fits, whole characters only; None where the page is full."""
        if self.rows and self._room <= 0:
            return None
        room = max(self._room, 4)  # the longest character, so that every page gets on
        piece = text[start : start + room].encode()[:room].decode(errors="ignore")
        if self.rows and not piece and start < len(text):
            return None
        self._room -= utf8_length(piece) + ROW_BYTES
        return piece

    def _parts(self, row: Row) -> tuple[Block, ...] | None:
        """A row's parts as neutral JSON, or None where this page has no room for them."""
        blocks, images = blocks_of(self._db, self._session, row)
        size = len(encode([*blocks])) - base64_length(images)
        if size > self._parts_room or images > self._images_room:
            return None
        self._parts_room -= size
        self._images_room -= images
        return tuple(blocks)

    def _take_parts(self, row: Row, offset: int) -> _Place | None:
        """Parts on a page that starts with them: whole if they fit by now, else the next piece."""
        parts = self._parts(row) if offset == 0 else None
        if parts is not None:
            self._add(row, "", len(row.text), True, parts)
            return None
        text = encode([*bare_blocks(self._db, self._session, row)]).decode()
        piece = text[offset : offset + PAYLOAD_BYTES].encode()[:PAYLOAD_BYTES].decode(errors="ignore")
        self._add(row, "", len(row.text), True, None, PayloadPiece(offset, len(text), piece))
        end = offset + len(piece)
        self._parts_room -= len(piece)
        return _Place(row.seq, len(row.text), end) if end < len(text) else None

    def _add(
        self,
        row: Row,
        text: str,
        offset: int,
        complete: bool,
        parts: tuple[Block, ...] | None,
        piece: PayloadPiece | None = None,
    ) -> None:
        removed = row.seq not in self._active
        self.rows.append(
            ExpandedRow(f"e{row.seq}", row.role, iso(row.at), text, offset, complete, removed, parts, piece)
        )
