"""The command watch: follows the sessions of clients until it is stopped, for those who want that.

Nothing needs it: reads take in what is new by themselves. It looks every LOOK_S seconds, at a cost that does
not grow with what is stored, makes summaries of what has grown, and ends with 0 on Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, run_on, shared_options
from lcm_mcp.cli.text import count, one_line

if TYPE_CHECKING:
    import anyio

    from lcm_mcp.service import Service
    from lcm_mcp.service.discovering import Found

LOOK_S = 2.0


@click.command("watch")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...")
@shared_options
@pass_call
def watch_command(call: Call, clients: tuple[str, ...]) -> None:
    """Follow the sessions of clients (claude-code, codex, pi, gemini; default: all) until stopped.

    What was imported before is followed too. New rows are told as they come.
    """
    run_on(call.settings(), lambda service: _watch(service, clients, not call.quiet))


async def _watch(service: Service, clients: tuple[str, ...], shown: bool) -> None:
    import anyio

    places = await _places(service, clients)
    for place in places:
        await service.follow_folder(place.folder, "auto", None, service.work.settings.fold_imports)
    async with anyio.create_task_group() as tasks:
        await tasks.start(_until_stopped, tasks.cancel_scope)
        for place in places if shown else ():
            click.echo(f"watching {place.client} in {one_line(str(place.folder))}")
        async with service.running():
            while True:
                for session, rows in (await service.catch_up()).items():
                    if shown and rows:
                        click.echo(f"{one_line(session)}: {count(rows, 'new row')}")
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
