"""Ranked search: questions as they are written find what answers them, whatever is in the index by then."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import put, serving
from test_context_docs import MARKER, functions_of

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.search import meaning, ranking, vectors, words, worthwhile
from lcm_mcp.search.stems import Stemmer, Term, label
from lcm_mcp.service import Service, recalling
from lcm_mcp.service.answers import HitPage
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.storage import schema
from lcm_mcp.transcript.sealing import readable

QUESTIONS = 10_000 if "LCM_LONG" in os.environ else 300
FILL = "We went on with other things, as one does on such days, and nothing came of it in the end."
TALK = [
    "Ann Lee: What colour shall the boat's hull be painted in the end?",
    "Bob: It will be dark green, as the harbour master asked us for, and we keep to that.",
    *[f"Ann Lee: {FILL} {n}" for n in range(40)],
    "Bob: the boats were painted by us, all of them, in that long summer before the war began",
    *[f"Bob: {FILL} {n}" for n in range(40)],
    "Ann Lee: 白鯨記を東京都で読みました、とても長い本です",
    'Carl (The Cook, Galley): potatoes \'quoted "twice" NEAR(x) AND col:umn* {x} ^y -z',
]


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


async def ask(service: Service, question: str, **wanted: Any) -> HitPage:
    return await service.grep(replace(GrepQuery(question, "words", "talk"), **wanted))


def refs(page: HitPage) -> list[str]:
    return [hit.ref for hit in page.hits]


@contextmanager
def by_index(*, few: int = 0) -> Generator[None]:
    """The word index is asked, however few rows there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worthwhile, "FEW_ROWS", few)
        yield


@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("few", [0, 1000])
async def test_a_question_finds_its_answer_whether_the_index_has_it_or_not(
    store_path: Path, fed: bool, few: int
) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        if fed:
            await service.index()
        with by_index(few=few):
            assert refs(await ask(service, "Which color? paint the BOATS' hulls (please)", limit=1)) == ["e1"]
            assert refs(await ask(service, "What did Bob say of painting boats?", limit=1)) == ["e43"]
            assert "e2" in refs(await ask(service, "what did the harbour masters ask", limit=1))
            assert refs(await ask(service, "鯨記")) == refs(await ask(service, "京")) == ["e84"]
            assert refs(await ask(service, "the cook's potato", limit=1)) == ["e85"]
            assert refs(await ask(service, "zyxwv")) == []


async def test_a_hit_shows_the_place_that_holds_most_of_the_question(store_path: Path) -> None:
    long = f"{FILL * 40} The harbour, ééé — 東京. {FILL * 40} The harbour gate opened at NOON. {FILL * 9}"
    async with serving(store_path) as service:
        await service.append("talk", said(long, *[FILL] * 12, *TALK))
        (hit,) = (await ask(service, "When do the harbour gates open?", limit=1)).hits
        assert "harbour gate opened at NOON" in hit.snippet
        assert long[hit.offset :].startswith("harbour gate")
        (hit,) = (await ask(service, "東京: ÉÉÉ harbor harbour", limit=1)).hits
        assert long[hit.offset :].startswith("harbour, ééé — 東京")


async def test_filters_hold_and_pages_go_on_while_the_store_grows(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        whole = refs(await ask(service, "nothing came of other things", limit=50))
        seen: list[str] = []
        page = await ask(service, "nothing came of other things")
        while len(seen) < 50:
            seen += refs(page)
            await service.append("talk", said(f"Bob: {FILL}"))
            page = await ask(service, "nothing came of other things", cursor=page.next_cursor)
        assert seen == whole
        assert page.total == 80
        roles = await ask(service, "harbour master paints", role="assistant")
        assert refs(roles) == ["e2"]
        assert not (await ask(service, "painted", since="2200-01-01T00:00:00Z")).hits
        await service.rewind("e5", "talk")
        assert refs(await ask(service, "painted in the long summer")) == ["e1"]
        removed = await ask(service, "painted in the long summer", include_removed=True, limit=1)
        assert [(hit.ref, hit.removed) for hit in removed.hits] == [("e43", True)]


async def test_summaries_are_ranked_too_and_lead_to_their_rows(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK * 4))
        await service.compact("talk", "lcm")
        page = await ask(service, "which colour is the hull", limit=50)
        assert {hit.kind for hit in page.hits} == {"row", "summary"}
        assert page.hits[0].kind == "row"
        node = next(hit.ref for hit in page.hits if hit.kind == "summary")
        inside = await ask(service, "which colour is the hull", node=node, scope="rows")
        assert inside.hits


async def test_a_text_of_several_sessions_is_one_hit(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.fork("talk", at="e40", new_session="other")
        for few in (0, 1000):
            with by_index(few=few):
                page = await ask(service, "harbour master", session="*")
                assert [(hit.session, hit.also) for hit in page.hits[:1]] == [("talk", ("other",))]
                assert len({hit.ref for hit in page.hits}) == len(page.hits)


async def test_forms_of_a_word_that_the_stemmer_leaves_apart_are_found(store_path: Path) -> None:
    async with serving(store_path) as service:
        texts = ["we identify them", "a quote of 2021 was sent", "the mark, the care, we decide, 東京都庁"]
        await service.append("talk", said(*texts, *[FILL] * 9))
        assert refs(await ask(service, "user identification")) == ["e1"]
        (hit,) = (await ask(service, "the quotation")).hits
        assert (hit.ref, texts[1][hit.offset :][:5]) == ("e2", "quote")
        for other in ("marketplace", "car", "decision", "202134", "東京都庁舎の隣人"):
            assert refs(await ask(service, other)) == ["e3"] * (other[0] == "東"), other


@pytest.mark.parametrize(
    ("mode", "case"), [("regex", False), ("words", True)], ids=["expressions", "upper and lower case"]
)
async def test_what_cannot_be_ranked_is_refused(store_path: Path, mode: Any, case: bool) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said("some words"))
        query = GrepQuery("words", mode, "talk", order="relevance", case_sensitive=case)
        with pytest.raises(InvalidArgument, match="Give newest or oldest"):
            await service.grep(query)


PIECES = [
    *"\"'*^:(){}[]-+,.;\\/|&%_#@!?~`$<>=\0\x1a\n\t",
    *(
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "word:",
        "rowid",
        "🦆",
        "👩‍👩‍👧",
        "é",
        "e\u0301",
        "ß",
        "İ",
        "ſ",
        "ﬁ",
        "鯨",
        "東京都",
        "한국어",
    ),
    *("boat", "painted", "harbour", "the", "x" * 90, "９", "²", "\ud800", "\u202e", "\u0345", "ǅ"),
]


def said_by(stems: frozenset[str], term: Term) -> bool:
    """One character of a language without spaces is found in its pairs."""
    begins = "*" in term.match
    return term.stem in stems or (begins and any(stem.startswith(term.stem) for stem in stems))


async def test_no_question_raises_or_is_taken_for_syntax(store_path: Path) -> None:
    luck, db = Random("questions"), apsw.Connection("")
    stemmer = Stemmer(db)
    rows = [(f"e{place}", frozenset(stemmer.stems(text))) for place, text in enumerate(TALK, 1)]
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.index()
        for number in range(QUESTIONS):
            count = luck.choice((1, 2, 5, 20, 500))
            question = "".join(luck.choice(PIECES) + luck.choice(("", " ")) for _ in range(count))[:500]
            with by_index(few=(number % 2) * 1000):
                page = await ask(service, question, limit=50)
            terms = stemmer.terms(readable(question))
            meant = {ref for ref, stems in rows if any(said_by(stems, term) for term in terms)}
            formed = meant | {ref for ref, stems in rows if any(stemmer.meant(stem, terms) for stem in stems)}
            assert set(refs(page)) <= formed
            # Further forms count wherever rows are read; the index chooses rows by those of the stemmer.
            assert len(meant) <= (page.total or 0) <= len(formed)
            assert number % 2 == 0 or page.total == len(formed)
    db.close()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_every_word_of_a_text_but_short_numbers_is_found_in_the_index(text: str) -> None:
    text = text.encode("utf-8", "replace").decode().replace("\0", "�")
    db = apsw.Connection("")
    try:
        schema.migrate(db)
        put(db, text)
        db.execute("INSERT INTO session(key, source, created_at) VALUES('s', 'native', 0)")
        words.feed(db)
        for term in Stemmer(db).terms(text):
            if term.stem.isdigit() and len(term.stem) < 4:
                continue
            assert words.holding(db, [term], 1, 1, 9) == [1]
        words.forget(db, [1])
        assert not list(db.execute("SELECT * FROM word_instance"))
    finally:
        db.close()


def held(db: apsw.Connection, word: str) -> Sequence[int]:
    return words.holding(db, Stemmer(db).terms(word), 1, 2**62, 9)


async def test_what_is_forgotten_is_in_the_word_index_no_more(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.append("secret", said("The xylophone is buried below the third oak", FILL))
        await service.index()
        assert len(await service.work.store.read(held, "xylophones")) == 1
        await service.forget("secret")
        assert not await service.work.store.read(held, "xylophones")
        assert await service.work.store.read(words.faults, 100) == []
        assert refs(await ask(service, "xylophone")) == []


async def test_the_doctor_finds_a_false_word_index_and_repair_makes_it_anew(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.index()
        assert await service.work.store.read(words.faults, 100) == []

        def spoil(db: apsw.Connection) -> None:
            db.execute("INSERT INTO word(rowid, words) VALUES(3, 'something else')")
            db.execute("INSERT INTO word(rowid, words) VALUES(9999, 'nowhere')")

        await service.work.store.write(spoil)
        found = await service.doctor()
        assert [check.name for check in found.checks if not check.ok] == ["index"]
        await service.mend()
        assert await service.work.store.read(words.faults, 100) == []
        assert refs(await ask(service, "harbour masters", limit=1)) == ["e2"]


def test_names_that_open_a_text_are_speakers() -> None:
    assert label("Ann Lee: I think") == "Ann Lee"
    assert label("Hon. Bo Rodríguez (Leader of the House): no") == "Hon. Bo Rodríguez (Leader of the House)"
    assert label("Mr. Chris d'Entremont: yes") == "Mr. Chris d'Entremont"
    assert label("the fix is simple: wait") == label("[call Bash]\nx: y") == label("12:30") == ""
    assert label("." * 100_000) == ""


async def test_an_earlier_store_is_fed_anew_and_answers_meanwhile(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("talk", said(*TALK))
        await service.index()
        await service.work.store.write(words.reset)
        with by_index():
            assert refs(await ask(service, "harbour masters", limit=1)) == ["e2"]
        async with service.running():
            with anyio.fail_after(20):
                while await service.work.store.read(words.behind):
                    await anyio.sleep(0.01)
        with by_index():
            assert refs(await ask(service, "harbour masters", limit=1)) == ["e2"]


def test_the_page_on_recall_names_tests_that_exist_and_the_figures_in_force() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs" / "recall.md").read_text(encoding="utf-8")
    markers = [(match[1], match[2]) for match in MARKER.finditer(page)]
    assert page.count("<!--") == len(markers) > 4
    assert [f"{file}::{name}" for file, name in markers if name not in functions_of(file)] == []
    figures = ranking.FIGURES
    for figure in (
        f"and {figures.context:g} times BM25 of the rows around it: {figures.around} before",
        f"counting {figures.fade} of the next, and {figures.around} after",
        f"at {figures.after} of that",
        f"counts {figures.named:g} times where",
        f"fewer than {figures.few_words} words counts {figures.few}",
        f"more than {figures.long:g} times the usual length is taken for one of {figures.long:g}",
        f"within {figures.apart} of a better hit comes later ({figures.again} for",
        f"only the best {worthwhile.KEPT_ROWS} are",
        f"Up to {worthwhile.FEW_ROWS:,} rows are read",
        f"the {worthwhile.READ_ROWS} that hold most",
        f"text over {words.MOST_CHARACTERS:,} characters",
        f"first {meaning.MOST_CHARACTERS:,} characters {8 * meaning.BYTES} bits",
        f"newest {vectors.TAIL_TEXTS} are looked at",
        f"the newest {vectors.SCANNED:,}, which",
        f"The {vectors.NEAREST} nearest are fused",
        f"a row counts 1 over {figures.fused} more than its place",
        f"{figures.near} over {figures.fused} more than",
        f"({recalling.MOST_CHARACTERS} characters each, {recalling.MOST_TOKENS:,} tokens in",
    ):
        assert figure in page, figure
