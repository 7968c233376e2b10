"""The import of what the agents on this machine have left: shown first, read on a yes, oldest first.

What was stored already is passed over, so it can be stopped at any time and called again. A file that holds
no conversation is told of and does not end the command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, run_on
from lcm_mcp.cli.output import confirmed, console, print_json, progress, show_columns, styled
from lcm_mcp.cli.text import one_line, unbroken
from lcm_mcp.errors import ImportRefused
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import ImportOutcome
    from lcm_mcp.service.discovering import Discovery, Found

_NAMED_REFUSALS = 3


@dataclass(slots=True)
class _Done:
    """What came of it; found is None until it was looked."""

    found: Discovery | None = None
    files: list[ImportOutcome] = field(default_factory=list["ImportOutcome"])
    refused: list[str] = field(default_factory=list[str])


def import_found(call: Call, *, fold: bool, follow: bool, as_json: bool) -> None:
    """Show what is there and import it where the answer is yes."""
    shown = not (as_json or call.quiet)
    settings = call.settings(foldImports=None if fold else False)
    done = _Done()

    async def whole(service: Service) -> None:
        done.found = await service.discover()
        if not as_json:
            show_found(console(), done.found)
        files = counted(len(done.found.todo), "file")
        if done.found.todo and confirmed(f"Import {files}, oldest first?"):
            await _import(service, done, settings.fold_imports, follow, shown)

    run_on(settings, whole)
    assert done.found is not None
    if as_json:
        print_json({"places": done.found.places, "files": done.files, "refused": done.refused})
    if not any(place.files for place in done.found.places):
        raise click.ClickException("no session file of a known client is on this machine.")


def show_found(out: Console, found: Discovery) -> None:
    show_columns(
        out,
        [
            ((place.client, "bold"), _contents(place), (unbroken(str(place.folder)), "dim"))
            for place in found.places
        ],
    )
    if not found.todo and any(place.files for place in found.places):
        out.print("Nothing is new.")


def _contents(place: Found) -> str:
    if not place.there:
        return "no such folder"
    files = f"{counted(place.files, 'file')}, {place.bytes / 1e6:,.1f} MB"
    return f"{files}, {place.new:,} new" if place.known else f"{files}; this format is not read yet"


async def _import(service: Service, done: _Done, fold: bool, follow: bool, shown: bool) -> None:
    assert done.found is not None
    rows = 0
    for number, file in enumerate(done.found.todo, 1):
        label = f"{number} of {len(done.found.todo)}  {one_line(file.name)}"
        with progress(label, shown) as on_rows:
            try:
                outcome = await service.import_file(file, "auto", None, fold, on_rows, follow)
            except ImportRefused as error:
                done.refused.append(str(error))
                continue
        done.files.append(outcome)
        rows += outcome.report.rows_added
        if shown and outcome.report.rows_added:
            console().print(styled(f"{label}: {counted(outcome.report.rows_added, 'new row')}"))
    if follow:
        for place in done.found.places:
            if place.there and place.known and place.alone is None:
                await service.follow_folder(place.folder, "auto", None, fold)
    with progress("index", shown, "texts left") as on_left:
        await service.index(on_left)
    if shown:
        _show_end(console(), done, rows)


def _show_end(out: Console, done: _Done, rows: int) -> None:
    sessions = {each.session for outcome in done.files for each in outcome.sessions}
    out.print(styled(f"{counted(rows, 'new row')} in {counted(len(sessions), 'session')}"))
    for sentence in done.refused[:_NAMED_REFUSALS]:
        out.print(styled(("passed over  ", "yellow"), one_line(sentence)))
    if len(done.refused) > _NAMED_REFUSALS:
        out.print(styled(f"and {counted(len(done.refused) - _NAMED_REFUSALS, 'more file')} passed over"))
