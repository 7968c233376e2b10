"""What `lcm-mcp` alone shows on a terminal: where the store is, what it holds, what to do next.

A store that does not exist is not made by looking for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lcm_mcp import __version__
from lcm_mcp.cli.call import Call, run_on
from lcm_mcp.cli.output import console, styled
from lcm_mcp.cli.show import show_facts, show_sessions
from lcm_mcp.cli.text import unbroken
from lcm_mcp.errors import NoStore
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from lcm_mcp.service.answers import SessionPage

_SHOWN = 3
_FIRST_STEPS = (
    ("lcm-mcp import --discover", "read in what agents have left here; it asks first"),
    ("lcm-mcp import FILE", "read in one conversation"),
    ("lcm-mcp demo", "see it work on a conversation it ships"),
)
_NEXT_STEPS = (
    ("lcm-mcp grep TEXT", "find what was said"),
    ("lcm-mcp dag", "see the summaries of the last active session"),
    ("lcm-mcp install CLIENT", "let claude-code, claude-desktop, cursor, vscode, codex or zed use it"),
    ("lcm-mcp serve --transport http", "look at it in a browser, http://127.0.0.1:8765/"),
    ("lcm-mcp --help", "all commands"),
)


def show_state(call: Call) -> None:
    settings = call.settings()
    out = console()
    page: SessionPage | None = None
    with suppress(NoStore):
        page = run_on(settings, lambda service: service.sessions(project="*", limit=_SHOWN), make=False)
    out.print(styled(("lcm-mcp", "bold"), f" {__version__}"))
    stored = "not made yet" if page is None else counted(page.total, "session")
    shown = [("store", unbroken(str(settings.db))), ("holds", stored)]
    if page is None or not page.total:
        shown.append(("found", _found()))
    show_facts(out, shown)
    if page is not None and page.sessions:
        out.print()
        for_looking = page if page.next_cursor is None else _without_cursor(page)
        show_sessions(out, for_looking)
    out.print()
    show_facts(out, _NEXT_STEPS if page is not None and page.total else _FIRST_STEPS)


def _found() -> str:
    """How many session files agents have left on this machine; none is opened."""
    import os
    from pathlib import Path

    from lcm_mcp.transcript.importers.places import CLIENTS, files_in, folders_of

    files = {
        client.name: sum(
            sum(1 for _ in files_in(client, folder)) for folder in folders_of(client, Path.home(), os.environ)
        )
        for client in CLIENTS
    }
    told = [f"{counted(number, 'session file')} of {name}" for name, number in files.items() if number]
    return ", ".join(told) or "no session file of an agent that is looked for"


def _without_cursor(page: SessionPage) -> SessionPage:
    from dataclasses import replace

    return replace(page, next_cursor=None, note=None)
