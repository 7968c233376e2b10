"""The service under test beside a model of what must be in it; every deed is done to both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from asking import View, dump, expanded, look, nodes_of, prepared, same
from histories import (
    Append,
    AppendAgain,
    Deed,
    Entry,
    Import,
    Prepare,
    Reopen,
    Scripted,
    claude_line,
    entry,
    filler,
)
from lawbook import (
    Pair,
    history_text,
    holds_cover,
    holds_estimate,
    holds_every_part,
    holds_everything_once,
    holds_fit,
    holds_headers,
    holds_limit,
    holds_memory,
    holds_order,
    holds_pairs,
    holds_prefix,
    holds_shrink,
)
from told import Told, pairs, told, weight

from lcm_mcp.projection.model import Format
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.settings import load_settings
from lcm_mcp.summarizers.extractive import Extractive
from lcm_mcp.summarizers.model import Answer, Request, Summarizer
from lcm_mcp.tokens import Size, utf8_length
from lcm_mcp.transcript.blocks import parse_content
from lcm_mcp.transcript.entries import parse_entry
from lcm_mcp.transcript.model import Draft

KEY = "main"


@dataclass(slots=True)
class Counted:
    """The extractive summarizer, its calls counted."""

    name: str = "extractive"
    calls: int = 0

    async def summarize(self, request: Request) -> Answer:
        self.calls += 1
        return await Extractive().summarize(request)


@dataclass(slots=True)
class World:
    """The service under test beside what the test knows must be in it."""

    folder: Path
    window: int
    settings: dict[str, int]
    chain: Sequence[Counted | Scripted]
    service: Service
    active: list[Told] = field(default_factory=list[Told])
    known: dict[str, tuple[int, Draft]] = field(default_factory=dict[str, "tuple[int, Draft]"])
    rows: int = 0
    named: list[list[Entry]] = field(default_factory=list[list[Entry]])
    lines: dict[str, list[str]] = field(default_factory=lambda: {"neutral": [], "claude-code": []})
    drafts: dict[str, list[Draft]] = field(default_factory=lambda: {"neutral": [], "claude-code": []})
    strategy: str = "lcm"
    views: dict[Format, View] = field(default_factory=dict["Format", View])
    history: str | None = None
    tail_from: int = 0
    cut: str | None = None
    nodes: int = 0
    covered: int = 0
    late: set[Pair] = field(default_factory=set["Pair"])

    @property
    def calls(self) -> int:
        return sum(summarizer.calls for summarizer in self.chain)

    # --- deeds

    async def do(self, deed: Deed) -> None:
        match deed:
            case Append():
                await self.append(deed.entries, deed.named)
            case AppendAgain():
                await self.append_again(deed)
            case Import():
                await self.import_more(deed)
            case Prepare():
                await self.prepare(deed)
            case Reopen():
                await self.reopen(deed.settings)

    async def append(self, entries: list[Entry], named: bool) -> None:
        if named:
            entries = [{**made, "entry_id": f"n{self.rows + n}"} for n, made in enumerate(entries)]
            self.named.append(entries)
        drafts = [parse_entry(made, n) for n, made in enumerate(entries)]
        expected = self.tell(drafts)
        receipt = await self.service.append(KEY, entries)
        assert (receipt.refs, receipt.duplicates, receipt.conflicts) == expected
        assert receipt.last_seq == self.rows

    async def append_again(self, deed: AppendAgain) -> None:
        if not self.named:
            return
        entries = self.named[-1 - deed.back % len(self.named)]
        if deed.changed:
            entries = [entry("user", "changed") | {"entry_id": made["entry_id"]} for made in entries]
        expected = self.tell([parse_entry(made, n) for n, made in enumerate(entries)])
        first = await self.service.append(KEY, entries)
        before = await dump(self.service)
        assert first == await self.service.append(KEY, entries)
        assert (first.refs, first.duplicates, first.conflicts) == expected
        await same(self.service, before)

    async def import_more(self, deed: Import) -> None:
        lines, drafts = self.lines[deed.format], self.drafts[deed.format]
        if deed.format == "neutral":
            for made in deed.entries:
                lines.append(json.dumps(made))
                drafts.append(replace(parse_entry(made, 0), entry_id=f"@{len(lines)}"))
        else:
            summary = [entry("user", filler(3))] if deed.compacted else []
            for n, made in enumerate([*summary, *deed.entries]):
                off_path = deed.compacted and n == 0
                lines.append(claude_line(len(lines), made, summary=off_path))
                drafts.append(claude_draft(len(drafts), made, active=not off_path))
        if not lines:
            return
        known = self.rows
        refs, duplicates, conflicts = self.tell(drafts)
        outcome = await self.import_file(deed.format)
        assert outcome == (self.rows - known, len(duplicates), conflicts)
        assert len(refs) == len(lines)
        if self.steady:
            before = await dump(self.service)
            await self.import_file(deed.format)
            await same(self.service, before)

    async def import_file(self, form: str, *, fold: bool = True) -> tuple[int, int, tuple[str, ...]]:
        path = self.folder / f"{form}.jsonl"
        path.write_text("\n".join(self.lines[form]) + "\n")
        outcome = await self.service.import_file(path, form, KEY, fold)
        report = outcome.report
        return report.rows_added, report.duplicates, report.conflicts

    async def prepare(self, deed: Prepare) -> None:
        self.tell([parse_entry(made, n) for n, made in enumerate(deed.entries)])
        self.strategy = deed.strategy or self.strategy
        before, calls = self.shown_now(), self.calls
        query = self.query(deed, before)
        view = await prepared(self.service, query)
        tokens_before = view.preamble + before.tokens
        assert view.observation.tokens_before == tokens_before
        may = deed.compact != "never" and self.strategy == "lcm" and bool(self.active)
        if may and self.due(deed, view, tokens_before):
            await self.check_compacted(query, view, tokens_before)
        else:
            assert self.calls == calls
            assert view.cut == (self.cut if self.strategy == "lcm" else None)
            assert (view.observation.done, view.observation.regime) == (None, "passive")
            assert view.status in ("not_needed", "limited", "unknown_window")
        holds_fit(view)

    def query(self, deed: Prepare, before: Size) -> PrepareQuery:
        return PrepareQuery(
            session=KEY,
            append=deed.entries,
            strategy=deed.strategy,
            window_tokens=self.window_of(deed, deed.preamble + before.tokens),
            preamble_tokens=None if deed.system else deed.preamble,
            system=deed.system,
            tools=[{"name": "Bash", "input_schema": {}}] if deed.system else (),
            format=deed.format,
            compact=deed.compact,
        )

    def window_of(self, deed: Prepare, tokens: int) -> int | None:
        """The window in tokens; at and below the edge are the two whose triggers part the present size."""
        at_edge = max(1, tokens * 100 // self.trigger_percent)
        match deed.window:
            case "usual":
                return self.window
            case "at the edge":
                return at_edge
            case "below the edge":
                return at_edge + 1
            case _:
                return deed.window

    def due(self, deed: Prepare, view: View, tokens: int) -> bool:
        window = view.observation.window_tokens
        over = window is not None and tokens * 100 >= window * self.trigger_percent
        return window is not None and (over or deed.compact == "force")

    @property
    def trigger_percent(self) -> int:
        return self.settings.get("lcm.triggerPercent", 90)

    async def check_compacted(self, query: PrepareQuery, view: View, tokens_before: int) -> None:
        """What a compaction that was due has come to."""
        assert (view.observation.done is None, view.observation.regime) == (False, "blocking")
        if view.cut not in (None, self.cut):
            assert view.tokens < tokens_before
        else:
            assert view.tokens == tokens_before
        if view.status == "failed":
            assert self.may_fail
            return
        if self.steady or not self.stalls(view):
            await self.repeat(query, view)
        if view.status == "limited":
            await holds_limit(self.service, KEY, self.active, view, settled=self.steady)

    async def repeat(self, query: PrepareQuery, view: View) -> None:
        """Law 10: the same compaction again, finished before, changes nothing."""
        before, calls = await dump(self.service), self.calls
        again = replace(query, append=(), window_tokens=view.observation.window_tokens)
        assert (await prepared(self.service, again)).prepared == view.prepared
        await same(self.service, before)
        assert self.calls == calls or self.stalls(view)

    def stalls(self, view: View) -> bool:
        """A stalled condensation may find a summarizer in another mood the next time."""
        return any(remark.startswith("condensation-stalled") for remark in view.notes)

    @property
    def steady(self) -> bool:
        """Whether every summarizer answers the same the next time."""
        return all(isinstance(summarizer, Counted) for summarizer in self.chain)

    @property
    def may_fail(self) -> bool:
        scripted = self.chain[0]
        return len(self.chain) == 1 and isinstance(scripted, Scripted) and "fails" in scripted.moods

    def shown_now(self) -> Size:
        """What the projection in force weighs with the rows told so far."""
        if self.strategy != "lcm" or self.history is None:
            return weight(self.active)
        history = Size(bytes=utf8_length(self.history), inputs=1)
        return history + weight([row for row in self.active if row.seq >= self.tail_from])

    async def reopen(self, settings: dict[str, int]) -> None:
        before = await dump(self.service)
        await self.service.close()
        self.settings = settings
        self.service = opened(self.folder, settings, self.chain)
        await same(self.service, before)

    # --- the model

    def tell(self, drafts: list[Draft]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Do an append to the model; refs, duplicates and conflicts as the service has to answer."""
        refs: list[str] = []
        duplicates: list[str] = []
        conflicts: list[str] = []
        known = self.rows
        for draft in drafts:
            found = None if draft.entry_id is None else self.known.get(draft.entry_id)
            if found is None:
                self.rows += 1
                if draft.entry_id is not None:
                    self.known[draft.entry_id] = self.rows, draft
                if draft.active:
                    self.active.append(told(self.rows, draft))
                refs.append(f"e{self.rows}")
                continue
            seq, first = found
            refs.append(f"e{seq}")
            same = (draft.role, draft.parts) == (first.role, first.parts)
            (duplicates if same else conflicts).append(f"e{seq}")
        answered = ((self.active[one].seq, self.active[two].seq) for one, two in pairs(self.active))
        self.late |= {pair for pair in answered if pair[1] > known and pair[0] <= self.covered}
        return tuple(refs), tuple(duplicates), tuple(conflicts)

    # --- the laws

    async def check(self) -> None:
        before = await dump(self.service)
        views = await look(self.service, PrepareQuery(session=KEY, window_tokens=4000, preamble_tokens=100))
        await self.check_projection(views)
        await holds_memory(self.service, KEY, self.active)
        await holds_cover(self.service, KEY, self.active)
        await holds_shrink(self.service, KEY, self.active)
        await self.check_new_nodes()
        await self.read_everything()
        await same(self.service, before)
        self.views = views

    async def check_projection(self, views: dict[Format, View]) -> None:
        view = views["messages"]
        holds_order(views)
        holds_headers(views)
        holds_estimate(views, self.active)
        for one in views.values():
            holds_fit(one)
        await holds_everything_once(self.service, KEY, view.shown, view.tail, self.active)
        if self.views and self.views["messages"].cut == view.cut:
            holds_prefix(self.views, views)
        if self.strategy == "lcm":
            if view.cut not in (None, self.cut):
                holds_pairs([int(view.tail[0][1:])], self.active, self.late, at_units=True)
                self.history, self.tail_from = history_text(views), int(view.tail[0][1:])
            assert (view.cut is None) == (view.shown == [])
            assert history_text(views) == self.history
            self.cut = view.cut
        else:
            assert view.cut is None
        if view.cut is None:
            assert view.tail == [row.ref for row in self.active]

    async def check_new_nodes(self) -> None:
        """Law 3 in the DAG: a new leaf parts no call from its result, the last new one ends a unit."""
        nodes = await nodes_of(self.service, KEY)
        new = [node for node in nodes if int(node.id[1:]) > self.nodes and node.depth == 0]
        self.nodes = len(nodes)
        holds_pairs([int(node.span[0][1:]) for node in new], self.active, self.late, at_units=False)
        if new:
            end = max(int(node.span[1][1:]) for node in new)
            following = [row.seq for row in self.active if row.seq > end][:1]
            assert following
            holds_pairs(following, self.active, self.late, at_units=True)
            self.covered = end

    async def read_everything(self) -> None:
        await self.service.sessions()
        await self.service.doctor()
        for pattern in ("found", "写", "[lcm:"):
            await self.service.grep(GrepQuery(pattern, session=KEY))
        if self.rows:
            described = (await self.service.describe(f"e{self.rows}", KEY)).row
            assert described is not None
            assert described.ref == f"e{self.rows}"

    async def check_end(self) -> None:
        """What is looked at once: payloads, every node, repeats, and a store opened again."""
        await holds_every_part(self.service, KEY, self.active)
        places = {row.ref: place for place, row in enumerate(self.active)}
        for node in await nodes_of(self.service, KEY):
            rows = await expanded(self.service, KEY, node.id, 1500)
            span = self.active[places[node.span[0]] : places[node.span[1]] + 1]
            assert [(row.ref, row.text) for row in rows] == [(row.ref, row.text) for row in span]
        before = await dump(self.service)
        for entries in self.named:
            receipt = await self.service.append(KEY, entries)
            assert len(receipt.duplicates) + len(receipt.conflicts) == len(entries)
        for form in [form for form, lines in self.lines.items() if lines]:
            assert (await self.import_file(form, fold=False))[0] == 0
        await same(self.service, before)
        await self.reopen(self.settings)


def claude_draft(number: int, made: Entry, *, active: bool) -> Draft:
    role = "assistant" if made["role"] == "assistant" else "user"
    return Draft(role, parse_content(made["content"]), entry_id=f"u{number}", active=active)


def opened(folder: Path, settings: dict[str, int], chain: Sequence[Summarizer]) -> Service:
    made = Service.open(load_settings({"db": str(folder / "lcm.sqlite"), **settings}, {}))
    return Service(replace(made.work, chain=tuple(chain)))
