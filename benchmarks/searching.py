"""Searching a store beside what SQLite could do at best with the same index or with none.

Figure and floors are taken in turns in one thread, by its CPU time: these are reads of cached pages, which
wait for nothing, and so a busy machine hides little. A raw MATCH page asks the store's own index for up to 16
trigrams of the needle, evenly spread, and reads the first rows it names; a scan looks with instr() through
all texts, without folding case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import apsw

from benchmarks.building import Corpus
from benchmarks.generating import ARGUMENT, IDENTIFIER, PUNCTUATION, RARE_PAIR, WHALE
from benchmarks.table import Figure, Floor, Table
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Node
from lcm_mcp.search.stems import Stemmer
from lcm_mcp.service import Service, expanding, ranking, reading, searching
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import sessions

PAGE: Final = 10
MOST_GRAMS: Final = 16
SCAN_ROUNDS: Final = 3
NODE_ROWS: Final = 2_000

_MATCH = """SELECT text.id, text.body, row.session, row.seq FROM
    (SELECT rowid FROM gram WHERE gram MATCH ? ORDER BY rowid DESC LIMIT ?) AS found
    JOIN text ON text.id = found.rowid JOIN row ON row.text = text.id"""
_BM25 = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY bm25(word) LIMIT ?"
_SCAN = "SELECT count(*) FROM text WHERE instr(body, ?)"
_RANGE = """SELECT row.seq, text.body FROM row JOIN text ON text.id = row.text
    WHERE row.session = ? AND row.seq BETWEEN ? AND ?"""
_RANGE_SCAN = f"{_RANGE} AND instr(text.body, ?)"
_NODES = "SELECT id, first, last FROM node WHERE session = ? ORDER BY last DESC LIMIT ?"
_LONG = "SELECT substr(body, 100, 500) FROM text WHERE length(body) > 700 LIMIT 1 OFFSET 300"


@dataclass(frozen=True, slots=True)
class Needle:
    """What is looked for, and the limits of its first page: to a MATCH page, and to a scan."""

    name: str
    pattern: str
    match: float | None = None
    scan: float | None = None


def needles(long: str) -> Sequence[Needle]:
    return (
        Needle("rare", IDENTIFIER, 1.5, 1 / 50),
        Needle("inside an identifier", IDENTIFIER[7:20], 1.5, 1 / 50),
        Needle("in tool arguments", ARGUMENT, 1.5, 1 / 50),
        Needle("punctuation", PUNCTUATION, 1.5, 1 / 50),
        Needle("500 characters", long, 1.5, 1 / 50),
        Needle("CJK 4", WHALE, 1.5, 1 / 50),
        Needle("CJK 2", WHALE[:2], None, 1 / 40),
        Needle("CJK 1", WHALE[0], None, 1 / 40),
        Needle("CJK 1, common", "一"),
        Needle("2 characters, rare", RARE_PAIR, None, 1 / 40),
        Needle("2 characters, absent", "qZ", None, 1 / 40),
        Needle("1 character, absent", "◊", None, 1 / 40),
        Needle("common", "the ", 1),
        Needle("absent", "zyxquokkavw", None, 1 / 50),
        Needle("absent, of common trigrams", "the handthe andthe"),
    )


QUESTIONS: Final = (
    ("rare words", f"where was {IDENTIFIER} explained?"),
    ("a common word", "what was decided about the harbour?"),
    ("common words", "which window and which door did they open?"),
    ("CJK", WHALE),
)
RANKED_MS: Final = 50


async def search_figures(table: Table, corpus: Corpus, service: Service, rounds: int) -> None:
    """First pages in the whole store and in a node, a page of rows and one of nodes."""
    work, store = service.work, service.work.store

    def searched(needle: Needle) -> Callable[[apsw.Connection], None]:
        query = GrepQuery(needle.pattern, session="*", limit=PAGE)

        def job(db: apsw.Connection) -> None:
            _first_page(table, corpus, needle, db, lambda: searching.grep(db, work, query), rounds)

        return job

    long: str = await store.read(lambda db: db.execute(_LONG).get)
    for needle in needles(long):
        await store.read(searched(needle))
    for name, asked in QUESTIONS:
        await store.read(_ranked, table, corpus, work, (name, asked), rounds)
    await store.read(lambda db: _node_figures(table, corpus, service, db, rounds))


def _first_page(
    table: Table,
    corpus: Corpus,
    needle: Needle,
    db: apsw.Connection,
    grep: Callable[[], object],
    rounds: int,
) -> None:
    name = f"grep: {needle.name}"
    if len(needle.pattern) > 2:
        grams = _grams(needle.pattern.casefold())
        figure, floor = in_turns(rounds, grep, lambda: list(db.execute(_MATCH, (grams, PAGE))))
        table.add(Figure(name, corpus.rows, figure, "ms", Floor("raw MATCH page", floor, needle.match)))
    figure, floor = in_turns(SCAN_ROUNDS, grep, lambda: db.execute(_SCAN, (needle.pattern,)).get)
    table.add(Figure(name, corpus.rows, figure, "ms", Floor("instr() scan", floor, needle.scan)))


def _grams(folded: str) -> str:
    """Up to MOST_GRAMS trigrams of a needle as a MATCH expression."""
    every = list(dict.fromkeys(folded[at : at + 3] for at in range(len(folded) - 2)))
    step = max(1.0, (len(every) - 1) / (MOST_GRAMS - 1))
    spread = {every[round(number * step)]: None for number in range(min(MOST_GRAMS, len(every)))}
    return " AND ".join('"' + gram.replace('"', '""') + '"' for gram in spread)


def _ranked(
    db: apsw.Connection, table: Table, corpus: Corpus, work: Workplace, named: tuple[str, str], rounds: int
) -> None:
    """A question's first page, beside a ranking of all that the same index names."""
    name, asked = named
    query = GrepQuery(asked, "words", "*", limit=PAGE)
    match = " OR ".join(term.match for term in Stemmer(db).terms(query.pattern))
    figure, floor = in_turns(
        rounds, lambda: ranking.grep(db, work, query), lambda: list(db.execute(_BM25, (match, PAGE)))
    )
    raw = Floor("raw bm25 page", floor)
    table.add(Figure(f"grep, ranked: {name}", corpus.rows, figure, "ms", raw, RANKED_MS))


def _node_figures(table: Table, corpus: Corpus, service: Service, db: apsw.Connection, rounds: int) -> None:
    """In the folded session: a search in a node, a page of a node's rows, a page of nodes."""
    work, rows = service.work, corpus.rows
    session = sessions.find_by_key(db, corpus.newest)
    assert session is not None
    key, node = session.key, _node_of(db, session.id)
    chain = (session.id, node.first, node.last)
    query = GrepQuery(IDENTIFIER, session=key, node=f"#{node.id}")
    grep, scan = in_turns(
        rounds,
        lambda: searching.grep(db, work, query),
        lambda: list(db.execute(_RANGE_SCAN, (*chain, IDENTIFIER))),
    )
    name = f"grep: rare, in a node of {node.rows:,} rows"
    table.add(Figure(name, rows, grep, "ms", Floor("instr() scan of the range", scan, 2)))
    page = expanding.expand(db, work, f"#{node.id}", key, 6_000, False, None)
    few = (session.id, node.first, node.first + max(0, len(page.rows) - 1))
    expand, read = in_turns(
        rounds,
        lambda: expanding.expand(db, work, f"#{node.id}", key, 6_000, False, None),
        lambda: list(db.execute(_RANGE, few)),
    )
    table.add(Figure("expand: a first page of 6,000 bytes", rows, expand, "ms", Floor("raw range", read)))
    listed, read = in_turns(
        rounds,
        lambda: reading.list_nodes(db, work, key, None, False, 20, None),
        lambda: list(db.execute(_NODES, (session.id, 20))),
    )
    table.add(Figure("list: 20 nodes", rows, listed, "ms", Floor("raw range", read)))
    described, read = in_turns(
        rounds,
        lambda: reading.describe(db, work, f"#{node.id}", key),
        lambda: list(db.execute(_NODES, (session.id, 1))),
    )
    table.add(Figure("describe: a node", rows, described, "ms", Floor("raw range", read)))


def _node_of(db: apsw.Connection, session: sessions.SessionId) -> Node:
    """The node whose rows are nearest to NODE_ROWS."""
    number: int = db.execute(
        "SELECT id FROM node WHERE session = ? ORDER BY abs(rows - ?) LIMIT 1", (session, NODE_ROWS)
    ).get
    node = dag.find_node(db, session, dag.NodeId(number))
    assert node is not None
    return node


def in_turns(rounds: int, *calls: Callable[[], object]) -> Sequence[float]:
    """Median CPU milliseconds of each call, all of them in each round, after one round unmeasured."""
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 1):
        for times, call in zip(taken, calls, strict=True):
            began = time.thread_time()
            call()
            if turn:
                times.append((time.thread_time() - began) * 1000)
    return [median(times) for times in taken]
