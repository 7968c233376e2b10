"""Cursors: opaque, bound to the query they continue, worthless elsewhere.

A cursor holds a position and a fingerprint of the query; another query's cursor, or any text but the one
that was given out, is refused rather than misread. It protects nothing: what it points to is checked where it
is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import cast

import orjson

from lcm_mcp.errors import BadCursor

Position = Sequence[int | str | None]


def make(query: Sequence[object], position: Position) -> str:
    """The cursor that continues `query` from `position`."""
    body = orjson.dumps([_fingerprint(query), *position])
    return base64.urlsafe_b64encode(body).decode("ascii").rstrip("=")


def read(cursor: str, query: Sequence[object], *kinds: type[int] | type[str]) -> list[int | str]:
    """The position in a cursor of `query`, whose members are of the given kinds. Raises BadCursor.

    The decoder passes over blanks and other strays, so the text must be the one that the position makes.
    """
    try:
        body = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        stored = cast("object", orjson.loads(body))
    except (ValueError, binascii.Error, UnicodeEncodeError) as error:
        raise BadCursor from error
    if not isinstance(stored, list):
        raise BadCursor
    position = cast("list[int | str]", stored)[1:]
    if len(position) != len(kinds) or cursor != make(query, position):
        raise BadCursor
    # Beyond SQLite's integers a number would not fail here but deep inside a query.
    if not all(
        type(value) is kind and not (isinstance(value, int) and abs(value) >= 2**62)
        for value, kind in zip(position, kinds, strict=True)
    ):
        raise BadCursor
    return position


def _fingerprint(query: Sequence[object]) -> str:
    return hashlib.blake2b(repr(tuple(query)).encode("utf-8", "replace"), digest_size=6).hexdigest()
