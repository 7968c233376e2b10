"""What the libraries are fed: a generated conversation with needles, and small ones for one question each.

Every needle of a kind is another text, and each stands in one row. Marks in the small conversations tell
their rows apart, whatever a library makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from benchmarks.conversations import Conversation
from benchmarks.generating import TURN_ROWS, Author
from benchmarks.peers.speaking import Entry, arguments_text, blocks_of
from lcm_mcp.transcript.model import Sealed, Text, ToolCall, ToolResult
from lcm_mcp.transcript.sealing import parts_of

NEEDLES: Final = 25
COMMON: Final = "the"
Kind = Literal["rare word", "in an identifier", "CJK 4", "CJK 2", "in tool arguments", "punctuation"]
KINDS: Final[tuple[Kind, ...]] = (
    "rare word",
    "in an identifier",
    "CJK 4",
    "CJK 2",
    "in tool arguments",
    "punctuation",
)
_TYPED: Final = (
    "harbour{0}.get('ledger', [])[0]",
    "src/pier-{0}/{0}.test.ts:41",
    "}}])?.[{0}]!;",
    "C++{0}; lease->owner*",
    'AND OR NOT "quay {0}"',
    "^lease{0}.*$",
    "what's (pier {0})?",
    "--dry-run={0} -x",
    "user{0}@harbour.example",
    "100% of NEAR({0}, 2)",
)
_CJK_START: Final = 0x9F00
"""Characters from here on stand in no generated text."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A needle, what is searched for, and the turn (counted from 0) whose row holds it."""

    kind: Kind
    text: str
    turn: int


def conversation(rows: int, seed: int = 7) -> tuple[list[list[Entry]], list[Planted]]:
    """The turns of a generated conversation, and NEEDLES of each kind, evenly spread."""
    entries: Any = Author(seed).session(rows, 0, planted=False)
    every = list(entries)
    turns = [every[start : start + TURN_ROWS] for start in range(0, len(every), TURN_ROWS)]
    needles: list[Planted] = []
    for number in range(NEEDLES):
        turn = (2 * number + 1) * len(turns) // (2 * NEEDLES)
        needles += _plant(turns[turn], turn, number)
    return turns, needles


def _plant(entries: Sequence[Entry], turn: int, number: int) -> Iterator[Planted]:
    strange, name = chr(_CJK_START + number), f"{number:02}"
    said: dict[Kind, tuple[str, str]] = {
        "rare word": (f"kelpwright{name}", "found {} there"),
        "in an identifier": (f"LedgerBefore{name}Mid", "settleHarbour{}night(pier)"),
        "CJK 4": (f"{strange}油記録", "的一是不{}在不了有"),
        "CJK 2": (f"{strange}潮", "和人這中{}大為上個"),
        "punctuation": (_TYPED[number % len(_TYPED)].format(number), "it says {} here"),
    }
    arguments, result = entries[1]["content"][1]["input"], entries[2]["content"][0]
    for kind, (needle, around) in said.items():
        result["content"] += "\n" + around.replace("{}", needle)
        yield Planted(kind, needle, turn)
    budget = f"budget_of_tenant_{name}x"
    arguments["key"] = f"retry_{budget}"
    yield Planted("in tool arguments", budget, turn)


def marked(units: int) -> list[list[Entry]]:
    """Turns of a conversation with a mark in every row, such as «a17»."""
    return [list(_marked_unit(number)) for number in range(units)]


def _marked_unit(number: int) -> Iterator[Entry]:
    call = f"call{number}"
    use = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": f"src/{number}.py"}}
    result = {"type": "tool_result", "tool_use_id": call, "content": f"the file «c{number}»"}
    yield _entry("user", f"u{number}", f"Please look at this one «a{number}».")
    yield _entry("assistant", f"v{number}", [{"type": "text", "text": f"I will «b{number}»."}, use])
    yield _entry("user", f"w{number}", [result])
    yield _entry("assistant", f"x{number}", f"It is as it should be «d{number}».")


def repeated(units: int) -> list[list[Entry]]:
    """A user who says the same, and is answered the same."""
    return [
        [_entry("user", f"u{number}", "continue"), _entry("assistant", f"v{number}", "Done.")]
        for number in range(units)
    ]


def odd() -> dict[str, Entry]:
    """Rows that hosts do send, each with the mark «odd» but for the one that says nothing."""
    contents: dict[str, object] = {
        "a lone surrogate": "cut in the middle \ud83d «odd»",
        "content as a list": [{"type": "text", "text": "in a list «odd»"}],
        "a NUL": "before\0after «odd»",
        "nothing": "",
        "null": None,
    }
    return {name: {**_entry("user", "odd", content), "odd": True} for name, content in contents.items()}


def real(conversation: Conversation) -> list[list[Entry]]:
    """The requests of a real conversation; texts, calls and results are all that any library is given."""
    turns: list[list[Entry]] = []
    for number, turn in enumerate(conversation.turns):
        kept = [_real(row, f"{number}.{place}") for place, row in enumerate(turn) if row.active]
        turns.append([entry for entry in kept if entry["content"]])
    return [turn for turn in turns if turn]


def _real(row: Sealed, name: str) -> Entry:
    blocks: list[dict[str, Any]] = []
    for part in parts_of(row):
        match part:
            case Text(text) if text.strip():
                blocks.append({"type": "text", "text": text})
            case ToolCall(call, tool, arguments):
                given = arguments if isinstance(arguments, dict) else {"given": arguments}
                blocks.append({"type": "tool_use", "id": call, "name": tool, "input": given})
            case ToolResult(call, content):
                told = "\n".join(piece.text for piece in content if isinstance(piece, Text))
                blocks.append({"type": "tool_result", "tool_use_id": call, "content": told})
            case _:
                pass
    role = "user" if row.role == "tool" else row.role
    return _entry(role, name, blocks)


def pieces(entry: Entry) -> list[str]:
    """Every text, result and argument of an entry, as adapters give back what is stored."""
    return [piece for piece in map(_piece, blocks_of(entry)) if piece]


def told(entry: Entry) -> list[str]:
    """What is read in an entry: its texts, its results and the texts among its arguments."""
    values: list[Any] = []
    for block in blocks_of(entry):
        values += block["input"].values() if block["type"] == "tool_use" else [_piece(block)]
    return [value for value in values if isinstance(value, str)]


def _piece(block: dict[str, Any]) -> str:
    if block["type"] == "tool_use":
        return arguments_text(block["input"])
    return block["text"] if block["type"] == "text" else block["content"]


def _entry(role: str, entry_id: str, content: object) -> Entry:
    return {"role": role, "entry_id": entry_id, "content": content}
