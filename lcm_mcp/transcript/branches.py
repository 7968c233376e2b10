"""A session's rows as branches: the active path, and what leaves it and was removed.

Every row is in one branch. The active path is one; of the others the newest come first, each back to where it
leaves a branch that is known by then. Pure: it is told the rows, and costs as many.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcm_mcp.ids import Seq
from lcm_mcp.transcript.model import RowMark
from lcm_mcp.values import frozen


@frozen
class Branch:
    """Rows that follow each other, oldest first; after is the row of another branch they leave, or 0."""

    after: Seq
    active: bool
    marks: Sequence[RowMark]


def branches(marks: Sequence[RowMark], leaf: Seq) -> list[Branch]:
    """All rows of a session in branches: the path to `leaf` first, the others in the order they began."""
    by_seq = {mark.seq: mark for mark in marks}
    followed = {mark.prev for mark in marks}
    ends = [mark.seq for mark in reversed(marks) if mark.seq not in followed]
    taken: set[Seq] = set()
    found: list[Branch] = []
    for end in [leaf, *ends] if leaf else ends:
        chain: list[RowMark] = []
        seq = end
        while seq > 0 and seq not in taken:
            taken.add(seq)
            chain.append(by_seq[seq])
            seq = by_seq[seq].prev
        if chain:
            found.append(Branch(seq, end == leaf, chain[::-1]))
    return sorted(found, key=_beginning)


def _beginning(branch: Branch) -> tuple[bool, Seq]:
    return not branch.active, branch.marks[0].seq
