"""What an agent would ask of a real session once it is compacted, and how many calls the answer takes.

The probes are made from the rows by rule, and so are the calls: nobody reads here. Which file was changed
last, which command failed last and how, what was asked first, and why something was done (the question is
what stands before a "because", the answer what stands behind it). Answerable from the projection alone, with
one lcm_grep, or with a second call, lcm_expand on what that found. Two texts are alike where their letters
and digits are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from benchmarks.conversations import Conversation
from benchmarks.filling import append
from lcm_mcp.service import Service
from lcm_mcp.service.answers import HitPage, Strategy
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.settings import Settings
from lcm_mcp.tools import lcm_expand, lcm_grep
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.model import Sealed, Text, ToolCall, ToolResult
from lcm_mcp.transcript.sealing import parts_of

KEY: Final = "probed"
Kind = Literal["changed last", "failed, how", "asked first", "decided, why"]
KINDS: Final[tuple[Kind, ...]] = ("changed last", "failed, how", "asked first", "decided, why")
WHYS: Final = 5
"""Of a session, spread evenly."""
_CHANGES: Final = frozenset(
    ("edit", "multiedit", "write", "notebookedit", "write_file", "replace", "edit_file", "create_file")
)
_PATHS: Final = ("file_path", "path", "notebook_path", "absolute_path")
_COMMANDS: Final = ("command", "cmd")
_WHY: Final = re.compile(r"([^.!?\n:]{30,200}?),? because ([^.!?\n]{25,200})")
_APART: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, what an answer must say, and the call that asks for it."""

    kind: Kind
    says: Sequence[str]
    call: dict[str, Any]


def probes_of(conversation: Conversation) -> Sequence[Probe]:
    rows = [row for turn in conversation.turns for row in turn if row.active]
    found = [_changed(rows), _failed(rows), _asked(rows), *_whys(rows)]
    return [probe for probe in found if probe is not None]


def _changed(rows: Sequence[Sealed]) -> Probe | None:
    """The path in the last call of a tool that changes files and did not fail."""
    failed = {result.call_id for result in _results(rows) if result.is_error}
    for row in reversed(rows):
        for part in parts_of(row):
            if isinstance(part, ToolCall) and part.name.lower() in _CHANGES and part.call_id not in failed:
                path = _argument(part, _PATHS)
                if path:
                    call = {"pattern": f"[call {part.name}]", "role": "assistant", "limit": 5}
                    return Probe("changed last", [path], call)
    return None


def _failed(rows: Sequence[Sealed]) -> Probe | None:
    """The last failed result of a command: the command's beginning, and the first line that it said."""
    calls = {part.call_id: part for row in rows for part in parts_of(row) if isinstance(part, ToolCall)}
    for result in reversed(list(_results(rows))):
        command = _argument(calls[result.call_id], _COMMANDS) if result.call_id in calls else ""
        said = "\n".join(part.text for part in result.content if isinstance(part, Text)).strip()
        if result.is_error and command and said:
            call = {"pattern": "[failed result]", "role": "tool", "limit": 5}
            return Probe("failed, how", [command[:60], said.splitlines()[0][:80]], call)
    return None


def _asked(rows: Sequence[Sealed]) -> Probe | None:
    for row in rows:
        texts = [part.text for part in parts_of(row) if isinstance(part, Text) and part.text.strip()]
        if row.role == "user" and texts and not any(_results([row])):
            call = {"pattern": r"\S", "mode": "regex", "role": "user", "order": "oldest", "limit": 3}
            return Probe("asked first", [texts[0].strip()[:120]], call)
    return None


def _whys(rows: Sequence[Sealed]) -> Sequence[Probe]:
    found = [
        Probe(
            "decided, why",
            [said[2]],
            {"pattern": f"Why {said[1].strip()}?", "mode": "words", "scope": "rows"},
        )
        for row in rows
        if row.role == "assistant"
        for part in parts_of(row)
        if isinstance(part, Text)
        for said in _WHY.finditer(part.text)
    ]
    step = max(1, len(found) // WHYS)
    return found[::step][:WHYS]


def _results(rows: Sequence[Sealed]) -> Iterator[ToolResult]:
    return (part for row in rows for part in parts_of(row) if isinstance(part, ToolResult))


def _argument(call: ToolCall, names: Sequence[str]) -> str:
    given = call.arguments
    values = [given.get(name) for name in names] if isinstance(given, dict) else []
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many calls a probe took: 0 is the projection alone, None more than two."""

    kind: Kind
    calls: int | None


async def probe(conversation: Conversation, window: int | None, strategy: Strategy) -> Sequence[Outcome]:
    """The probes of a session that was compacted for a window, or not at all."""
    with TemporaryDirectory(prefix="lcm-bench-") as folder:
        service = Service.open(Settings(db=Path(folder) / "probed.sqlite"))
        try:
            session = await service.work.store.write(
                lambda db: sessions.create(db, sessions.NewSession(KEY), 0).id
            )
            for turn in conversation.turns:
                await service.work.store.write(append, session, turn)
            shown = _bare(await _projection(service, window, strategy))
            return [await _outcome(service, each, shown) for each in probes_of(conversation)]
        finally:
            await service.close()


async def _projection(service: Service, window: int | None, strategy: Strategy) -> str:
    query = PrepareQuery(KEY, strategy=strategy, window_tokens=window, compact="auto" if window else "never")
    page = await service.prepare(query)
    told = [str(page.messages), "" if page.fragment is None else page.fragment.json]
    while page.next_cursor is not None:
        page = await service.prepare(PrepareQuery(KEY, cursor=page.next_cursor))
        told += [str(page.messages), "" if page.fragment is None else page.fragment.json]
    return "".join(told)


async def _outcome(service: Service, asked: Probe, shown: str) -> Outcome:
    if _says(shown, asked):
        return Outcome(asked.kind, 0)
    page = await lcm_grep.TOOL.run(service, lcm_grep.GrepArguments(session=KEY, **asked.call))
    told = _bare(lcm_grep.TOOL.render(page))
    if _says(told, asked):
        return Outcome(asked.kind, 1)
    expanded = (
        await lcm_expand.TOOL.run(service, lcm_expand.ExpandArguments(id=_range(asked, page), session=KEY))
        if page.hits
        else None
    )
    more = "" if expanded is None else _bare(lcm_expand.TOOL.render(expanded))
    return Outcome(asked.kind, 2 if _says(told + more, asked) else None)


def _range(asked: Probe, page: HitPage) -> str:
    """The best hit; of a failure the one whose snippet shows that error, with two rows before it."""
    if asked.kind != "failed, how":
        return page.hits[0].ref
    shown = (hit for hit in page.hits if _bare(asked.says[1][:40]) in _bare(hit.snippet))
    row = int(next(shown, page.hits[0]).ref.removeprefix("e"))
    return f"e{max(1, row - 2)}..e{row}"


def _says(bare: str, asked: Probe) -> bool:
    return all(_bare(each) in bare for each in asked.says)


def _bare(text: str) -> str:
    """Letters and digits alone; what JSON escapes is no letter of the text."""
    return _APART.sub("", re.sub(r"\\[ntr\"\\/]|\\u[0-9a-f]{4}", "", text)).casefold()
