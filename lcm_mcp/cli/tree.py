"""The command tree: a conversation with its branches, a unit a line. It writes nothing to the store.

The active path is the trunk. What was removed hangs under the unit it leaves, and so do the sessions that
start there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, draw, fitted, json_option, print_json, role_style, styled
from lcm_mcp.cli.text import shorten, unbroken
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree as Drawing

    from lcm_mcp.service.branching import Begun, Tree, TreeBranch, TreeUnit

_LEAST_SAID = 16


@click.command("tree")
@json_option
@shared_options
@pass_call
def tree_command(call: Call, as_json: bool) -> None:
    """Draw the conversation with its branches.

    A line is a unit: a user's row and what follows it. Removed branches, forks and child sessions stand under
    the unit where they start.
    """
    tree = call.run(lambda service: service.tree(call.session))
    if as_json:
        print_json(tree)
    else:
        show_tree(console(), tree)


def show_tree(out: Console, tree: Tree) -> None:
    from rich.tree import Tree as Drawing

    root = Drawing(fitted(_head(tree), out.width), guide_style="dim")
    stems: dict[str, tuple[Drawing, int]] = {}
    waiting = list(tree.branches)
    while waiting:  # a branch may leave one that began after it, where the path came back
        ready = [branch for branch in waiting if branch.unit is None or branch.unit in stems]
        for branch in ready:
            stem, level = (root, 0) if branch.unit is None else stems[branch.unit]
            if not branch.active:
                stem, level = stem.add(_removed(branch)), level + 1
            for unit in branch.units:
                line = _line(unit, branch.active, out.width - 4 * (level + 1))
                stems[unit.first] = stem.add(line), level + 1
        waiting = [branch for branch in waiting if branch not in ready]
    for begun in tree.begun:
        stem = root if begun.unit is None else stems[begun.unit][0]
        stem.add(fitted(_session(begun), out.width - 8))
    draw(out, root)


def _head(tree: Tree) -> Text:
    active = next((branch for branch in tree.branches if branch.active), None)
    figures = "empty" if active is None else f"{counted(len(active.units), 'unit')}, {_size(active)}"
    others = len(tree.branches) - (active is not None)
    removed = f"; {counted(others, 'removed branch', 'removed branches')}" if others else ""
    text = styled((unbroken(tree.session), "bold"), (f"  {figures}{removed}", "dim"))
    if tree.parent is not None:
        begins = f" from {tree.opener}" if tree.opener else ""
        text.append(f"  {tree.link or 'child'} of {unbroken(tree.parent)}{begins}", "dim")
    return text


def _size(part: TreeBranch | TreeUnit) -> str:
    return f"{counted(part.rows, 'row')}, {part.tokens:,} tokens"


def _line(unit: TreeUnit, active: bool, width: int) -> Text:
    span = unit.first if unit.first == unit.last else f"{unit.first}..{unit.last}"
    text = styled((span, "bold cyan" if active else "dim"), (f"  {_size(unit)}", "dim"))
    room = width - len(text.plain) - 2
    if room >= _LEAST_SAID:
        text.append(f"  {shorten(unit.said, room)}", role_style(unit.role) if active else "dim")
    return text


def _removed(branch: TreeBranch) -> Text:
    after = "" if branch.after is None else f" after {branch.after}"
    return styled((f"[removed]{after}  {_size(branch)}", "yellow"))


def _session(begun: Begun) -> Text:
    begins = "" if begun.opener is None else f" from {begun.opener}"
    ends = "" if begun.outcome is None else f", outcome {begun.outcome}"
    name = f"{begun.link} {unbroken(begun.session)}"
    return styled((name, "magenta"), (f" ({begun.id}){begins}  {counted(begun.rows, 'row')}{ends}", "dim"))
