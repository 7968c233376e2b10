"""The command doctor: is the store sound, and which settings are in force and why.

It exits with 1 where a check failed, so that a script need not read what it printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import count, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service.answers import Diagnosis


@click.command("doctor")
@click.option(
    "--repair",
    is_flag=True,
    help="First mend what can be mended without touching a row; a copy of the file is kept.",
)
@json_option
@shared_options
@pass_call
def doctor_command(call: Call, repair: bool, as_json: bool) -> None:
    """Check the store, show the settings."""
    if repair:
        from lcm_mcp.service import doctoring

        click.echo(doctoring.repair(call.settings().db), err=True)
        for done in call.run(lambda service: service.mend()):
            click.echo(one_line(done), err=True)
    diagnosis = call.run(lambda service: service.doctor())
    if as_json:
        print_json(diagnosis)
    else:
        show_diagnosis(console(), diagnosis)
    if not diagnosis.healthy:
        failed = [check.name for check in diagnosis.checks if not check.ok]
        raise click.ClickException(f"{count(len(failed), 'check')} failed: {', '.join(failed)}.")


def show_diagnosis(out: Console, diagnosis: Diagnosis) -> None:
    from rich.table import Table
    from rich.text import Text

    out.print(styled((one_line(diagnosis.path), "bold")))
    checks = Table.grid(padding=(0, 2))
    for check in diagnosis.checks:
        verdict = Text("ok", "green") if check.ok else Text("FAILED", "bold red")
        checks.add_row(verdict, Text(check.name), Text(one_line(check.detail), overflow="fold"))
    out.print(checks)
    out.print()
    settings = Table.grid(padding=(0, 2))
    for line in diagnosis.settings:
        value = "not set" if line.value is None else one_line(str(line.value))
        settings.add_row(Text(line.name), Text(value, overflow="fold"), Text(line.origin, "dim"))
    out.print(settings)
