"""Conversations folded into running summaries, and what a summary tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from lcm_mcp.ids import Seq, TextId
from lcm_mcp.summarizers.extractive import extract
from lcm_mcp.summarizers.facts import IN_ORDER_OF_READING, Fact, Section, parse, row_of
from lcm_mcp.summarizers.model import Child, FoldSource, Request
from lcm_mcp.tokens import TokenCount, text_tokens
from lcm_mcp.transcript.importers import Entry, claude_code
from lcm_mcp.transcript.model import Draft, Json, Part, Role, Row, Text, ToolCall, ToolResult
from lcm_mcp.transcript.sealing import seal

ROWS_OF_WORK = 7


def row(seq: int, role: Role, *parts: Part) -> Row:
    text = seal(Draft(role, parts)).text
    return Row(Seq(seq), role, 0, None, None, TextId(seq), text, parts)


def say(role: Role, text: str) -> tuple[Role, Part]:
    return role, Text(text)


def run(command: str, output: str, *, is_error: bool = False) -> tuple[tuple[Role, Part], ...]:
    call = ToolCall(command, "Bash", {"command": command})
    return ("assistant", call), ("user", ToolResult(command, (Text(output),), is_error))


def edit(path: str) -> tuple[tuple[Role, Part], ...]:
    given: Json = {"file_path": path, "old_string": "a", "new_string": "b"}
    return ("assistant", ToolCall(path, "Edit", given)), ("user", ToolResult(path, (Text("done"),)))


def plan(**steps: str) -> tuple[tuple[Role, Part], ...]:
    todos: list[Json] = [{"content": step, "status": status} for step, status in steps.items()]
    return ("assistant", ToolCall("t", "TodoWrite", {"todos": todos})), ("user", ToolResult("t", ()))


def rows(first: int, *entries: tuple[Role, Part]) -> list[Row]:
    return [row(at, role, part) for at, (role, part) in enumerate(entries, first)]


def fold(children: Sequence[Child], new: Sequence[Row], limit: int = 2048) -> str:
    text = extract(Request(FoldSource(children, new), 1, TokenCount(limit), TokenCount(limit)))
    assert 0 < text_tokens(text) <= limit
    return text


def folded(pieces: Sequence[Sequence[Row]], limit: int = 2048) -> list[str]:
    """The running summary after each piece of a conversation."""
    texts: list[str] = []
    for piece in pieces:
        before = [Child(f"e{pieces[0][0].seq}..e{piece[0].seq - 1}", texts[-1])] if texts else []
        texts.append(fold(before, piece, limit))
    return texts


def facts_of(text: str) -> tuple[Fact, ...]:
    parsed = parse(text, "e1..e9")
    assert parsed is not None, text
    return parsed.facts


def told(text: str, section: Section) -> list[str]:
    return [f"{fact.ref} {fact.text}" for fact in facts_of(text) if fact.section == section]


def quarters(text: str, last_row: int) -> list[int]:
    """How many lines lead to each quarter of a conversation; lists of files are not counted."""
    counted = Counter(4 * (row_of(line) - 1) // last_row for line in text.split("\n") if line[:3] == "- e")
    return [counted[at] for at in range(4)]


def work(number: int, first: int) -> list[Row]:
    """A unit of work: a request, a file changed, a test run, a conclusion."""
    return rows(
        first,
        say(
            "user", f"Please port module number {number} of the harbour simulation to the new interface, too."
        ),
        say("assistant", f"Let me look at module {number} first."),
        *edit(f"/harbour/src/port_{number}.py"),
        *run(f"pytest tests/test_port_{number}.py", f"{'.' * 1500}\n{number + 3} passed in 0.1s"),
        say(
            "assistant",
            f"Module {number} failed because the tide table number {number} was read before the pilot "
            f"boat {number} had reported, so we decided to read it lazily. Its crane schedule "
            f"number {number} must be kept in minutes, as dock {number} has no other clock.",
        ),
    )


def long_work(units: int) -> list[list[Row]]:
    return [work(number, number * ROWS_OF_WORK + 1) for number in range(units)]


def assert_sound(text: str, last_row: int) -> None:
    """Nothing twice, nothing cut twice, headings once and in order, each line with a row that was folded."""
    lines = text.split("\n")
    assert [line for line, count in Counter(lines).items() if count > 1] == []
    assert "……" not in text
    titles = [line.partition(" (+")[0].removesuffix(":") for line in lines if not line.startswith("- ")]
    titles = [title for title in titles if not title.startswith("Files in ")]
    assert titles == [section.title for section in IN_ORDER_OF_READING if section.title in titles]
    assert all(1 <= row_of(fact.ref) <= last_row for fact in facts_of(text) if fact.ref)


def real_rows(path: Path) -> list[Row]:
    """The main conversation of a file, numbered from 1."""
    drafts: dict[str, Draft] = {}
    main = ""
    for event in claude_code.read(path):
        if isinstance(event, Entry) and event.draft.active:
            main = main or event.session_key
            if event.session_key == main:
                drafts.setdefault(str(event.draft.entry_id), event.draft)
    return [row(at, draft.role, *draft.parts) for at, draft in enumerate(drafts.values(), 1)]


def in_pieces(conversation: Sequence[Row], count: int) -> list[list[Row]]:
    """Whole units in `count` pieces of about as many units each."""
    units: list[list[Row]] = []
    for one in conversation:
        opens = one.role == "user" and not any(isinstance(part, ToolResult) for part in one.parts)
        if opens or not units:
            units.append([])
        units[-1].append(one)
    borders = [len(units) * at // count for at in range(count + 1)]
    return [[one for unit in units[start:end] for one in unit] for start, end in pairwise(borders)]
