"""The ladder: what is asked for on each level, what counts as an answer, and what is stored in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.dag.model import Summary
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.ids import Seq, TextId
from lcm_mcp.summarizers.extractive import Extractive
from lcm_mcp.summarizers.ladder import (
    TRUNCATED,
    TRUNCATED_TOKENS,
    Task,
    climb,
    shown_tokens,
    source_text,
    truncate,
)
from lcm_mcp.summarizers.model import (
    Answer,
    Child,
    FoldSource,
    NodesSource,
    Request,
    RowsSource,
    Summarizer,
)
from lcm_mcp.tokens import TokenCount, text_tokens
from lcm_mcp.transcript.model import Row

HEADER = "[lcm:summary #999999 depth 0 span e1..e4]"
SOURCE_TOKENS, TARGET = 2000, 100


def of_tokens(count: int, letter: str = "a") -> str:
    return letter * (4 * count)


@dataclass
class Scripted:
    """Answers one thing after the other; an answer that is an error is a call that failed."""

    answers: Sequence[str | SummarizerFailed]
    name: str = "scripted"
    asked: list[Request] = field(default_factory=list[Request])

    async def summarize(self, request: Request) -> Answer:
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, SummarizerFailed):
            raise answer
        return Answer(answer, self.name)

    @property
    def levels(self) -> list[int]:
        return [request.level for request in self.asked]


DOWN = SummarizerFailed("scripted", "no network")


def row(seq: int, text: str) -> Row:
    return Row(Seq(seq), "user", 0, None, None, TextId(seq), text, ())


def task(
    source_tokens: int = SOURCE_TOKENS,
    target: int = TARGET,
    text: str | None = None,
    limit: int | None = None,
) -> Task:
    rows = [row(n, of_tokens(source_tokens // 4, letter="wxyz"[n - 1])) for n in range(1, 5)]
    source = RowsSource(rows if text is None else [row(1, text)])
    hard = None if limit is None else TokenCount(limit)
    return Task(source, TokenCount(source_tokens), TokenCount(target), HEADER, "e1..e4", hard)


async def climbed(*chain: Summarizer, wanted: Task | None = None) -> Summary:
    found = await climb(chain, wanted or task())
    assert found is not None
    return found


# --- answers that count


async def test_a_short_answer_is_taken_as_it_is() -> None:
    summarizer = Scripted([of_tokens(200)])
    found = await climbed(summarizer)
    assert (found.primary.text, found.primary.level, found.primary.model) == (of_tokens(200), 1, "scripted")
    assert found.primary.tokens == shown_tokens(HEADER, of_tokens(200))
    assert found.rich is None
    (asked,) = summarizer.asked
    assert (asked.level, asked.target_tokens, asked.limit_tokens) == (1, TARGET, 4 * TARGET)


async def test_a_long_answer_is_asked_for_once_more_and_kept_as_the_rich_tier() -> None:
    summarizer = Scripted([of_tokens(201, "t"), of_tokens(90, "s")])
    found = await climbed(summarizer)
    assert found.rich is not None
    assert (found.primary.text, found.primary.level) == (of_tokens(90, "s"), 2)
    assert (found.rich.kind, found.rich.text, found.rich.level) == ("rich", of_tokens(201, "t"), 1)
    assert [(asked.level, asked.limit_tokens) for asked in summarizer.asked] == [(1, 400), (2, 200)]


@pytest.mark.parametrize("second", ["", "  \n", of_tokens(201), of_tokens(400), DOWN])
async def test_a_long_answer_stays_alone_where_no_smaller_one_comes(second: str | SummarizerFailed) -> None:
    summarizer = Scripted([of_tokens(300), second])
    found = await climbed(summarizer)
    assert (found.primary.text, found.primary.level, found.rich) == (of_tokens(300), 1, None)
    assert len(summarizer.asked) == 2


async def test_a_smaller_answer_counts_by_tokens_not_by_characters() -> None:
    thorough, terse = "漢" * 400, of_tokens(150)  # 300 tokens in 400 characters, 150 tokens in 600
    found = await climbed(Scripted([thorough, terse]))
    assert found.primary.text == terse
    assert found.rich is not None


async def test_an_answer_is_made_fit_to_be_stored() -> None:
    found = await climbed(Scripted(["  two\x00words \ud800 \n"]))
    assert found.primary.text == "two\u2400words \ufffd"


# --- answers that do not count


@pytest.mark.parametrize("first", ["", " \n\t", of_tokens(401), of_tokens(5000)])
async def test_a_bad_answer_climbs_to_level_2(first: str) -> None:
    summarizer = Scripted([first, of_tokens(90, "s")])
    found = await climbed(summarizer)
    assert (found.primary.text, found.primary.level, found.rich) == (of_tokens(90, "s"), 2, None)
    assert summarizer.levels == [1, 2]


async def test_level_2_has_the_same_budget_unless_the_answer_was_not_smaller_than_its_source() -> None:
    over_budget, not_smaller = Scripted([of_tokens(1000), "s"]), Scripted([of_tokens(2000), "s"])
    small = task(source_tokens=300, target=100)
    for summarizer, wanted in ((over_budget, task()), (not_smaller, small)):
        await climbed(summarizer, wanted=wanted)
    assert over_budget.asked[1].limit_tokens == 400
    assert not_smaller.asked[1].limit_tokens == 150


async def test_sizes_are_compared_as_shown_header_included() -> None:
    # 295 tokens of text are fewer than 300; with their header they are not.
    summarizer = Scripted([of_tokens(295), of_tokens(295)])
    found = await climbed(summarizer, wanted=task(source_tokens=300, target=100))
    assert summarizer.levels == [1, 2]
    assert summarizer.asked[1].limit_tokens == 150
    assert found.primary.level == 3


@pytest.mark.parametrize("second", ["", of_tokens(401), of_tokens(3000)])
async def test_after_two_bad_answers_the_source_is_cut_mechanically(second: str) -> None:
    summarizer = Scripted(["", second])
    found = await climbed(summarizer)
    assert (found.primary.level, found.primary.model, found.rich) == (3, "truncation", None)
    assert TRUNCATED in found.primary.text
    assert summarizer.levels == [1, 2]


# --- the output budget


async def test_an_answer_at_the_budget_is_taken_on_both_levels_and_one_just_over_it_climbs() -> None:
    full, over = of_tokens(4 * TARGET), of_tokens(4 * TARGET) + "a"
    for answers, level, text in (
        ([full, DOWN], 1, full),
        ([over, full], 2, full),
        ([over, over], 3, None),
    ):
        found = await climbed(Scripted(answers))
        assert found.primary.level == level
        assert text is None or found.primary.text == text


async def test_a_hard_limit_is_the_budget_of_both_levels() -> None:
    full, over = of_tokens(TARGET), of_tokens(TARGET) + "a"
    for answers, level in (([full], 1), ([over, full], 2), ([over, over], 3)):
        summarizer = Scripted(answers)
        found = await climbed(summarizer, wanted=task(limit=TARGET))
        assert (found.primary.level, found.rich) == (level, None)
        assert text_tokens(found.primary.text) <= TARGET
        assert {(asked.target_tokens, asked.limit_tokens) for asked in summarizer.asked} == {(TARGET, TARGET)}


async def test_a_text_within_a_hard_limit_is_not_asked_for_again_smaller() -> None:
    summarizer = Scripted([of_tokens(390)])
    found = await climbed(summarizer, wanted=task(limit=400))
    assert (found.primary.text, found.rich, summarizer.levels) == (of_tokens(390), None, [1])


async def test_within_a_hard_limit_an_answer_still_has_to_be_smaller_than_its_source() -> None:
    summarizer = Scripted([of_tokens(295), of_tokens(120)])
    found = await climbed(summarizer, wanted=task(source_tokens=300, target=500, limit=500))
    assert [(asked.level, asked.limit_tokens) for asked in summarizer.asked] == [(1, 500), (2, 150)]
    assert (found.primary.text, found.primary.level) == (of_tokens(120), 2)


# --- calls that fail


async def test_a_failed_call_goes_to_the_next_of_the_chain() -> None:
    first, second, third = Scripted([DOWN], "a"), Scripted([DOWN], "b"), Scripted(["short"], "c")
    found = await climbed(first, second, third)
    assert (found.primary.text, found.primary.model) == ("short", "c")
    assert [each.levels for each in (first, second, third)] == [[1], [1], [1]]


async def test_a_bad_answer_is_no_reason_to_ask_another_summarizer() -> None:
    first, second = Scripted(["", ""], "a"), Scripted([], "b")
    assert (await climbed(first, second)).primary.level == 3
    assert second.asked == []


@pytest.mark.parametrize("answers", [[DOWN], ["", DOWN]])
async def test_with_no_summarizer_left_the_summary_failed_and_nothing_is_cut(
    answers: list[str | SummarizerFailed],
) -> None:
    with pytest.raises(SummarizerFailed, match="no network"):
        await climb([Scripted(answers)], task())


async def test_without_any_summarizer_the_summary_failed() -> None:
    with pytest.raises(SummarizerFailed, match="no summarizer is configured"):
        await climb([], task())


# --- level 3


def test_truncation_keeps_the_beginning_and_the_end_with_a_pointer_between() -> None:
    wanted = task()
    found = truncate(wanted)
    assert found is not None
    head, pointer, end = found.primary.text.split("\n")
    source = source_text(wanted.source)
    assert source.startswith(head)
    assert source.endswith(end)
    assert len(head) > 3 * len(end) > 0
    assert pointer == f"{TRUNCATED} lcm_expand e1..e4 gives these rows word for word."


def test_a_source_too_small_for_any_text_becomes_the_pointer_alone() -> None:
    found = truncate(task(source_tokens=50))
    assert found is not None
    assert found.primary.text == f"{TRUNCATED} lcm_expand e1..e4 gives these rows word for word."


def test_a_source_smaller_than_a_pointer_has_no_summary() -> None:
    assert truncate(task(source_tokens=20)) is None


def test_a_limit_smaller_than_a_pointer_leaves_no_summary() -> None:
    assert truncate(task(limit=10)) is None


@given(st.text(max_size=4000), st.integers(1, 6000), st.none() | st.integers(1, 3000))
def test_truncation_is_smaller_than_its_source_and_within_its_limit(
    text: str, source_tokens: int, limit: int | None
) -> None:
    wanted = task(source_tokens, text=text, limit=limit)
    found = truncate(wanted)
    if found is None:
        assert source_tokens <= 40 or (limit is not None and limit <= 20)
        return
    assert limit is None or text_tokens(found.primary.text) <= limit
    assert found.primary.tokens < source_tokens
    assert TRUNCATED in found.primary.text
    if "\n" in found.primary.text:
        assert found.primary.tokens <= min(TRUNCATED_TOKENS, source_tokens // 2, limit or TRUNCATED_TOKENS)


# --- laws

ANSWERS = st.lists(
    st.one_of(
        st.builds(of_tokens, st.integers(0, 900)), st.text(max_size=300), st.sampled_from([DOWN, "", " "])
    ),
    min_size=3,
    max_size=3,
)


@given(ANSWERS, st.integers(64, 3000), st.integers(32, 400), st.booleans())
def test_whatever_is_answered_a_summary_says_something_and_is_smaller(
    answers: list[str | SummarizerFailed], source_tokens: int, target: int, hard: bool
) -> None:
    target = min(target, source_tokens // 2)
    limit = target if hard else 4 * target
    wanted = task(source_tokens, target, limit=target if hard else None)
    summarizer = Scripted(answers)
    try:
        found = anyio.run(climb, [summarizer], wanted)
    except SummarizerFailed:
        assert DOWN in answers[:2]
        return
    assert len(summarizer.asked) <= 2
    assert found is not None
    for tier in (found.primary, found.rich):
        if tier is not None:
            assert tier.text.strip()
            assert tier.tokens == shown_tokens(HEADER, tier.text) < source_tokens
            assert text_tokens(tier.text) <= limit or (tier.level == 3 and not hard)
    assert not (hard and found.rich)
    if found.rich is not None:
        assert found.primary.tokens < found.rich.tokens


@given(st.lists(st.text(max_size=400), min_size=1, max_size=8))
def test_the_extractive_summarizer_never_needs_truncation_for_a_leaf_worth_making(texts: list[str]) -> None:
    rows = [row(n, text + " and the tests pass." * 40) for n, text in enumerate(texts, 1)]
    tokens = text_tokens("".join(each.text for each in rows))
    wanted = Task(RowsSource(rows), TokenCount(max(tokens, 256)), TokenCount(128), HEADER, "e1..e8")
    found = anyio.run(climb, [Extractive()], wanted)
    assert found is not None
    assert found.primary.level in (1, 2)


def test_a_source_of_summaries_is_cut_like_one_of_rows() -> None:
    source = NodesSource([Child("e1..e4", of_tokens(600, "p")), Child("e5..e9", of_tokens(600, "q"))])
    found = truncate(Task(source, TokenCount(1200), TokenCount(100), HEADER, "e1..e9"))
    assert found is not None
    assert found.primary.text.startswith("e1..e4: ppp")
    assert found.primary.text.endswith("qqq")
    assert "lcm_expand e1..e9" in found.primary.text


def test_a_fold_is_cut_from_the_summaries_before_it_to_its_newest_row() -> None:
    summary, rows = Child("e1..e4", of_tokens(600, "p")), [row(5, "then"), row(6, of_tokens(600, "q"))]
    source = FoldSource([summary], rows)
    assert source_text(source) == f"e1..e4: {summary.text}\n\ne5 user: then\n\ne6 user: {rows[1].text}"
    assert source_text(FoldSource([], rows)) == source_text(RowsSource(rows))
    assert source_text(FoldSource([summary], [])) == source_text(NodesSource([summary]))
    found = truncate(Task(source, TokenCount(1200), TokenCount(200), HEADER, "e1..e6", TokenCount(200)))
    assert found is not None
    assert found.primary.text.startswith("e1..e4: ppp")
    assert found.primary.text.endswith("qqq")
    assert text_tokens(found.primary.text) <= 200
