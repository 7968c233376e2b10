"""The commands backup, export and forget: a copy of the store, or of one conversation; or its end."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import confirmed, console, json_option, print_json, styled, write
from lcm_mcp.cli.text import one_line, unbroken
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.service.forgetting import Forgotten
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
    made = call.run(lambda service: service.back_up(path), "copying and checking")
    if as_json:
        print_json(made)
    elif not call.quiet:
        console().print(styled(f"{unbroken(made.path)}: {made.file_bytes:,} bytes, checked."))


@click.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="jsonl is what import reads; markdown is for readers.",
)
@click.option("--redact", is_flag=True, help="Mask what looks like a key.")
@shared_options
@pass_call
def export_command(call: Call, form: str, redact: bool) -> None:
    """Write a session to stdout, verbatim.

    jsonl holds every row with all its parts, so that an import makes the same rows of it, with the same path;
    markdown holds the rows that are not removed. --redact puts [redacted:KIND] in the place of keys and
    tokens of known shapes, and says how many there were.
    """

    async def export(service: Service) -> None:
        async for page in service.export(call.session, cast("ExportFormat", form), redact, masked):
            write(page)

    def masked(keys: int) -> None:
        if not call.quiet:
            click.echo(f"{counted(keys, 'key')} masked.", err=True)

    call.run(export, None if sys.stdout.isatty() else "exporting")


@click.command("forget")
@click.argument("name", metavar="SESSION", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@shared_options
@pass_call
def forget_command(call: Call, name: str | None, yes: bool, as_json: bool) -> None:
    """Delete a session for good.

    Its rows, summaries and images, what only it holds of the search index, and the free pages of the file go.
    What a fork shares with it stays. Files that fed it are no longer followed. Backups are not touched.
    """
    name = call.session if name is None else name
    if name is None:
        raise click.UsageError("Which SESSION? Name it; lcm-mcp sessions lists them.")
    if not yes and not confirmed(f"Delete {call.run(partial(_named, name=name))} for good?"):
        raise click.ClickException("nothing was deleted. Answer y, or give --yes and it does not ask.")
    gone = call.run(lambda service: service.forget(name), "forgetting")
    if as_json:
        print_json(gone)
    elif not call.quiet:
        console().print(styled("\n".join(_forgotten(gone))))
    if not gone.purged:
        raise click.ClickException(
            "another process is reading the store, so old bytes may stay in its log until that process ends."
        )


async def _named(service: Service, name: str) -> str:
    """What would be deleted, so that who answers sees it."""
    named = await service.select(name)
    return f"session {one_line(named.session)} ({counted(named.rows, 'row')})"


def _forgotten(gone: Forgotten) -> list[str]:
    said = [
        f"{unbroken(gone.session)} ({gone.id}) is forgotten: {counted(gone.rows, 'row')}, "
        f"{counted(gone.nodes, 'node')}, {counted(gone.texts, 'text')}, {counted(gone.images, 'image')}."
    ]
    if gone.kept_by:
        holders = ", ".join(map(unbroken, gone.kept_by))
        said.append(f"{counted(gone.texts_kept, 'text')} stay, since {holders} hold them too.")
    if gone.unlinked:
        said.append(
            f"Sessions it had begun stay, on their own now: {', '.join(map(unbroken, gone.unlinked))}."
        )
    if gone.not_followed:
        said.append(
            f"No longer followed, until imported again: {', '.join(map(unbroken, gone.not_followed))}."
        )
    return said
