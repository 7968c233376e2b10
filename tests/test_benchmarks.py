"""The benchmarks run and say sane things, and preparing costs no more where the history is longer.

No clock decides here: what a preparation costs is counted in steps of SQLite's virtual machine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from counting import counting

from benchmarks.conversations import read_conversations
from benchmarks.filling import KEY, cut, fill, serving
from benchmarks.prepare import STRATEGIES
from benchmarks.replay import SYSTEM, Ledger, Request
from benchmarks.table import Figure, Floor, Table
from lcm_mcp.service.requests import PrepareQuery

ROOT = Path(__file__).resolve().parents[1]
WINDOW = 16_000
TAIL_ROWS = 400
LEAF_TOKENS = 512


def run(*arguments: str, data: Path) -> str:
    """What a benchmark prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "LCM_BENCH_DATA": str(data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def kept_by(printed: str) -> dict[str, list[float]]:
    """The shares in the table, by strategy: kept, to the byte, at most."""
    rows = re.findall(r"^ *[\d,none]+ +(\w+) +([\d.]+) +([\d.]+) +([\d.]+) ", printed, re.MULTILINE)
    return {name: [float(share) for share in shares] for name, *shares in rows}


def test_the_context_benchmark_falls_back_to_the_shipped_conversation(tmp_path: Path) -> None:
    printed = run("benchmarks.context", "--window", "32000", data=tmp_path)
    assert "No sessions to replay were given or found" in printed
    kept = kept_by(printed)
    assert list(kept) == ["rolling", "lcm", "sliding", "plain"]
    assert all(0 < whole <= byte <= 1 and 0 < most <= 1 for whole, byte, most in kept.values())
    assert min(kept["rolling"][0], kept["lcm"][0]) >= kept["sliding"][0]
    assert kept["plain"][0] == kept["plain"][2] > max(kept["rolling"][0], kept["lcm"][0])


def test_the_prepare_benchmark_compares_every_length_with_the_first(tmp_path: Path) -> None:
    lengths = ("--rows", "20000", "--rows", "2000")
    printed = run("benchmarks.prepare", *lengths, "--rounds", "3", data=tmp_path)
    rows = re.findall(r"^(\w+) +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) ", printed, re.MULTILINE)
    assert [row[:2] for row in rows] == [(s, n) for s in ("rolling", "lcm") for n in ("2,000", "20,000")]
    assert all(float(figure) > 0 for row in rows for figure in row[2:])
    assert [row[3] for row in rows if row[1] == "2,000"] == ["1.00", "1.00"]
    assert "plain INSERT" in printed


def test_the_store_benchmark_sets_every_figure_beside_its_floor_and_keeps_them(tmp_path: Path) -> None:
    kept = tmp_path / "figures.json"
    sizes = ("--rows", "4000", "--rows", "2000", "--part", "search", "--part", "requests")
    printed = run("benchmarks.store", *sizes, "--rounds", "2", "--json", str(kept), data=tmp_path)
    figures = json.loads(kept.read_text(encoding="utf-8"))
    names = {figure["name"] for figure in figures}
    searched = {
        "grep: rare",
        "grep: common",
        "grep: CJK 1",
        "grep: CJK 2",
        "grep: CJK 4",
        "grep: punctuation",
    }
    assert searched | {"append of a row, median", "prepare: spliced", "list: 20 nodes"} <= names
    assert all(figure["name"] in printed and figure["value"] > 0 for figure in figures)
    for figure in figures:
        floor = figure["floor"]
        if floor is not None:
            assert figure["ratio"] == pytest.approx(figure["value"] / floor["value"])
        if floor is not None and floor["limit"] is not None:
            assert figure["held"] == (figure["ratio"] <= floor["limit"])
    (import_,) = {figure["exponent"] for figure in figures if figure["name"].startswith("import: a row read")}
    assert isinstance(import_, float)


def test_the_import_benchmark_sets_a_repeated_session_beside_its_floors(tmp_path: Path) -> None:
    kept = tmp_path / "figures.json"
    size = ("--megabytes", "1.5", "--rounds", "1", "--json", str(kept))
    printed = run("benchmarks.importing", *size, data=tmp_path)
    figures = json.loads(kept.read_text(encoding="utf-8"))
    assert len(figures) == 4
    assert all(figure["name"] in printed and figure["ratio"] > 0 for figure in figures)
    assert {figure["rows"] for figure in figures} == {3 * 197}  # every repetition has rows of its own


def test_an_exponent_is_the_slope_over_the_sizes() -> None:
    table = Table()
    table.add(*[Figure("square", rows, rows**2 * 7, "ms") for rows in (10, 100, 1000)])
    table.add(*[Figure("constant", rows, 3, "ms", Floor("none", 2, 1.5)) for rows in (10, 1000)])
    table.add(Figure("alone", 10, 3, "ms", Floor("none", 3, 0.9)))
    slopes = {figure.name: table.exponent(figure) for figure in table.figures}
    assert slopes == {"square": pytest.approx(2), "constant": pytest.approx(0), "alone": None}
    assert [figure.held for figure in table.figures] == [None, None, None, True, True, False]


def test_a_path_without_a_long_enough_session_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.context", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == f"No session in {tmp_path} made 30 requests or more.\n"


# --- what is counted


def lines(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_a_request_is_made_before_each_message_of_the_model(tmp_path: Path) -> None:
    call: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x.py"}
    file = lines(
        tmp_path / "talk.jsonl",
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look"}], "message_id": "m1"},
        {"role": "assistant", "content": [call], "message_id": "m1"},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "done", "message_id": "m2"},
        {"role": "user", "content": "never answered"},
    )
    (tmp_path / "notes.txt").write_text("no transcript", encoding="utf-8")
    (found,) = read_conversations([tmp_path], 2)
    assert [[row.role for row in turn] for turn in found.turns] == [
        ["user"],
        ["assistant", "assistant", "user"],
    ]
    assert read_conversations([file], 3) == []


def test_of_snapshots_of_one_session_the_longest_counts(tmp_path: Path) -> None:
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n}"} for n in range(8)]
    for folder, length in (("early", 4), ("late", 8), ("stale", 6)):
        (tmp_path / folder).mkdir()
        lines(tmp_path / folder / "talk.jsonl", {"session": "talk"}, *said[:length])
    (found,) = read_conversations([tmp_path], 1)
    assert (found.name, len(found.turns), found.rows) == ("talk", 4, 7)


def request(*messages: str, cut: str, tokens: int = 10) -> Request:
    return Request([message.encode() for message in messages], tokens, cut, 0.001)


def test_a_cache_keeps_the_whole_messages_that_stand_as_before() -> None:
    ledger = Ledger(window=15)
    ledger.add(request("one", "two", cut="c0"))
    ledger.add(request("one", "two", "three", cut="c0", tokens=20))
    ledger.add(request("one more", "three", cut="c1"))
    system = len(SYSTEM)
    assert ledger.sent == 3 * system + 6 + 11 + 13
    assert ledger.kept == 2 * system + 6
    assert ledger.kept_bytes == ledger.kept + len("one")
    assert (ledger.requests, ledger.cuts, ledger.over, ledger.tokens) == (3, 1, 1, 40)


# --- what preparing costs


async def costs_of_a_request(db: Path, rows: int) -> list[int]:
    """The steps of appending a row and preparing, by strategy, after a cut in a session of so many rows."""
    costs: list[int] = []
    with counting() as counted:
        async with serving(db, LEAF_TOKENS) as service:
            await fill(service, rows, TAIL_ROWS)
            for strategy in STRATEGIES:
                observed = (await cut(service, strategy, WINDOW)).observation
                assert observed is not None
                assert observed.status == "compacted"
                counted.steps = counted.scanned = 0
                said = [
                    {"role": "assistant", "content": "Done.", "entry_id": f"done {strategy}"},
                    {"role": "user", "content": "And now the next one, please."},
                ]
                page = await service.prepare(PrepareQuery(KEY, append=said, window_tokens=WINDOW))
                assert (page.status, page.next_cursor) == ("not_needed", None)
                assert counted.scanned == 0
                costs.append(counted.steps)
    return costs


async def test_a_request_costs_the_same_whatever_the_length_of_its_history(tmp_path: Path) -> None:
    short_rolling, short_lcm = await costs_of_a_request(tmp_path / "short.sqlite", 1_000)
    long_rolling, long_lcm = await costs_of_a_request(tmp_path / "long.sqlite", 20_000)
    assert 1_000 < short_rolling == long_rolling
    # Within its budget lcm may show a few summaries more of one history than of the other.
    assert 1_000 < long_lcm == pytest.approx(short_lcm, rel=0.1)


async def test_the_pages_after_the_first_are_not_made_again_and_are_what_they_would_be(
    tmp_path: Path,
) -> None:
    with counting() as counted:
        async with serving(tmp_path / "pages.sqlite") as service:
            await fill(service, 4_000, 4_000)
            counted.steps = 0
            first = await service.prepare(PrepareQuery(KEY, compact="never"))
            whole, counted.steps = counted.steps, 0
            assert first.next_cursor is not None
            second = await service.prepare(PrepareQuery(KEY, cursor=first.next_cursor))
            assert 0 < 10 * counted.steps < whole
    async with serving(tmp_path / "pages.sqlite") as other:
        assert second == await other.prepare(PrepareQuery(KEY, cursor=first.next_cursor))
        assert second.messages
