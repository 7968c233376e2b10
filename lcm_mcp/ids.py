"""Identifiers and their written forms.

A row is e104 in its session, s7/e104 anywhere; a node #12 or s7/#12; a range of rows e104..e238; a file that
a tool read f7 or s7/f7. A shell takes # for a comment, so n12 is read as #12.
Only the forms are known here: whether an address names something stored is for the stores to say.
"""

from __future__ import annotations

import re
from typing import NewType, assert_never

from lcm_mcp.errors import MalformedAddress
from lcm_mcp.values import frozen

SessionId = NewType("SessionId", int)
"""The store's own number of a session, the 7 of s7; clients name sessions by key."""
Seq = NewType("Seq", int)
"""A row's number: rises within its session, is never reused. 0 stands before the first row."""
NodeId = NewType("NodeId", int)
"""A node's number within its session."""
FileId = NewType("FileId", int)
"""A file handle's number within its session."""
CutId = NewType("CutId", int)
"""A cut's number within its session; 0 means no cut yet."""
TextId = NewType("TextId", int)
"""A stored text's number, over all sessions, in commit order."""


@frozen
class RowAddress:
    session: SessionId | None
    seq: Seq


@frozen
class RangeAddress:
    """Rows first to last, both included."""

    session: SessionId | None
    first: Seq
    last: Seq


@frozen
class NodeAddress:
    session: SessionId | None
    node: NodeId


@frozen
class FileAddress:
    session: SessionId | None
    file: FileId


Address = RowAddress | RangeAddress | NodeAddress | FileAddress

_ADDRESS = re.compile(
    r"(?:s(\d{1,18})/)?(?:[#n](\d{1,18})|f(\d{1,18})|e(\d{1,18})(?:\.\.e(\d{1,18}))?)", re.ASCII
)


def parse_address(text: str) -> Address:
    """Read an address. Raises MalformedAddress for anything else, a reversed range included."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise MalformedAddress(text)
    session, node, file, first, last = (None if group is None else int(group) for group in found.groups())
    of = None if session is None else SessionId(session)
    if node is not None:
        return NodeAddress(of, NodeId(node))
    if file is not None:
        return FileAddress(of, FileId(file))
    assert first is not None
    if last is None:
        return RowAddress(of, Seq(first))
    if last < first:
        raise MalformedAddress(text, "its first row comes after its last")
    return RangeAddress(of, Seq(first), Seq(last))


def format_address(address: Address) -> str:
    """Write an address in the form parse_address reads."""
    prefix = "" if address.session is None else f"s{address.session}/"
    match address:
        case RowAddress(seq=seq):
            return f"{prefix}e{seq}"
        case RangeAddress(first=first, last=last):
            return f"{prefix}e{first}..e{last}"
        case NodeAddress(node=node):
            return f"{prefix}#{node}"
        case FileAddress(file=file):
            return f"{prefix}f{file}"
        case _:
            assert_never(address)
