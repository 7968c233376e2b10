"""Whether an agent finds what it needs: questions about meetings, and probes of real sessions.

`python -m benchmarks.recall [--meetings FOLDER] [--least-requests N] [PATH …]` takes QMSum's meetings and the
sessions under LCM_BENCHDATA, or in ../shared/data beside the checkout. Without meetings it says so; without
sessions it probes the conversation that the package ships.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio

from benchmarks.conversations import Conversation, demo_conversations, read_conversations
from benchmarks.meetings import DATA, FIRST, MEETINGS, Score, halves, measure, read_meetings
from benchmarks.probes import KINDS, Outcome, probe
from lcm_mcp.service.answers import Strategy

WINDOWS: Final[tuple[int | None, ...]] = (None, 32_000, 16_000)
STRATEGIES: Final[tuple[Strategy, ...]] = ("rolling", "lcm")
LEAST_REQUESTS: Final = 30
_MEETINGS = (
    f"{'meetings':<28} {'queries':>7} {'@1':>6} {'@10':>6} {'@50':>6} {'in 8 KB':>8} {'recall':>7}"
    f" {'ms':>6}\n"
    "@n: share of queries with a relevant row among the first n hits; recall: share of their rows among 50"
)
_PROBES = (
    f"{'window':>7} {'strategy':<8} {'probes':>6} {'shown':>6} {'1 call':>6} {'2 calls':>7}"
    "   within two, by kind"
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what search finds.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE_OR_FOLDER", help="sessions to probe")
    parser.add_argument("--meetings", type=Path, default=MEETINGS)
    parser.add_argument("--least-requests", type=int, default=LEAST_REQUESTS)
    asked = parser.parse_args(arguments)
    began = time.perf_counter()
    anyio.run(_meet, asked.meetings)
    sessions = read_conversations(asked.paths or [DATA], asked.least_requests)
    if not sessions:
        print("No sessions to probe were given or found: this is the conversation that the package ships.\n")
    anyio.run(_probe, sessions or demo_conversations())
    print(f"{time.perf_counter() - began:,.0f} s")


async def _meet(folder: Path) -> None:
    meetings = read_meetings(folder)
    if not meetings:
        print(f"There are no meetings in {folder}.\n")
        return
    print(_MEETINGS)
    chosen, held = [await measure(half) for half in halves(meetings)]
    both = {name: score + held[name] for name, score in chosen.items()}
    for half, scores in (("chosen on", chosen), ("the others", held), ("all", both)):
        for name, score in scores.items():
            print(_score(f"{half}, {name}", score))
    print()


def _score(name: str, score: Score) -> str:
    found = " ".join(f"{score.first(most):>6.3f}" for most in FIRST)
    in_text = f"{sum(score.in_text) / len(score.in_text):.3f}" if score.in_text else ""
    ms = 1000 * sum(score.seconds) / len(score.seconds)
    recall = sum(score.recall) / len(score.recall)
    return f"{name:<28} {len(score.places):>7} {found} {in_text:>8} {recall:>7.3f} {ms:>6.1f}"


async def _probe(conversations: Sequence[Conversation]) -> None:
    print(f"{len(conversations)} sessions\n{_PROBES}")
    for window in WINDOWS:
        for strategy in STRATEGIES if window else STRATEGIES[:1]:
            outcomes = [
                outcome
                for conversation in conversations
                if window is None or conversation.tokens > window
                for outcome in await probe(conversation, window, strategy)
            ]
            print(_outcomes(window, strategy, outcomes), flush=True)
    print()


def _outcomes(window: int | None, strategy: Strategy, outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return f"{window or 'none':>7} {strategy:<8} no session is that long"
    calls = Counter(outcome.calls for outcome in outcomes)
    within = [sum(calls[n] for n in range(most + 1)) / len(outcomes) for most in range(3)]
    kinds = ", ".join(f"{kind} {share}" for kind, share in _by_kind(outcomes).items())
    named = f"{window:,}" if window else "none"
    return (
        f"{named:>7} {strategy:<8} {len(outcomes):>6} {within[0]:>6.3f} {within[1]:>6.3f} {within[2]:>7.3f}"
        f"   {kinds}"
    )


def _by_kind(outcomes: Sequence[Outcome]) -> Mapping[str, str]:
    of_kind = {kind: [each for each in outcomes if each.kind == kind] for kind in KINDS}
    return {
        kind: f"{sum(each.calls is not None for each in found)}/{len(found)}"
        for kind, found in of_kind.items()
        if found
    }


if __name__ == "__main__":
    main()
