"""The command install: our entry in a client's list of servers, proved by starting it.

The entry names this installation and the store in force by absolute paths. A client that runs hooks gets
ours as well, in the file where it keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from lcm_mcp import clients
from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.text import count
from lcm_mcp.errors import InstallRefused

if TYPE_CHECKING:
    from lcm_mcp.clients import Client, Entry, Installed


@click.command("install")
@click.argument("name", metavar="CLIENT", type=click.Choice(list(clients.CLIENTS)))
@click.option("--print", "shown", is_flag=True, help="Print the entry; write nothing.")
@click.option("--undo", is_flag=True, help="Take the entry out again.")
@shared_options
@pass_call
def install_command(call: Call, name: str, shown: bool, undo: bool) -> None:
    """Put the server into a client's configuration.

    CLIENT is claude-desktop, claude-code, cursor, vscode, codex or zed. The rest of its file stays as it is,
    and a copy is kept beside it. Claude Code also gets the hooks that take its sessions in. Then the entry's
    command is started and asked for its tools.
    """
    if shown and undo:
        raise click.UsageError("--print writes nothing, so it has nothing to undo: give one of them.")
    client = clients.CLIENTS[name]
    if undo:
        _undo(call, client)
        return
    entry = clients.entry_for(client, call.settings().db, call.session)
    if shown:
        click.echo(clients.printed(client, entry), nl=False)
        click.echo(f"This goes into {clients.place(client).file}.", err=True)
        if (hooks := clients.hooks_place(client)) is not None:
            click.echo(f"Its hooks, which docs/live.md shows, go into {hooks.file}.", err=True)
    else:
        _write(call, client, entry)


def _write(call: Call, client: Client, entry: Entry) -> None:
    done = clients.install(client, clients.place(client), entry)
    _say(call, f"{done.file} {'has' if done.changed else 'had'} the entry for {client.title}.")
    if done.copy is not None and done.changed:
        _say(call, f"The file as it was is kept at {done.copy}.")
    _write_hooks(call, client)
    _say(call, f"lcm-mcp install {client.name} --undo takes it back.")
    tools = started(entry)
    _say(call, f"Started as {client.title} starts it, it offers {count(len(tools), 'tool')}.")
    _say(call, f"Restart {client.title} to use it.")


def _write_hooks(call: Call, client: Client) -> None:
    """The hooks of a client that has some, so that its sessions are taken in as they are written."""
    done = clients.install_hooks(client, clients.hook_for(client, call.settings().db))
    if done is None:
        return
    _say(call, f"{done.file} {'has' if done.changed else 'had'} the hooks for {client.title}.")
    if done.copy is not None and done.changed:
        _say(call, f"The file as it was is kept at {done.copy}.")


def _undo(call: Call, client: Client) -> None:
    hooks = clients.undo_hooks(client)
    if hooks is not None:
        _say_undone(call, hooks, "the hooks")
    try:
        done = clients.undo(client, clients.place(client))
    except InstallRefused:
        if hooks is None:
            raise
    else:
        _say_undone(call, done, "the entry")


def _say_undone(call: Call, done: Installed, what: str) -> None:
    left = f"no longer has {what}" if done.file.exists() else "held nothing else and was removed"
    _say(call, f"{done.file} {left}.")


def started(entry: Entry) -> list[str]:
    """The tools of the entry's command, which is started for that. Raises NotServing."""
    import anyio

    from lcm_mcp.server.verifying import tools_of

    command, arguments = entry.get("command"), entry.get("args", [])
    words = [str(word) for word in cast("list[object]", arguments)] if isinstance(arguments, list) else []
    return anyio.run(tools_of, str(command), words)


def _say(call: Call, sentence: str) -> None:
    if not call.quiet:
        click.echo(sentence)
