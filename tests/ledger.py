"""The test's own account of a session: its rows, pins and identities, and what providers counted for it.

Told the same things as the service, it says what the service has to answer. Nothing here asks a service.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from told import Told, opens_round, pairs, told

from lcm_mcp.tokens import Size
from lcm_mcp.transcript.model import Draft

Pair = tuple[int, int]
"""A call's row and its result's, by seq."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What an append has to answer."""

    refs: tuple[str, ...]
    duplicates: tuple[str, ...]
    conflicts: tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """The rows of a session and the path they stand on; rows is the last number given.

    late are pairs whose call was in a node, or before a tail, before the result came, or was on another
    branch then; torn are rows that follow such a border and open no round. idle rows came off the path.
    """

    rows: int = 0
    active: list[Told] = field(default_factory=list[Told])
    told: dict[int, Told] = field(default_factory=dict[int, Told])
    prev: dict[int, int] = field(default_factory=dict[int, int])
    idle: set[int] = field(default_factory=set[int])
    known: dict[str, tuple[int, Draft]] = field(default_factory=dict[str, "tuple[int, Draft]"])
    pinned: set[int] = field(default_factory=set[int])
    late: set[Pair] = field(default_factory=set["Pair"])
    torn: set[int] = field(default_factory=set[int])

    @property
    def leaf(self) -> int:
        return self.active[-1].seq if self.active else 0

    def path(self, leaf: int) -> list[Told]:
        """The rows from the first to `leaf`."""
        found: list[Told] = []
        while leaf:
            found.append(self.told[leaf])
            leaf = self.prev[leaf]
        return found[::-1]

    def chain(self, first: int, last: int) -> list[Told]:
        """The rows from `first` to `last`, as they follow each other."""
        return [row for row in self.path(last) if row.seq >= first]

    def copy(self) -> Ledger:
        return Ledger(
            self.rows,
            [*self.active],
            {**self.told},
            {**self.prev},
            {*self.idle},
            {**self.known},
            {*self.pinned},
            {*self.late},
            {*self.torn},
        )

    def up_to(self, leaf: int) -> Ledger:
        """What a fork at a row takes along."""
        kept = self.copy()
        kept.rows, kept.active = leaf, self.path(leaf)
        kept.told = {row.seq: row for row in kept.active}
        kept.prev = {seq: self.prev[seq] for seq in kept.told}
        kept.idle &= kept.told.keys()
        kept.known = {name: one for name, one in self.known.items() if one[0] in kept.told}
        kept.pinned &= kept.told.keys()
        return kept

    def move(self, leaf: int) -> tuple[int, int]:
        """Let the path end at a row; how many rows left it, and how many came to it."""
        old, self.active = {row.seq for row in self.active}, self.path(leaf)
        new = {row.seq for row in self.active}
        return len(old - new), len(new - old)

    def tear(self, starts: Sequence[int]) -> None:
        """Note what borders before these rows part that were drawn for another path."""
        places = {row.seq: place for place, row in enumerate(self.active)}
        at = [places[start] for start in starts if start in places]
        for one, two in pairs(self.active):
            if any(one < place <= two for place in at):
                self.late.add((self.active[one].seq, self.active[two].seq))
        self.torn |= {self.active[place].seq for place in at if not opens_round(self.active, place)}

    def tell(self, drafts: Sequence[Draft], covered: int) -> Answered:
        """Append; covered is the row that the newest leaf ends with."""
        refs: list[str] = []
        duplicates: list[str] = []
        conflicts: list[str] = []
        before = self.rows
        for draft in drafts:
            found = None if draft.entry_id is None else self.known.get(draft.entry_id)
            if found is None:
                refs.append(self._add(draft))
                continue
            seq, first = found
            refs.append(f"e{seq}")
            same = (draft.role, draft.parts) == (first.role, first.parts)
            (duplicates if same else conflicts).append(f"e{seq}")
        answered = ((self.active[one].seq, self.active[two].seq) for one, two in pairs(self.active))
        self.late |= {pair for pair in answered if pair[1] > before and pair[0] <= covered}
        return Answered(tuple(refs), tuple(duplicates), tuple(conflicts))

    def _add(self, draft: Draft) -> str:
        self.rows += 1
        row = self.told[self.rows] = told(self.rows, draft)
        self.prev[self.rows] = self.leaf
        if draft.entry_id is not None:
            self.known[draft.entry_id] = self.rows, draft
        if draft.active:
            self.active.append(row)
        else:
            self.idle.add(self.rows)
        if draft.pin:
            self.pinned.add(self.rows)
        return f"e{self.rows}"


# --- what providers count

MOST_PAIRS, LEAST_PAIRS = 8, 3


@dataclass(frozen=True, slots=True)
class Seen:
    """A preparation that was kept: whom it was for, what it weighed with its preamble, what was counted."""

    prepared: str
    model: str | None
    size: Size
    estimate: int
    counted: int | None = None

    @property
    def bytes_per_token(self) -> float | None:
        """What one token was by the count, beside all that is not counted in bytes; None: no sense in it."""
        tokens = 0 if self.counted is None else self.counted - self.size.beside_bytes
        return self.size.bytes / tokens if tokens > 0 else None


@dataclass(slots=True)
class Trail:
    """The preparations of a session, oldest first."""

    seen: list[Seen] = field(default_factory=list[Seen])

    def copy(self) -> Trail:
        return Trail([*self.seen])

    def counted(self, prepared: str, tokens: int) -> bool:
        """Put a count beside the newest preparation of that name; False where there is none."""
        for place in range(len(self.seen) - 1, -1, -1):
            if self.seen[place].prepared == prepared:
                self.seen[place] = replace(self.seen[place], counted=tokens)
                return True
        return False

    def ratio(self, model: str | None) -> float | None:
        """Bytes a token by the last counts for a model, where at least three of them agree."""
        counts = [one for one in self.seen if one.model == model and one.counted is not None][-MOST_PAIRS:]
        ratios = [one.bytes_per_token for one in counts]
        plausible = [ratio for ratio in ratios if ratio is not None and 2 <= ratio <= 8]
        if not plausible:
            return None
        middle = median(plausible)
        agreeing = [ratio for ratio in plausible if 0.75 * middle <= ratio <= 1.25 * middle]
        return median(agreeing) if len(agreeing) >= LEAST_PAIRS else None


def weigh(size: Size, ratio: float | None) -> int:
    """A size in tokens, under a provider's ratio where there is one."""
    return size.tokens if ratio is None else math.ceil(size.bytes / ratio) + size.beside_bytes
