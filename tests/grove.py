"""Sessions that branch, beside a model of them: rows with parents, where paths end, which cuts there are.

The model knows nothing of segments, totals or stored units: a path is walked row by row, and a cut counts
while its tail starts on it. Every deed is done to the service through its use cases and to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from asking import dump, look, prepared, same
from histories import Entry, entry
from hypothesis import strategies as st
from moods import Watched
from told import Told, opens, told
from viewbook import canonical

from lcm_mcp.projection.model import FORMATS
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Strategy
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript.entries import parse_entry

LOOK = PrepareQuery(window_tokens=4000, preamble_tokens=100)


# --- deeds; session, row and place count round again


@dataclass(frozen=True, slots=True)
class Grow:
    """Append; parent: the row, of all there are, that the first entry names, None for none."""

    session: int
    entries: list[Entry]
    parent: int | None


@dataclass(frozen=True, slots=True)
class Rewind:
    """back: return to where it was at once."""

    session: int
    row: int
    back: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """row None: at the end."""

    session: int
    row: int | None
    marker: bool


@dataclass(frozen=True, slots=True)
class Ask:
    session: int
    strategy: Strategy | None
    window: int
    force: bool


@dataclass(frozen=True, slots=True)
class Pin:
    session: int
    row: int
    off: bool


Deed = Grow | Rewind | Fork | Ask | Pin


# --- the model


@dataclass(frozen=True, slots=True)
class Cut:
    name: str
    strategy: str
    tail_from: int


@dataclass(slots=True)
class Stem:
    """One session: every row with the one before it, and the cuts made, rolling's as long as they count."""

    key: str
    strategy: Strategy
    prev: dict[int, int] = field(default_factory=dict[int, int])
    rows: dict[int, Told] = field(default_factory=dict[int, Told])
    pinned: set[int] = field(default_factory=set[int])
    cuts: list[Cut] = field(default_factory=list[Cut])
    leaf: int = 0
    next: int = 1
    opener: tuple[str, int] | None = None

    def path(self, leaf: int) -> list[int]:
        found: list[int] = []
        while leaf:
            found.append(leaf)
            leaf = self.prev[leaf]
        return found[::-1]

    @property
    def active(self) -> list[Told]:
        return [self.rows[seq] for seq in self.path(self.leaf)]

    def nth(self, place: int) -> int:
        """A row by its place among all, round again."""
        return sorted(self.rows)[place % len(self.rows)]

    def tell(self, entries: Sequence[Entry], parent: int) -> list[str]:
        refs: list[str] = []
        for number, made in enumerate(entries):
            draft = parse_entry(made, number)
            self.rows[self.next], self.prev[self.next] = told(self.next, draft), parent
            if draft.pin:
                self.pinned.add(self.next)
            parent, self.next = self.next, self.next + 1
            refs.append(f"e{parent}")
        self.leaf = parent
        return refs

    def in_force(self, leaf: int) -> Cut | None:
        """lcm: the last of its cuts whose tail starts on the path; rolling: the very last cut, if it does."""
        path = set(self.path(leaf))
        cuts = self.cuts[-1:] if self.strategy == "rolling" else self.cuts[::-1]
        of_it = (cut for cut in cuts if cut.strategy == self.strategy and cut.tail_from in path)
        return next(of_it, None)

    def select(self, strategy: Strategy | None) -> None:
        """Another strategy than before drops the running summary."""
        if strategy not in (None, self.strategy):
            dropped = [replace(cut, strategy="dropped") for cut in self.cuts if cut.strategy == "rolling"]
            self.cuts = [cut for cut in self.cuts if cut.strategy != "rolling"]
            self.cuts = sorted([*self.cuts, *dropped], key=_number)
            self.strategy = strategy or self.strategy

    def branches(self, parent: int) -> bool:
        """Whether an entry under that row surely branches off: it is removed, or a request came after it."""
        path = self.path(self.leaf)
        return parent not in path or any(opens(self.rows[seq]) for seq in path if seq > parent)


def _number(cut: Cut) -> int:
    return int(cut.name.removeprefix("c"))


@dataclass(slots=True)
class Grove:
    """The service, its one summarizer, and a model of each session."""

    service: Service
    summarizer: Watched
    stems: list[Stem]

    def stem(self, number: int) -> Stem:
        return self.stems[number % len(self.stems)]

    async def do(self, deed: Deed) -> None:
        match deed:
            case Grow():
                await self.grow(deed)
            case Rewind():
                await self.rewind(deed)
            case Fork():
                await self.fork(deed)
            case Ask():
                await self.ask(deed)
            case Pin():
                await self.pin(deed)

    async def grow(self, deed: Grow) -> None:
        stem, entries = self.stem(deed.session), deed.entries
        parent = stem.leaf
        if deed.parent is not None and stem.rows and entries:
            named = stem.nth(deed.parent)
            if named == stem.leaf or stem.branches(named):
                parent, entries = named, [{**entries[0], "parent": f"e{named}"}, *entries[1:]]
        moved = len(set(stem.path(stem.leaf)) ^ set(stem.path(parent)))
        receipt = await self.service.append(stem.key, entries)
        assert list(receipt.refs) == stem.tell(entries, parent) if entries else not receipt.refs
        assert (len(receipt.notes) > 0) == (moved > 0)
        assert receipt.last_seq == stem.next - 1

    async def rewind(self, deed: Rewind) -> None:
        stem = self.stem(deed.session)
        if not stem.rows:
            return
        before, leaf = stem.leaf, stem.nth(deed.row)
        tables, views = await dump(self.service), await look(self.service, replace(LOOK, session=stem.key))
        await self._move(stem, leaf)
        for table, rows in (await dump(self.service)).items():
            assert table == "session" or rows == tables[table]  # nothing else is written
        if deed.back:
            await self._move(stem, before)
            await same(self.service, tables)
            again = await look(self.service, replace(LOOK, session=stem.key))
            for form in FORMATS:
                assert canonical(again[form].messages) == canonical(views[form].messages)
                assert again[form].prepared == views[form].prepared

    async def _move(self, stem: Stem, leaf: int) -> None:
        old, new = set(stem.path(stem.leaf)), set(stem.path(leaf))
        stem.leaf = leaf
        for expected in ((len(old - new), len(new - old)), (0, 0)):
            moved = await self.service.rewind(f"e{leaf}", stem.key)
            assert (moved.removed, moved.restored, moved.leaf) == (*expected, f"e{leaf}")

    async def fork(self, deed: Fork) -> None:
        """Law 11, for the fork as it is made; what holds for every session is looked at after each deed."""
        stem = self.stem(deed.session)
        if not stem.rows or len(self.stems) > 3:
            return
        at = stem.leaf if deed.row is None else stem.nth(deed.row)
        made, calls, before = f"fork {len(self.stems)}", self.summarizer.calls, await dump(self.service)
        forked = await self.service.fork(stem.key, f"e{at}", made, deed.marker)
        after = await dump(self.service)
        assert self.summarizer.calls == calls
        assert len(after["text"]) == len(before["text"]) + deed.marker
        assert await self.service.fork(stem.key, f"e{at}", made, deed.marker) == replace(
            forked, created=False
        )
        await same(self.service, after)
        path = stem.path(at)
        rows = {seq: stem.rows[seq] for seq in path}
        cuts = [cut for cut in stem.cuts if cut.strategy == "lcm" and cut.tail_from in rows][-1:]
        prev = {seq: stem.prev[seq] for seq in path}
        pinned = stem.pinned & set(path)
        new = Stem(made, stem.strategy, prev, rows, pinned, cuts, at, at + 1, (stem.key, at))
        assert (forked.created, forked.rows, forked.at) == (True, len(path), f"e{at}")
        assert (forked.marker is None) == (not deed.marker)
        await self._compare(stem, new, deed.marker)
        self.stems.append(new)
        if deed.marker:
            row = (await self.service.expand(f"e{at + 1}", made)).rows[0]
            assert row.text.startswith("[lcm:fork] ")
            assert new.tell([entry("system", row.text)], at) == [forked.marker]

    async def _compare(self, stem: Stem, fork: Stem, marker: bool) -> None:
        """The same requests as the source's at that row, its leaf moved there for a moment."""
        source = await self.service.list_nodes(stem.key, limit=100)
        nodes = await self.service.list_nodes(fork.key, limit=100)
        known = {node.id: replace(node, frontier=True, removed=False) for node in source.nodes}
        for node in nodes.nodes:
            assert known[node.id] == replace(node, frontier=True)
            mine = (await self.service.describe(node.id, fork.key)).node
            theirs = (await self.service.describe(node.id, stem.key)).node
            assert mine is not None
            assert theirs is not None
            assert (mine.text, mine.children) == (theirs.text, theirs.children)
        if marker or stem.strategy == "rolling":
            return
        leaf = stem.leaf
        await self._move(stem, fork.leaf)
        one = await look(self.service, replace(LOOK, session=stem.key))
        other = await look(self.service, replace(LOOK, session=fork.key))
        for form in FORMATS:
            assert canonical(one[form].messages) == canonical(other[form].messages)
            assert one[form].prepared == other[form].prepared
            assert one[form].tokens == other[form].tokens
        await self._move(stem, leaf)

    async def ask(self, deed: Ask) -> None:
        stem = self.stem(deed.session)
        stem.select(deed.strategy)
        if not stem.rows:
            return
        force = deed.force and stem.strategy != "none"
        query = PrepareQuery(
            stem.key,
            strategy=deed.strategy,
            window_tokens=deed.window,
            compact="force" if force else "auto",
        )
        before = stem.in_force(stem.leaf)
        view = await prepared(self.service, query)
        assert view.status != "failed"
        name = None if before is None else before.name
        if view.cut != name:
            assert view.cut is not None
            assert view.cut not in {cut.name for cut in stem.cuts}
            stem.cuts.append(Cut(view.cut, stem.strategy, int(view.tail[0].removeprefix("e"))))

    async def pin(self, deed: Pin) -> None:
        stem = self.stem(deed.session)
        if stem.rows:
            seq = stem.nth(deed.row)
            (stem.pinned.discard if deed.off else stem.pinned.add)(seq)
            pins = await self.service.pin([f"e{seq}"], stem.key, deed.off)
            assert [line.ref for line in pins.pinned] == [f"e{seq}" for seq in sorted(stem.pinned)]


# --- random deeds

some = st.integers(0, 200)


def deeds(batches: st.SearchStrategy[list[Entry]]) -> st.SearchStrategy[Deed]:
    session = st.integers(0, 3)
    strategies: list[Strategy | None] = [None, None, None, "lcm", "rolling", "none"]
    window = st.sampled_from([2000, 3000, 3000, 4000, 8000])
    grows = st.builds(Grow, session, batches, st.one_of(st.none(), st.none(), some))
    rewinds = st.builds(Rewind, session, some, st.booleans())
    asks = st.builds(Ask, session, st.sampled_from(strategies), window, st.sampled_from([False, False, True]))
    forks = st.builds(Fork, session, st.one_of(st.none(), some), st.sampled_from([False, False, True]))
    pins = st.builds(Pin, session, some, st.booleans())
    return st.one_of(grows, grows, asks, asks, rewinds, rewinds, forks, pins)
