"""The benchmark of memories says what is true of ours and of a forgetful one; what cannot be had is left out.

No clock decides, and nothing is asked of a network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.peers import planting
from benchmarks.peers.asking import Library
from benchmarks.peers.cells import OURS, Cell, Row, markdown, write
from benchmarks.peers.environments import Peer, Skipped, interpreter_of
from benchmarks.peers.measuring import INGEST, ROWS, Plan, column
from benchmarks.peers.speaking import shape

ROOT = Path(__file__).resolve().parents[1]
ENDLESS_S = 10_000.0


def cells_of(printed: str) -> Mapping[str, str]:
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    return {line[0]: line[1] for line in lines if len(line) == 2}


def test_of_ours_the_table_says_that_all_is_kept_and_found(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", "--only", "none", "--rows", "200", "--budget", "10000"],
        cwd=ROOT,
        env={**os.environ, "LCM_BENCH_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert (done.returncode, done.stderr) == (0, "")
    cells = cells_of(done.stdout)
    assert list(cells) == [f"{row.name}, {row.unit}" if row.unit else row.name for row in ROWS]
    planted = [text for name, text in cells.items() if name.startswith("search: ") and "common" not in name]
    assert all(text.endswith("25 of 25 found") for text in planted[:-1])
    assert planted[-1].endswith("50 of 50 found")
    told = {name: text for name, text in cells.items() if not any(unit in name for unit in (", m", ", M"))}
    assert told.pop("kept of the loop's rows") == "200 of 200"
    assert told.pop("history fed again after a restart: rows twice, lost") == "0, 0 of 336"
    assert told.pop("kept of messages that repeat") == "40 of 40"
    assert told.pop("kept of odd input; of what comes after it") == "3 of 3; 60 of 60; raises at null"
    kept, _, fed = told.pop("kept of their rows").partition(" of ")
    assert kept == fed
    assert float(told.pop("database / text")) > 1
    assert all(text.endswith("of 200,000, 0 broken") for text in told.values())
    assert len(told) == 3


def test_what_a_forgetful_memory_loses_is_counted(tmp_path: Path) -> None:
    turns, needles = planting.conversation(200)
    plan = Plan(turns, needles, [planting.repeated(6)], ENDLESS_S)
    cells = column(Library("forgetful", "tests.forgetful", Path(sys.executable)), plan, tmp_path)
    told = {name: cell.text for name, cell in cells.items()}
    assert told["search: rare word"].endswith("25 of 25 found, 0 shown")
    assert told["search: CJK 4"].endswith("0 of 25 found")
    assert told["search: in tool arguments"].endswith("0 of 25 found")
    assert told["search: a common word"] == "none"
    assert told["kept of the loop's rows"] == "150 of 200"  # what stands in calls is dropped
    assert told["its requests: most tokens, broken pairs"] == "1 of 200,000, 1 broken"
    assert told["kept of messages that repeat"] == "2 of 40"
    assert told["kept of their rows"] == "2 of 12"
    assert told["history fed again after a restart: rows twice, lost"] == "200, 16 of 336"
    assert told["kept of odd input; of what comes after it"] == "2 of 3; 48 of 60; raises at a NUL"


def test_a_library_that_cannot_be_had_is_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(Skipped, match="the package registry did not give it"):
        interpreter_of(Peer("openlcm", "0.1.4", "", (3, 11), bare=True), tmp_path)
    with pytest.raises(Skipped, match=r"it needs Python 4\.0 or newer"):
        interpreter_of(Peer("of-the-future", "1", "", (4, 0)), tmp_path)


def test_pairs_are_broken_by_results_without_calls_and_by_calls_without_results() -> None:
    def call(name: str) -> dict[str, object]:
        function = {"name": "Read", "arguments": "{}"}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "function": function}]}

    def result(name: str) -> dict[str, object]:
        return {"role": "tool", "tool_call_id": name, "content": "12345678"}

    whole = [{"role": "user", "content": "abcd"}, call("a"), result("a")]
    assert shape(whole)["broken"] == 0
    assert shape([*whole, call("b")])["broken"] == 0  # it is about to be answered
    assert shape([*whole, result("a")])["broken"] == 1
    assert shape([result("c"), *whole, call("d"), {"role": "user", "content": "and?"}])["broken"] == 2
    assert shape([{"role": "user", "content": "abcd" * 10}])["tokens"] == 10


def test_a_ratio_is_given_of_like_things_and_marked_where_ours_is_worse(tmp_path: Path) -> None:
    rows = (INGEST, Row("search: it", "ms", "less"), Row("kept"))
    ours = {INGEST.name: Cell("100", 100.0), "search: it": Cell("3.00", 3.0), "kept": Cell("2 of 2")}
    theirs = {INGEST.name: Cell("110", 110.0), "search: it": Cell("2.00", 2.0), "kept": Cell("1 of 2")}
    blind = {"search: it": Cell("0.10; 0 of 25 found", 0.1, comparable=False)}
    columns = {OURS: ours, "theirs": theirs, "blind": blind}
    assert markdown(rows, columns)[2:] == [
        f"| {INGEST.name}, messages/s | 100 | 110 | 0.91 | none |  |",
        "| search: it, ms | 3.00 | 2.00 | 1.50 ! | 0.10; 0 of 25 found |  |",
        "| kept | 2 of 2 | 1 of 2 |  | none |  |",
    ]
    write(tmp_path / "figures.json", rows, columns, 400)
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [(each["name"], each["floor"]["name"], round(each["ratio"], 2)) for each in figures] == [
        (INGEST.name, "theirs", 0.91),
        ("search: it", "theirs", 1.5),
    ]
