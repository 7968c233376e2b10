"""The benchmark of recall runs on meetings and on a conversation, and says what was found beside BM25."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

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
