"""Our entry written into a client's file, and taken out again.

A file is replaced whole or not at all, keeps its mode, and is followed where it is a link. What it was
before stands beside it until it is undone; undoing gives that back where nothing but our entry changed
since, and else only undoes our entry. Refused: a file that we cannot read, or whose other content an
edit would change.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, cast

from lcm_mcp.clients import jsonc, toml
from lcm_mcp.clients.places import NAME, Client, Entry, Place
from lcm_mcp.errors import InstallRefused
from lcm_mcp.values import frozen

BEFORE: Final = ".before-lcm-mcp"
"""What the name of the copy ends with. An empty copy says that there was no file, or an empty one."""

_NEW_MODE: Final = 0o600


@frozen
class _Form:
    """How a kind of file is read, given a member of a table, and relieved of one. Each raises ValueError."""

    load: Callable[[str], dict[str, object]]
    put: Callable[[str, str, str, Entry], str]
    take: Callable[[str, str, str], str]


_FORMS: Final = {
    "json": _Form(jsonc.load, jsonc.put, jsonc.take),
    "toml": _Form(toml.load, toml.put, toml.take),
}


@frozen
class Installed:
    """What was done; copy is where the file as it was is kept, None where there was none."""

    file: Path
    copy: Path | None
    changed: bool


def printed(client: Client, entry: Entry) -> str:
    """The entry as it stands in a file that holds nothing else."""
    return _FORMS[client.form].put("", client.key, NAME, entry)


def entry_in(client: Client, file: Path) -> Entry | None:
    """Our entry in the client's file, None where it has none. Raises InstallRefused."""
    return _find(client, file, read_text(file))


@frozen
class Change:
    """What is ours in a client's file: how it is found in the text, and how the text is with it, or without.

    Both raise InstallRefused where the text cannot be read, or cannot be changed in that place alone.
    """

    client: Client
    what: str
    find: Callable[[Path, str], Entry | None]
    edited: Callable[[Path, str, Entry | None], str]


def install(client: Client, where: Place, entry: Entry) -> Installed:
    """Write the entry into the client's file, keeping a copy of the file as it was. Raises InstallRefused."""
    return put_in(_entry(client), where, entry)


def undo(client: Client, where: Place) -> Installed:
    """Take our entry out of the client's file again. Raises InstallRefused where it has none."""
    return take_out(_entry(client), where)


def _entry(client: Client) -> Change:
    return Change(client, f"entry {NAME}", partial(_find, client), partial(_edited, client))


def put_in(change: Change, where: Place, entry: Entry) -> Installed:
    """Write what is ours into a file, keeping a copy of the file as it was."""
    client = change.client
    if not (where.folder.is_dir() or where.file.exists()):
        raise InstallRefused(
            str(where.folder),
            f"there is no such folder, so {client.title} seems not to be installed here",
            f"Start it once and try again, or see the entry with lcm-mcp install {client.name} --print.",
        )
    file = where.file.resolve()
    text = read_text(file)
    copy = _copy(file)
    new = change.edited(file, text, entry)
    if new != text:
        before = _undone(change, file, text, read_text(copy)) if copy.exists() else text
        _write(copy, read_text(copy) if copy.exists() else "", before, like=file)
        _write(file, text, new, like=file)
    kept = copy if copy.exists() and copy.stat().st_size else None
    return Installed(file, kept, new != text)


def take_out(change: Change, where: Place) -> Installed:
    """Take what is ours out of a file again."""
    file = where.file.resolve()
    text, copy = read_text(file), _copy(file)
    if change.find(file, text) is None:
        raise InstallRefused(str(file), f"it has no {change.what}", "There is nothing to undo.")
    before = _undone(change, file, text, read_text(copy) if copy.exists() else None)
    if before.strip():
        _write(file, text, before, like=file)
    else:
        file.unlink()
    copy.unlink(missing_ok=True)
    return Installed(file, None, True)


def _undone(change: Change, file: Path, text: str, before: str | None) -> str:
    """The file's text without what we did to it; before is what it was then, where that is known."""
    ours = change.find(file, text)
    if ours is None or before is None:
        return change.edited(file, text, None)
    if change.edited(file, before, ours) == text:
        return before
    return change.edited(file, text, change.find(file, before))


def _find(client: Client, file: Path, text: str) -> Entry | None:
    found = _servers(client, _load(client, file, text), file).get(NAME)
    return cast("Entry", found) if isinstance(found, dict) else None


def _edited(client: Client, file: Path, text: str, entry: Entry | None) -> str:
    """The text with our entry, or without one; checked by reading it again."""
    form = _FORMS[client.form]
    expected = _load(client, file, text)
    servers = {**_servers(client, expected, file)}
    servers.pop(NAME, None)
    expected[client.key] = servers if entry is None else {**servers, NAME: entry}
    try:
        key = client.key
        new = form.take(text, key, NAME) if entry is None else form.put(text, key, NAME, entry)
        changed = {client.key: {}, **form.load(new)} != expected
    except (ValueError, KeyError):
        changed, new = True, text
    if changed:
        raise _refused(client, file, "its servers are written in a way that we cannot change")
    return new


def _servers(client: Client, content: Mapping[str, object], file: Path) -> Mapping[str, object]:
    servers = content.get(client.key, {})
    if not isinstance(servers, dict):
        raise _refused(client, file, f"{client.key} in it is no table of servers")
    return cast("dict[str, object]", servers)


def _load(client: Client, file: Path, text: str) -> dict[str, object]:
    try:
        return _FORMS[client.form].load(text)
    except (ValueError, RecursionError) as error:
        raise _refused(client, file, f"it cannot be read ({error})") from None


def _refused(client: Client, file: Path, problem: str) -> InstallRefused:
    remedy = f"It was not changed; lcm-mcp install {client.name} --print shows the entry to put in by hand."
    return InstallRefused(str(file), problem, remedy)


def _copy(file: Path) -> Path:
    return file.with_name(file.name + BEFORE)


def read_text(file: Path) -> str:
    """The file's text with its line ends as they are; none where there is no file."""
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InstallRefused(str(file), str(error.strerror), "It was not changed.") from None
    except UnicodeDecodeError:
        raise InstallRefused(str(file), "it is not UTF-8", "It was not changed.") from None


def _write(file: Path, seen: str, text: str, like: Path) -> None:
    """Replace the file, seen being what it held when we read it; the mode is that of like."""
    mode = stat.S_IMODE(like.stat().st_mode) if like.exists() else _NEW_MODE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise InstallRefused(str(file), str(error.strerror), "It was not changed.") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(mode)
        if read_text(file) != seen:  # a client that runs writes its file too
            raise InstallRefused(str(file), "it was changed just now by another program", "Try again.")
        Path(name).replace(file)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
