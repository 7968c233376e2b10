"""The commands compact and strategy: fold a session now, and say how it is prepared from now on.

Compacting is shown as a bar on stderr where a person watches, and a pass that was started is finished
before the command ends; Ctrl-C ends it, and what it had made is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import unbroken

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.background import Report
    from lcm_mcp.service.prepared import Observation
    from lcm_mcp.service.selecting import Selection

T = TypeVar("T")

MOST_CALLS = 20
"""Each waits for some of the passes' time; a compaction still not at its end after these is left there."""


@click.command("compact")
@click.argument("strategy", required=False, type=click.Choice(["rolling", "lcm"]))
@json_option
@shared_options
@pass_call
def compact_command(call: Call, strategy: Literal["rolling", "lcm"] | None, as_json: bool) -> None:
    """Summarize a session's older part now.

    Later requests show it by summaries; every row stays. STRATEGY, where given, is selected for the
    session: rolling (one running summary) or lcm (nodes).
    """

    async def compact(service: Service) -> Observation:
        seen = await service.compact(call.session, strategy)
        for _ in range(MOST_CALLS):
            if seen.status != "scheduled":
                break
            seen = await service.compact(seen.session)
        return seen

    seen = call.run(lambda service: watched(service, compact, not call.quiet))
    if as_json:
        print_json(seen)
    elif not call.quiet:
        from lcm_mcp.cli.picture import show_picture

        show_picture(console(), seen)
    if seen.status == "failed":
        raise click.ClickException(seen.notes[0] if seen.notes else "the compaction failed.")


@click.command("strategy")
@click.argument("name", required=False, type=click.Choice(["rolling", "lcm", "none"]))
@json_option
@shared_options
@pass_call
def strategy_command(call: Call, name: Literal["rolling", "lcm", "none"] | None, as_json: bool) -> None:
    """Say or select how a session is compacted.

    A name selects: rolling (one running summary of the older part), lcm (summaries as nodes over it) or none
    (plain history). Without it, says which is on.
    """
    selection = call.run(lambda service: service.select(call.session, name))
    if as_json:
        print_json(selection)
    elif not (name and call.quiet):
        console().print(styled(_said(selection, selected=name is not None)))


def _said(selection: Selection, *, selected: bool) -> str:
    if selected:
        who = "selected for this session from now on"
    else:
        who = "selected for this session" if selection.chosen_by == "session" else "as the settings say"
    return f"{unbroken(selection.session)}: {selection.strategy}, {who}."


async def watched(service: Service, work: Callable[[Service], Awaitable[T]], shown: bool) -> T:
    """Do what may compact, to the end of every pass it starts, with a bar where it is to be shown."""
    with _bar(shown) as report:
        async with service.running(finish=True):
            return await work(service if report is None else service.reporting(report))


@contextmanager
def _bar(shown: bool) -> Generator[Report | None]:
    """A bar on stderr that goes when it is done; None where nobody watches."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("compacting", total=None)

        async def report(done: float, total: float | None, line: str) -> None:
            bar.update(task, completed=done, total=total, description=line)

        yield report
