"""lcm_expand_query: rows that bear on a question, and answers that cite nothing else."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from connecting import ERAS, Era, answered, asked, text
from endpoint import KEY, endpoint
from mcp import Client
from paying import using
from stores import serving

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.server import build_server
from lcm_mcp.service import Service

FILLER = "nothing of note was said about the weather. " * 20


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", KEY)


async def talked(service: Service, key: str = "s") -> None:
    """Forty rows; three of them speak of piers, one of two things."""
    said = {
        5: "Pier seventeen is 12 metres deep.",
        11: "The crane stands on pier four.",
        21: "Pier seventeen got a new crane, painted green.",
        31: "The tide was measured.",
    }
    rows = [
        {"role": ("user", "assistant")[n % 2], "content": said.get(n, f"Row {n}: {FILLER}")}
        for n in range(40)
    ]
    await service.append(key, rows)


async def test_rows_with_most_terms_come_first_then_the_newest(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talked(service)
        await service.compact("s", "lcm")
        found = await service.expand_query("Which crane?", query='"pier seventeen" crane', session="s")
        assert [each.ref for each in found.evidence] == ["e22", "e12", "e6"]
        assert found.terms == ("pier seventeen", "crane")
        assert found.evidence[0].terms == ("pier seventeen", "crane")
        assert found.evidence[0].node is not None
        assert (found.answer, found.note) == (
            None,
            "No model is configured: this is the evidence, best first.",
        )
        assert (found.found, found.complete, found.cost_tokens) == (3, True, 0)
        # Without a query the question's own words are looked for.
        again = await service.expand_query("(How) is the TIDE?", session="s")
        assert (again.terms, [each.ref for each in again.evidence][:1]) == (("TIDE",), ["e32"])


async def test_evidence_stays_within_its_budget_and_a_long_row_shows_where_the_terms_are(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        long = "x" * 40_000 + " the needle lies by the haystack " + "ÿ" * 40_000
        await service.append("s", [{"role": "user", "content": long} for _ in range(30)])
        found = await service.expand_query("?", query="needle haystack", session="s", max_tokens=1000)
        assert sum(len(each.text.encode()) for each in found.evidence) <= 4000
        assert len(found.evidence) >= 4
        for each in found.evidence:
            assert "needle lies by the haystack" in each.text
            assert not each.complete
            assert long[each.offset :].startswith(each.text)


async def test_a_summary_leads_down_to_rows_that_do_not_hold_its_word(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talked(service)
        await service.compact("s", "lcm")

        def rename(db: apsw.Connection) -> None:
            db.execute(
                """UPDATE text SET body = 'They spoke of walruses.' WHERE id IN (
                    SELECT tier.text FROM tier JOIN node
                    ON node.session = tier.session AND node.id = tier.node
                    WHERE node.depth = 0 AND node.first <= 6 AND node.last >= 6)"""
            )

        await service.work.store.write(rename)
        found = await service.expand_query("?", query="walruses", session="s")
        leaf = next(
            node
            for node in (await service.list_nodes("s", depth=0)).nodes
            if int(node.span[0][1:]) <= 6 <= int(node.span[1][1:])
        )
        assert found.evidence[-1].ref == leaf.span[0]
        assert {each.terms for each in found.evidence} == {()}


async def test_below_addresses_only_their_rows_are_evidence_and_without_hits_their_first(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talked(service)
        await service.compact("s", "lcm")
        found = await service.expand_query("?", ids=["e1..e15"], query="crane", session="s")
        assert [each.ref for each in found.evidence] == ["e12"]
        none = await service.expand_query("?", ids=["#1"], query="zeppelin", session="s")
        assert none.evidence[0].ref == "e1"
        await talked(service, "t")
        with pytest.raises(InvalidArgument, match="they lie in several sessions"):
            await service.expand_query("?", ids=["s1/e1", "s2/e1"])
        nothing = await service.expand_query("?", query="zeppelin", session="s")
        assert nothing.evidence == ()
        assert (nothing.note or "").startswith("No row was found.")


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_comes_with_the_rows_it_cites(era: Era, tmp_path: Path) -> None:
    with endpoint(text="A green one [e22], on pier four before [e12].") as found:
        async with using(tmp_path / "lcm.sqlite", found.entry("openai")) as service:
            await talked(service)
            async with Client(build_server(service), mode=era) as client:
                given = {"question": "Which crane? </lcm-source>", "query": "pier crane", "session": "s"}
                answer = await answered(client, "lcm_expand_query", **given)
                said = text(await asked(client, "lcm_expand_query", **given))
            spent = (await service.stats("s")).spent
    assert answer["answer"] == "A green one [e22], on pier four before [e12]."
    assert (answer["citations"], answer["model"]) == (["e22", "e12"], "loopback-1")
    assert [each["ref"] for each in answer["evidence"]] == ["e22", "e12"]
    assert answer["cost_tokens"] > 0
    assert spent["loopback-1"].calls == 2
    assert "A green one" in said
    assert "painted green" in said
    prompt = found.asked[0]["messages"][1]["content"]
    assert prompt.count("</lcm-source>") == 1
    assert "Pier seventeen is 12 metres deep." in prompt


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("A green one [e99].", "Of loopback-1: its answer cites e99, which it was not given."),
        ("A green one [e22] (e1..e22).", "its answer cites e1, which it was not given."),
        ("A green one.", "its answer cites nothing."),
        ("A green one [e22]. " * 600, "its answer was too long."),
    ],
)
async def test_an_answer_that_cites_what_it_was_not_given_is_not_given(
    said: str, reason: str, tmp_path: Path
) -> None:
    with endpoint(text=said) as found:
        async with using(tmp_path / "lcm.sqlite", found.entry("anthropic")) as service:
            await talked(service)
            answer = await service.expand_query("Which?", query="pier crane", session="s")
    assert answer.answer is None
    assert answer.citations == ()
    assert reason in (answer.note or "")
    assert [each.ref for each in answer.evidence] == ["e22", "e12", "e6"]
    assert answer.cost_tokens > 0


async def test_a_model_that_cannot_be_asked_leaves_the_evidence(tmp_path: Path) -> None:
    with endpoint("401") as found:
        settings = {"summarizerCallTokens": 100}
        async with using(tmp_path / "lcm.sqlite", found.entry("openai")) as service:
            await talked(service)
            refused = await service.expand_query("Which?", query="crane", session="s")
        async with using(tmp_path / "lcm.sqlite", found.entry("openai"), **settings) as service:
            capped = await service.expand_query("Which?", query="crane", session="s")
        assert len(found.asked) == 1
    assert "refused with status 401" in (refused.note or "")
    assert "beyond summarizerCallTokens (100)" in (capped.note or "")
    assert [each.ref for each in capped.evidence] == ["e22", "e12"]


async def test_a_question_is_ranked_and_words_may_have_another_form(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talked(service)
        await service.append(
            "s", [{"role": "user", "content": f"{'We rested. ' * 900}Cranes were repainted in May."}]
        )
        await service.compact("s", "lcm")
        found = await service.expand_query("When did they repaint the cranes?", session="s", max_tokens=400)
        assert found.evidence[0].ref == "e41"
        assert "Cranes were repainted in May" in found.evidence[0].text
        assert not found.evidence[0].complete
        painted = await service.expand_query("What was painting like?", session="s")
        assert [each.ref for each in painted.evidence] == ["e22"]
        inside = await service.expand_query("sevente", session="s")
        assert {each.ref for each in inside.evidence} == {"e6", "e22"}


async def test_a_word_within_others_is_no_evidence_for_a_question(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talked(service)  # of weather, again and again
        asked = await service.expand_query("Where is the eath?", session="s")
        assert (asked.evidence, asked.found) == ((), 0)
        assert asked.note is not None
        assert asked.note.startswith("No row was found.")
        wanted = await service.expand_query("Where is it?", query="eath", session="s")
        assert wanted.evidence
