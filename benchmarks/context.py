"""What a provider's prefix cache would keep of an agent's requests, by strategy and window.

`python -m benchmarks.context [FILE OR FOLDER …]` replays the sessions it finds there, or under
LCM_BENCH_DATA, or in ../shared/data beside the checkout; where that is absent, the conversation that the
package ships. It prints a table for each session and one for all of them together.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Final

import anyio

from benchmarks.conversations import Conversation, demo_conversations, read_conversations
from benchmarks.replay import NO_WINDOW, SYSTEM_TOKENS, Contender, Ledger, replay

WINDOWS: Final = (16_000, 32_000, 64_000, 200_000)
STRATEGIES: Final[tuple[Contender, ...]] = ("rolling", "lcm", "sliding")
LEAST_REQUESTS: Final = 30
_BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"
_HEAD = (
    f"{'window':>9}  {'strategy':<8}  {'kept':>6}  {'to byte':>7}  {'most':>6}"
    f"  {'cuts':>5}  {'over':>5}  {'tokens sent':>12}  {'ms':>7}"
)
_LEGEND = f"""\
kept     share of the bytes sent that stand, message by message, as in the request before
to byte  the same counted to the last equal byte
most     what could be kept of so many bytes if only new rows were ever sent: most - kept is the price of cuts
         (a cut may also fold rows before they were ever sent)
cuts     how often the beginning of the requests changed
over     requests over the window: the newest unit, which stays whole, is too large for it
ms       median time to prepare a request
plain is the whole history however long: it needs an endless window, and keeps the most there is to keep.
sliding drops the oldest units until a request is below the trigger.
Every request has a system prompt of {SYSTEM_TOKENS:,} tokens, which is kept from the second one on.
"""

Job = tuple[int, Contender]
"""A replay by its window, in tokens, and who answers."""
_PLAIN: Final[Job] = (NO_WINDOW, "plain")


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _asked(arguments)
    found = _conversations(asked.paths, asked.least_requests)
    jobs = _jobs(asked.window or WINDOWS)
    totals = {job: Ledger(job[0]) for job in jobs}
    began = time.perf_counter()
    print(_LEGEND)
    with ProcessPoolExecutor(asked.processes) as pool:
        for conversation in found:
            ledgers = dict(zip(jobs, pool.map(_replay, jobs, repeat(conversation)), strict=True))
            _show(_title(conversation), ledgers)
            totals = {job: totals[job] + ledger for job, ledger in ledgers.items()}
    if len(found) > 1:
        _show(f"all {len(found)} sessions", totals)
    print(f"{time.perf_counter() - began:,.0f} s")


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replay real sessions and count what a cache would keep.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--window", type=int, action="append", help="in tokens; may be given several times")
    parser.add_argument(
        "--least-requests", type=int, default=LEAST_REQUESTS, help="leave sessions out that made fewer"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args(arguments)
    absent = [str(path) for path in asked.paths if not path.exists()]
    if absent:
        parser.error(f"there is no {' and no '.join(absent)}: name transcripts or folders of them")
    return asked


def _conversations(paths: Sequence[Path], least_requests: int) -> list[Conversation]:
    """Those of the paths, of LCM_BENCH_DATA or of the folder beside the checkout, else the demo's."""
    wanted = paths or [Path(os.environ.get("LCM_BENCH_DATA") or _BESIDE_THE_CHECKOUT)]
    found = read_conversations(wanted, least_requests)
    if found:
        return found
    if paths:
        sys.exit(f"No session in {', '.join(map(str, paths))} made {least_requests} requests or more.")
    print("No sessions to replay were given or found: this is the conversation that the package ships.\n")
    return demo_conversations()


def _jobs(windows: Sequence[int]) -> list[Job]:
    return [*((window, strategy) for window in windows for strategy in STRATEGIES), _PLAIN]


def _replay(job: Job, conversation: Conversation) -> Ledger:
    window, contender = job
    return anyio.run(replay, conversation, contender, window)


def _title(conversation: Conversation) -> str:
    return (
        f"{conversation.name}: {conversation.rows:,} rows, {len(conversation.turns):,} requests, "
        f"{conversation.tokens:,} tokens in the end"
    )


def _show(title: str, ledgers: Mapping[Job, Ledger]) -> None:
    plain = ledgers[_PLAIN]
    print(f"{title}\n{_HEAD}")
    for (window, contender), ledger in ledgers.items():
        named = "none" if window == NO_WINDOW else f"{window:,}"
        most = 1 - (plain.sent - plain.kept) / ledger.sent
        print(
            f"{named:>9}  {contender:<8}  {ledger.kept / ledger.sent:>6.3f}"
            f"  {ledger.kept_bytes / ledger.sent:>7.3f}  {most:>6.3f}"
            f"  {ledger.cuts:>5}  {ledger.over:>5}  {ledger.tokens:>12,}  {ledger.ms:>7.1f}"
        )
    print(flush=True)


if __name__ == "__main__":
    main()
