"""The laws of semantics.md §10 on what is stored, as checks on an open service: 1, 2 and 6.

A check asks the service as any client would, compares the answers with what the test knows it told, and
raises AssertionError with the figures. Units, pairs and weights are worked out here anew, from the drafts
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import apsw
from asking import expanded, nodes_of, parts_of
from told import Told, unit_of, weight

from lcm_mcp.dag.model import header
from lcm_mcp.ids import NodeId, Seq
from lcm_mcp.service import Service
from lcm_mcp.service.answers import ExpandedRow, NodeLine
from lcm_mcp.summarizers.ladder import shown_tokens
from lcm_mcp.summarizers.model import FoldSource, Source
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import Json

UNKNOWN_DIGITS_TOKENS = 2
"""How much longer a header may have been taken while the node had no number yet."""


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
        assert [_by_resource(part) for part in parts_of(row)] == [
            _by_resource(part_to_json(part), given)
            for part, given in zip(known.parts, parts_of(row), strict=True)
        ], row.ref


def _by_resource(part: Json, given: Json = None) -> Json:
    """A part whose images are compared by their digests where one was given by its resource."""
    match part, given:
        case {"resource": str()}, None:
            return {key: value for key, value in part.items() if key != "resource"}
        case {"data": str()}, {"resource": str()}:
            return {key: value for key, value in part.items() if key != "data"}
        case {"content": list(content)}, {"content": list(others)}:
            return {**part, "content": [_by_resource(*pair) for pair in zip(content, others, strict=True)]}
        case {"content": list(content)}, None:
            return {**part, "content": [_by_resource(piece) for piece in content]}
        case _:
            return part


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


Chain = Callable[[int, int], Sequence[Told]]
"""The rows from one to another as they follow each other, on the path or off it."""


def chain_on(active: Sequence[Told]) -> Chain:
    return lambda first, last: [row for row in active if first <= row.seq <= last]


async def holds_cover(service: Service, key: str, chain: Chain) -> None:
    """Law 2 for the DAG: a node's rows are the chain between its ends, a parent's its children's."""
    nodes = {node.id: node for node in await nodes_of(service, key)}
    for node in nodes.values():
        first, last = (_seq(end) for end in node.span)
        rows = chain(first, last)
        assert (rows[0].seq, rows[-1].seq, len(rows)) == (first, last, node.rows), node.id
        children = (await service.describe(node.id, key)).node
        assert children is not None
        below = [nodes[child] for child in children.children]
        assert [child.depth for child in below] == [node.depth - 1] * len(below)
        assert (node.depth > 0) == (len(below) > 1), node.id
        if below:
            assert (below[0].span[0], below[-1].span[1]) == node.span
        places = {row.ref: place for place, row in enumerate(rows)}
        for one, other in pairwise(below):
            assert places[one.span[1]] + 1 == places[other.span[0]], node.id


def _seq(ref: str) -> int:
    return int(ref.removeprefix("e"))


# --- law 6


async def holds_shrink(service: Service, key: str, chain: Chain) -> None:
    """Law 6: every stored summary is strictly smaller than its source, as both are shown.

    The source of a parent is what its children said when it was made, one version of each.
    """
    texts, below, before = await service.work.store.read(_summaries, key)
    for (node, kind), text in texts.items():
        assert text.shown <= text.tokens <= text.shown + UNKNOWN_DIGITS_TOKENS, (node, kind)
        sources = {0}
        for child in below.get(node, []):
            said = (texts[child, "primary"].shown, *before.get(child, ()))
            sources = {source + one for source in sources for one in said}
        if node not in below:
            sources = {weight(chain(text.first, text.last)).tokens}
        assert text.source in sources, (node, kind)
        assert text.tokens < max(sources), (node, kind)


@dataclass(frozen=True, slots=True)
class _Summary:
    """A stored text; source and tokens as recorded, shown as it really takes."""

    first: int
    last: int
    source: int
    tokens: int
    shown: int


def _summaries(
    db: apsw.Connection, key: str
) -> tuple[dict[tuple[int, str], _Summary], dict[int, list[int]], dict[int, list[int]]]:
    """Every text by node and tier, every parent's children, and how much earlier texts of a node took."""
    session = sessions.find_by_key(db, key)
    assert session is not None
    texts = {
        (node, kind): _Summary(first, last, source, tokens, _shown(node, depth, first, last, body))
        for node, kind, depth, first, last, source, tokens, body in db.execute(_TEXTS, (session.id,))
    }
    below: dict[int, list[int]] = {}
    for node, child in db.execute("SELECT node, child FROM edge WHERE session = ?", (session.id,)):
        below.setdefault(node, []).append(child)
    earlier: dict[int, list[int]] = {}
    for node, depth, first, last, body in db.execute(_EARLIER, (session.id,)):
        earlier.setdefault(node, []).append(_shown(node, depth, first, last, body))
    return texts, below, earlier


def _shown(node: int, depth: int, first: int, last: int, body: str) -> int:
    return shown_tokens(header(NodeId(node), depth, Seq(first), Seq(last)), body)


_TEXTS = """SELECT node.id, tier.kind, depth, first, last, source_tokens, tokens, body FROM node
    JOIN tier ON tier.session = node.session AND tier.node = node.id
    JOIN text ON text.id = tier.text WHERE node.session = ?"""

_EARLIER = """SELECT node.id, depth, first, last, body FROM node
    JOIN superseded AS old ON old.session = node.session AND old.node = node.id AND old.kind = 'primary'
    JOIN text ON text.id = old.text WHERE node.session = ?"""


# --- rolling's sources


def holds_fold(
    sources: Sequence[Source], active: Sequence[Told], nodes: Sequence[NodeLine], *, since: int, place: int
) -> None:
    """A running summary is made from all rows from row `since` to the tail, which starts at `place`.

    The first one (since 0) reads stored nodes in the stead of rows: no row that a node covers before the tail
    is read, unless it lies in the tail's own unit. A later one carries on the summary before it instead.
    """
    folds = [source for source in sources if isinstance(source, FoldSource)]
    read = {row.seq for fold in folds for row in fold.rows}
    told = [_ends(child.span) for fold in folds for child in fold.children]
    wanted = [row.seq for row in active[:place] if row.seq >= since]
    assert all(seq in read or any(first <= seq <= last for first, last in told) for seq in wanted)
    assert (since > 0) <= all(fold.children for fold in folds)
    if since == 0:
        covered = [(_seq(node.span[0]), _seq(node.span[1])) for node in nodes]
        own = unit_of(active, place)
        stood_for = {row.seq for row in active[:own] if any(a <= row.seq <= b for a, b in covered)}
        assert not stood_for & read, f"read although nodes stand for them: {sorted(stood_for & read)}"


def _ends(span: str) -> tuple[int, int]:
    first, _, last = span.partition("..")
    return _seq(first), _seq(last)
