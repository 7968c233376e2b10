"""The laws of semantics.md §10 on what a request shows: 3 to 7, as checks on views of a session.

Views come in every format from the same moment (see asking.look); borders, pairs and weights are worked out
anew, from the drafts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import apsw
import orjson
from asking import View
from ledger import Pair, weigh
from quotebook import Quoting, asked_in, quoted
from told import Told, newest_round, newest_unit, opens, opens_round, pairs, unit_of, weight
from wire_order import check_order

from lcm_mcp.dag.model import MAX_DEPTH
from lcm_mcp.dag.store import frontier
from lcm_mcp.ids import Seq
from lcm_mcp.projection.labels import ROLLING_OPENS, fence_history
from lcm_mcp.projection.lcm import block
from lcm_mcp.projection.model import FORMATS, Format, Message
from lcm_mcp.service import Service
from lcm_mcp.service.prepared import Observation
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.showing import summarized
from lcm_mcp.tokens import BYTES_PER_TOKEN, Size, bytes_to_tokens, utf8_length
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.path import Path

LEAST_LEAF_TOKENS = 256
LEAST_RUNNING_TOKENS = 66
"""A running summary worth a cut, and what weighing it beside the rest may round up."""
LEAST_SPLIT_ROOM = 128
STUB = "s" * 200 * BYTES_PER_TOKEN

# --- law 3


def holds_order(views: dict[Format, View]) -> None:
    """Law 3 as a provider sees it: no format has anything to refuse in turns, calls and results."""
    for form, view in views.items():
        assert check_order(view.messages, form) == []
        assert view.tail == views["messages"].tail
        assert view.prepared == views["messages"].prepared


def holds_pairs(starts: Sequence[int], active: Sequence[Told], late: set[Pair]) -> None:
    """Law 3 where something was just divided before the rows `starts`: a round begins there, and no call
    stands on one side with its result on the other, but for late ones, whose call was summarized before they
    came."""
    places = {row.seq: place for place, row in enumerate(active)}
    joined = [pair for pair in pairs(active) if (active[pair[0]].seq, active[pair[1]].seq) not in late]
    for start in starts:
        place = places[start]
        parted = [pair for pair in joined if pair[0] < place <= pair[1]]
        assert not parted, f"e{start} parts {[(active[one].ref, active[two].ref) for one, two in parted]}"
        assert opens_round(active, place), f"e{start} opens no round"


def holds_border(start: int, active: Sequence[Told], late: set[Pair], *, split: bool) -> None:
    """Law 3 where whole units end: one opens at the row `start`, or (split) a round of the newest one."""
    holds_pairs([start], active, late)
    place = next(place for place, row in enumerate(active) if row.seq == start)
    if place == 0 or opens(active[place]):
        return
    assert split, f"e{start} opens no unit"
    assert unit_of(active, place) == newest_unit(active), f"e{start} divides a complete unit"
    assert place <= newest_round(active), f"e{start} lies inside the newest round"


# --- law 4


def canonical(messages: Sequence[Message]) -> list[tuple[bytes, tuple[str, ...]]]:
    return [(orjson.dumps(dict(m.body), option=orjson.OPT_SORT_KEYS), m.sources) for m in messages]


def holds_prefix(before: dict[Format, View], after: dict[Format, View]) -> None:
    """Law 4 between two looks under one cut: what was settled stands."""
    for form in FORMATS[:3]:
        stands = settled(before[form].messages)
        assert canonical(after[form].messages)[:stands] == canonical(before[form].messages)[:stands]
    if before["text"].messages and not waits(before["messages"].messages):
        old, new = (str(views["text"].messages[0].body["content"]) for views in (before, after))
        assert new.startswith(old) or old == NOTHING


NOTHING = "[The rows of the conversation at this place hold nothing to show.]"


def settled(messages: Sequence[Message]) -> int:
    """How many messages must stand: all but the last, or all before the group that still waits."""
    last = _last_assistant(messages)
    if last is not None and waits(messages):
        return last
    return max(0, len(messages) - 1)


def waits(messages: Sequence[Message]) -> bool:
    """Whether the last group of calls has not all its results yet."""
    last = _last_assistant(messages)
    if last is None:
        return False
    return _count(messages[last:], CALLS) > _count(messages[last:], RESULTS)


CALLS = ("tool_use", "tool_call", "function", "custom")
RESULTS = ("tool_result",)


def _last_assistant(messages: Sequence[Message]) -> int | None:
    return max((i for i, message in enumerate(messages) if message.role == "assistant"), default=None)


def _count(messages: Sequence[Message], kinds: Sequence[str]) -> int:
    blocks = [block for message in messages for block in _blocks(message)]
    native = [block for block in blocks if block.get("type") in kinds]
    # An unknown block kept verbatim may look like a call; only ours have a text as id.
    ours = [block for block in native if kinds == RESULTS or isinstance(_id_of(block), str)]
    results = sum("tool_call_id" in message.body for message in messages)
    return len(ours) + (results if kinds == RESULTS else 0)


def _id_of(block: dict[str, Json]) -> Json:
    return block.get("id", block.get("call_id"))


def _blocks(message: Message) -> list[dict[str, Json]]:
    found: list[Json] = []
    for key in ("content", "tool_calls"):
        value = message.body.get(key)
        found += value if isinstance(value, list) else []
    return [block for block in found if isinstance(block, dict)]


def history_text(view: View) -> str | None:
    """The history message as the neutral format shows it; None where no cut is in force."""
    assert view.form == "messages"
    return None if view.cut is None else str(_blocks(view.messages[0])[0]["text"])


# --- law 7


def preamble_of(query: PrepareQuery) -> tuple[int, Size]:
    """A request's preamble by the fixed rule, in tokens, and what it is made of."""
    if query.preamble_tokens is not None:
        return query.preamble_tokens, Size(fixed=query.preamble_tokens)
    if query.system is None and not query.tools:
        return 0, Size()
    texts = [utf8_length(query.system or ""), *(len(orjson.dumps(tool)) for tool in query.tools)]
    fixed = 16 + 20 * len(query.tools)
    return fixed + sum(map(bytes_to_tokens, texts)), Size(bytes=sum(texts), fixed=fixed)


def size_of(observation: Observation, active: Sequence[Told]) -> Size:
    """What a projection weighs without its preamble: its history by the observation, its tail by the rows."""
    before = [one for one in observation.sections if one.kind in ("summaries", "quotes")]
    history = Size(bytes=sum(one.bytes for one in before), inputs=min(1, len(before)))
    tail = [one.sources[0] for one in observation.sections if one.kind == "tail"]
    if not tail:
        return history
    first, last = (int(ref.removeprefix("e")) for ref in tail[0].split(".."))
    return history + weight([row for row in active if first <= row.seq <= last])


def holds_estimate(views: dict[Format, View], active: Sequence[Told], query: PrepareQuery) -> None:
    """Law 7's figure is the rule's: preamble, history and tail as they are shown."""
    tokens, preamble = preamble_of(query)
    history = history_text(views["messages"])
    shown = Size() if history is None else Size(bytes=utf8_length(history), inputs=1)
    tail = set(views["messages"].tail)
    size = shown + weight([row for row in active if row.ref in tail])
    for view in views.values():
        sections = view.observation.sections
        assert size_of(view.observation, active) == size
        assert view.tokens == view.observation.estimated_input_tokens == tokens + size.tokens
        assert view.tokens == sum(section.tokens for section in sections)
        assert sum(section.bytes for section in sections) == size.bytes + preamble.bytes


def holds_fit(seen: Observation) -> None:
    """Law 7: within the window, or a status and a note that say why not."""
    window, calibrated = seen.window_tokens, seen.calibrated_input_tokens
    tokens = seen.estimated_input_tokens if calibrated is None else calibrated
    if window is None or tokens <= window:
        assert seen.status != "limited"
        return
    assert seen.status in ("limited", "failed", "scheduled")
    assert any(note.startswith("Over the window") and str(window) in note for note in seen.notes)


@dataclass(frozen=True, slots=True)
class Limit:
    """A request that is said to be over its window for good: split where its newest unit may be divided,
    steady where the summarizers answer the same each time; in_force is where the tail started before."""

    cut: Quoting
    trigger: int
    preamble: Size
    in_force: int | None
    split: bool
    steady: bool

    @property
    def active(self) -> Sequence[Told]:
        return self.cut.active

    def weigh(self, size: Size) -> int:
        return weigh(size, self.cut.ratio)

    @property
    def newest(self) -> int:
        """The place where the tail may start at the latest.

        The newest unit begins with the tail where a late result joined it with rows before.
        """
        starts = [place for place, row in enumerate(self.active) if row.seq == self.in_force]
        unit = max(newest_unit(self.active), *starts, 0)
        fence = Size(bytes=utf8_length(fence_history([])), inputs=1)
        room = self.trigger - self.weigh(self.preamble) - self.weigh(fence) - LEAST_SPLIT_ROOM
        inside = unit_of(self.active, unit) < unit and not opens(self.active[unit])
        divides = self.split and (inside or self.weigh(weight(self.active[unit:])) >= room)
        return max(unit, newest_round(self.active)) if divides else unit

    def least(
        self, loose: Sequence[Told], blocks: Sequence[str], opening: Callable[[Sequence[str]], str]
    ) -> int:
        """The least request: these rows, then the newest ones, after a history of such blocks and quotes."""
        quotes = quoted(self.cut, self.newest, asked_in(self.active, self.newest)[0]).blocks
        history = Size(bytes=utf8_length(opening([*blocks, *quotes])), inputs=1) if blocks else Size()
        rows = weight([*loose, *self.active[self.newest :]])
        return self.weigh(self.preamble + history + rows)


def holds_rolling_limit(limit: Limit) -> None:
    """Law 7: limited only where the tail is no more than the newest unit, so that nothing is left to fold, or
    where that, the preamble, the quotes and the shortest summary worth a cut exceed the window."""
    if limit.active[limit.newest].seq == limit.in_force:
        return
    summary = "s" * LEAST_RUNNING_TOKENS * BYTES_PER_TOKEN
    first, newest = limit.active[0].ref, limit.active[limit.newest].ref
    header = f"[lcm:summary rolling span {first}..{newest}]"
    blocks = [f"{header}\n{summary}"] if limit.newest else []
    assert limit.least([], blocks, lambda said: fence_history(said, ROLLING_OPENS)) > limit.cut.window


async def holds_lcm_limit(service: Service, key: str, limit: Limit) -> None:
    """Law 7: limited only where the newest unit, the preamble, the quotes and the least history there could
    be before it exceed the window.

    The least history is every node at its shortest (steady: all in one, while neighbours of one depth are
    left to condense), and what could be a leaf as a stub; less than a leaf's worth of rows stays as it is.
    """
    start = limit.newest
    standing = await service.work.store.read(_standing_before, key, limit.active[start].seq)
    covered = standing[-1].last if standing else 0
    blocks = [node.shortest for node in standing]
    if limit.steady and any(one.depth == other.depth < MAX_DEPTH for one, other in pairwise(standing)):
        blocks = [STUB]
    loose = [row for row in limit.active[:start] if row.seq > covered]
    if weight(loose).tokens >= LEAST_LEAF_TOKENS:
        loose, blocks = [], [*blocks, STUB]
    assert limit.least(loose, blocks, fence_history) > limit.cut.window


@dataclass(frozen=True, slots=True)
class _Standing:
    """A node of a frontier, and its shortest block."""

    depth: int
    last: int
    shortest: str


def _standing_before(db: apsw.Connection, key: str, seq: int) -> list[_Standing]:
    """The frontier before a row."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    path = Path(db, session.id, session.leaf)
    found: list[_Standing] = []
    for node in frontier(db, session.id, path, path.before(Seq(seq))):
        shown = summarized(db, session.id, node)
        shortest = min(block(shown, "stub"), block(shown, "primary"), key=utf8_length)
        found.append(_Standing(node.depth, node.last, shortest))
    return found
