"""The benchmark of recall runs on meetings and on a conversation, and says what was found beside BM25; the
figures of ranking are what their rule chooses on one half of the meetings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import choosing
from benchmarks.meetings import Meeting, Query, halves, read_meetings
from lcm_mcp.search.ranking import FIGURES

ROOT = Path(__file__).resolve().parents[1]
TURNS = [
    ("Ann", "Let us begin with the budget"),
    ("Bob", "the budget is four thousand"),
    *[("Cid", f"some other matter, number {n}") for n in range(20)],
    ("Ann", "and the lid will be made of cedar wood, because it smells well"),
]
MEETING = {
    "topic_list": [],
    "general_query_list": [{"query": "Summarize the whole meeting", "answer": ""}],
    "specific_query_list": [
        {"query": "What did Ann say of cedars?", "answer": "", "relevant_text_span": [["22", "22"]]},
        {"query": "How large is their budget?", "answer": "", "relevant_text_span": [["0", "1"]]},
    ],
    "meeting_transcripts": [{"speaker": speaker, "content": text} for speaker, text in TURNS],
}


def test_the_benchmark_of_recall_says_what_was_found(tmp_path: Path) -> None:
    meetings = tmp_path / "qmsum" / "val"
    meetings.mkdir(parents=True)
    for name in ("a", "b"):
        (meetings / f"{name}.json").write_text(json.dumps(MEETING), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.recall"],
        cwd=ROOT,
        env={**os.environ, "LCM_BENCH_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        r"^the others, ranked +2 +1\.000 +1\.000 +1\.000 +1\.000 +1\.000 ", done.stdout, re.MULTILINE
    )
    assert re.search(r"^all, plain bm25 +4 +1\.000 ", done.stdout, re.MULTILINE)
    assert "the conversation that the package ships" in done.stdout
    probes = re.findall(
        r"^ *(none|[\d,]+) (rolling|lcm) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) ", done.stdout, re.M
    )
    assert [window for window, *_ in probes] == ["none", "32,000", "32,000", "16,000", "16,000"]
    for window, _, count, shown, one, two in probes:
        assert int(count) >= 2
        assert 0 < float(shown) <= float(one) <= float(two) <= 1
        assert window != "none" or float(shown) == 1


def meeting(name: str, answer: int) -> Meeting:
    texts = [f"{turn['speaker']}: {turn['content']}" for turn in MEETING["meeting_transcripts"]]
    return Meeting(name, texts, [Query("What did Ann say of the cedar budget?", frozenset([answer]))])


def test_the_figures_of_ranking_are_chosen_without_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "DRAWN", 12)
    meetings = [meeting(f"m{number}", 23 if number % 2 else 2) for number in range(9)]
    half, other = halves(meetings)
    assert {each.name for each in half}.isdisjoint(each.name for each in other)
    assert abs(len(half) - len(other)) == 1
    assert halves(meetings[::-1]) == (half, other)
    told: list[str] = []
    chosen = choosing.choose(half, told.append)
    assert told[0].startswith("5 meetings, 5 questions: ")
    for name, values in {**choosing.WORDS, **choosing.MEANINGS}.items():
        assert getattr(chosen, name) in values
    assert (
        choosing.choose(halves([*half, *(meeting(each.name, 9) for each in other)])[0], told.append) == chosen
    )


@pytest.mark.skipif("LCM_LONG" not in os.environ, reason="it takes minutes: set LCM_LONG")
def test_the_figures_in_force_are_those_that_the_rule_chooses(shared_data: Path) -> None:
    meetings = read_meetings(shared_data / "qmsum" / "val")
    assert choosing.choose(halves(meetings)[0], print) == FIGURES
