"""Which file a tool call names, read from its arguments whatever the tool is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lcm_mcp.transcript.model import Json, ToolCall

PATH_KEYS = (
    "file_path",
    "path",
    "filename",
    "notebook_path",
    "absolute_path",
    "file",
    "target_file",
    "filepath",
)
_ALSO = ("filePath", "fileName", "file_name", "relative_path", "relative_workspace_path", "uri")
_LISTS = ("paths", "files", "file_paths")
PATH_CHARACTERS = 1_000


def named_path(call: ToolCall) -> str | None:
    """The path that a call names, the first where it names several; None where it names none."""
    given: Mapping[str, Json] = call.arguments if isinstance(call.arguments, dict) else {}
    return next((path[:PATH_CHARACTERS] for path in _paths(given)), None)


def _paths(given: Mapping[str, Json]) -> Iterator[str]:
    for key in (*PATH_KEYS, *_ALSO):
        yield from _path(given.get(key))
    for key in _LISTS:
        members = given.get(key)
        for member in members if isinstance(members, list) else ():
            yield from _paths(member) if isinstance(member, dict) else _path(member)


def _path(value: Json) -> Iterator[str]:
    if isinstance(value, str) and (path := value.strip().removeprefix("file://")):
        yield path
