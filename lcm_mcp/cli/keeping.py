"""The commands backup and export: a copy of the store, or of one conversation in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled, write
from lcm_mcp.cli.text import one_line

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.transcript.exporting import ExportFormat


@click.command("backup")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@json_option
@shared_options
@pass_call
def backup_command(call: Call, path: Path, as_json: bool) -> None:
    """Copy the store to a new file.

    The copy is the store of one instant, whole, whoever writes meanwhile; it is opened with --db. A file that
    exists is not replaced.
    """
    made = call.run(lambda service: service.back_up(path))
    if as_json:
        print_json(made)
    elif not call.quiet:
        console().print(styled(f"{one_line(made.path)}: {made.file_bytes:,} bytes, checked."))


@click.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="jsonl is what import reads; markdown is for readers.",
)
@shared_options
@pass_call
def export_command(call: Call, form: str) -> None:
    """Write a session to stdout, verbatim.

    jsonl holds every row with all its parts, so that an import makes the same rows of it (a session that was
    rewound ends at its newest row again); markdown holds the rows that are not removed.
    """

    async def export(service: Service) -> None:
        async for page in service.export(call.session, cast("ExportFormat", form)):
            write(page)

    call.run(export)
