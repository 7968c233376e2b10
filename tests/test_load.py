"""Several servers and clients on one file at once: every call is answered and nothing acknowledged is lost.

A small round of the load benchmark, ended by the number of its calls; what took how long is not asked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stores import serving

from benchmarks.held import check
from benchmarks.loading import Told
from lcm_mcp.storage.checkpoints import LONG_PAGES
from lcm_mcp.storage.schema import PAGE_BYTES

ROOT = Path(__file__).resolve().parents[1]
CALLS = 25
CLIENTS = {"stdio": 2, "sse": 3, "http": 3}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a round came to; it prints the same as tables."""
    folder = tmp_path_factory.mktemp("load")
    figures = folder / "figures.json"
    small = ("--stdio", "2", "--connections", "6", "--rows", "1500", "--calls", str(CALLS), "--minutes", "10")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", *small, "--folder", str(folder), "--json", str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "what is wrong: none" in done.stdout
    assert "| append |" in done.stdout
    return json.loads(figures.read_text(encoding="utf-8"))


def test_every_call_is_answered_on_every_way(report: dict[str, Any]) -> None:
    calls = {row["name"].partition(",")[0]: row["calls"] for row in report["calls"]}
    assert {way: calls[way] for way in CLIENTS} == {way: CALLS * many for way, many in CLIENTS.items()}
    assert (report["errors"], report["said"], report["exit_code"]) == ([], [], 0)


def test_what_was_acknowledged_is_there_once_and_in_order_and_the_doctor_agrees(
    report: dict[str, Any],
) -> None:
    kept = report["store"]
    assert kept["acknowledged"] >= 4 * sum(CLIENTS.values())
    assert kept["wrong"] == []
    assert kept["cuts"] > 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what servers take is read from /proc")
def test_the_log_stays_short_and_is_gone_in_the_end(report: dict[str, Any]) -> None:
    assert 0 < max(report["log_bytes"]) < 3 * LONG_PAGES * PAGE_BYTES
    assert not report["store"]["log_left"]
    assert {name for name in report["most_in_thirds"] if name.startswith("memory")} == {
        "memory of stdio 1, MB",
        "memory of stdio 2, MB",
        "memory of HTTP, MB",
    }


# --- the check in the end can fail


async def test_lost_doubled_changed_and_disordered_rows_are_told_of(store_path: Path) -> None:
    def entry(name: str, content: str) -> dict[str, str]:
        return {"role": "user", "entry_id": name, "content": content}

    async with serving(store_path) as service:
        await service.append("load-0", [entry("b", "second"), entry("a", "first"), entry("c", "changed")])
    told = Told("stdio", kept={"load-0": ["a", "b", "c", "d"]}, texts={"a": "first", "c": "third"})
    said = "; ".join((await check(store_path, [told])).wrong)
    assert "1 rows lost, such as d" in said
    assert "out of order" in said
    assert "1 rows say something else, such as c" in said
    told = Told("stdio", kept={"load-0": ["b", "a", "c"]}, texts={"a": "first"})
    assert (await check(store_path, [told])).wrong == []
