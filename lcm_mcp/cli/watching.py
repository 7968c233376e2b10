"""The command watch: follows the sessions of clients until it is stopped, for those who want that.

Nothing needs it: reads take in what is new by themselves. It looks every LOOK_S seconds, at a cost that does
not grow with what is stored, makes summaries of what has grown, and ends with 0 on Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, run_on, shared_options
from lcm_mcp.cli.output import json_option, print_json
from lcm_mcp.cli.text import one_line
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    import anyio

    from lcm_mcp.service import Service
    from lcm_mcp.service.discovering import Found

LOOK_S = 2.0

_Say = Callable[[dict[str, object]], None]


@click.command("watch")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...")
@json_option
@shared_options
@pass_call
def watch_command(call: Call, clients: tuple[str, ...], as_json: bool) -> None:
    """Follow the sessions of clients until stopped.

    Clients are claude-code, codex, pi, gemini, opencode and cursor; without one all that are here. What was
    imported before is followed too. New rows are told as they come; in JSON, a document a line.
    """
    say = _say_nothing if call.quiet else print_json if as_json else _say
    run_on(call.settings(), lambda service: _watch(service, clients, say))


def _say_nothing(event: dict[str, object]) -> None:
    del event


def _say(event: dict[str, object]) -> None:
    match event:
        case {"watching": str(client), "folder": folder}:
            click.echo(f"watching {client} in {one_line(str(folder))}")
        case {"session": str(session), "rows_added": int(rows)}:
            click.echo(f"{one_line(session)}: {counted(rows, 'new row')}")
        case _:
            raise ValueError(event)


async def _watch(service: Service, clients: tuple[str, ...], say: _Say) -> None:
    import anyio

    places = await _places(service, clients)
    fold = service.work.settings.fold_imports
    for place in places:
        for file in place.alone or ():
            await service.follow_file(file, fold)
        if place.alone is None:
            await service.follow_folder(place.folder, "auto", None, fold)
    async with anyio.create_task_group() as tasks:
        await tasks.start(_until_stopped, tasks.cancel_scope)
        for place in places:
            say({"watching": place.client, "folder": str(place.folder)})
        async with service.running():
            while True:
                for session, rows in (await service.catch_up()).items():
                    if rows:
                        say({"session": session, "rows_added": rows})
                await anyio.sleep(LOOK_S)


async def _until_stopped(scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            return


async def _places(service: Service, clients: tuple[str, ...]) -> list[Found]:
    """The folders to follow; what is not there is said. Refuses where nothing is left to follow."""
    found = (await service.discover()).places
    known = {place.client for place in found}
    for client in clients:
        if client not in known:
            named = ", ".join(sorted(known))
            raise click.UsageError(f"{client!r} is no client whose sessions are known. Use one of {named}.")
    wanted = [place for place in found if not clients or place.client in clients]
    for place in wanted:
        if not place.there:
            click.echo(f"{place.client}: no such folder: {one_line(str(place.folder))}", err=True)
        elif not place.known:
            click.echo(f"{place.client}: this format is not read yet", err=True)
    followed = [place for place in wanted if place.there and place.known]
    if not followed:
        raise click.ClickException("there is nothing to watch: use the client once, or set its variable.")
    return followed
