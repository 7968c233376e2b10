"""lcm_expand_query: from a question to the rows that bear on it, and to an answer where a model can give one.

A question is ranked as lcm_grep ranks it. Where a query says which words to look for, or ranking finds
nothing, each term is searched literally, and rows are taken with most terms first, then the newest. A summary
that is found leads down the DAG to the rows under it. As many rows are taken as the budget holds; so a model,
or the reader where there is none, sees the words themselves. What a model says is given only if all it cites
is among them.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import FREE, Cost, Node
from lcm_mcp.errors import InvalidArgument, SummarizerFailed
from lcm_mcp.ids import NodeAddress, NodeId, Seq, parse_address
from lcm_mcp.search import ranked as ranked_search
from lcm_mcp.search.match import Matcher, Needles, Place, literal, words
from lcm_mcp.search.scan import Found, Wanted, scan
from lcm_mcp.search.scope import Scope
from lcm_mcp.search.stems import COMMON_WORDS
from lcm_mcp.service.passes import Progress
from lcm_mcp.service.spending import PassAccount
from lcm_mcp.service.times import iso
from lcm_mcp.service.workplace import Chain, Cover, Workplace, addressed, chain_of, wanted_session
from lcm_mcp.summarizers.answering import Excerpt, cited, fault_of, prompt_for_question
from lcm_mcp.summarizers.metered import Metered
from lcm_mcp.tokens import BYTES_PER_TOKEN, TokenCount, utf8_length
from lcm_mcp.transcript import store
from lcm_mcp.transcript.model import Role, Row
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen

MOST_TERMS = 12
LEAST_TERM_CHARACTERS = 3
"""Of a question; the words of a query are all taken."""
HITS_PER_TERM = 200
OPENING_ROWS = 3
"""Of a summary that holds a term which no row under it does."""
SEARCH_S = 5.0
ANSWER_S = 40.0
PIECES = 6
"""A row takes at most the budget divided by this: one long result does not crowd out all others."""
LEAST_PIECE_BYTES = 240
AROUND_BYTES = 100
"""What an excerpt takes beside its text."""
NO_PLACE = Place(0, 0)
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_EDGES = "?!.,;:()[]{}'`“”„«»…"


@frozen
class Evidence:
    """A row that bears on a question, or the piece of it around the terms; offset counts characters.

    complete: it is the whole row. node is the one that covers it, terms are those that it holds.
    """

    ref: str
    role: Role
    at: str
    text: str
    offset: int
    complete: bool
    removed: bool
    node: str | None
    terms: tuple[str, ...]


@frozen
class QueryAnswer:
    """An answer with the rows it cites; or, where answer is null, all evidence that the budget holds.

    complete is false where a term had more hits than were looked at, or time ran out. tokens are of the
    evidence, cost_tokens those of the model's calls. note says why there is no answer, or no evidence.
    """

    session: str
    question: str
    terms: tuple[str, ...]
    answer: str | None
    citations: tuple[str, ...]
    model: str | None
    evidence: tuple[Evidence, ...]
    tokens: int
    found: int
    complete: bool
    cost_tokens: int
    cost_usd: float | None
    note: str | None
    behind: str | None = None


@frozen
class _Looked:
    """What a search in the store brought: the evidence, and how many rows it is of."""

    session: Session
    evidence: Sequence[Evidence]
    found: int
    complete: bool


async def expand_query(
    work: Workplace,
    question: str,
    ids: Sequence[str] | None,
    query: str | None,
    key: str | None,
    max_tokens: int,
) -> QueryAnswer:
    """Answer a question from rows found by terms, below some addresses or in a whole session."""
    terms = _terms(question, query)
    asked = question if query is None else None
    looked = await work.store.read(_look, work, tuple(ids or ()), asked, terms, key, max_tokens)
    bare = QueryAnswer(
        session=looked.session.key,
        question=question,
        terms=terms,
        answer=None,
        citations=(),
        model=None,
        evidence=tuple(looked.evidence),
        tokens=sum(map(_weight, looked.evidence)) // BYTES_PER_TOKEN,
        found=looked.found,
        complete=looked.complete,
        cost_tokens=0,
        cost_usd=0.0,
        note=None,
    )
    if not looked.evidence:
        return replace(
            bare, note="No row was found. Try other words for it: lcm_grep, or query with several."
        )
    if not work.models:
        return replace(bare, note="No model is configured: this is the evidence, best first.")
    return await _answered(work, looked.session, bare, TokenCount(max_tokens))


async def _answered(work: Workplace, session: Session, bare: QueryAnswer, limit: TokenCount) -> QueryAnswer:
    """The answer of the first model whose answer may be believed; the evidence alone where there is none."""
    excerpts = [Excerpt(each.ref, each.role, each.text) for each in bare.evidence]
    prompt = prompt_for_question(bare.question, excerpts, limit, redacting=work.settings.redact_outgoing)
    account = PassAccount(work, session.id, Progress(), time.monotonic() + ANSWER_S)
    cost, reasons = FREE, list[str]()
    for model in work.models:
        try:
            answer = await Metered(model, account).answer(prompt)
        except SummarizerFailed as failed:
            reasons.append(str(failed))
            continue
        cost += answer.cost
        text = readable(answer.text).strip()
        fault = fault_of(text, excerpts, limit)
        if fault is None:
            return _with_answer(bare, text, cited(text, excerpts), model.name, cost)
        reasons.append(f"Of {model.name}: {fault}.")
    note = f"There is no answer: {' '.join(reasons)} This is the evidence, best first."
    return replace(bare, cost_tokens=cost.tokens, cost_usd=cost.usd, note=note)


def _with_answer(
    bare: QueryAnswer, text: str, citations: tuple[str, ...], model: str, cost: Cost
) -> QueryAnswer:
    evidence = tuple(each for each in bare.evidence if each.ref in citations)
    return replace(
        bare,
        answer=text,
        citations=citations,
        model=model,
        evidence=evidence,
        tokens=sum(map(_weight, evidence)) // BYTES_PER_TOKEN,
        cost_tokens=cost.tokens,
        cost_usd=cost.usd,
    )


def _terms(question: str, query: str | None) -> tuple[str, ...]:
    """The words of a query, quoted ones together; without one those of the question that say something."""
    found = [quoted or word for quoted, word in _TERM.findall(readable(question if query is None else query))]
    if query is None:
        found = [
            word for word in (term.strip(_EDGES) for term in found) if len(word) >= LEAST_TERM_CHARACTERS
        ]
        found = [word for word in found if word.casefold() not in COMMON_WORDS] or found
    return tuple({term.casefold(): term for term in reversed(found)}.values())[::-1][:MOST_TERMS]


# --- what bears on it


def _look(
    db: apsw.Connection,
    work: Workplace,
    ids: Sequence[str],
    asked: str | None,
    terms: Sequence[str],
    key: str | None,
    max_tokens: int,
) -> _Looked:
    session, chains, scopes = _scopes(db, work, ids, key)
    search = _Search(db, session, terms)
    if asked is not None:
        question = ranked_search.question(db, readable(asked), work.meaning)
        for scope in scopes:
            search.rank(scope, question, removed=bool(ids))
        ranked = list(search.answering)
    else:  # only what is to be looked for as it is written may stand within a longer word
        for scope in scopes:
            search.run(scope, removed=bool(ids))
        ranked = search.ranked()
    if not ranked and chains:
        ranked = [seq for chain in chains for seq in islice(_rows_of(chain), OPENING_ROWS * PIECES)]
    evidence = tuple(_within(search, ranked, max_tokens * BYTES_PER_TOKEN))
    return _Looked(session, evidence, len(ranked), search.complete)


def _scopes(
    db: apsw.Connection, work: Workplace, ids: Sequence[str], key: str | None
) -> tuple[Session, Sequence[Chain], Sequence[Scope]]:
    """Where to look: the rows and summaries below each address, else the whole session."""
    if not ids:
        session = wanted_session(db, work, key)
        return session, (), [Scope(db, session=session)]
    chains: list[Chain] = []
    scopes: list[Scope] = []
    named: dict[int, Session] = {}
    for id in ids:
        session, address = addressed(db, work, parse_address(id), key)
        named[session.id] = session
        chain = chain_of(db, session, address)
        below = frozenset[NodeId]()
        if isinstance(address, NodeAddress):
            below = dag.with_descendants(db, session.id, address.node)
        chains.append(chain)
        rows = chain.path.between(chain.first, chain.last)
        scopes.append(Scope(db, session=session, rows=rows, nodes=below))
    if len(named) > 1:
        raise InvalidArgument(
            "ids", "they lie in several sessions", "Ask for those of one session at a time."
        )
    return next(iter(named.values())), chains, scopes


def _rows_of(chain: Chain) -> Iterator[Seq]:
    for part in chain.path.between(chain.first, chain.last):
        yield from map(Seq, range(part.low, part.high + 1))


class _Search:
    """The rows that hold terms, or stand under a summary that does.

    answering are those that ranking found, best first, with the place in each that shows most.
    """

    def __init__(self, db: apsw.Connection, session: Session, terms: Sequence[str]) -> None:
        self._db = db
        self._session = session
        self._matchers = {term: literal(term, case_sensitive=False) for term in terms}
        self._deadline = time.monotonic() + SEARCH_S
        self._own: dict[Seq, set[str]] = defaultdict(set)
        self._led: dict[Seq, set[str]] = defaultdict(set)
        self._cover = Cover(db, session)
        self.answering: dict[Seq, Place] = {}
        self.complete = True

    def rank(self, scope: Scope, question: ranked_search.Question, *, removed: bool) -> None:
        left = max(0.0, self._deadline - time.monotonic())
        newest = ranked_search.newest_text(self._db)
        wanted = Wanted(words(question.text, case_sensitive=False), include_removed=removed)
        ranked = ranked_search.rank(self._db, scope, wanted, question, (0, HITS_PER_TERM), newest, left)
        self.complete = self.complete and ranked.whole and ranked.count <= HITS_PER_TERM
        for hit in ranked.found:
            if hit.seq is not None:
                self.answering.setdefault(hit.seq, hit.place)
        for hit in ranked.found:
            node = None if hit.node is None else dag.find_node(self._db, self._session.id, hit.node)
            if node is not None and not any(node.first <= seq <= node.last for seq in self.answering):
                chain = chain_of(self._db, self._session, NodeAddress(None, node.id))
                self.answering.update(dict.fromkeys(islice(_rows_of(chain), OPENING_ROWS), NO_PLACE))

    def run(self, scope: Scope, *, removed: bool) -> None:
        # First what holds all of them: each term alone may have more hits than are looked at.
        if len(self._matchers) > 1:
            every = Needles(tuple(term.casefold() for term in self._matchers), case_sensitive=False)
            for hit in self._hits(scope, every, removed=removed):
                self._note(hit, self._matchers)
        for term, matcher in self._matchers.items():
            hits = self._hits(scope, matcher, removed=removed)
            for hit in hits:
                self._note(hit, (term,))
            self._walk_down(term, hits)

    def ranked(self) -> list[Seq]:
        """The rows, those with most terms first, then those under most of them, then the newest."""
        rows = {*self._own, *self._led}
        return sorted(rows, key=self._rank, reverse=True)

    def evidence(self, seq: Seq, most_bytes: int) -> Evidence:
        row = store.read_row(self._db, self._session.id, seq)
        assert row is not None
        places = {term: place for term, found in self._matchers.items() if (place := found.find(row.text))}
        shown = self.answering.get(seq, NO_PLACE)
        text, offset = _piece(row, list(places.values()) or [shown], most_bytes)
        return Evidence(
            ref=f"e{seq}",
            role=row.role,
            at=iso(row.at),
            text=text,
            offset=offset,
            complete=len(text) == len(row.text),
            removed=seq not in self._cover.path,
            node=self._cover.node_of(seq),
            terms=tuple(places),
        )

    def _rank(self, seq: Seq) -> tuple[int, int, int]:
        own, led = self._own.get(seq, set[str]()), self._led.get(seq, set[str]())
        return len(own), len(own | led), seq

    def _hits(self, scope: Scope, matcher: Matcher, *, removed: bool) -> Sequence[Found]:
        left = max(0.0, self._deadline - time.monotonic())
        wanted = Wanted(matcher, include_removed=removed)
        scanned = scan(self._db, scope, wanted, HITS_PER_TERM, None, left)
        self.complete = self.complete and scanned.finished and not scanned.more
        return scanned.found

    def _note(self, hit: Found, terms: Iterable[str]) -> None:
        if hit.seq is not None:
            self._own[hit.seq].update(terms)

    def _walk_down(self, term: str, hits: Sequence[Found]) -> None:
        """From summaries that hold a term to rows, where no row and no summary below them does."""
        rows = [hit.seq for hit in hits if hit.seq is not None]
        found = (dag.find_node(self._db, self._session.id, hit.node) for hit in hits if hit.node is not None)
        nodes = [node for node in found if node is not None]
        for node in nodes:
            if any(node.first <= seq <= node.last for seq in rows):
                continue
            if any(_stands_under(other, node) for other in nodes):
                continue
            chain = chain_of(self._db, self._session, NodeAddress(None, node.id))
            for seq in islice(_rows_of(chain), OPENING_ROWS):
                self._led[seq].add(term)


def _stands_under(one: Node, other: Node) -> bool:
    return one.depth < other.depth and other.first <= one.first and one.last <= other.last


def _within(search: _Search, ranked: Sequence[Seq], most_bytes: int) -> Iterator[Evidence]:
    """Evidence of the best rows, as many as the budget holds."""
    piece = max(LEAST_PIECE_BYTES, most_bytes // PIECES)
    left = most_bytes
    for seq in ranked:
        if left < LEAST_PIECE_BYTES + AROUND_BYTES:
            return
        found = search.evidence(seq, min(piece, left - AROUND_BYTES))
        left -= _weight(found)
        yield found


def _weight(found: Evidence) -> int:
    return utf8_length(found.text) + AROUND_BYTES


def _piece(row: Row, places: Sequence[Place], most_bytes: int) -> tuple[str, int]:
    """A row's text, or of a longer one the piece that shows most terms, and where that starts."""
    if utf8_length(row.text) <= most_bytes:
        return row.text, 0
    starts = sorted(place.start for place in places)
    best = max(starts, key=lambda start: sum(start <= other < start + most_bytes // 2 for other in starts))
    start = max(0, min(best - most_bytes // 4, len(row.text) - 1))
    return row.text[start : start + most_bytes].encode()[:most_bytes].decode(errors="ignore"), start
