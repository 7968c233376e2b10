"""Nodes in the store: which of them stand, what a commit checks, and what cuts and leases promise."""

from __future__ import annotations

import socket
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import NOW, active_rows, add, assert_nodes_are_whole, database, draft, new_session, path_of

from lcm_mcp.dag import cuts, leases, observations
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.cuts import Cut, Quote, Running, ShownNode
from lcm_mcp.dag.model import Node, Stale, Summary, Tier
from lcm_mcp.dag.observations import Measured, Observed, Pair
from lcm_mcp.ids import CutId, NodeId, Seq, SessionId
from lcm_mcp.tokens import Size, TokenCount
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.units import Span, units

SUMMARY = Summary(Tier("primary", "in short", TokenCount(30), 1, "test"))
THOROUGH = replace(SUMMARY, rich=Tier("rich", "at length", TokenCount(60), 1, "test"))


@pytest.fixture
def db(store_path: Path) -> Generator[apsw.Connection]:
    with database(store_path) as opened:
        yield opened


def talked(db: apsw.Connection, rows: int) -> SessionId:
    """A session of that many rows, each a unit of its own."""
    session = new_session(db)
    add(db, session, *[draft("user", f"row {n}") for n in range(1, rows + 1)])
    return session


def span(db: apsw.Connection, session: SessionId, first: int, last: int) -> Span:
    path = path_of(db, session)
    before = path.before(Seq(first))
    return Span(Seq(first), Seq(last), before, last - first + 1, Size(bytes=400))


def leaf(db: apsw.Connection, session: SessionId, first: int, last: int) -> Node | Stale:
    made = dag.commit_leaves(db, session, [(span(db, session, first, last), SUMMARY)], NOW)
    return made if isinstance(made, Stale) else made[0]


def leaves(db: apsw.Connection, session: SessionId, *lasts: int) -> list[Node]:
    """Leaves that end at these rows, from the first row on."""
    made: list[Node] = []
    first = 1
    for last in lasts:
        node = leaf(db, session, first, last)
        assert isinstance(node, Node)
        made.append(node)
        first = last + 1
    return made


def parent(db: apsw.Connection, session: SessionId, nodes: list[Node]) -> Node | Stale:
    return dag.commit_parent(db, session, nodes, TokenCount(sum(n.tokens for n in nodes)), SUMMARY, NOW)


def standing(db: apsw.Connection, session: SessionId, upto: int | None = None) -> list[NodeId]:
    path = path_of(db, session)
    return [node.id for node in dag.frontier(db, session, path, path.leaf if upto is None else Seq(upto))]


def rewind(db: apsw.Connection, session: SessionId, seq: int) -> None:
    """What a rewind writes: the leaf, nothing else."""
    db.execute("UPDATE session SET leaf = ? WHERE id = ?", (seq, session))


# --- commits


def test_a_leaf_that_goes_on_where_the_last_one_ended_is_stored(db: apsw.Connection) -> None:
    session = talked(db, 6)
    one, two = leaves(db, session, 2, 5)
    assert (one.id, one.depth, one.first, one.last, one.rows) == (1, 0, 1, 2, 2)
    assert dag.find_node(db, session, two.id) == two
    assert dag.tiers(db, session, two.id) == {"primary": SUMMARY.primary}
    assert standing(db, session) == [1, 2]


@pytest.mark.parametrize(("first", "last"), [(1, 3), (2, 3), (4, 5), (1, 2)])
def test_a_leaf_that_does_not_go_on_there_is_stale_and_writes_nothing(
    db: apsw.Connection, first: int, last: int
) -> None:
    session = talked(db, 6)
    leaves(db, session, 2)
    before = db.total_changes()
    assert leaf(db, session, first, last) == Stale()
    assert db.total_changes() == before


def test_a_leaf_of_rows_that_were_removed_meanwhile_is_stale(db: apsw.Connection) -> None:
    session = talked(db, 6)
    planned = span(db, session, 1, 4)
    rewind(db, session, 3)
    assert dag.commit_leaves(db, session, [(planned, SUMMARY)], NOW) == Stale()
    rewind(db, session, 6)
    assert isinstance(dag.commit_leaves(db, session, [(planned, SUMMARY)], NOW), list)


def test_a_parent_of_standing_neighbours_takes_their_place(db: apsw.Connection) -> None:
    session = talked(db, 8)
    one, two, three = leaves(db, session, 2, 4, 6)
    made = dag.commit_parent(db, session, [one, two], TokenCount(60), THOROUGH, NOW)
    assert isinstance(made, Node)
    assert (made.depth, made.first, made.last, made.rows, made.source_tokens) == (1, 1, 4, 4, 60)
    assert dag.children(db, session, made.id) == [one.id, two.id]
    assert dag.parents(db, session, one.id) == [made.id]
    assert set(dag.tiers(db, session, made.id)) == {"primary", "rich"}
    assert dag.with_descendants(db, session, made.id) == {made.id, one.id, two.id}
    assert standing(db, session) == [made.id, three.id]


def test_a_parent_of_nodes_that_no_longer_stand_is_stale(db: apsw.Connection) -> None:
    session = talked(db, 8)
    one, two, three = leaves(db, session, 2, 4, 6)
    assert isinstance(parent(db, session, [two, three]), Node)
    before = db.total_changes()
    for nodes in ([two, three], [one, three], [one, two, three]):
        assert parent(db, session, nodes) == Stale()
    rewind(db, session, 3)
    assert parent(db, session, [one, two]) == Stale()
    assert db.total_changes() == before + 1  # the rewind's own


def test_children_may_stand_under_another_parent_where_the_first_reaches_too_far(db: apsw.Connection) -> None:
    # The tail of a small window starts after row 4: what is shown before it may be condensed too.
    session = talked(db, 8)
    one, two, three = leaves(db, session, 2, 4, 6)
    far, near = parent(db, session, [two, three]), parent(db, session, [one, two])
    assert isinstance(far, Node)
    assert isinstance(near, Node)
    assert dag.parents(db, session, two.id) == [far.id, near.id]
    assert standing(db, session, upto=4) == [near.id]
    assert standing(db, session) == [one.id, far.id]


# --- the frontier


def test_a_parent_that_reaches_beyond_gives_way_to_its_children(db: apsw.Connection) -> None:
    session = talked(db, 8)
    one, two, three = leaves(db, session, 2, 4, 6)
    above = parent(db, session, [two, three])
    assert isinstance(above, Node)
    assert standing(db, session) == [one.id, above.id]
    assert standing(db, session, upto=5) == [one.id, two.id]
    assert standing(db, session, upto=3) == [one.id]
    assert standing(db, session, upto=1) == []


def test_nodes_of_a_branch_stand_only_while_their_last_row_is_active(db: apsw.Connection) -> None:
    session = talked(db, 6)
    one, two = leaves(db, session, 2, 5)
    above = parent(db, session, [one, two])
    assert isinstance(above, Node)
    rewind(db, session, 3)
    assert standing(db, session) == [one.id]
    add(db, session, draft("user", "another way"), draft("user", "and on"))
    assert active_rows(db, session) == [1, 2, 3, 7, 8]
    other = dag.commit_leaves(db, session, [(branch_span(db, session, 3, 8), SUMMARY)], NOW)
    assert isinstance(other, list)
    assert standing(db, session) == [one.id, other[0].id]
    rewind(db, session, 6)
    assert standing(db, session) == [above.id]


def branch_span(db: apsw.Connection, session: SessionId, first: int, last: int) -> Span:
    rows = [seq for seq in active_rows(db, session) if first <= seq <= last]
    return Span(rows[0], rows[-1], path_of(db, session).before(rows[0]), len(rows), Size(bytes=400))


@dataclass(frozen=True)
class Oracle:
    """The frontier by its definition, from everything there is: no index, no walk along segments."""

    rows: list[Seq]
    nodes: list[Node]

    def frontier(self, upto: int) -> list[Node]:
        ends = {node.last for node in self.nodes} & set(self.rows)
        end = max((end for end in ends if end <= upto), default=0)
        chosen: list[Node] = []
        while end:
            longest = max(
                (node for node in self.nodes if node.last == end),
                key=lambda node: (-node.first, node.depth, node.id),
                default=None,
            )
            assert longest is not None, "a hole"
            chosen.append(longest)
            place = self.rows.index(longest.first)
            end = self.rows[place - 1] if place else 0
        return chosen[::-1]


def all_nodes(db: apsw.Connection, session: SessionId) -> list[Node]:
    return dag.page(db, session, None, None, 10_000)


KINDS = st.sampled_from(["append", "append", "leaf", "leaf", "parent", "parent", "rewind"])
ACTIONS = st.lists(st.tuples(KINDS, st.integers(0, 999)), max_size=40)


def act(db: apsw.Connection, session: SessionId, action: str, number: int) -> None:
    rows = active_rows(db, session)
    path = path_of(db, session)
    match action:
        case "append":
            turn = [draft("user", "q"), draft("assistant", "a"), draft("user", "off", active=False)]
            add(db, session, *turn[: number % 3 + 1])
        case "leaf" if rows:
            end = dag.covered_end(db, session, path, path.leaf)
            free = units([mark for mark in path.marks(Seq(1), path.leaf) if mark.seq > end])
            if free:
                last = free[number % len(free)].last
                made = [(branch_span(db, session, free[0].first, last), SUMMARY)]
                assert isinstance(dag.commit_leaves(db, session, made, NOW), list)
        case "parent":
            nodes = dag.frontier(db, session, path, path.leaf)
            run = [node for node in nodes if node.depth == nodes[number % len(nodes)].depth]
            adjacent = [node for node in run if nodes.index(node) - nodes.index(run[0]) == run.index(node)]
            if len(adjacent) > 1 and run[0].depth < 8:
                assert isinstance(parent(db, session, adjacent[:8]), Node)
        case "rewind" if rows:
            rewind(db, session, rows[number % len(rows)])
        case _:
            pass


def test_the_frontier_is_what_its_definition_says_in_every_state(db: apsw.Connection) -> None:
    @settings(max_examples=60, deadline=None)
    @given(ACTIONS)
    def law(actions: list[tuple[str, int]]) -> None:
        session = new_session(db)
        for action, number in actions:
            act(db, session, action, number)
            rows = active_rows(db, session)
            oracle = Oracle(rows, all_nodes(db, session))
            path = path_of(db, session)
            for upto in {path.leaf, *rows[number % 3 :: 3]}:
                found = dag.frontier(db, session, RowPath(db, session, path.leaf), upto)
                assert found == oracle.frontier(upto)
                covered = [seq for node in found for seq in rows if node.first <= seq <= node.last]
                assert covered == [seq for seq in rows if found and seq <= found[-1].last]
        assert_nodes_are_whole(db, session)

    law()


# --- cuts and leases


def test_the_last_cut_of_a_strategy_is_in_force_and_reads_back_as_written(db: apsw.Connection) -> None:
    session = talked(db, 4)
    assert cuts.last_cut(db, session, "lcm") is None
    shown = (ShownNode(NodeId(3), "stub"), ShownNode(NodeId(4), "rich"))
    cut = Cut(
        id=CutId(0),
        strategy="lcm",
        tail_from=Seq(3),
        shown=shown,
        running=None,
        quotes=(Quote("pin", Seq(1), None), Quote("opener", Seq(2), 40)),
        crowded_out=(Seq(2),),
        stalled=True,
        grown=False,
        window=9,
        prefix_sha256="f",
        made_at=7,
    )
    first = cuts.commit_cut(db, session, cut)
    running = Running("what was said", Seq(1), Seq(2), 1, "extractive")
    other = replace(cut, strategy="rolling", shown=(), running=running)
    second = cuts.commit_cut(db, session, other)
    assert (first, second) == (1, 2)
    assert cuts.last_cut(db, session, "lcm") == cuts.find_cut(db, session, first) == replace(cut, id=first)
    assert cuts.last_cut(db, session, "rolling") == replace(other, id=second)
    assert cuts.find_cut(db, session, CutId(3)) is None


def test_a_running_summary_is_no_longer_in_force_once_it_was_dropped_or_lcm_cut_after_it(
    db: apsw.Connection,
) -> None:
    session = talked(db, 4)
    running = Running("what was said", Seq(1), Seq(2), 1, "extractive")
    nothing = Cut(
        CutId(0), "rolling", Seq(3), (), running, (), (), stalled=False, grown=False, window=9,
        prefix_sha256="f", made_at=7,
    )  # fmt: skip
    cuts.commit_cut(db, session, nothing)
    sessions.select_strategy(db, session, "rolling", drop_running=False)
    assert cuts.last_cut(db, session, "rolling") is not None
    sessions.select_strategy(db, session, "rolling", drop_running=True)
    assert cuts.last_cut(db, session, "rolling") is None
    cuts.commit_cut(db, session, nothing)
    assert cuts.last_cut(db, session, "rolling") is not None
    cuts.commit_cut(db, session, replace(nothing, strategy="lcm", running=None))
    assert cuts.last_cut(db, session, "rolling") is None


def test_a_lease_keeps_others_out_until_it_is_given_back_or_runs_out(db: apsw.Connection) -> None:
    session, other = talked(db, 1), talked(db, 1)
    assert leases.take_lease(db, session, "mine", NOW)
    assert not leases.take_lease(db, session, "theirs", NOW + leases.LEASE_MS - 1)
    assert leases.take_lease(db, other, "theirs", NOW)
    leases.release_lease(db, session, "of somebody else")
    assert not leases.take_lease(db, session, "theirs", NOW)
    assert leases.take_lease(db, session, "late", NOW + leases.LEASE_MS)
    leases.release_lease(db, session, "mine")  # lost in the meantime: nothing happens
    assert not leases.take_lease(db, session, "theirs", NOW + leases.LEASE_MS)
    leases.release_lease(db, session, "late")
    assert leases.take_lease(db, session, "theirs", NOW)


def test_a_lease_on_another_host_is_believed_and_a_dead_one_here_is_not(db: apsw.Connection) -> None:
    session = talked(db, 1)
    for holder, taken in (("another-host/1", False), (f"{socket.gethostname()}/{2**22 + 1}", True)):
        assert leases.take_lease(db, session, "first", NOW)
        db.execute("UPDATE lease SET holder = ?", (holder,))
        assert leases.take_lease(db, session, "second", NOW) == taken
        db.execute("DELETE FROM lease")


# --- observations and what providers counted


def observed(prepared: str, model: str | None = None, size: int = 4000, fixed: int = 12) -> Observed:
    return Observed(prepared, model, size, fixed, b"{}")


def test_only_the_newest_observations_are_kept(db: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "OBSERVATIONS_KEPT", 3)
    session, other = talked(db, 1), talked(db, 1)
    for n in range(5):
        for each in (session, other):
            observations.keep(db, each, observed(f"c0.e{n}"), NOW)
    kept = db.execute("SELECT prepared FROM observation WHERE session = ? ORDER BY n", (session,))
    assert [prepared for (prepared,) in kept] == ["c0.e2", "c0.e3", "c0.e4"]


def test_a_providers_count_stands_beside_the_newest_preparation_of_its_name(db: apsw.Connection) -> None:
    session, other = talked(db, 1), talked(db, 1)
    for name in ("c0.e1", "c0.e2", "c0.e1"):
        observations.keep(db, session, observed(name, "a/m"), NOW)
    assert observations.measure(db, session, "c0.e1", Measured(900, 100))
    assert not observations.measure(db, session, "c0.e3", Measured(900, None))
    assert not observations.measure(db, other, "c0.e1", Measured(900, None))
    assert observations.last(db, session) == (b"{}", Measured(900, 100))
    assert observations.pairs(db, session, "a/m", 8) == [Pair(4000, 12, 900)]
    assert observations.pairs(db, session, None, 8) == []
