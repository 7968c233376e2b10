"""The command dag: the nodes of a session as a tree, each under the node that condensed it.

A node that stands under several parents is shown under each. It writes nothing to the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, draw, fitted, json_option, print_json, styled
from lcm_mcp.cli.text import as_commands, one_line, shorten, unbroken
from lcm_mcp.values import frozen
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import NodeLine

_PAGE = 100


@frozen
class Dag:
    """All nodes of a session, and the children of each that has some."""

    session: str
    nodes: tuple[NodeLine, ...]
    children: dict[str, tuple[str, ...]]
    note: str | None
    behind: str | None = None

    def roots(self) -> list[NodeLine]:
        """Nodes under no other, in the order of the rows they cover."""
        covered = {child for children in self.children.values() for child in children}
        return sorted((node for node in self.nodes if node.id not in covered), key=_first_row)


def _first_row(node: NodeLine) -> int:
    return int(node.span[0].rpartition("e")[2])


async def read_dag(service: Service, session: str | None) -> Dag:
    page = await service.list_nodes(session=session, limit=_PAGE)
    nodes, note, behind = list(page.nodes), page.note, page.behind
    while page.next_cursor is not None:
        page = await service.list_nodes(session=session, limit=_PAGE, cursor=page.next_cursor)
        nodes += page.nodes
    children: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.depth > 0:
            described = (await service.describe(node.id, session)).node
            children[node.id] = () if described is None else described.children
    return Dag(page.session, tuple(nodes), children, note, behind)


@click.command("dag")
@json_option
@shared_options
@pass_call
def dag_command(call: Call, as_json: bool) -> None:
    """Draw the summary nodes as a tree."""
    dag = call.run(lambda service: read_dag(service, call.session))
    if as_json:
        print_json(dag)
    else:
        show_dag(console(), dag)


def show_dag(out: Console, dag: Dag) -> None:
    """Draw the tree, and what it comes to."""
    from rich.tree import Tree

    if not dag.nodes:
        out.print(styled(one_line(as_commands(dag.note or "No nodes yet."))))
        return
    roots = dag.roots()
    leaves = [node for node in dag.nodes if node.depth == 0]
    rows = sum(node.rows for node in leaves)
    figures = (
        f"{counted(len(roots), 'root')} over {counted(len(leaves), 'leaf', 'leaves')}, {counted(rows, 'row')}"
    )
    head = styled((unbroken(dag.session), "bold"), (f"  {figures}", "dim"))
    tree = Tree(fitted(head, out.width), guide_style="dim")
    known = {node.id: node for node in dag.nodes}
    for root in roots:
        _grow(tree, root, dag.children, known, out.width)
    draw(out, tree)


def _grow(
    tree: Tree,
    node: NodeLine,
    children: Mapping[str, tuple[str, ...]],
    known: Mapping[str, NodeLine],
    width: int,
    level: int = 1,
) -> None:
    """Hang a node and all below it; the depth of a DAG is bounded, so the recursion is."""
    first, last = node.span
    size = f"  {node.source_tokens:,} → {node.tokens:,} tokens"
    label = styled((node.id, "bold cyan"), f"  {first}..{last}", (size, "dim"))
    room = width - 4 * level - len(label.plain) - 3
    if room >= 16:
        label.append(f"  {shorten(node.preview, room)}")
    branch = tree.add(label)
    for child in children.get(node.id, ()):
        if child in known:
            _grow(branch, known[child], children, known, width, level + 1)
