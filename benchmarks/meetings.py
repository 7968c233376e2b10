"""Questions about real meetings, and whether ranked search finds what they are about, beside plain BM25.

A row is a speaker's turn, with the name in front. A query of QMSum names the turns that answer it; found is
any of them among the first hits, or in the first 8 KB of the answer's text. The figures of ranking are chosen
on one half of the meetings (choosing.py) and reported on both. Plain is SQLite's FTS5 with stemming, any of
the question's words but those that every question has, ranked by bm25, over the same texts.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

import apsw

from benchmarks.filling import serving
from lcm_mcp.search.meaning import Meaning, is_installed
from lcm_mcp.search.stems import Stemmer
from lcm_mcp.service import Service
from lcm_mcp.tools import lcm_grep

DATA: Final = Path(
    os.environ.get("LCM_BENCH_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
MEETINGS: Final = DATA / "qmsum" / "val"
FIRST: Final = (1, 10, 50)
ANSWER_BYTES: Final = 8_192
_REF: Final = re.compile(r"^e(\d+) ", re.MULTILINE)
_PLAIN: Final = "SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY bm25(plain), rowid LIMIT ?"


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    relevant: frozenset[int]


@dataclass(frozen=True, slots=True)
class Meeting:
    """texts are rows 1, 2, …"""

    name: str
    texts: Sequence[str]
    queries: Sequence[Query]


@dataclass(slots=True)
class Score:
    """For each query: at which hit the first relevant row stood, what share of all stood among 50 hits."""

    places: list[int] = field(default_factory=list[int])
    recall: list[float] = field(default_factory=list[float])
    in_text: list[bool] = field(default_factory=list[bool])
    seconds: list[float] = field(default_factory=list[float])

    def add(self, rows: Sequence[int], query: Query) -> None:
        places = [place for place, row in enumerate(rows, 1) if row in query.relevant]
        self.places.append(min(places, default=10**9))
        self.recall.append(len(places) / len(query.relevant))

    def first(self, most: int) -> float:
        return fmean(place <= most for place in self.places)

    def __add__(self, other: Score) -> Score:
        return Score(
            self.places + other.places,
            self.recall + other.recall,
            self.in_text + other.in_text,
            self.seconds + other.seconds,
        )


def read_meetings(folder: Path) -> Sequence[Meeting]:
    """The meetings of a folder of QMSum, by name; queries that name no turns are left out."""
    return [_meeting(file) for file in sorted(folder.glob("*.json"))]


def halves(meetings: Sequence[Meeting]) -> tuple[Sequence[Meeting], Sequence[Meeting]]:
    """The half that is chosen on and the other, by the SHA-256 of their names: no choice of anybody."""
    order = sorted(meetings, key=lambda meeting: sha256(meeting.name.encode()).digest())
    middle = (len(order) + 1) // 2
    return order[:middle], order[middle:]


def _meeting(file: Path) -> Meeting:
    told = json.loads(file.read_text(encoding="utf-8"))
    asked = [*told["specific_query_list"], *told["general_query_list"]]
    return Meeting(
        file.stem,
        [f"{turn['speaker']}: {turn['content']}" for turn in told["meeting_transcripts"]],
        [Query(each["query"], _rows(spans)) for each in asked if (spans := each.get("relevant_text_span"))],
    )


def _rows(spans: Sequence[tuple[str, str]]) -> frozenset[int]:
    """Turns are numbered from 0, rows from 1."""
    return frozenset(row for first, last in spans for row in range(int(first) + 1, int(last) + 2))


async def measure(meetings: Sequence[Meeting]) -> Mapping[str, Score]:
    """Ours, semantic too where that is installed, and plain; each meeting a session and corpus of its own."""
    with TemporaryDirectory(prefix="lcm-bench-") as folder:
        async with serving(Path(folder) / "meetings.sqlite") as service:
            for meeting in meetings:
                await service.append(
                    meeting.name, [{"role": "user", "content": text} for text in meeting.texts]
                )
            await service.index()
            scores = {"ranked": await _asked(service, meetings)}
            if is_installed():
                semantic = Service(replace(service.work, meaning=Meaning()))
                await semantic.index()
                scores["ranked, semantic"] = await _asked(semantic, meetings)
    scores["plain bm25"] = plain = Score()
    for meeting in meetings:
        _plain(meeting, plain)
    return scores


async def _asked(service: Service, meetings: Sequence[Meeting]) -> Score:
    score = Score()
    for meeting in meetings:
        for query in meeting.queries:
            await _ask(service, meeting, query, score)
    return score


async def _ask(service: Service, meeting: Meeting, query: Query, score: Score) -> None:
    arguments = lcm_grep.GrepArguments(
        pattern=query.text, mode="words", session=meeting.name, scope="rows", limit=max(FIRST)
    )
    began = time.process_time()
    page = await lcm_grep.TOOL.run(service, arguments)
    score.seconds.append(time.process_time() - began)
    score.add([int(hit.ref.removeprefix("e")) for hit in page.hits], query)
    beginning = lcm_grep.TOOL.render(page).encode()[:ANSWER_BYTES].decode(errors="ignore")
    score.in_text.append(any(int(row) in query.relevant for row in _REF.findall(beginning)))


def _plain(meeting: Meeting, score: Score) -> None:
    db = apsw.Connection("")
    try:
        db.execute("CREATE VIRTUAL TABLE plain USING fts5(body, tokenize='porter unicode61')")
        db.executemany("INSERT INTO plain(body) VALUES(?)", [(text,) for text in meeting.texts])
        for query in meeting.queries:
            match = " OR ".join(term.match for term in Stemmer(db).terms(query.text))
            began = time.process_time()
            found = [row for (row,) in db.execute(_PLAIN, (match, max(FIRST)))]
            score.seconds.append(time.process_time() - began)
            score.add(found, query)
    finally:
        db.close()
