"""Tables of separated values: told by their columns.

A body is a table where its first rows, read by the csv module, all have as many fields as the header. Where
its path says that it is one, fewer do. What might as well be prose with commas is none.
"""

from __future__ import annotations

import csv
from itertools import islice

from lcm_mcp.transcript.exploring.bodies import Body
from lcm_mcp.transcript.exploring.naming import listed
from lcm_mcp.wording import counted

_DELIMITERS = {"csv": ",;|\t", "tsv": "\t", "psv": "|", "tab": "\t"}
_ROWS = 20
_LEAST_ROWS, _LEAST_COLUMNS = 5, 3
_PROBED = 40_000


def tabular(body: Body) -> tuple[str, str] | None:
    """A table's columns and how many rows it has (its lines, but for the header)."""
    named = body.extension in _DELIMITERS
    for delimiter in _DELIMITERS.get(body.extension, "\t,;|"):
        header = _header(body.ruled[:_PROBED], delimiter, named)
        if header is not None:
            lead = f"{counted(len(header), 'column')}, {counted(body.lines - 1, 'row')}"
            return "table", listed(lead, header)
    return None


def _header(text: str, delimiter: str, named: bool) -> list[str] | None:
    """The header's fields where all rows looked at are as long; None where this is no such table."""
    whole = text if len(text) < _PROBED else text.rpartition("\n")[0]
    try:
        rows = list(islice((row for row in csv.reader(whole.split("\n"), delimiter=delimiter) if row), _ROWS))
    except csv.Error:
        return None
    least_columns, least_rows = (2, 2) if named else (_LEAST_COLUMNS, _LEAST_ROWS)
    if len(rows) < least_rows or len(rows[0]) < least_columns:
        return None
    if named:  # rows may lack their last fields
        return rows[0] if all(1 < len(row) <= len(rows[0]) for row in rows) else None
    same = all(len(row) == len(rows[0]) for row in rows)
    return rows[0] if same and all(field.strip() for field in rows[0]) else None
