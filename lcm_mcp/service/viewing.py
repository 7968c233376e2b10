"""One projection of a session: named by its cut and its leaf, and always the same under that name.

A view weighs a projection without reading it (totals stand in the rows), and renders it in a format.
Functions take a read-only connection.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from lcm_mcp.dag import cuts
from lcm_mcp.dag.cuts import Cut
from lcm_mcp.errors import BadCursor
from lcm_mcp.ids import CutId, Seq, SessionId
from lcm_mcp.projection import lcm
from lcm_mcp.projection.formats import render
from lcm_mcp.projection.model import Notes, Projection, Rendered, TailRow
from lcm_mcp.service.answers import Format, Strategy
from lcm_mcp.service.quoting import quote_blocks
from lcm_mcp.service.showing import shown_history, tail_size
from lcm_mcp.tokens import Size
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen


@frozen
class View:
    """A session as one projection sees it; history is what stands before the tail, where there is a cut."""

    session: Session
    leaf: Seq
    cut: Cut | None
    history: str | None
    size: Size

    @property
    def name(self) -> str:
        return f"c{self.cut_number}.e{self.leaf}"

    @property
    def cut_number(self) -> int:
        """0 where there is no cut."""
        return 0 if self.cut is None else self.cut.id

    @property
    def floor(self) -> Seq:
        """No row before this one is in the tail."""
        return Seq(1) if self.cut is None else self.cut.tail_from

    @property
    def tail_rows(self) -> int:
        """Rows shown word for word: every input but the history message."""
        return self.size.inputs - (self.cut is not None)


def view_in_force(db: apsw.Connection, session: SessionId, strategy: Strategy) -> View:
    """The projection that a session's next request shows."""
    found = sessions.existing(db, session)
    cut = None if strategy == "none" else cuts.last_cut(db, session, strategy)
    return _view(db, found, cut, found.leaf)


def named_view(db: apsw.Connection, session: SessionId, cut: int, leaf: int) -> View:
    """The projection of a cut (0: none) and a leaf. Raises BadCursor where the store does not hold them."""
    found = sessions.find_by_id(db, session)
    stands = None if cut == 0 else cuts.find_cut(db, session, CutId(cut))
    gone = leaf != 0 and store.read_mark(db, session, Seq(leaf)) is None
    if found is None or gone or (cut != 0 and stands is None):
        raise BadCursor
    return _view(db, found, stands, Seq(leaf))


def _view(db: apsw.Connection, session: Session, cut: Cut | None, leaf: Seq) -> View:
    history = shown_history(db, session.id, cut)
    size = lcm.history_size(history) + tail_size(db, session, cut, leaf)
    return View(session, leaf, cut, history, size)


@frozen
class Outline:
    """What stands where in a projection, without its rows: quotes as they are shown, the tail by its first
    and last row (0 where there is none) and the text it begins with; rows counts those of the path to it."""

    quotes: Sequence[str]
    first: Seq
    last: Seq
    opening: str
    rows: int


def outline(db: apsw.Connection, view: View) -> Outline:
    """Raises SessionForgotten where the session went since the view was read."""
    sessions.existing(db, view.session.id)
    first = first_row(Path(db, view.session.id, view.leaf), view) or Seq(0)
    opening = store.read_row(db, view.session.id, first) if first else None
    return Outline(
        [] if view.cut is None else quote_blocks(db, view.session.id, view.cut.quotes),
        first,
        view.leaf if first else Seq(0),
        "" if opening is None else opening.text,
        store.path_totals(db, view.session.id, view.leaf).inputs,
    )


def rendered(db: apsw.Connection, view: View, form: Format, start: Seq | None = None) -> Rendered:
    """The messages of a view, image bytes included; or of its end, from a row on that begins a message."""
    path = Path(db, view.session.id, view.leaf)
    first = start or first_row(path, view)
    segments = () if first is None else path.between(first, view.leaf)
    tail = [
        TailRow(f"e{row.seq}", row) for row in store.read_rows(db, view.session.id, segments, images=True)
    ]
    if start is not None:
        return render(Projection(None, tail, continues=True), form)
    return render(Projection(view.history, tail), form)


def first_row(path: Path, view: View) -> Seq | None:
    """The first row of the tail, on the path to the view's leaf; None where there is none."""
    return path.after(Seq(0)) if view.cut is None else view.cut.tail_from


def format_notes(notes: Notes) -> tuple[str, ...]:
    """What the format could not show as it was, in words."""
    counted = (
        (notes.labelled_calls, "tool call", "without a result in place, shown as labelled text"),
        (notes.labelled_results, "tool result", "without its call, shown as labelled text"),
        (notes.reasoning_left_out, "reasoning part", "left out: this format cannot carry that"),
        (notes.images_as_metadata, "image", "shown as metadata only"),
        (notes.opaque_left_out, "block", "of another kind left out: this format cannot carry that"),
    )
    return tuple(f"{count} {noun}{'s' * (count > 1)} {what}" for count, noun, what in counted if count)
