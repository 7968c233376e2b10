"""The summarizer that needs no model: it quotes, it does not write.

Facts come from rows (gleaning.py), from summaries (condensing.py) or from both (rolling.py) and are fitted
into the target here: each section first gets its share of the page, what is left goes round again, and
the least needed lines are left out and counted rather than all of them cut. The same source always gives
the same text, within its target always; nothing is called or downloaded, and nothing can fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import anyio.to_thread

from lcm_mcp.summarizers.condensing import glean_nodes
from lcm_mcp.summarizers.facts import (
    FOUND,
    IN_ORDER_OF_NEED,
    LAST,
    NAMES,
    QUOTED,
    SAID,
    SEEN,
    Fact,
    clip_list,
    common_root,
    line,
    render,
    split_path,
)
from lcm_mcp.summarizers.gleaning import Gleaned, glean_rows
from lcm_mcp.summarizers.model import Answer, FoldSource, NodesSource, Request, RowsSource
from lcm_mcp.summarizers.rolling import glean_fold
from lcm_mcp.summarizers.sentences import clip
from lcm_mcp.tokens import BYTES_PER_TOKEN, utf8_length
from lcm_mcp.values import frozen

NAME = "extractive"
THOROUGH_TOKENS = 768
NARROWEST_BYTES = 84
WIDEST_BYTES = 1600
# A running summary may take so much even where it replaces less.
SMALLEST_FOLD_BYTES = 512
# A section whose share is not even a line waits until the needier ones had theirs.
FIRST_LINE_BYTES = 48
# How often the sections' shares are dealt: at last the whole page is open to whoever has something to say.
ROUNDS = (1.0, 1.5, 2.5, 4.0, 100.0)
# The head that stands for the line naming the root.
ROOTED = ("", "")
# Where the number of lines left out would tell a reader nothing.
UNCOUNTED = frozenset(section.title for section in (SAID, FOUND, NAMES, LAST, SEEN))
# How wide notes on what was seen are told: the widest at which all have their place. Quotes have one width.
NOTE_WIDTHS = (800, 480, 240, 120)
QUOTE_WIDTH = 240


@frozen
class Extractive:
    """The chain's default end: always there, always the same answer."""

    @property
    def name(self) -> str:
        return NAME

    async def summarize(self, request: Request) -> Answer:
        return Answer(await anyio.to_thread.run_sync(extract, request), NAME)


def extract(request: Request) -> str:
    """The summary of a source within its room by tokens.text_tokens (for targets of 16 and more).

    The room is the target, and at level 1 THOROUGH_TOKENS where the limit allows so much more than the
    target that the ladder will keep this text beside a terse one.
    Level 2 quotes half as much of each line and so tells more things more tersely. What replaces a running
    summary never outgrows its source. Empty only for a source of no rows and no children.
    """
    room = _room_tokens(request) * BYTES_PER_TOKEN
    match request.source:
        case RowsSource(rows=rows):
            gleaned = glean_rows(rows)
            bare = f"Rows e{rows[0].seq}..e{rows[-1].seq} hold no text." if rows else ""
        case NodesSource(children=children):
            gleaned = glean_nodes(children)
            bare = f"{children[0].span} to {children[-1].span} hold no text." if children else ""
        case FoldSource(children=children, rows=rows):
            gleaned = glean_fold(children, rows)
            spans = [*(child.span for child in children), *(f"e{row.seq}" for row in rows)]
            bare = f"{spans[0]} to {spans[-1]} hold no text." if spans else ""
            told = sum(utf8_length(one.text) for one in (*children, *rows))
            room = min(room, max(told, SMALLEST_FOLD_BYTES))
    return _page(gleaned, room, request.level) if gleaned.facts else clip(bare, room)


def _room_tokens(request: Request) -> int:
    thorough = min(request.limit_tokens, THOROUGH_TOKENS)
    if request.level == 1 and thorough > 2 * request.target_tokens:
        return thorough
    return max(1, min(request.target_tokens, request.limit_tokens))


@frozen
class _Fit:
    """A page, the indices of the facts on it, and whether every fact that is not spare is among them."""

    page: str
    kept: Sequence[int]
    whole: bool
    width: int


def _page(gleaned: Gleaned, room: int, level: int) -> str:
    """The widest quotes with which every needed fact has its place, or the usual width where none has.

    Spare facts come last, into what is left.
    """
    if all(fact.spare for fact in gleaned.facts):
        needed = tuple(replace(fact, spare=False) for fact in gleaned.facts)
        gleaned = replace(gleaned, facts=needed)
    width = max(NARROWEST_BYTES, min(240, room // 10)) * (2 if level == 2 else 3) // 3
    fit = _fitted(gleaned, room, width)
    wider = fit
    while wider.whole and wider.width < WIDEST_BYTES:
        fit = wider
        wider = _fitted(gleaned, room, fit.width * 2)
    return _filled(gleaned, room, wider if wider.whole else fit)


def _fitted(gleaned: Gleaned, room: int, width: int) -> _Fit:
    """Render as many facts as `room` bytes hold, without the spare ones."""
    root = common_root(gleaned.facts)
    kept = _dealt(gleaned.facts, room, width, root)
    needed = sum(not fact.spare for fact in gleaned.facts)
    while True:
        facts = [gleaned.facts[index] for index in sorted(kept)]
        page = render(facts, _left_out(gleaned, facts), width, root)
        if utf8_length(page) <= room:
            return _Fit(page, kept, len(kept) == needed, width)
        if len(kept) == 1:
            return _Fit(clip(page, room), kept, False, width)
        kept.pop()


def _filled(gleaned: Gleaned, room: int, fit: _Fit) -> str:
    """The page with as many spare facts as still find room on it."""
    left = room - utf8_length(fit.page)
    if left < FIRST_LINE_BYTES:
        return fit.page
    notes = [fact.text for fact in gleaned.facts if _is_note(fact)]
    priced = ((width, sum(min(width, len(text)) + 10 for text in notes)) for width in NOTE_WIDTHS)
    note_width = next((width for width, price in priced if price <= left), NOTE_WIDTHS[-1])
    facts = [_narrowed(fact, note_width) for fact in gleaned.facts]
    spare = _spare(facts, left, fit)
    root = common_root(facts)
    while spare:
        told = [facts[index] for index in sorted({*fit.kept, *spare})]
        page = render(told, _left_out(gleaned, told), fit.width, root)
        if utf8_length(page) <= room:
            return page
        spare.pop()
    return fit.page


def _is_note(fact: Fact) -> bool:
    return fact.section == SEEN and not fact.text.startswith(QUOTED)


def _narrowed(fact: Fact, note_width: int) -> Fact:
    if fact.section != SEEN:
        return fact
    return replace(fact, text=clip_list(fact.text, note_width if _is_note(fact) else QUOTE_WIDTH))


def _spare(facts: Sequence[Fact], left: int, fit: _Fit) -> list[int]:
    """Indices of the spare facts that `left` bytes hold, the most needed first."""
    titles = {facts[index].section.title for index in fit.kept}
    taken: list[int] = []
    waiting = [at for at, fact in enumerate(facts) if fact.spare]
    waiting.sort(key=lambda at: (-facts[at].rank, at))
    spent = 0
    for at in waiting:
        title = facts[at].section.title
        price = utf8_length(line(facts[at], fit.width)) + 1 + (0 if title in titles else len(title) + 2)
        if spent + price <= left:
            taken.append(at)
            titles.add(title)
            spent += price
    return taken


def _dealt(facts: Sequence[Fact], room: int, width: int, root: str) -> list[int]:
    """Indices of the facts to keep, roughly `room` bytes of them, the most needed first."""
    deal = _Deal(room, width, root)
    queues = _by_need(facts)
    for growth in ROUNDS:
        for section in IN_ORDER_OF_NEED:
            share = room * section.share / 100 * growth
            waiting = queues[section.title]
            queues[section.title] = [index for index in waiting if not deal.takes(index, facts[index], share)]
    return deal.kept


def _by_need(facts: Sequence[Fact]) -> dict[str, list[int]]:
    """By section, the indices of the facts that are not spare, the most needed first."""
    queues: dict[str, list[int]] = {section.title: [] for section in IN_ORDER_OF_NEED}
    for index, fact in enumerate(facts):
        if not fact.spare:
            queues[fact.section.title].append(index)
    for inside in queues.values():
        inside.sort(key=lambda index: (-facts[index].rank, index))
    return queues


@dataclass(slots=True)
class _Deal:
    """Facts taken so far and the bytes they will cost, headings and folders counted once."""

    room: int
    width: int
    root: str
    kept: list[int] = field(default_factory=list[int])
    spent: Counter[str] = field(default_factory=Counter[str])
    total: int = 0
    heads: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    lines: dict[int, int] = field(default_factory=dict[int, int])
    """How long the facts' lines are: most are asked for in each round."""

    def takes(self, index: int, fact: Fact, share: float) -> bool:
        """Take a fact if page and share have room for it; a section's first may overdraw its share."""
        title = fact.section.title
        folder = split_path(fact.text)[0] if fact.section.listed and fact.section != NAMES else ""
        price = self._price(index, fact, folder)
        before = self.spent[title]
        first = not before and share >= FIRST_LINE_BYTES
        if self.kept and ((not first and before + price > share) or self.total + price > self.room):
            return False
        self.kept.append(index)
        self.spent[title] += price
        self.total += price
        self.heads.add((title, folder))
        if self.root and folder.startswith(self.root):
            self.heads.add(ROOTED)
        return True

    def _price(self, index: int, fact: Fact, folder: str) -> int:
        title = fact.section.title
        heading = 0 if self.spent[title] else len(title) + 2
        if not fact.section.listed:
            if index not in self.lines:
                self.lines[index] = utf8_length(line(fact, self.width)) + 1
            return heading + self.lines[index]
        entry = heading + utf8_length(fact.text) + len(fact.ref) + 3
        if (title, folder) in self.heads:
            return entry - utf8_length(folder)
        rooted = ROOTED in self.heads and self.root and folder.startswith(self.root)
        return entry + 4 - (utf8_length(self.root) if rooted else 0)


def _left_out(gleaned: Gleaned, kept: Sequence[Fact]) -> dict[str, int]:
    """By section, how many facts are not shown, those that summaries below left out included."""
    counts = Counter(gleaned.unshown)
    counts.update(fact.section.title for fact in gleaned.facts if fact.section.title not in UNCOUNTED)
    counts.subtract(fact.section.title for fact in kept if fact.section.title not in UNCOUNTED)
    return {
        title: max(counts[title], gleaned.at_least.get(title, 0)) for title in (*counts, *gleaned.at_least)
    }
