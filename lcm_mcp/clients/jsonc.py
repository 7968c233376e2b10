"""JSON as editors write it, with comments and trailing commas, changed at one place and nowhere else.

For reading, comments and trailing commas become spaces, so that every position stays what it was and the
standard parser does the rest. For writing, a member is cut out of the text or put into it; nothing is ever
printed anew. Duplicate keys are read as the clients read them: the last holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from lcm_mcp.values import frozen

_COMMENT = r"//[^\r\n]*|/\*.*?\*/"
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENTS: Final = re.compile(f"{_STRING}|{_COMMENT}|\ufeff", re.DOTALL)
_TRAILING: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_SPACE: Final = re.compile(r"\s*")


@frozen
class _Member:
    """Where a member of an object stands: its key's first character, and its value, half-open."""

    key: int
    value: int
    end: int


@frozen
class _Object:
    """An object's braces and its members, in their order."""

    opens: int
    closes: int
    members: Mapping[str, _Member]

    @property
    def last(self) -> _Member | None:
        return max(self.members.values(), key=lambda member: member.key, default=None)


def load(text: str) -> dict[str, object]:
    """The object that the text holds; an empty one for a text of nothing but comments. Raises ValueError."""
    plain = _plain(text)
    value: object = json.loads(plain) if plain.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("it holds something other than one object")
    return cast("dict[str, object]", value)


def put(text: str, key: str, name: str, value: object) -> str:
    """The text with value as the member name of the object under key, both made where they are missing.

    Raises ValueError where the text is no object or holds something else under key.
    """
    if not load(text) and "{" not in _plain(text):
        # A remark goes on to the end of its line.
        apart = _newline(text) if text.strip() and not text.endswith("\n") else ""
        text = f"{text}{apart}{{}}{_newline(text)}"
    top = _top(text)
    unit = _unit(text, top)
    outer = top.members.get(key)
    if outer is None:
        return _added(text, top, key, {name: value}, unit)
    servers = _object(text, outer.value)
    there = servers.members.get(name)
    if there is None:
        return _added(text, servers, name, value, unit)
    written = _written(value, _indent(text, there.key), unit, text)
    return text[: there.value] + written + text[there.end :]


def take(text: str, key: str, name: str) -> str:
    """The text without that member, and without the comma that stood for it."""
    outer = _top(text).members.get(key)
    servers = None if outer is None else _object(text, outer.value)
    there = None if servers is None else servers.members.get(name)
    if servers is None or there is None:
        return text
    return _without(text, there, [member.end for member in servers.members.values()])


def push(text: str, key: str, name: str, value: object) -> str:
    """The text with value at the end of the list that is the member name of the object under key, all made
    where they are missing. Raises ValueError where something else stands there."""
    outer = _top(text).members.get(key) if load(text) else None
    there = None if outer is None else _object(text, outer.value).members.get(name)
    if there is None or not (items := _items(text, there)):
        return put(text, key, name, [value])
    unit = _unit(text, _top(text))
    return _grown(text, there.value, there.end - 1, items[-1], "", value, unit)


def pull(text: str, key: str, name: str, index: int) -> str:
    """The text without that item of such a list; without the list where it was the only one."""
    there = _object(text, _top(text).members[key].value).members[name]
    items = _items(text, there)
    if len(items) == 1:
        return take(text, key, name)
    return _without(text, items[index], [item.end for item in items])


def _items(text: str, array: _Member) -> list[_Member]:
    """Where the items of a list stand. Raises ValueError where there is none."""
    plain = _plain(text)
    if plain[array.value] != "[":
        raise ValueError("it holds something other than a list where one should be")
    decoder = json.JSONDecoder()
    items: list[_Member] = []
    at = _skip(plain, array.value + 1)
    while plain[at] != "]":
        _, end = decoder.raw_decode(plain, at)
        items.append(_Member(at, at, end))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return items


def _without(text: str, there: _Member, ends: Sequence[int]) -> str:
    """The text without a member or an item; ends are those of it and its neighbours."""
    start = len(text[: there.key].rstrip(" \t"))
    if text[:start].endswith("\n"):
        start -= 2 if text[:start].endswith("\r\n") else 1
    commas = _uncommented(text)
    after = _skip(commas, there.end)
    if commas[after] == ",":
        return text[:start] + text[there.end : after] + text[after + 1 :]
    before = [end for end in ends if end <= there.key]
    if not before:
        return text[:start] + text[there.end :]
    comma = commas.index(",", max(before))
    return text[:comma] + text[comma + 1 : start] + text[there.end :]


def _added(text: str, parent: _Object, name: str, value: object, unit: str) -> str:
    """The text with one more member at the end of an object, written the way the object is."""
    return _grown(text, parent.opens, parent.closes, parent.last, f"{json.dumps(name)}: ", value, unit)


def _grown(
    text: str, opens: int, closes: int, last: _Member | None, lead: str, value: object, unit: str
) -> str:
    """The text with one more member or item behind the last one between these brackets."""
    if last is not None and "\n" not in text[opens:closes]:
        member = f"{lead}{json.dumps(value, ensure_ascii=False)}"
        return f"{text[: last.end]}, {member}{text[last.end :]}"
    outer = _indent(text, opens)
    indent = outer + unit if last is None else _indent(text, last.key)
    newline = _newline(text)
    member = f"{newline}{indent}{lead}{_written(value, indent, unit, text)}"
    inside = text[opens + 1 : closes]
    end = opens + 1 + len(inside.rstrip())
    rest = text[end:] if "\n" in text[end:closes] else f"{newline}{outer}{text[closes:]}"
    if last is None or _uncommented(text)[_skip(_uncommented(text), last.end)] == ",":
        return text[:end] + member + rest
    return f"{text[: last.end]},{text[last.end : end]}{member}{rest}"


def _written(value: object, indent: str, unit: str, text: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _uncommented(text: str) -> str:
    return _COMMENTS.sub(lambda found: found[0] if found[0][0] == '"' else " " * len(found[0]), text)


def _plain(text: str) -> str:
    return _TRAILING.sub(lambda found: found[0] if found[0][0] == '"' else " ", _uncommented(text))


def _top(text: str) -> _Object:
    return _object(text, _skip(_plain(text), 0))


def _object(text: str, opens: int) -> _Object:
    """The object that opens there. Raises ValueError where none does."""
    plain = _plain(text)
    if plain[opens : opens + 1] != "{":
        raise ValueError("it holds something other than an object where the servers should be")
    decoder = json.JSONDecoder()
    members: dict[str, _Member] = {}
    at = _skip(plain, opens + 1)
    while plain[at] != "}":
        key = at
        name, at = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, at) + 1)
        _, end = decoder.raw_decode(plain, value)
        members[cast("str", name)] = _Member(key, value, end)
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return _Object(opens, at, members)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, at: int) -> str:
    """The white space that the line of a position begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str, top: _Object) -> str:
    """What one level of the file is indented by."""
    indents = (_indent(text, member.key) for member in top.members.values())
    return next((indent for indent in indents if indent), "  ")
