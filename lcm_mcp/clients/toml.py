"""TOML, changed at one table: tomlkit keeps comments, order and spacing of all the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, MutableMapping
from typing import cast


def load(text: str) -> dict[str, object]:
    """What the text holds. Raises ValueError."""
    return tomllib.loads(text.removeprefix("\ufeff"))


def put(text: str, key: str, name: str, value: Mapping[str, object]) -> str:
    """The text with value as the table key.name, made where it is missing. Raises ValueError."""
    import tomlkit  # only who installs needs it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if key not in document:
            document[key] = tomlkit.table(is_super_table=True)
        servers = _servers(document, key)
        if name not in servers:
            servers[name] = tomlkit.table()
        entry = cast("MutableMapping[str, object]", servers[name])
        for field in [field for field in entry if field not in value]:
            del entry[field]
        entry.update(value)
        return document.as_string()
    except TOMLKitError as error:
        raise ValueError(str(error)) from None


def take(text: str, key: str, name: str) -> str:
    """The text without that table and those below it. Raises ValueError."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if key in document and name in _servers(document, key):
            del _servers(document, key)[name]
        return document.as_string()
    except TOMLKitError as error:
        raise ValueError(str(error)) from None


def _servers(document: Mapping[str, object], key: str) -> MutableMapping[str, object]:
    servers = document[key]
    if not isinstance(servers, MutableMapping):
        raise ValueError("it holds something other than a table where the servers should be")
    return cast("MutableMapping[str, object]", servers)
