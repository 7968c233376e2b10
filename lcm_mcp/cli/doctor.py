"""The command doctor: is the store sound, and which settings are in force and why.

It exits with 1 where a check failed, so that a script need not read what it printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, show_columns, styled, waiting
from lcm_mcp.cli.text import one_line, unbroken
from lcm_mcp.errors import InstallRefused, NoStore, NotServing
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service.answers import Check, Diagnosis
    from lcm_mcp.transcript.model import Json


@click.command("doctor")
@click.option(
    "--repair",
    is_flag=True,
    help="First mend what can be mended without touching a row; a copy of the file is kept.",
)
@click.option("--clients", "start", is_flag=True, help="Also start what clients start, and ask for tools.")
@json_option
@shared_options
@pass_call
def doctor_command(call: Call, repair: bool, start: bool, as_json: bool) -> None:
    """Check the store, show the settings."""
    from lcm_mcp.service import doctoring

    try:
        if repair:
            _repair(call)
        diagnosis = call.run(lambda service: service.doctor(), "looking at every page and row")
    except NoStore as error:
        diagnosis = doctoring.diagnose_none(call.settings(), error)
    if start:
        with waiting("starting what clients start", not call.quiet):
            diagnosis = _with_started_clients(diagnosis)
    if as_json:
        print_json(diagnosis)
    else:
        show_diagnosis(console(), diagnosis)
    if not diagnosis.healthy:
        failed = [check.name for check in diagnosis.checks if not check.ok]
        raise click.ClickException(f"{counted(len(failed), 'check')} failed: {', '.join(failed)}.")


def _repair(call: Call) -> None:
    from lcm_mcp.service import doctoring

    with waiting("mending", not call.quiet):
        told = doctoring.repair(call.settings().db)
    click.echo(told, err=True)
    for done in call.run(lambda service: service.mend(), "mending"):
        click.echo(one_line(done), err=True)


def _with_started_clients(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with a check for each client that has an entry: started, it answers."""
    from dataclasses import replace

    checks = (*diagnosis.checks, *_started_clients())
    return replace(diagnosis, checks=checks, healthy=all(check.ok for check in checks))


def _started_clients() -> Iterator[Check]:
    from lcm_mcp import clients
    from lcm_mcp.cli.installing import started
    from lcm_mcp.service.answers import Check

    for client in clients.CLIENTS.values():
        try:
            entry = clients.entry_in(client, clients.place(client).file)
            if entry is not None:
                yield Check(client.name, True, f"started, it offers {counted(len(started(entry)), 'tool')}")
        except (InstallRefused, NotServing) as error:
            yield Check(client.name, False, str(error))


def show_diagnosis(out: Console, diagnosis: Diagnosis) -> None:
    out.print(styled((unbroken(diagnosis.path), "bold")))
    verdict = {True: ("ok", "green"), False: ("FAILED", "bold red")}
    show_columns(out, [(verdict[check.ok], check.name, one_line(check.detail)) for check in diagnosis.checks])
    out.print()
    show_columns(out, [(line.name, (line.origin, "dim"), _value(line.value)) for line in diagnosis.settings])


def _value(value: Json) -> str:
    """A setting's value, a switch as settings.json has it."""
    if value is None:
        return "not set"
    return json.dumps(value) if isinstance(value, bool) else unbroken(str(value))
