"""The service under test beside a model of what must be in it; every deed is done to both.

Here are the deeds that ask for no request view; judging.py has those that do, dying.py the end of a life.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from asking import Dump, View, dump, same
from deeds import Append, AppendAgain, Import, Pin, Plain, Reopen, Report, Settings
from dying import MortalStore
from histories import Entry, claude_line, entry, filler
from ledger import Ledger, Trail, weigh
from moods import Watched
from told import Told, weight

from lcm_mcp.projection.model import Format
from lcm_mcp.service import Service
from lcm_mcp.service.requests import Usage
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import load_settings
from lcm_mcp.tokens import Size, utf8_length
from lcm_mcp.transcript.blocks import parse_content
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.model import Draft

KEY = "main"
LARGE_CHARACTERS = 1500
"""From there on a result is a file, or large."""
NOWHERE = "c777.e999999"
"""A name that nothing is ever prepared under."""
NOT_KEPT = "usage was not kept"


@dataclass(frozen=True, slots=True)
class Standing:
    """A cut that was made: its name, the history message, the row its tail starts with, the window it was
    for; dropped: the running summary that it shows counts no more."""

    cut: str
    strategy: str
    history: str
    tail_from: int
    window: int
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was selected for the session by calls: its own strategy, and whom requests are for."""

    strategy: str | None = None
    provider: str | None = None
    model: str | None = None

    @property
    def named(self) -> str | None:
        return "/".join(part for part in (self.provider, self.model) if part) or None


@dataclass(frozen=True, slots=True)
class Asked:
    """The last request that could compact: its window, and the provider's ratio then."""

    window: int
    ratio: float | None


@dataclass(slots=True)
class Tale:
    """What the test knows of one session.

    ends are the last rows of its leaves, covered that of the newest on the path, nodes the greatest number
    of a node. views are those of the last look, and path the rows then. failed_at is the last row as it was
    when a pass beside the requests failed, until somebody is told and rows are added. link is the parent's
    key and the row that this one starts from; left is what the store held of it when it was left.
    """

    key: str
    ledger: Ledger = field(default_factory=Ledger)
    trail: Trail = field(default_factory=Trail)
    chosen: Chosen = field(default_factory=Chosen)
    cuts: list[Standing] = field(default_factory=list[Standing])
    asked: Asked = field(default_factory=lambda: Asked(0, None))
    named: list[list[Entry]] = field(default_factory=list[list[Entry]])
    lines: dict[str, list[str]] = field(default_factory=lambda: {"neutral": [], "claude-code": []})
    drafts: dict[str, list[Draft]] = field(default_factory=lambda: {"neutral": [], "claude-code": []})
    views: dict[Format, View] = field(default_factory=dict["Format", View])
    path: list[int] = field(default_factory=list[int])
    nodes: int = 0
    ends: set[int] = field(default_factory=set[int])
    covered: int = 0
    failed_at: int | None = None
    link: tuple[str, int] | None = None
    left: Dump = field(default_factory=dict["str", "list[tuple[object, ...]]"])

    def in_force(self, strategy: str) -> Standing | None:
        """lcm: the last of its cuts whose tail starts on the path; rolling: the very last cut, if it does."""
        path = {row.seq for row in self.ledger.active}
        cuts = self.cuts[-1:] if strategy == "rolling" else self.cuts[::-1]
        of_it = (cut for cut in cuts if cut.strategy == strategy and cut.tail_from in path)
        return next((cut for cut in of_it if not cut.dropped), None)

    def settle(self) -> None:
        """Take in that the path is another one than its nodes and cuts were made on."""
        path = [row.seq for row in self.ledger.active]
        self.covered = max((end for end in path if end in self.ends), default=0)
        after = [two for one, two in pairwise(path) if one in self.ends]
        self.ledger.tear([*after, *(cut.tail_from for cut in self.cuts)])


@dataclass(slots=True)
class World:
    """The service under test beside what the test knows must be in it: the session that deeds are done to,
    and others that were left. made counts sessions, gone are the numbers of forgotten ones."""

    folder: Path
    window: int
    settings: Settings
    chain: Sequence[Watched]
    store: MortalStore
    service: Service
    lives: int = 1
    tale: Tale = field(default_factory=lambda: Tale(KEY))
    others: dict[str, Tale] = field(default_factory=dict[str, Tale])
    made: int = 1
    gone: set[int] = field(default_factory=set[int])

    # --- what is known

    @property
    def key(self) -> str:
        return self.tale.key

    @property
    def ledger(self) -> Ledger:
        return self.tale.ledger

    @property
    def trail(self) -> Trail:
        return self.tale.trail

    @property
    def chosen(self) -> Chosen:
        return self.tale.chosen

    @property
    def asked(self) -> Asked:
        return self.tale.asked

    @property
    def active(self) -> list[Told]:
        return self.ledger.active

    @property
    def strategy(self) -> str:
        return self.chosen.strategy or str(self.settings["strategy"])

    @property
    def in_force(self) -> Standing | None:
        return self.tale.in_force(self.strategy)

    @property
    def cut(self) -> str | None:
        return None if self.in_force is None else self.in_force.cut

    @property
    def calls(self) -> int:
        return sum(summarizer.calls for summarizer in self.chain)

    @property
    def steady(self) -> bool:
        """Whether every summarizer answers the same the next time."""
        return all(summarizer.is_steady for summarizer in self.chain)

    @property
    def may_fail(self) -> bool:
        return all(summarizer.may_fail for summarizer in self.chain)

    def percent(self, name: str, default: int) -> int:
        """A percentage of the strategy's own settings."""
        return int(self.settings.get(f"{self.strategy}.{name}", default))

    @property
    def trigger_percent(self) -> int:
        return self.percent("triggerPercent", 90)

    @property
    def splits(self) -> bool:
        return bool(self.settings.get(f"{self.strategy}.splitOversizedUnit", False))

    def shown_now(self) -> Size:
        """What the projection in force weighs with the rows told so far."""
        if self.in_force is None:
            return weight(self.active)
        history = Size(bytes=utf8_length(self.in_force.history), inputs=1)
        return history + weight([row for row in self.active if row.seq >= self.in_force.tail_from])

    def weigh(self, size: Size) -> int:
        """A size in tokens as the session's lines go by it."""
        return weigh(size, self.trail.ratio(self.chosen.named))

    def tell(self, entries: Sequence[object]) -> None:
        self.ledger.tell([parse_entry(made, n) for n, made in enumerate(entries)], self.tale.covered)

    def count(self, report: Report | None) -> tuple[Usage | None, bool]:
        """Usage as it is to be told, noted beside its preparation; whether there is such a preparation."""
        if report is None:
            return None, True
        if report.ratio is None or not self.trail.seen:
            return Usage(NOWHERE, 1000), False
        of = self.trail.seen[-1 - report.back % len(self.trail.seen)]
        size = next(one for one in reversed(self.trail.seen) if one.prepared == of.prepared).size
        counted = 0 if report.ratio == 0 else size.beside_bytes + round(size.bytes / report.ratio)
        return Usage(of.prepared, counted, counted // 2), self.trail.counted(of.prepared, counted)

    def choose(self, chosen: Chosen) -> None:
        """Select strategy, provider and model; another one than before drops rolling's summary."""
        before, strategy = self.chosen, self.strategy
        self.tale.chosen = chosen
        other = (
            strategy != self.strategy,
            before.provider is not None and chosen.provider != before.provider,
            before.model is not None and chosen.model != before.model,
        )
        if any(other):
            self.tale.cuts = [replace(cut, dropped=cut.strategy == "rolling") for cut in self.tale.cuts]

    # --- deeds

    async def do(self, deed: Plain) -> None:
        match deed:
            case Append():
                await self.append(deed)
            case AppendAgain():
                await self.append_again(deed)
            case Import():
                await self.import_more(deed)
            case Pin():
                await self.pin(deed)
            case Reopen():
                await self.reopen(deed)

    async def append(self, deed: Append) -> None:
        entries = deed.entries
        if deed.named:
            entries = [{**made, "entry_id": f"n{self.ledger.rows + n}"} for n, made in enumerate(entries)]
        await self.send(entries, named=deed.named, usage=deed.usage)

    async def send(self, entries: list[Entry], *, named: bool, usage: Report | None = None) -> None:
        drafts = [parse_entry(made, n) for n, made in enumerate(entries)]
        expected = self.ledger.tell(drafts, self.tale.covered)
        if named:
            self.tale.named.append(entries)
        told, known = self.count(usage)
        receipt = await self.service.append(self.key, entries, usage=told)
        assert any(note.startswith(NOT_KEPT) for note in receipt.notes) != known
        assert (receipt.refs, receipt.duplicates, receipt.conflicts) == (
            expected.refs,
            expected.duplicates,
            expected.conflicts,
        )
        assert receipt.last_seq == self.ledger.rows

    async def append_again(self, deed: AppendAgain) -> None:
        """Law 10: entries that are there are named, and nothing is written for them a second time."""
        if not self.tale.named:
            return
        entries = self.tale.named[-1 - deed.back % len(self.tale.named)]
        if deed.changed:
            entries = [entry("user", "changed") | {"entry_id": made["entry_id"]} for made in entries]
        await self.send(entries, named=False)
        before = await dump(self.service)
        await self.send(entries, named=False)
        await same(self.service, before)

    async def import_more(self, deed: Import) -> None:
        """Import a file that has grown; law 10: once more, and nothing is written."""
        self.lengthen(deed)
        if not self.tale.lines[deed.format]:
            return
        known = self.ledger.rows
        expected = self.ledger.tell(self.tale.drafts[deed.format], self.tale.covered)
        outcome = await self.import_file(deed.format)
        assert outcome == (self.ledger.rows - known, len(expected.duplicates), expected.conflicts)
        if self.steady:
            before = await dump(self.service)
            await self.import_file(deed.format)
            await same(self.service, before)

    def lengthen(self, deed: Import) -> None:
        lines, drafts = self.tale.lines[deed.format], self.tale.drafts[deed.format]
        # Else it could begin as another session's file does, and be taken for a copy of it.
        entries = deed.entries if lines else [entry("user", f"The file of {self.key}."), *deed.entries]
        if deed.format == "neutral":
            for made in entries:
                lines.append(json.dumps(made))
                drafts.append(replace(parse_entry(made, 0), entry_id=f"@{len(lines)} of {self.key}"))
            return
        summary = [entry("user", filler(3))] if deed.compacted else []
        for n, made in enumerate([*summary, *entries]):
            off_path = deed.compacted and n == 0
            name = f"{self.key} u{len(lines)}"
            lines.append(claude_line(name, made, summary=off_path))
            drafts.append(claude_draft(name, made, active=not off_path))

    async def import_file(self, form: str, *, fold: bool = True) -> tuple[int, int, tuple[str, ...]]:
        path = self.folder.parent / f"{self.key} {form}.jsonl"
        path.write_text("\n".join(self.tale.lines[form]) + "\n")
        outcome = await self.service.import_file(path, form, self.key, fold)
        report = outcome.report
        return report.rows_added, report.duplicates, report.conflicts

    async def pin(self, deed: Pin) -> None:
        """Pins show from the next cut on; pinning what is pinned, unpinning what is not, changes nothing."""
        rows = sorted(self.ledger.told)
        if not rows:
            return
        named = dict.fromkeys(rows[-1 - back % len(rows)] for back in deed.rows)
        pinned = self.ledger.pinned
        changed = [seq for seq in named if (seq in pinned) == deed.off]
        self.tale.ledger.pinned = pinned - named.keys() if deed.off else pinned | named.keys()
        done = await self.service.pin([f"e{seq}" for seq in named], self.key, deed.off)
        assert done.changed == tuple(f"e{seq}" for seq in changed)
        assert [line.ref for line in done.pinned] == [f"e{seq}" for seq in sorted(self.ledger.pinned)]

    async def reopen(self, deed: Reopen) -> None:
        before = await dump(self.service)
        await self.service.close()
        kept = {name: self.settings[name] for name in ("strategy", "largeFileChars")}
        self.open(self.folder, {**deed.settings, **kept})
        await same(self.service, before)

    def open(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        for tale in (self.tale, *self.others.values()):
            tale.failed_at = None
        self.store, self.service = opened(folder, settings, self.chain)


def claude_draft(name: str, made: Entry, *, active: bool) -> Draft:
    role = "assistant" if made["role"] == "assistant" else "user"
    return Draft(role, parse_content(made["content"]), entry_id=name, active=active)


def opened(folder: Path, settings: Settings, chain: Sequence[Watched]) -> tuple[MortalStore, Service]:
    loaded = load_settings({"db": str(folder / "lcm.sqlite"), **settings}, {})
    store = MortalStore.open(loaded.db)
    assert isinstance(store, MortalStore)
    return store, Service(Workplace(store, loaded, tuple(chain)))
