"""Structured data: JSON and TOML by shape and one level within, JSON lines by their rows' keys, notebooks by
their cells, and settings by their keys and sections.

What parses is told from the value. Of JSON that was cut off, or is longer than what is read, the keys of the
least indented lines are told: the same names a reader of its first page would see.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import orjson

from lcm_mcp.transcript.exploring.bodies import Body
from lcm_mcp.transcript.exploring.naming import listed, tidy
from lcm_mcp.transcript.model import Json
from lcm_mcp.wording import counted

_JSON_LINES = 200
_NESTED_NAMES = 3
_KEYED = re.compile(r"^([ \t]*)[\"']?([\w.$@/][\w.$@/ -]{0,60}?)[\"']?\s*(?::(?=\s|$)|=(?!=))", re.MULTILINE)
_JSON_KEY = re.compile(r'^([ \t]*)"((?:[^"\\\n]|\\.){1,60})"\s*:', re.MULTILINE)
_INI = frozenset(("ini", "cfg", "conf", "properties", "env", "editorconfig", "gitconfig"))
_YAML = frozenset(("yaml", "yml"))

Found = tuple[str, str]


def structured(body: Body) -> Found | None:
    """Data by what it parses as; settings files, which nearly anything parses as, by their path too."""
    start = body.text[:400].lstrip()[:1]
    if start in ("{", "[") and (found := _json(body)) is not None:
        return found
    if body.extension == "toml":
        return _toml(body)
    if body.extension in _INI:
        return _ini(body)
    return _keys("yaml", body) if body.extension in _YAML else None


# --- JSON


def _json(body: Body) -> Found | None:
    rows = _json_rows(body)
    if rows is not None:
        keys = dict.fromkeys(key for row in rows for key in row)
        return "jsonl", listed(f"{counted(body.lines, 'row')}, keys", keys)
    try:
        value: Json = None if body.cut else orjson.loads(body.text)
    except ValueError:
        value = None
    if value is None:
        return _cut_json(body)
    if isinstance(value, dict) and isinstance(value.get("cells"), list) and "nbformat" in value:
        return _notebook(cast("Sequence[Json]", value["cells"]))
    return "json", _shape(value)


def _json_rows(body: Body) -> list[Mapping[str, Json]] | None:
    """The first rows of JSON lines; None where the body is anything else. A last one may be cut off."""
    lines = [line for line in body.text.split("\n", _JSON_LINES + 1)[: _JSON_LINES + 1] if line.strip()]
    rows: list[Mapping[str, Json]] = []
    for number, line in enumerate(lines):
        try:
            row: Json = orjson.loads(line)
        except ValueError:
            if number and number + 1 == len(lines):
                break
            return None
        if not isinstance(row, dict):
            return None
        rows.append(row)
    return rows if len(lines) > 1 else None


def _cut_json(body: Body) -> Found | None:
    """JSON that does not parse: by the keys of its least indented lines."""
    found = [(len(key[1]), key[2]) for key in _JSON_KEY.finditer(body.ruled)]
    if not found:
        return None
    least = min(indent for indent, _ in found)
    shape = "array" if body.text.lstrip().startswith("[") else "object"
    names = [name for indent, name in found if indent == least]
    return "json", listed(f"{shape}, not complete, {counted(body.lines, 'line')}, keys", names)


def _shape(value: Json) -> str:
    match value:
        case dict():
            return listed(f"object, {counted(len(value), 'key')}", map(_member, value.items()))
        case list() if value and isinstance(value[0], dict):
            keys = dict.fromkeys(key for row in value[:_JSON_LINES] if isinstance(row, dict) for key in row)
            return listed(f"array of {counted(len(value), 'object')}, keys", keys)
        case list():
            kinds = dict.fromkeys(_kind(member) for member in value[:_JSON_LINES])
            return listed(f"array of {counted(len(value), 'item')}", kinds)
        case _:
            return _kind(value)


def _member(item: tuple[str, Json]) -> str:
    """A key and, one level down, the shape of its value."""
    key, value = tidy(item[0])[:30], item[1]
    match value:
        case dict():
            names = [tidy(name)[:16] for name in list(value)[:_NESTED_NAMES]]
            more = f" +{len(value) - _NESTED_NAMES}" if len(value) > _NESTED_NAMES else ""
            return f"{key} {{{' '.join(names)}{more}}}"
        case list():
            return f"{key} [{len(value)}]"
        case _:
            return key


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def _notebook(cells: Sequence[Json]) -> Found:
    code = sum(isinstance(cell, dict) and cell.get("cell_type") == "code" for cell in cells)
    lead = f"{counted(len(cells), 'cell')}, {code} of code, headings"
    return "notebook", listed(lead, _cell_headings(cells))


def _cell_headings(cells: Sequence[Json]) -> Iterator[str]:
    for cell in cells:
        source = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") == "markdown" else ""
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        yield from (line.lstrip("# ") for line in text.split("\n") if line.startswith("#"))


# --- settings


def _toml(body: Body) -> Found | None:
    try:
        value = tomllib.loads(body.text) if body.whole else {}
    except (tomllib.TOMLDecodeError, RecursionError):
        value = {}
    return (
        ("toml", listed(counted(len(value), "key"), map(_member, value.items())))
        if value
        else _sections("toml", body)
    )


def _ini(body: Body) -> Found | None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(body.ruled)
    except (configparser.Error, ValueError):
        return _sections("ini", body) or _keys("ini", body)
    names = [f"{section} {{{len(parser.options(section))}}}" for section in parser.sections()]
    return "ini", listed(counted(len(names), "section"), names)


def _sections(kind: str, body: Body) -> Found | None:
    names = re.findall(r"^\[{1,2}([\w.\"' -]{1,60})\]{1,2}\s*$", body.ruled, re.MULTILINE)
    return (kind, listed(f"{counted(body.lines, 'line')}, sections", names)) if names else None


def _keys(kind: str, body: Body) -> Found | None:
    names = [found[2] for found in _KEYED.finditer(body.ruled) if not found[1]]
    return (kind, listed(f"{counted(body.lines, 'line')}, keys", names)) if names else None
