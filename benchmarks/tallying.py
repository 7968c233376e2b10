"""What a load came to: tables in Markdown, and the same for a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.held import Held
from benchmarks.loading import KINDS, Told
from benchmarks.watching import Watch

_MB = 1e6


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of one kind, or of one way: how many, how many a second, and how long they took."""

    name: str
    calls: int
    a_second: float
    p50_ms: float
    p99_ms: float
    most_ms: float
    errors: int


@dataclass(frozen=True, slots=True)
class Report:
    """What happened between two moments of the monotonic clock; exit_code is the HTTP server's."""

    told: Sequence[Told]
    began: float
    ended: float
    watch: Watch
    store: Held
    exit_code: int
    said: Sequence[str]

    @property
    def errors(self) -> Sequence[tuple[str, str]]:
        return [error for each in self.told for error in each.errors]

    @property
    def held(self) -> bool:
        return not (self.errors or self.store.wrong or self.said or self.exit_code or self.store.log_left)

    def by_kind(self) -> Sequence[Row]:
        calls = [call for each in self.told for call in each.answered]
        return [
            self._row(
                kind,
                [call.seconds for call in calls if call.kind == kind],
                sum(failed == kind for failed, _ in self.errors),
            )
            for kind in KINDS
        ]

    def by_way(self) -> Sequence[Row]:
        ways = dict.fromkeys(each.way for each in self.told)
        of = {way: [each for each in self.told if each.way == way] for way in ways}
        return [
            self._row(
                f"{way}, {len(each)} clients of {_least_and_most(each)} calls",
                [call.seconds for one in each for call in one.answered],
                sum(len(one.errors) for one in each),
            )
            for way, each in of.items()
        ]

    def total(self) -> Row:
        every = [call.seconds for each in self.told for call in each.answered]
        return self._row("all", every, len(self.errors))

    def _row(self, name: str, seconds: Sequence[float], errors: int) -> Row:
        spent = sorted(1000 * each for each in seconds)
        p50, p99, most = (_quantile(spent, share) for share in (0.5, 0.99, 1.0))
        a_second = len(spent) / max(1e-9, self.ended - self.began)
        return Row(name, len(spent), a_second, p50, p99, most, errors)

    def taken(self) -> Sequence[tuple[str, Sequence[float]]]:
        """Of the log (MB) and each server (resident MB, open files) the most in each third of the time."""
        thirds = self.watch.thirds()
        named = list(self.watch.servers.items())
        resident = [
            (
                f"memory of {name}, MB",
                [_most(s.resident.get(server, 0) for s in part) / _MB for part in thirds],
            )
            for server, name in named
        ]
        files = [
            (f"open files of {name}", [_most(s.files.get(server, 0) for s in part) for part in thirds])
            for server, name in named
        ]
        return [("log, MB", [_most(s.wal for s in part) / _MB for part in thirds]), *resident, *files]

    def for_a_program(self) -> dict[str, Any]:
        """The figures for a program."""
        rows = [*self.by_kind(), *self.by_way(), self.total()]
        return {
            "held": self.held,
            "seconds": self.ended - self.began,
            "calls": [asdict(row) for row in rows],
            "errors": list(self.errors),
            "said": list(self.said),
            "exit_code": self.exit_code,
            "store": asdict(self.store),
            "cpu_s": self.watch.cpu_s(),
            "compacted": sum(each.compacted for each in self.told),
            "most_in_thirds": dict(self.taken()),
            "log_bytes": [sample.wal for sample in self.watch.samples],
        }


def tables(report: Report) -> Sequence[str]:
    """The report in Markdown."""
    store, seconds, total = report.store, report.ended - report.began, report.total()
    each = 1000 * report.watch.cpu_s() / max(1, total.calls)
    verdict = "none" if report.held else "; ".join(_wrong(report))
    return [
        *_calls("calls", [*report.by_kind(), total]),
        "",
        *_calls("clients", report.by_way()),
        "",
        *_table(("the most there was", "first third", "second", "last"), _thirds(report)),
        "",
        f"{seconds:,.0f} s, {each:.1f} ms of the servers' CPU a call; {store.acknowledged:,} rows kept;"
        f" {store.nodes:,} summaries and {store.cuts:,} cuts made; what is wrong: {verdict}.",
    ]


def _wrong(report: Report) -> Sequence[str]:
    errors = [f"{kind}: {said}" for kind, said in report.errors[:5]]
    ended = [f"the HTTP server ended with {report.exit_code}"] if report.exit_code else []
    left = ["the log was left"] if report.store.log_left else []
    return [*errors, *ended, *left, *report.store.wrong, *report.said[:5]]


def _calls(head: str, rows: Sequence[Row]) -> Sequence[str]:
    return _table(
        (head, "number", "a second", "p50 ms", "p99 ms", "max ms", "errors"),
        [
            (
                row.name,
                f"{row.calls:,}",
                f"{row.a_second:,.1f}",
                *(f"{each:,.1f}" for each in (row.p50_ms, row.p99_ms, row.most_ms)),
                f"{row.errors:,}",
            )
            for row in rows
        ],
    )


def _thirds(report: Report) -> Sequence[Sequence[str]]:
    return [(name, *(f"{each:,.1f}".removesuffix(".0") for each in most)) for name, most in report.taken()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[str]:
    rule = "|".join(["", "---", *["---:"] * (len(head) - 1), ""])
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def _least_and_most(clients: Sequence[Told]) -> str:
    calls = [len(each.answered) for each in clients]
    return f"{min(calls):,} to {max(calls):,}"


def _most(values: Iterable[int]) -> int:
    return max(values, default=0)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed; 0 where there are none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
