"""Our hooks in the file of a client that runs some at its events, and out of it again.

Each event has a list of groups of commands, which others fill too: ours is one more group at its end, known
by its command. Everything else in the file stays as it is, and it is undone like an entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from lcm_mcp.clients import jsonc
from lcm_mcp.clients.installing import Change, Installed, put_in, read_text, take_out
from lcm_mcp.clients.places import Client, Entry, hooks_place
from lcm_mcp.errors import InstallRefused

EVENTS: Final = ("SessionStart", "PreCompact", "Stop")
TIMEOUT_S: Final = 10
"""Ours ends by itself well before."""

_KEY: Final = "hooks"


def install_hooks(client: Client, command: str) -> Installed | None:
    """Let the client run that command at its events; None for a client that we write no hooks for.

    Raises InstallRefused.
    """
    where = hooks_place(client)
    return None if where is None else put_in(_hooks(client), where, {"command": command})


def undo_hooks(client: Client) -> Installed | None:
    """Take our hooks out again; None where there are none. Raises InstallRefused."""
    where = hooks_place(client)
    if where is None or _find(client, where.file, read_text(where.file)) is None:
        return None
    return take_out(_hooks(client), where)


def _hooks(client: Client) -> Change:
    return Change(client, "hook of lcm-mcp", partial(_find, client), partial(_edited, client))


def _find(client: Client, file: Path, text: str) -> Entry | None:
    found = [command for _, _, command in _ours(client, _lists(client, file, _load(client, file, text)))]
    return {"command": found[0]} if found else None


def _edited(client: Client, file: Path, text: str, entry: Entry | None) -> str:
    """The text with our command at each event, or without it; checked by reading it again."""
    content = _load(client, file, text)
    lists = {event: [*groups] for event, groups in _lists(client, file, content).items()}
    ours = list(_ours(client, lists))
    wanted = [] if entry is None else [(event, str(entry["command"])) for event in EVENTS]
    if sorted((event, command) for event, _, command in ours) == sorted(wanted):
        return text
    new = text
    try:
        for event, index, _ in reversed(ours):
            new = jsonc.pull(new, _KEY, event, index)
            del lists[event][index]
        for event, command in wanted:
            group = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}
            new = jsonc.push(new, _KEY, event, group)
            lists.setdefault(event, []).append(group)
        content[_KEY] = {event: groups for event, groups in lists.items() if groups}
        changed = {_KEY: {}, **jsonc.load(new)} != content
    except (ValueError, KeyError, IndexError):
        changed = True
    if changed:
        raise _refused(client, file, "its hooks are written in a way that we cannot change")
    return new


def _ours(client: Client, lists: Mapping[str, Sequence[object]]) -> Iterator[tuple[str, int, str]]:
    """Our groups: the event, the place in its list, and the command."""
    for event, groups in lists.items():
        for index, group in enumerate(groups):
            match group:
                case {"hooks": [{"command": str(command)}]} if _is_ours(client, command):
                    yield event, index, command
                case _:
                    pass


def _is_ours(client: Client, command: str) -> bool:
    return re.search(rf"lcm[-_]mcp.*\bhook {re.escape(client.name)}(?:\s|$)", command, re.DOTALL) is not None


def _lists(client: Client, file: Path, content: Mapping[str, object]) -> Mapping[str, list[object]]:
    """The groups of each event."""
    found = content.get(_KEY, {})
    if not isinstance(found, dict):
        raise _refused(client, file, f"{_KEY} in it is no table of events")
    events = cast("dict[str, object]", found)
    if not all(isinstance(groups, list) for groups in events.values()):
        raise _refused(client, file, f"an event under {_KEY} in it has no list")
    return cast("dict[str, list[object]]", events)


def _load(client: Client, file: Path, text: str) -> dict[str, object]:
    try:
        return jsonc.load(text)
    except (ValueError, RecursionError) as error:
        raise _refused(client, file, f"it cannot be read ({error})") from None


def _refused(client: Client, file: Path, problem: str) -> InstallRefused:
    remedy = f"It was not changed; docs/live.md shows the hooks of {client.title} to put in by hand."
    return InstallRefused(str(file), problem, remedy)
