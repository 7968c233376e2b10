"""The commands context, compact and strategy: what was prepared, as a picture to be read at a glance."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import anyio
import pytest
from commands import Cli
from harbour import TURNS, memory, talk
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from transcripts import SAMPLES, neutral_file

from lcm_mcp.cli.picture import show_picture
from lcm_mcp.dag import observations
from lcm_mcp.dag.observations import Measured
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Status
from lcm_mcp.service.prepared import Counts, Done, Observation, Section
from lcm_mcp.service.requests import PrepareQuery, Usage
from lcm_mcp.summarizers.model import Answer, Request
from lcm_mcp.transcript import sessions

_TINY = SAMPLES / "tiny-queue-operation.jsonl"
_FILLS = {"preamble": "▒", "summaries": "▓", "quotes": "░", "tail": "█"}


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


@pytest.fixture
def harbour(cli: Cli) -> Cli:
    """A session of many turns, stored and not folded."""

    async def store() -> None:
        async with memory(cli.db) as service:
            await service.append("harbour", talk(TURNS))

    anyio.run(store)
    return cli


def ask(cli: Cli, *queries: PrepareQuery) -> list[Observation]:
    """Prepare as a client does, and give the observations."""

    async def prepare() -> list[Observation]:
        async with memory(cli.db) as service:
            return [await _observed(service, query) for query in queries]

    return anyio.run(prepare)


async def _observed(service: Service, query: PrepareQuery) -> Observation:
    observation = (await service.prepare(replace(query, detail=True))).observation
    assert observation is not None
    return observation


# --- which observation is shown


def test_alone_it_shows_what_the_last_request_showed_and_what_came_since(harbour: Cli) -> None:
    (seen,) = ask(harbour, PrepareQuery("harbour", strategy="lcm", window_tokens=6000))
    before = harbour.answer("stats")["observations"]
    text = harbour.done("context")
    assert f"harbour  {seen.prepared}  compacted  lcm, blocking\n" in text
    assert f"as prepared {seen.made_at[:16].replace('T', ' ')} UTC; no row came since\n" in text
    assert harbour.answer("context")["prepared"] == seen.prepared
    assert harbour.answer("stats")["observations"] == before

    async def go_on() -> None:
        async with memory(harbour.db) as service:
            await service.append("harbour", [{"role": "user", "content": "and pier 41?"}])

    anyio.run(go_on)
    assert "; 1 row came since\n" in harbour.done("context")
    assert harbour.answer("context")["prepared"] == seen.prepared


def test_alone_it_says_that_rows_of_the_last_request_were_removed(harbour: Cli) -> None:
    ask(harbour, PrepareQuery("harbour", window_tokens=32_000))
    end = harbour.answer("rewind", "e20")["removed"] + 20
    said = " ".join(harbour.done("context").split())
    assert "; no row came since, and its last rows were removed" in said
    harbour.done("rewind", f"e{end}")
    assert "; no row came since\n" in harbour.done("context")


def test_with_an_option_or_where_nothing_was_prepared_it_prepares_now(harbour: Cli) -> None:
    assert "as prepared" not in harbour.done("context")
    (seen,) = ask(harbour, PrepareQuery("harbour", window_tokens=32_000))
    assert harbour.answer("context")["prepared"] == seen.prepared
    for options in (["--window", "9000"], ["--model", "claude-sonnet-4-5"], ["--strategy", "lcm"]):
        assert "as prepared" not in harbour.done("context", *options)
    assert harbour.answer("context", "--preamble", "7")["observation"]["sections"][0]["tokens"] == 7


def test_a_look_does_not_stand_for_the_last_request(harbour: Cli) -> None:
    ask(harbour, PrepareQuery("harbour", window_tokens=32_000))
    harbour.done("context", "--window", "9000")
    assert harbour.answer("context")["window_tokens"] == 32_000
    harbour.done("context", "--window", "90000", "--compact", "auto")
    assert harbour.answer("context")["window_tokens"] == 90_000


def test_it_looks_without_changing_anything_unless_told(harbour: Cli) -> None:
    looked = harbour.answer("context", "--window", "6000")
    assert looked["observation"]["cut"] is None
    assert harbour.answer("stats")["cuts"] == {}
    fitted = harbour.answer("context", "--window", "6000", "--compact", "auto")
    assert fitted["observation"]["cut"] is not None
    assert fitted["estimated_input_tokens"] <= 6000 < looked["estimated_input_tokens"]


def test_the_models_name_tells_the_window(harbour: Cli) -> None:
    text = harbour.done("context", "--model", "claude-sonnet-4-5", "--provider", "anthropic")
    assert " of 200,000 tokens (estimate)" in text
    assert "; for claude-sonnet-4-5 of anthropic; window by the model's name" in text.replace("\n", " ")
    assert "of an unknown window; name one with --window or --model\n" in harbour.done(
        "context", "--model", "nobodys-model"
    )


@pytest.mark.parametrize("form", ["messages", "anthropic", "openai"])
def test_it_prints_the_messages_of_a_format_one_a_line(cli: Cli, form: str) -> None:
    cli.done("import", _TINY)
    lines = cli.done("context", "--format", form).splitlines()
    assert lines
    assert all(line.startswith('{"role"') for line in lines)


# --- what counts, beside what was measured


def test_what_a_provider_counted_is_shown_beside_the_estimate_of_that_request(harbour: Cli) -> None:
    (seen,) = ask(harbour, PrepareQuery("harbour", strategy="none", window_tokens=32_000))

    async def count() -> None:
        async with memory(harbour.db) as service:
            found = await service.work.store.read(sessions.find_by_key, "harbour")
            assert found is not None
            counted = Measured(5410, 4000)
            assert await service.work.store.write(observations.measure, found.id, seen.prepared, counted)

    anyio.run(count)
    text = " ".join(harbour.done("context").split())
    assert f"{seen.estimated_input_tokens:,} of 32,000 tokens (estimate), " in text
    assert "; the provider counted 5,410, of them 4,000 cached; " in text
    assert harbour.answer("context")["provider_input_tokens"] == 5410


def test_three_counts_that_agree_calibrate_the_figure_that_counts(harbour: Cli) -> None:
    query = PrepareQuery("harbour", strategy="none", window_tokens=32_000)
    (first,) = ask(harbour, query)
    usage = Usage(first.prepared, first.estimated_input_tokens * 4 // 5)
    *_, last = ask(harbour, *[replace(query, usage=usage)] * 3)
    assert last.calibrated_input_tokens is not None
    assert last.calibrated_input_tokens < last.estimated_input_tokens
    text = " ".join(harbour.done("context").split())
    assert f"{last.calibrated_input_tokens:,} of 32,000 tokens (calibrated), " in text
    assert f"; estimate {last.estimated_input_tokens:,}; it never compacts" in text


# --- the picture


def _section(kind: str, tokens: int, *sources: str, preview: str = "so it begins") -> Section:
    return Section(kind, kind, kind, sources, max(1, len(sources)), tokens * 4, tokens, preview)  # pyright: ignore[reportArgumentType]


def _observation(*sections: Section, window: int | None = 32_000, **changes: object) -> Observation:
    tokens = sum(section.tokens for section in sections)
    made = Observation(
        session="harbour",
        prepared="c1.e160",
        made_at="2026-01-21T10:58:00.000Z",
        status="compacted",
        notes=(),
        strategy="lcm",
        regime="blocking",
        provider=None,
        model=None,
        window_tokens=window,
        window_source="argument" if window else "unknown",
        trigger_tokens=window and window * 9 // 10,
        swap_tokens=window and window * 9 // 10,
        tail_tokens=None,
        summary_tokens=None,
        pin_tokens=None,
        estimated_input_tokens=tokens,
        estimate_method="by bytes",
        calibrated_input_tokens=None,
        bytes_per_token=None,
        provider_input_tokens=None,
        provider_cached_tokens=None,
        rows=160,
        before=Counts(tokens, 0, 160),
        after=Counts(tokens, 0, 160),
        sections=sections,
        cut=None,
        prefix_sha256=None,
        done=None,
    )
    return replace(made, **changes)  # pyright: ignore[reportArgumentType]


def _drawn(seen: Observation, width: int = 80, since: int | None = None) -> list[str]:
    out = io.StringIO()
    show_picture(Console(file=out, width=width, markup=False, emoji=False, highlight=False), seen, since)
    return out.getvalue().splitlines()


def _bar(lines: list[str]) -> str:
    return next(line for line in lines if re.fullmatch(" [▒▓░█·]{10,}", line))


def test_each_section_has_its_share_of_the_bar_and_the_lines_are_where_they_are() -> None:
    sections = [
        _section("preamble", 4_000),
        _section("summaries", 8_000, "#19", "#20"),
        _section("quotes", 10, "e4"),
        _section("tail", 11_990, "e100..e160"),
    ]
    lines = _drawn(_observation(*sections, window=40_000, swap_tokens=30_000))
    bar = _bar(lines)
    assert bar == " " + "▒" * 8 + "▓" * 15 + "░" + "█" * 23 + "·" * 31
    marks = {line.split()[-2]: line for line in lines if line.endswith("▲")}
    assert marks.keys() == {"30,000", "36,000"}
    assert marks["30,000"].index("▲") - 1 == round(78 * 30_000 / 40_000)
    assert marks["36,000"].index("▲") - 1 == round(78 * 36_000 / 40_000)
    assert " ▓ summaries   2 items      8,000 tokens  20%  #19 #20" in lines
    assert " · free                    16,000 tokens  40%" in lines


def test_a_picture_is_drawn_by_the_calibrated_figure_where_there_is_one() -> None:
    sections = [_section("summaries", 8_000, "#1"), _section("tail", 8_000, "e9..e20")]
    seen = _observation(
        *sections,
        calibrated_input_tokens=12_000,
        bytes_per_token=5.3,
        provider_input_tokens=12_100,
        provider_cached_tokens=11_000,
    )
    lines = _drawn(seen)
    said = "12,000 of 32,000 tokens (calibrated), 38%; estimate 16,000; the provider counted 12,100, of them "
    assert said + "11,000 cached; it compacts at 28,800" in " ".join(lines)
    assert " █ tail         1 item      6,000 tokens  19%  e9..e20" in lines
    assert " · free                    20,000 tokens  62%" in lines
    assert _bar(lines) == " " + "▓" * 15 + "█" * 14 + "·" * 49


def test_it_says_what_was_done() -> None:
    seen = _observation(
        _section("tail", 900, "e9..e20"),
        before=Counts(79_000, 0, 160),
        after=Counts(900, 3, 12),
        done=Done(3, 1, 0, ("#1", "#2", "#3", "#4"), (1, 3), 78_000, 2_000, 1.5),
        notes=("condensation-stalled: no run of neighbours is left; summaries show less text instead.",),
    )
    text = "\n".join(_drawn(seen))
    assert "160 rows: 3 summaries and 12 rows verbatim\n" in text
    assert "  before: 79,000 tokens, 0 summaries and 160 rows verbatim\n" in text
    assert "  made: 3 leaves, 1 parent, levels 1, 3; 78,000 → 2,000 tokens, 1.5 s\n" in text
    assert (
        "  condensation-stalled: no run of neighbours is left; summaries show less text\n  instead." in text
    )


def test_a_request_over_its_window_shows_where_the_window_ends() -> None:
    lines = _drawn(_observation(_section("tail", 64_000, "e1..e9"), status="limited"))
    assert _bar(lines) == " " + "█" * 78
    assert any(line.endswith("window 32,000 ▲") for line in lines)
    assert not any("free" in line for line in lines)


_WORDS = st.text(alphabet="ab 港湾の桟橋é\u0301😀\n\x1b[31m", max_size=200)


@given(
    st.lists(st.tuples(st.sampled_from(list(_FILLS)), st.integers(0, 300_000), _WORDS), max_size=6),
    st.sampled_from([None, 1, 4_000, 200_000]),
    st.sampled_from(get_args(Status)),
    _WORDS,
    st.sampled_from([40, 80, 200]),
)
@example([("tail", 10, "港" * 180)], 4_000, "not_needed", "港" * 200, 80)
def test_no_line_is_wider_than_the_screen_and_no_section_is_lost_from_the_bar(
    parts: list[tuple[str, int, str]], window: int | None, status: Status, words: str, width: int
) -> None:
    sections = [
        _section(kind, tokens, *(f"#{n}" for n in range(place * 60 + 1)), preview=preview)
        for place, (kind, tokens, preview) in enumerate(parts)
    ]
    seen = _observation(
        *sections, window=window, status=status, session=f"s{words}", model=words or None, notes=(words,)
    )
    lines = _drawn(seen, width, since=3)
    assert max(map(cell_len, lines)) <= width
    assert "\x1b" not in "".join(lines)
    bar = _bar(lines)
    assert len(bar) == width - 1
    for kind, tokens, _ in parts:
        assert tokens == 0 or _FILLS[kind] in bar
    assert f"  c1.e160  {status}  " in lines[0]
    listed = [line for line in lines if re.match(" [▒▓░█] [a-z]", line)]
    assert len(listed) == len(parts)
    assert all("% " in f"{line} " for line in listed)


# --- compact and strategy


def test_compact_folds_now_and_shows_what_it_came_to(harbour: Cli) -> None:
    text = harbour.done("compact", "lcm")
    assert "compacted  lcm, blocking\n" in text
    assert re.search(r"^  made: \d+ leaves", text, re.MULTILINE)
    assert "as large as all was when it was first forced" in " ".join(text.split())
    assert harbour.answer("list")["total"] > 0
    again = harbour.answer("compact")
    assert (again["status"], again["strategy"]) == ("not_needed", "lcm")
    assert harbour.answer("stats")["cuts"] == {"lcm": 1}
    assert harbour.answer("context")["prepared"] == again["prepared"]


def test_compact_refuses_a_session_that_is_never_compacted(harbour: Cli) -> None:
    harbour.done("strategy", "none")
    assert "Give rolling or lcm" in harbour.refusal("compact")
    assert harbour.answer("compact", "rolling")["status"] == "compacted"
    assert harbour.answer("strategy")["strategy"] == "rolling"


class _Unreachable:
    name = "unreachable"

    async def summarize(self, request: Request) -> Answer:
        raise SummarizerFailed(self.name, "no route to host")


def test_a_compaction_that_failed_is_shown_and_ends_with_1(
    harbour: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcm_mcp.service.Extractive", _Unreachable)
    for strategy in ("lcm", "rolling"):
        ended = harbour("compact", strategy)
        assert (ended.code, ended.err.count("\n")) == (1, 1)
        assert "Summarizer unreachable failed: no route to host. The last cut is shown" in ended.err
        assert f"harbour  c0.e160  failed  {strategy}, blocking\n" in ended.out
    assert harbour.answer("stats")["cuts"] == {}


def test_strategy_says_which_is_on_and_who_chose_it(harbour: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_STRATEGY", "none")
    assert harbour.done("strategy") == "harbour: none, as the settings say.\n"
    assert harbour.done("strategy", "lcm") == "harbour: lcm, selected for this session from now on.\n"
    assert harbour.done("strategy") == "harbour: lcm, selected for this session.\n"
    monkeypatch.setenv("LCM_STRATEGY", "rolling")
    assert harbour.answer("strategy") == {
        "session": "harbour",
        "strategy": "lcm",
        "chosen_by": "session",
        "rows": TURNS * 4,
    }


def test_a_switch_drops_the_running_summary_and_selecting_what_is_on_keeps_it(harbour: Cli) -> None:
    running = harbour.answer("compact", "rolling")
    harbour.done("strategy", "rolling")
    assert harbour.answer("context", "--window", "32000")["observation"]["cut"] == running["cut"]
    harbour.done("strategy", "lcm")
    harbour.done("strategy", "rolling")
    assert harbour.answer("context", "--window", "32000")["observation"]["cut"] is None


def test_a_pass_beside_the_request_is_finished_before_the_command_ends(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LCM_LCM_SWAP_PERCENT", "50")
    talk = neutral_file(tmp_path / "t.jsonl", *("a sentence about the harbour. " * 80 for _ in range(40)))
    cli.done("import", "--no-fold", talk)
    window = cli.answer("stats")["tokens"] * 10 // 7
    options = ("context", "--strategy", "lcm", "--compact", "auto", "--window", str(window))
    assert cli.answer(*options)["status"] == "scheduled"
    assert cli.answer("stats")["cuts"] == {"lcm": 1}
    after = cli.answer(*options)["observation"]
    assert (after["status"], after["after"]["summaries"] > 0) == ("not_needed", True)
