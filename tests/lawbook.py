"""The laws of semantics.md §10 as checks on an open service: what must hold whatever has happened.

A check asks the service as any client would, compares the answers with what the test knows it told, and
raises AssertionError with the figures. Units, pairs and weights are worked out here anew, from the drafts
alone. Preparing in these checks never appends and never compacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import apsw
import orjson
from asking import View, expanded, nodes_of, parts_of
from told import Told, newest_unit, opens, pairs, weight

from lcm_mcp.dag.model import MAX_DEPTH, header
from lcm_mcp.dag.store import frontier
from lcm_mcp.ids import NodeId, Seq
from lcm_mcp.projection.formats import check_order
from lcm_mcp.projection.labels import fence_history
from lcm_mcp.projection.lcm import block
from lcm_mcp.projection.model import FORMATS, Format, Message
from lcm_mcp.service import Service
from lcm_mcp.service.answers import ExpandedRow
from lcm_mcp.service.compaction import summarized
from lcm_mcp.summarizers.ladder import shown_tokens
from lcm_mcp.tokens import BYTES_PER_TOKEN, Size, utf8_length
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.path import Path

UNKNOWN_DIGITS_TOKENS = 2
"""How much longer a header may have been taken while the node had no number yet."""
LEAST_LEAF_TOKENS = 256
STUB = "s" * 200 * BYTES_PER_TOKEN


# --- laws 1 and 2


async def holds_everything_once(
    service: Service, key: str, nodes: Sequence[str], after: Sequence[str], active: Sequence[Told]
) -> None:
    """Laws 1 and 2: the rows under `nodes` and then `after` are the active rows, once, word for word."""
    rows: list[ExpandedRow] = []
    for node in nodes:
        rows += await expanded(service, key, node, 20_000)
    assert [row.ref for row in rows] + [*after] == [row.ref for row in active]
    if after:
        rows += await expanded(service, key, f"{after[0]}..{after[-1]}", 20_000)
    _same_rows(rows, active)


async def holds_every_part(service: Service, key: str, active: Sequence[Told]) -> None:
    """Law 1 with include_payload, over the whole active path."""
    if not active:
        return
    rows = await expanded(service, key, f"{active[0].ref}..{active[-1].ref}", 6000, payload=True)
    _same_rows(rows, active)
    for row, known in zip(rows, active, strict=True):
        assert parts_of(row) == [part_to_json(part) for part in known.parts], row.ref


def _same_rows(rows: Sequence[ExpandedRow], active: Sequence[Told]) -> None:
    assert [row.ref for row in rows] == [row.ref for row in active]
    for row, known in zip(rows, active, strict=True):
        assert row.text == known.text, row.ref
        assert (row.role, row.removed) == (known.role, False)


async def holds_memory(service: Service, key: str, active: Sequence[Told]) -> None:
    """Laws 1 and 2 for the memory frontier and the rows after the covered end."""
    standing = await nodes_of(service, key, frontier=True)
    standing.sort(key=lambda node: _seq(node.span[0]))
    end = _seq(standing[-1].span[1]) if standing else 0
    after = [row.ref for row in active if row.seq > end]
    await holds_everything_once(service, key, [node.id for node in standing], after, active)


async def holds_cover(service: Service, key: str, active: Sequence[Told]) -> None:
    """Law 2 for the DAG: a node's rows are the chain between its ends, a parent's its children's."""
    nodes = {node.id: node for node in await nodes_of(service, key)}
    places = {row.ref: place for place, row in enumerate(active)}
    for node in nodes.values():
        first, last = (places[end] for end in node.span)
        assert node.rows == last - first + 1, node.id
        children = (await service.describe(node.id, key)).node
        assert children is not None
        below = [nodes[child] for child in children.children]
        assert [child.depth for child in below] == [node.depth - 1] * len(below)
        assert (node.depth > 0) == (len(below) > 1), node.id
        if below:
            assert (below[0].span[0], below[-1].span[1]) == node.span
        for one, other in pairwise(below):
            assert places[one.span[1]] + 1 == places[other.span[0]], node.id


def _seq(ref: str) -> int:
    return int(ref.removeprefix("e"))


# --- laws 3 to 7


def holds_order(views: dict[Format, View]) -> None:
    """Law 3 as a provider sees it: no format has anything to refuse in turns, calls and results."""
    for form, view in views.items():
        assert check_order(view.messages, form) == []
        assert view.tail == views["messages"].tail
        assert view.prepared == views["messages"].prepared


Pair = tuple[int, int]
"""A call's row and its result's, by seq."""


def holds_pairs(starts: Sequence[int], active: Sequence[Told], late: set[Pair], *, at_units: bool) -> None:
    """Law 3 where something was just divided before the rows `starts`: no call stands on one side with its
    result on the other, but for late ones, whose call was summarized before they came. at_units: a unit
    opens there, too."""
    places = {row.seq: place for place, row in enumerate(active)}
    joined = [pair for pair in pairs(active) if (active[pair[0]].seq, active[pair[1]].seq) not in late]
    for start in starts:
        place = places[start]
        assert not at_units or opens(active[place]) or place == 0, f"e{start} opens no unit"
        parted = [pair for pair in joined if pair[0] < place <= pair[1]]
        assert not parted, f"e{start} parts {[(active[one].ref, active[two].ref) for one, two in parted]}"


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


def history_text(views: dict[Format, View]) -> str | None:
    """The history message as it is shown; None where no cut is in force."""
    if views["messages"].cut is None:
        return None
    block = _blocks(views["messages"].messages[0])[0]
    return str(block["text"])


def holds_headers(views: dict[Format, View]) -> None:
    """Every shown node stands under its own header, and no text poses as another."""
    lines = (history_text(views) or "").split("\n")
    headers = [line.split()[1] for line in lines if line.startswith("[lcm:summary ")]
    assert headers == views["messages"].shown
    assert sum(line.startswith("[lcm:history") for line in lines) == (2 if headers else 0)


def holds_estimate(views: dict[Format, View], active: Sequence[Told]) -> None:
    """Law 7's figure is the rule's: preamble, history and tail as they are shown."""
    history = history_text(views)
    shown = Size() if history is None else Size(bytes=utf8_length(history), inputs=1)
    tail = set(views["messages"].tail)
    size = shown + weight([row for row in active if row.ref in tail])
    for view in views.values():
        assert view.tokens == view.preamble + size.tokens
        assert view.tokens == sum(section.tokens for section in view.observation.sections)


def holds_fit(view: View) -> None:
    """Law 7: within the window, or a status and a note that say why not."""
    window = view.observation.window_tokens
    if window is None or view.tokens <= window:
        assert view.status != "limited"
        return
    assert view.status in ("limited", "failed", "scheduled")
    assert any(note.startswith("Over the window") and str(window) in note for note in view.notes)


async def holds_limit(
    service: Service, key: str, active: Sequence[Told], view: View, *, settled: bool
) -> None:
    """Law 7: limited only where the newest unit, the preamble and the least history there could be before it
    exceed the window.

    The least history is every node at its shortest (settled: all in one, while neighbours of one depth are
    left to condense), and what could be a leaf as a stub; less than a leaf's worth of rows stays as it is.
    The newest unit begins with the tail where a late result joined it with rows before.
    """
    start = newest_unit(active)
    if view.cut is not None:
        start = max(start, [row.ref for row in active].index(view.tail[0]))
    standing = await service.work.store.read(_standing_before, key, active[start].seq)
    covered = standing[-1].last if standing else 0
    blocks = [node.shortest for node in standing]
    if settled and any(one.depth == other.depth < MAX_DEPTH for one, other in pairwise(standing)):
        blocks = [STUB]
    loose = [row for row in active[:start] if row.seq > covered]
    if weight(loose).tokens >= LEAST_LEAF_TOKENS:
        loose, blocks = [], [*blocks, STUB]
    history = Size(bytes=utf8_length(fence_history(blocks)), inputs=1) if blocks else Size()
    least = view.preamble + (weight([*loose, *active[start:]]) + history).tokens
    assert least > (view.observation.window_tokens or 0)


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


async def holds_shrink(service: Service, key: str, active: Sequence[Told]) -> None:
    """Law 6: every stored summary is strictly smaller than its source, as both are shown."""
    places = {row.seq: place for place, row in enumerate(active)}
    texts, below = await service.work.store.read(_summaries, key)
    for (node, kind), text in texts.items():
        assert text.shown <= text.tokens <= text.shown + UNKNOWN_DIGITS_TOKENS, (node, kind)
        children = [texts[child, "primary"] for child in below.get(node, [])]
        source = sum(child.shown for child in children)
        if not children:
            source = weight(active[places[text.first] : places[text.last] + 1]).tokens
        assert text.source == source, (node, kind)
        assert text.tokens < source, (node, kind)


@dataclass(frozen=True, slots=True)
class _Summary:
    """A stored text; source and tokens as recorded, shown as it really takes."""

    first: int
    last: int
    source: int
    tokens: int
    shown: int


def _summaries(db: apsw.Connection, key: str) -> tuple[dict[tuple[int, str], _Summary], dict[int, list[int]]]:
    """Every text by node and tier, and every parent's children."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    texts = {
        (node, kind): _Summary(first, last, source, tokens, _shown(node, depth, first, last, body))
        for node, kind, depth, first, last, source, tokens, body in db.execute(_TEXTS, (session.id,))
    }
    below: dict[int, list[int]] = {}
    for node, child in db.execute("SELECT node, child FROM edge WHERE session = ?", (session.id,)):
        below.setdefault(node, []).append(child)
    return texts, below


def _shown(node: int, depth: int, first: int, last: int, body: str) -> int:
    return shown_tokens(header(NodeId(node), depth, Seq(first), Seq(last)), body)


_TEXTS = """SELECT node.id, tier.kind, depth, first, last, source_tokens, tokens, body FROM node
    JOIN tier ON tier.session = node.session AND tier.node = node.id
    JOIN text ON text.id = tier.text WHERE node.session = ?"""
