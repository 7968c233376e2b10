"""Clients that load one store: each appends, searches and prepares in turns of its own luck, and remembers
what was acknowledged to it.

A call that answers an error, or none at all, is an error: nothing is tried again. What a client does is
drawn from the seed and its number alone; only what they do to each other is up to the machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, cast

import anyio
from mcp import Client
from mcp_types import CallToolResult, TextContent

from benchmarks.generating import IDENTIFIER, TURN_ROWS, Author

Way = Literal["stdio", "sse", "http"]
SHARED: Final = "shared"
"""A session that every fourth client appends to, beside its own."""
WINDOW: Final = 8_000
"""Tokens; a session of about a dozen turns is compacted."""
ENOUGH_ERRORS: Final = 10
"""A client with so many gives up."""
_MANY: Final = 10_000_000
_SHARES: Final[Mapping[str, int]] = {
    "append": 24,
    "grep, rare": 8,
    "grep, common": 8,
    "grep, absent": 6,
    "grep, ranked": 4,
    "prepare, in full": 6,
    "prepare, spliced": 10,
    "turn: append and prepare, spliced": 10,
    "list": 6,
    "describe": 6,
    "expand": 6,
    "sessions": 4,
    "compact": 2,
}
KINDS: Final = tuple(_SHARES)
_WORDS: Final = ("harbour", "ledger", "tenant", "budget", "retry", "merge", "lease", "schema", "stream")

Entry = dict[str, Any]


class Failed(Exception):
    """A call that was not answered as it should be, in the server's words."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A call that was answered: when it began and how long it took, in seconds of the monotonic clock."""

    kind: str
    began: float
    seconds: float


@dataclass(slots=True)
class Told:
    """What came of one client's calls; kept are the entry_ids acknowledged, in order, by session."""

    way: Way
    answered: list[Timed] = field(default_factory=list[Timed])
    errors: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    compacted: int = 0


class Loader:
    """One client. Its sessions are its own but for SHARED; stored names those that were there before."""

    def __init__(self, number: int, client: Client, told: Told, seed: int, stored: Sequence[str]) -> None:
        self.told: Final = told
        self.leave: Final = anyio.Event()
        """Is set when the client may go."""
        self._number = number
        self._client = client
        self._stored = stored
        self._prepared: str | None = None
        self._luck = Random(f"{seed}.{number}")
        self._entries = Author(seed * 1_000 + number).session(_MANY, number, planted=False)
        self._session = f"load-{number}"
        self._strategy = ("rolling", "lcm")[number % 2]

    async def work(self, calls: int, until: float, pause: float) -> None:
        """At most so many calls, a pause before each, none begun after `until` (of the monotonic clock)."""
        await self._once("append")  # so that there is something to prepare
        for _ in range(calls - 1):
            await anyio.sleep(pause)
            if time.monotonic() >= until or len(self.told.errors) >= ENOUGH_ERRORS:
                return
            (kind,) = self._luck.choices(KINDS, list(_SHARES.values()))
            await self._once(kind)

    async def _once(self, kind: str) -> None:
        began = time.monotonic()
        try:
            await self._do(kind)
        except Exception as error:
            self.told.errors.append((kind, f"{type(error).__name__}: {error}"[:300]))
            return
        self.told.answered.append(Timed(kind, began, time.monotonic() - began))

    async def _do(self, kind: str) -> None:
        match kind.split(", "):
            case ["append"]:
                await self._append()
            case ["grep", needle]:
                await self._grep(needle)
            case ["prepare", how]:
                await self._prepare(spliced=how == "spliced")
            case ["compact"]:
                await self._call("lcm_compact", session=self._session)
            case ["turn: append and prepare", _]:
                await self._prepare(spliced=True, append=self._turn(self._session))
            case _:
                await self._look(kind)

    async def _append(self) -> None:
        begun = self._session in self.told.kept
        shared = begun and self._number % 4 == 0 and self._luck.random() < 0.3
        session = SHARED if shared else self._session
        entries = self._turn(session)
        receipt = await self._call("lcm_append", session=session, entries=entries)
        if len(receipt["refs"]) != len(entries) or receipt["duplicates"] or receipt["conflicts"]:
            raise Failed(f"a receipt of {receipt['refs']} for {len(entries)} new entries")
        self._keep(session, entries)

    async def _grep(self, needle: str) -> None:
        luck, everywhere = self._luck, {"session": "*"}
        match needle:
            case "rare":
                page = await self._call("lcm_grep", pattern=IDENTIFIER, **everywhere)
                if not page["hits"]:
                    raise Failed("a rare needle was not found")
            case "common":
                await self._call("lcm_grep", pattern=f"{luck.choice(_WORDS)} ", **everywhere)
            case "absent":
                page = await self._call("lcm_grep", pattern=f"quokka{luck.randrange(10**6)}", **everywhere)
                if page["hits"]:
                    raise Failed("a needle was found that was never stored")
            case _:
                asked = f"what about the {luck.choice(_WORDS)} and the {luck.choice(_WORDS)}?"
                await self._call("lcm_grep", pattern=asked, mode="words", session=luck.choice(self._stored))

    async def _prepare(self, *, spliced: bool, append: Sequence[Entry] = ()) -> None:
        asked: dict[str, Any] = {"session": self._session, "strategy": self._strategy}
        have = {"have": self._prepared} if spliced and self._prepared else {}
        given = {"append": list(append)} if append else {}
        page = await self._call("prepare_context", **asked, window_tokens=WINDOW, **have, **given)
        self._keep(self._session, append)
        self._prepared = page["prepared"]
        self.told.compacted += page["status"] == "compacted"

    async def _look(self, kind: str) -> None:
        session = self._luck.choice((self._session, *self._stored))
        row = f"e{self._luck.randint(1, TURN_ROWS)}"
        match kind:
            case "list":
                await self._call("lcm_list", session=session, limit=10)
            case "describe":
                await self._call("lcm_describe", id=row, session=session)
            case "expand":
                await self._call("lcm_expand", id=f"{row}..e{TURN_ROWS}", session=session)
            case _:
                await self._call("lcm_sessions", project="*", limit=10)

    def _turn(self, session: str) -> list[Entry]:
        """The next turn, under ids that no other client and no other session has."""
        turn = [next(self._entries) for _ in range(TURN_ROWS)]
        return [{**entry, "entry_id": f"{session}/{self._number}/{entry['entry_id']}"} for entry in turn]

    def _keep(self, session: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.told.kept.setdefault(session, []).append(entry["entry_id"])
            self.told.texts[entry["entry_id"]] = _words_of(entry["content"])

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        if result.is_error:
            raise Failed(" ".join(part.text for part in result.content if isinstance(part, TextContent)))
        return cast("dict[str, Any]", result.structured_content)


def _words_of(content: str | list[dict[str, Any]]) -> str:
    """What the row's text must hold: what was said, or what a tool gave back."""
    if isinstance(content, str):
        return content
    return str(content[0].get("text") or content[0].get("content"))
