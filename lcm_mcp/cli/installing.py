"""The command install: our entry in a client's list of servers, proved by starting it.

The entry names this installation and the store in force by absolute paths. A client that runs hooks gets
ours as well, in the file where it keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from lcm_mcp import clients
from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import json_option, print_json, waiting
from lcm_mcp.errors import InstallRefused
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from lcm_mcp.clients import Client, Entry, Installed


@click.command("install")
@click.argument("name", metavar="CLIENT", type=click.Choice(list(clients.CLIENTS)))
@click.option("--print", "shown", is_flag=True, help="Print the entry; write nothing.")
@click.option("--undo", is_flag=True, help="Take the entry out again.")
@json_option
@shared_options
@pass_call
def install_command(call: Call, name: str, shown: bool, undo: bool, as_json: bool) -> None:
    """Put the server into a client's configuration.

    CLIENT is claude-desktop, claude-code, cursor, vscode, codex or zed. The rest of its file stays as it is,
    and a copy is kept beside it. Claude Code also gets the hooks that take its sessions in. Then the entry's
    command is started and asked for its tools.
    """
    if shown and undo:
        raise click.UsageError("--print writes nothing, so it has nothing to undo: give one of them.")
    client = clients.CLIENTS[name]
    told = not (call.quiet or as_json)
    if undo:
        done = _undo(client, told)
    else:
        entry = clients.entry_for(client, call.settings().db, call.session)
        done = _show(client, entry, as_json) if shown else _write(call, client, entry, told)
    if as_json:
        print_json({"client": name, **done})


def _show(client: Client, entry: Entry, as_json: bool) -> dict[str, object]:
    file, hooks = clients.place(client).file, clients.hooks_place(client)
    if not as_json:
        click.echo(clients.printed(client, entry), nl=False)
        click.echo(f"This goes into {file}.", err=True)
        if hooks is not None:
            click.echo(f"Its hooks, which docs/live.md shows, go into {hooks.file}.", err=True)
    return {"entry": entry, "file": file, "hooks_file": None if hooks is None else hooks.file}


def _write(call: Call, client: Client, entry: Entry, told: bool) -> dict[str, object]:
    done = clients.install(client, clients.place(client), entry)
    _say_written(told, done, f"the entry for {client.title}")
    # The hooks of a client that has some, so that its sessions are taken in as they are written.
    hooks = clients.install_hooks(client, clients.hook_for(client, call.settings().db))
    _say_written(told, hooks, f"the hooks for {client.title}")
    _say(told, f"lcm-mcp install {client.name} --undo takes it back.")
    with waiting(f"starting it as {client.title} does", told):
        tools = started(entry)
    _say(told, f"Started as {client.title} starts it, it offers {counted(len(tools), 'tool')}.")
    _say(told, f"Restart {client.title} to use it.")
    way = clients.CONVERSATIONS[client.name]
    _say(told, click.wrap_text(f"Its conversations come in {way.way}: {way.how}.", 80))
    return {"entry": done, "hooks": hooks, "tools": tools}


def _say_written(told: bool, done: Installed | None, what: str) -> None:
    if done is None:
        return
    _say(told, f"{done.file} {'has' if done.changed else 'had'} {what}.")
    if done.copy is not None and done.changed:
        _say(told, f"The file as it was is kept at {done.copy}.")


def _undo(client: Client, told: bool) -> dict[str, object]:
    done, hooks = None, clients.undo_hooks(client)
    _say_undone(told, hooks, "the hooks")
    try:
        done = clients.undo(client, clients.place(client))
    except InstallRefused:
        if hooks is None:
            raise
    _say_undone(told, done, "the entry")
    return {"entry": done, "hooks": hooks}


def _say_undone(told: bool, done: Installed | None, what: str) -> None:
    if done is not None:
        left = f"no longer has {what}" if done.file.exists() else "held nothing else and was removed"
        _say(told, f"{done.file} {left}.")


def started(entry: Entry) -> list[str]:
    """The tools of the entry's command, which is started for that. Raises NotServing."""
    import anyio

    from lcm_mcp.server.verifying import tools_of

    command, arguments = entry.get("command"), entry.get("args", [])
    words = [str(word) for word in cast("list[object]", arguments)] if isinstance(arguments, list) else []
    return anyio.run(tools_of, str(command), words)


def _say(told: bool, sentence: str) -> None:
    if told:
        click.echo(sentence)
