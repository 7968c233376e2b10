"""What may match, in order: rows and summaries of some sessions, read or named by the index.

There is one order, that of the conversation: rows as they were stored, a summary right after the last row
it covers and at that row's time. A stream is lazy and costs what is taken from it. Where a look at the index
tells that few texts can match, it names them; else it begins with reading, since a common needle is found at
once; where that does not do, the index names the rest; where the index names too much, reading goes on. Texts
the index does not know yet are always read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

import apsw

from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.search import index
from lcm_mcp.search.index import SUMMARIES, Clue, Sought
from lcm_mcp.search.scope import Scope
from lcm_mcp.transcript.model import Role
from lcm_mcp.transcript.path import FIRST, Segment
from lcm_mcp.values import frozen

SMALL_ROWS = 250
"""No more rows than this are read, but where a look or two at the index names few of them."""
SMALL_NODES = 100
HEAD_ROWS = 48
"""Read before the index is asked."""
HEAD_SUMMARIES = 4
WORTHWHILE = 8
"""Where the index names more than one of so many, reading all of them is no slower."""
SIFTED_ROWS = 4000
SIFTED_SHARE = 32
"""Up to so many rows of one session, where the store has so many times as many texts, SQLite looks through
faster than the index names them: it would look through the whole store for one more."""
_BEYOND = 2**62


class Position(NamedTuple):
    """Where a row or summary stands: the text of the (last) row, 0 or the node's number, its own text.

    Whoever holds one text holds it at one place, so that it is one hit. Only forks that fold for themselves
    have different texts under one number at one anchor.
    """

    anchor: int
    node: int
    text: int


class Candidate(NamedTuple):
    """A row or a summary with its texts, the first to be looked at first; a tuple, as there are many.

    last is the row's number or that of the last row under the node; speaker counts a row with tool results
    as the tool's, whatever its role.
    """

    position: Position
    session: int
    role: Role | None
    speaker: Role | None
    at: int
    last: Seq
    texts: Iterable[str]


@frozen
class Span:
    """Which part of the order is wanted: positions whose anchors go from low to high, both included."""

    low: int = 0
    high: int = _BEYOND
    newest_first: bool = True

    def beyond(self, anchor: int | None) -> Span:
        """What is left of it behind an anchor, where there is one."""
        if anchor is None:
            return self
        if self.newest_first:
            return Span(self.low, min(self.high, anchor - 1), True)
        return Span(max(self.low, anchor + 1), self.high, False)

    def ends_before(self, anchor: int) -> bool:
        """Whether it lies wholly before this anchor in its order."""
        return anchor < self.low if self.newest_first else anchor > self.high

    def ordered(self, query: str) -> str:
        return query.replace("{direction}", "DESC" if self.newest_first else "ASC")


_ROW = "row.text, row.session, row.seq, row.role, row.results, row.at"

_IN_SCOPE = """iif(?4 IS NULL,
    ?3 IS NULL OR (SELECT project FROM session WHERE session.id = {table}.session) = ?3,
    {table}.session = ?4)"""

_BY_TEXT = f"""SELECT {_ROW}, text.body FROM row JOIN text ON text.id = row.text
    WHERE row.text BETWEEN ?1 AND ?2 AND {_IN_SCOPE.format(table="row")}
    ORDER BY row.text {{direction}}, row.session {{direction}}"""

_BY_NUMBER = f"""SELECT {_ROW}, text.body FROM row JOIN text ON text.id = row.text
    WHERE row.session = ? AND row.seq BETWEEN ? AND ? ORDER BY row.seq {{direction}}"""

# lower() folds ASCII only, so a text with other characters always passes; length() ends at a NUL.
_SIFTED = _BY_NUMBER.replace(
    "ORDER BY",
    "AND (octet_length(text.body) <> length(text.body) OR instr(lower(text.body), ?)) ORDER BY",
)

# Neither the index by text nor the bodies: these would be put in order too.
_SORTED = f"""SELECT {_ROW} FROM session CROSS JOIN row ON row.session = session.id
    WHERE session.project = ? AND +row.text BETWEEN ? AND ?
    ORDER BY row.text {{direction}}, row.session {{direction}}"""
_BODY = "SELECT body FROM text WHERE id = ?"

_OF_TEXT = f"""SELECT {_ROW}, text.body FROM row JOIN text ON text.id = row.text
    WHERE row.text = ? ORDER BY row.session {{direction}}"""

_HEAD_END = "SELECT text FROM row WHERE text BETWEEN ? AND ? ORDER BY text {direction} LIMIT 1 OFFSET ?"

_NODE = "node.anchor, node.id, node.session, node.last, row.at, terse.text, thorough.text"
_WITH_TEXTS = """row ON row.session = node.session AND row.seq = node.last JOIN tier AS terse
    ON terse.session = node.session AND terse.node = node.id AND terse.kind = 'primary'
    LEFT JOIN tier AS thorough
    ON thorough.session = node.session AND thorough.node = node.id AND thorough.kind = 'rich'"""

_BY_LAST = f"""SELECT {_NODE} FROM node INDEXED BY node_by_last CROSS JOIN {_WITH_TEXTS}
    WHERE node.session = ? AND node.last BETWEEN ? AND ?
    ORDER BY node.last {{direction}}, node.id {{direction}}"""

_BY_ANCHOR = f"""SELECT {_NODE} FROM node INDEXED BY node_by_anchor CROSS JOIN {_WITH_TEXTS}
    WHERE node.anchor BETWEEN ?1 AND ?2 AND {_IN_SCOPE.format(table="node")}
    ORDER BY node.anchor {{direction}}, node.id {{direction}}"""

_NODES_SORTED = """SELECT node.session, node.id FROM session CROSS JOIN node ON node.session = session.id
    WHERE session.project = ? AND +node.anchor BETWEEN ? AND ?
    ORDER BY node.anchor {direction}, node.id {direction}"""
_OF_NODE = f"SELECT {_NODE} FROM node CROSS JOIN {_WITH_TEXTS} WHERE node.session = ? AND node.id = ?"

_OF_TIER = f"""SELECT {_NODE} FROM tier
    JOIN node ON node.session = tier.session AND node.id = tier.node CROSS JOIN {_WITH_TEXTS}
    WHERE tier.text = ?"""

_UNINDEXED_TIERS = "SELECT text FROM tier WHERE text > ?"

_RowTuple = tuple[int, int, int, Role, int, int, str]
_NodeTuple = tuple[int, int, int, int, int, int, int | None]


def rows(db: apsw.Connection, scope: Scope, sought: Sought, span: Span) -> Iterator[Candidate]:
    """Rows in scope; left out are those that cannot hold what is sought."""
    count, _ = scope.sizes
    stream = _Rows(db, scope, sought, span.newest_first, count)
    if not any(sought.required) or (count <= SMALL_ROWS and not _names_few(sought, count)):
        yield from stream.read(span)
        return
    sieve = stream.sieve()
    if sieve is not None and not _is_known(sought, count):
        yield from stream.read(span, sieve)
        return
    known = Span(span.low, min(span.high, sought.upto), span.newest_first)
    unknown = Span(max(span.low, sought.upto + 1), min(span.high, sought.newest), span.newest_first)
    if span.newest_first:
        yield from stream.read_texts(unknown)
    anchor: int | None = None
    if sought.few is None and not sought.seldom(HEAD_ROWS):
        for candidate in stream.head(known):
            anchor = candidate.position.anchor
            yield candidate
    rest = known.beyond(anchor)
    if sieve is not None and (sought.clue is None or sought.clue.few is None):
        yield from stream.read(rest, sieve)
    else:
        yield from stream.look_up(sought.clue, rest)
    if not span.newest_first:
        yield from stream.read_texts(unknown)


class _Stream:
    """What is got of a scope; count is how many there are."""

    def __init__(
        self, db: apsw.Connection, scope: Scope, sought: Sought, newest_first: bool, count: int
    ) -> None:
        self._db = db
        self._scope = scope
        self._sought = sought
        self._newest_first = newest_first
        self.count = count


class _Rows(_Stream):
    """Its rows, got in four ways."""

    def sieve(self) -> str | None:
        """The piece by which SQLite should sift a small part of a store, where the index names many."""
        sought = self._sought
        small = self.count <= min(SIFTED_ROWS, sought.upto // SIFTED_SHARE)
        pieces = [piece for piece in sought.required if piece.isascii() and "\0" not in piece]
        return max(pieces, key=len) if small and pieces and self._scope.one is not None else None

    def read(self, span: Span, sieve: str | None = None) -> Iterator[Candidate]:
        """All of them, one after the other; of one session those that a sieve of ASCII lets through."""
        if self._scope.one is not None:
            return self._read_session(self._scope.one, span, sieve)
        if self._scope.is_sparse(self._sought.newest):
            return self._read_sorted(span)
        return self.read_texts(span)

    def read_texts(self, span: Span) -> Iterator[Candidate]:
        """The same by way of the store's texts: for several sessions, and for the newest few texts."""
        if span.low > span.high:
            return
        for row in self._db.execute(
            span.ordered(_BY_TEXT), (span.low, span.high, self._scope.project, self._scope.one)
        ):
            if self._scope.holds(row[2]):
                yield _row(row)

    def _read_sorted(self, span: Span) -> Iterator[Candidate]:
        """The same, put in order: of a project that has few of the store's rows."""
        asked = (self._scope.project, span.low, span.high)
        for row in self._db.execute(span.ordered(_SORTED), asked):
            yield _row((*row, self._db.execute(_BODY, (row[0],)).get))

    def head(self, span: Span) -> Iterator[Candidate]:
        """The first few of them; of a project, those among the store's first few."""
        if self._scope.one is not None or self._scope.project is None:
            return _first(self.read(span), HEAD_ROWS)
        text: int | None = self._db.execute(span.ordered(_HEAD_END), (span.low, span.high, HEAD_ROWS - 1)).get
        if text is None:
            return self.read_texts(span)
        low, high = (text, span.high) if span.newest_first else (span.low, text)
        return self.read_texts(Span(low, high, span.newest_first))

    def look_up(self, clue: Clue | None, span: Span) -> Iterator[Candidate]:
        """Those that the index names; all, where it cannot help or once it has named too many."""
        left = self.count // WORTHWHILE
        texts = clue and index.named(
            self._db, clue, span.low, span.high, newest_first=self._newest_first, most=left
        )
        if texts is None:
            yield from self.read(span)
            return
        for text in texts:
            yield from self._of_text(text, span)
            left -= 1
            if left < 0:
                yield from self.read(span.beyond(text))
                return

    def _of_text(self, text: int, span: Span) -> Iterator[Candidate]:
        for row in self._db.execute(span.ordered(_OF_TEXT), (text,)):
            if row[1] in self._scope and self._scope.holds(row[2]):
                yield _row(row)

    def _read_session(self, session: SessionId, span: Span, sieve: str | None) -> Iterator[Candidate]:
        """Within a session texts rise with the numbers of their rows."""
        low, high = _numbers(self._db, session, span)
        parts = [Segment(FIRST, Seq(_BEYOND))] if self._scope.rows is None else list(self._scope.rows)
        query, sought = span.ordered(_SIFTED if sieve else _BY_NUMBER), (sieve,) if sieve else ()
        for part in reversed(parts) if span.newest_first else parts:
            numbers = session, max(part.low, low), min(part.high, high)
            for row in self._db.execute(query, (*numbers, *sought)):
                if span.low <= row[0] <= span.high:
                    yield _row(row)
                elif span.ends_before(row[0]):
                    return


def _is_known(sought: Sought, count: int) -> bool:
    """Whether the texts that the index does not know yet are few beside `count`."""
    return sought.unknown < count // WORTHWHILE


def _names_few(sought: Sought, count: int) -> bool:
    return _is_known(sought, count) and sought.few is not None


def _row(row: _RowTuple) -> Candidate:
    text, session, seq, role, results, at, body = row
    speaker = "tool" if results else role
    return Candidate(Position(text, 0, text), session, role, speaker, at, Seq(seq), (body,))


def summaries(db: apsw.Connection, scope: Scope, sought: Sought, span: Span) -> Iterator[Candidate]:
    """Summaries in scope; left out are those that cannot hold what is sought."""
    _, count = scope.sizes
    stream = _Summaries(db, scope, sought, span.newest_first, count)
    if not any(sought.required) or (count <= SMALL_NODES and not _names_few(sought, count)):
        yield from stream.read(span)
        return
    anchor: int | None = None
    if sought.few is None and not sought.seldom(HEAD_ROWS):
        for candidate in _first(stream.read(span), HEAD_SUMMARIES):
            anchor = candidate.position.anchor
            yield candidate
    yield from stream.look_up(span.beyond(anchor))


class _Summaries(_Stream):
    """Its summaries, got in three ways."""

    def read(self, span: Span) -> Iterator[Candidate]:
        """All of them, one after the other."""
        for (anchor, _), alike in groupby(self._read(span), key=itemgetter(0, 1)):
            if span.ends_before(anchor):
                return
            if span.low <= anchor <= span.high:
                yield from self._in_order(filter(self._holds, alike))

    def _read(self, span: Span) -> Iterable[_NodeTuple]:
        session = self._scope.one
        if session is None and self._scope.is_sparse(self._sought.newest):
            return self._read_sorted(span)
        if session is None:
            return self._db.execute(
                span.ordered(_BY_ANCHOR), (span.low, span.high, self._scope.project, self._scope.one)
            )
        low, high = _numbers(self._db, session, span)
        if self._scope.rows:  # a node's: what is below it ends among them
            low, high = max(low, self._scope.rows[0].low), min(high, self._scope.rows[-1].high)
        return self._db.execute(span.ordered(_BY_LAST), (session, low, high))

    def _read_sorted(self, span: Span) -> Iterator[_NodeTuple]:
        asked = (self._scope.project, span.low, span.high)
        for node in self._db.execute(span.ordered(_NODES_SORTED), asked):
            yield from self._db.execute(_OF_NODE, node)

    def look_up(self, span: Span) -> Iterator[Candidate]:
        """Those that the index names, and those it does not know yet; all, if that is too many."""
        sought = self._sought
        most, clue = self.count // WORTHWHILE, sought.clue
        # From the first one up: going down, the index would look on among the rows for one more.
        numbers = clue and index.named(
            self._db, clue, SUMMARIES, SUMMARIES * 2, newest_first=False, most=most
        )
        named = None if numbers is None else [number - SUMMARIES for number in islice(numbers, most + 1)]
        if named is None or len(named) > most:
            yield from self.read(span)
            return
        if sought.newest > sought.upto:
            named += [text for (text,) in self._db.execute(_UNINDEXED_TIERS, (sought.upto,))]
        nodes = {
            node
            for text in named
            for node in self._db.execute(_OF_TIER, (text,))
            if span.low <= node[0] <= span.high and node[2] in self._scope and self._holds(node)
        }
        yield from self._in_order(nodes)

    def _holds(self, node: _NodeTuple) -> bool:
        return self._scope.nodes is None or node[1] in self._scope.nodes

    def _in_order(self, nodes: Iterable[_NodeTuple]) -> Iterable[Candidate]:
        return sorted(map(self._summary, nodes), key=itemgetter(0, 1), reverse=self._newest_first)

    def _summary(self, node: _NodeTuple) -> Candidate:
        anchor, number, session, last, at, terse, thorough = node
        texts = [text for text in (thorough, terse) if text is not None]
        return Candidate(
            Position(anchor, number, texts[0]), session, None, None, at, Seq(last), self._bodies(texts)
        )

    def _bodies(self, texts: Iterable[int]) -> Iterator[str]:
        """The thorough text is looked at before the terse one, and none before it is its turn."""
        for text in texts:
            yield self._db.execute(_BODY, (text,)).get


def _first(candidates: Iterable[Candidate], most: int) -> Iterator[Candidate]:
    """The first `most`, and what stands at the same place as the last of them."""
    anchor = 0
    for number, candidate in enumerate(candidates):
        if number >= most and candidate.position.anchor != anchor:
            return
        anchor = candidate.position.anchor
        yield candidate


def _numbers(db: apsw.Connection, session: SessionId, span: Span) -> tuple[int, int]:
    """A span as numbers of a session's rows, as far as its ends are texts of the session."""
    low, high = (
        db.execute("SELECT seq FROM row WHERE text = ? AND session = ?", (text, session)).get
        for text in (span.low, span.high)
    )
    return low or 0, high or _BEYOND
