"""The command hook: what a client runs at its events, with JSON on stdin.

It always ends with 0 and within its time, whatever is wrong: a client takes other codes for a veto and waits
for the end. Nothing is printed but what the client is to show. Trouble is kept for doctor.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options

if TYPE_CHECKING:
    from lcm_mcp.settings import Settings

END_S = 4.0
"""After so long the process ends, wherever it is; starting it took some time too."""
_MOST_BYTES = 4 * 1024 * 1024
_WITH_VALUE = ("--db", "--session")


def is_hook(arguments: Sequence[str]) -> bool:
    """Whether the command of these arguments is hook, right in the rest or not."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return rest[:1] == ["hook"]


@click.command("hook", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("client")
@shared_options
@pass_call
def hook_command(call: Call, client: str) -> None:
    """Take in what is new in the transcript of a client (claude-code, codex, gemini), run as its hook.

    The client gives JSON on stdin. After the client has compacted a conversation, a map of its summaries is
    printed for the agent. It ends with 0 within 5 seconds; `lcm-mcp doctor` tells of trouble.
    """
    if sys.stdin.isatty():
        click.echo(f"hook is run by {client}, which gives it JSON on stdin; docs/live.md says how.", err=True)
        return
    place = _place(call)
    ending = threading.Timer(END_S, _end, (place, client))
    ending.daemon = True
    ending.start()
    try:
        answer = _answer(call.settings(), client)
    except Exception as error:
        _note(place, client, str(error) or type(error).__name__)
    else:
        _note(place, client, None)
        if answer is not None:
            from lcm_mcp.cli.output import write

            write(answer.encode() + b"\n")
    ending.cancel()


def _answer(settings: Settings, client: str) -> str | None:
    from lcm_mcp.cli.call import run_on
    from lcm_mcp.service.hooking import read_event

    event = read_event(client, sys.stdin.buffer.read(_MOST_BYTES))
    return run_on(settings, lambda service: service.hook(event))


def _place(call: Call) -> Path:
    """The store beside which trouble is kept; where no settings hold, the usual one."""
    from lcm_mcp.errors import SettingsError
    from lcm_mcp.settings import default_db

    try:
        return call.settings().db
    except SettingsError:
        return call.db or default_db()


def _note(place: Path, client: str, problem: str | None) -> None:
    from lcm_mcp.service import troubles

    if problem is None:
        troubles.note_well(place, client)
    else:
        troubles.note(place, client, problem)


def _end(place: Path, client: str) -> None:
    _note(place, client, f"it did not come to an end within {END_S:g} s")
    os._exit(0)
