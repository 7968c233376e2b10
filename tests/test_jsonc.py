"""The law of changing one member in JSON with comments: it reads as it should, and all else is there."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.clients import jsonc

ENTRY = {"command": "/bin/lcm-mcp", "args": ["--db", "/tmp/{x}, //y"]}
_GAPS = st.sampled_from(["", " ", "\n  ", "\t", "\r\n", "\n// %d , } ]\n", " /* %d , { */ ", '\n  // "%d\n'])
_KEYS = st.sampled_from(["servers", "lcm", "a", 'b"', "//", "größe, }"])
_SCALARS = st.sampled_from(["1", "1.50", "null", "true", '"x"', '"// no, ]"', '"\\"/*"', '"\\\\"'])


@st.composite
def _values(draw: st.DrawFn, depth: int) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(_SCALARS)
    if draw(st.booleans()):
        return draw(_objects(depth))
    inner = draw(st.lists(_values(depth - 1), max_size=3))
    return f"[{draw(_GAPS)}{','.join(inner)}{draw(_trailing(inner))}{draw(_GAPS)}]"


@st.composite
def _objects(draw: st.DrawFn, depth: int) -> str:
    members = [
        f"{draw(_GAPS)}{json.dumps(key)}{draw(_GAPS)}:{draw(_GAPS)}{draw(_values(depth - 1))}{draw(_GAPS)}"
        for key in draw(st.lists(_KEYS, max_size=4, unique=True))
    ]
    return f"{{{','.join(members)}{draw(_trailing(members))}{draw(_GAPS)}}}"


def _trailing(inner: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(["", ","]) if inner else st.just("")


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """An object as someone might write it, each remark with a number of its own."""
    text = f"{draw(_GAPS)}{draw(_objects(3))}{draw(_GAPS)}"
    numbers = count(100)
    return re.sub("%d", lambda _: str(next(numbers)), text)


def _remarks(text: str) -> list[str]:
    return re.findall(r"(?://|/\*) \"?(1\d\d)\b", text)


@given(_texts())
def test_a_member_is_put_in_and_taken_out_and_nothing_else_changes(text: str) -> None:
    was = jsonc.load(text)
    if not isinstance(was.get("servers", {}), dict):
        with pytest.raises(ValueError, match="other than an object"):
            jsonc.put(text, "servers", "lcm", ENTRY)
        return
    there = jsonc.put(text, "servers", "lcm", ENTRY)
    servers = cast("dict[str, object]", was.get("servers", {}))
    assert jsonc.load(there) == {**was, "servers": {**servers, "lcm": ENTRY}}
    gone = jsonc.take(there, "servers", "lcm")
    assert jsonc.load(gone) == {**was, "servers": {key: servers[key] for key in servers if key != "lcm"}}
    if "lcm" not in servers:
        assert _remarks(there) == _remarks(gone) == _remarks(text)


@pytest.mark.parametrize("text", ["", "\n", "// only a remark", "/* or\ntwo */\n"])
def test_a_text_of_nothing_but_remarks_is_an_empty_object(text: str) -> None:
    there = jsonc.put(text, "servers", "lcm", ENTRY)
    assert there.startswith(text.rstrip("\n"))
    assert jsonc.load(there) == {"servers": {"lcm": ENTRY}}
