"""What stands before the tail, as laws: the one message of summaries and quotes, taken apart by its labels.

A label of ours begins a line; no text of a conversation can pose as one, so what stands between two labels
is one block. What has to be quoted is worked out here from the rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from told import Told, newest_unit, opens, unit_of

from lcm_mcp.projection.labels import HISTORY_CLOSES, HISTORY_OPENS, ROLLING_OPENS, escape_history
from lcm_mcp.tokens import BYTES_PER_TOKEN, text_tokens

RECAP_ROWS, RECAP_CHARACTERS = 3, 400
OPENER_CHARACTERS = 4000
TRUNCATED = "[lcm:truncated]"


@dataclass(frozen=True, slots=True)
class History:
    """A history message: how it opens, its summaries under their headers, its quotes."""

    opens: str
    headers: list[str]
    summaries: list[str]
    quotes: list[str]


def read_history(text: str) -> History:
    """Take a history message apart; every line that could be a label of ours is taken for one."""
    blocks: list[list[str]] = []
    for line in text.split("\n"):
        if line.startswith("[lcm:") and not line.startswith(TRUNCATED):
            blocks.append([])
        blocks[-1].append(line)
    assert "\n".join(blocks[-1]) == HISTORY_CLOSES
    whole = ["\n".join(block) for block in blocks[:-1]]
    assert all(block.endswith("\n") for block in whole)
    opening, *others = [block[:-1] for block in whole]
    told = [block.partition("\n") for block in others if block.startswith("[lcm:summary ")]
    quotes = [block for block in others if not block.startswith("[lcm:summary ")]
    assert others[: len(told)] == ["".join(parts) for parts in told]
    return History(opening, [header for header, _, _ in told], [body for _, _, body in told], quotes)


def holds_labels(text: str | None, strategy: str, shown: Sequence[str]) -> None:
    """Every shown node stands under its own header, or the one running summary under its span; nothing else
    poses as one."""
    if text is None:
        assert shown == []
        return
    history = read_history(text)
    if strategy == "rolling":
        assert history.opens == ROLLING_OPENS
        assert history.headers == [f"[lcm:summary rolling span {shown[0]}]"]
        assert len(shown) == 1
    else:
        assert history.opens == HISTORY_OPENS
        assert [header.split()[1] for header in history.headers] == shown


def holds_length(text: str, window: int) -> None:
    """No running summary exceeds a tenth of the window, at least 128 tokens and at most 2,048."""
    most = min(2048, max(128, window // 10))
    assert text_tokens(read_history(text).summaries[0]) <= most


# --- quotes


@dataclass(frozen=True, slots=True)
class Quoting:
    """A cut that was just made: the rows then, those pinned, and the window with the shares it has by its
    settings; ratio as counted by the provider."""

    active: Sequence[Told]
    pinned: set[int]
    window: int
    pins_percent: int
    ratio: float | None
    strategy: str

    @property
    def pins_tokens(self) -> int:
        return self._in_rule_tokens(self.window * self.pins_percent // 100)

    @property
    def opener_characters(self) -> int:
        return min(OPENER_CHARACTERS, self._in_rule_tokens(self.window) * BYTES_PER_TOKEN // 20)

    def _in_rule_tokens(self, tokens: int) -> int:
        return tokens if self.ratio is None else math.floor(tokens * self.ratio / BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Quoted:
    """The quotes a cut has to show, and the pinned rows that found no room."""

    blocks: list[str]
    crowded_out: list[str]


def quoted(cut: Quoting, place: int, opener: Told | None) -> Quoted:
    """What a cut quotes whose tail starts at `place`: pins, then rolling's recap, then what is worked on.

    Pinned rows before the tail stand whole, in order, as far as their share of the window goes. The recap
    are the last three requests before the tail, 400 characters each; opener, the request that is being worked
    on, follows. No row is quoted twice.
    """
    pins: dict[int, str] = {}
    crowded_out: list[str] = []
    room = cut.pins_tokens
    for row in cut.active[:place]:
        if row.seq in cut.pinned:
            block = f"[lcm:pinned {row.ref} {row.role}]\n{escape_history(row.text)}"
            if text_tokens(block + "\n\n") > room:
                crowded_out.append(row.ref)
                continue
            room -= text_tokens(block + "\n\n")
            pins[row.seq] = block
    said = (
        [row for row in cut.active[:place] if opens(row)][-RECAP_ROWS:] if cut.strategy == "rolling" else []
    )
    blocks = [
        _beginning(f"quote {row.ref} {row.role}", row.text, RECAP_CHARACTERS)
        for row in said
        if row.seq not in pins and row != opener
    ]
    if opener is not None and opener.seq not in pins:
        label = f"request {opener.ref} {opener.role}, still being worked on"
        blocks.append(_beginning(label, opener.text, cut.opener_characters))
    return Quoted([*pins.values(), *blocks], crowded_out)


def asked_in(active: Sequence[Told], place: int) -> list[Told | None]:
    """The request that the newest unit is about, where the tail starts inside of it and not with a request;
    any of them where a late result has joined several units into one."""
    start = unit_of(active, place)
    inside = start == newest_unit(active) and not opens(active[place])
    return [row for row in active[start:place] if opens(row)] or [None] if inside else [None]


def _beginning(label: str, text: str, characters: int) -> str:
    if len(text) <= characters:
        return f"[lcm:{label}]\n{escape_history(text)}"
    return f"[lcm:{label}, its beginning]\n{escape_history(text[:characters])}…"


def holds_quotes(text: str, cut: Quoting, place: int, notes: Sequence[str]) -> None:
    """A new cut quotes exactly what it has to; the pinned rows that found no room are named in the notes."""
    expected = [quoted(cut, place, opener) for opener in asked_in(cut.active, place)]
    assert read_history(text).quotes in [one.blocks for one in expected]
    left = expected[0].crowded_out
    rows = "row" if len(left) == 1 else "rows"
    said = f"{len(left)} pinned {rows} found no room within pinnedRowsPercent: {', '.join(left[:20])}."
    assert [note for note in notes if "pinnedRowsPercent" in note] == ([said] if left else [])
