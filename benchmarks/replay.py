"""A conversation replayed request by request, and how much of each a provider's prefix cache would keep.

Rolling and lcm answer as the service does. Two peers stand beside them: the plain history, sent whole
however long it grows (what it keeps is the most that any strategy could), and a sliding window that drops
the oldest whole units until the estimate is below the trigger. A cache keeps the longest common prefix of
whole messages with the request before; the first request keeps nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, Literal, assert_never

import apsw

from benchmarks.conversations import Conversation
from benchmarks.filling import append
from lcm_mcp.ids import Seq, SessionId
from lcm_mcp.projection.formats import render
from lcm_mcp.projection.model import Message, Projection, TailRow
from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.tails import take_newest
from lcm_mcp.service.viewing import named_view, rendered
from lcm_mcp.service.windows import Window, divide, preamble_of
from lcm_mcp.settings import Settings
from lcm_mcp.tokens import BYTES_PER_TOKEN, PREAMBLE_TOKENS
from lcm_mcp.transcript import sessions, store
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.transcript.units import units_back

Contender = Literal["rolling", "lcm", "sliding", "plain"]

KEY: Final = "replayed"
FORMAT: Final = "anthropic"
NO_WINDOW: Final = sys.maxsize
SYSTEM_TOKENS: Final = 4_000
SYSTEM: Final = ("You are a careful coding agent. " * SYSTEM_TOKENS)[
    : (SYSTEM_TOKENS - PREAMBLE_TOKENS) * BYTES_PER_TOKEN
]
"""Weighs SYSTEM_TOKENS as a preamble; it never changes, so it is kept from the second request on."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its messages' canonical bytes, its estimate in tokens, what names its cut or start, and
    how long it took to prepare."""

    messages: Sequence[bytes]
    tokens: int
    cut: object
    seconds: float


@dataclass(slots=True)
class Ledger:
    """What a replay has sent, in bytes unless the name says otherwise.

    kept is by whole messages, kept_bytes the same to the byte; over counts requests over the window.
    """

    window: int
    requests: int = 0
    sent: int = 0
    kept: int = 0
    kept_bytes: int = 0
    tokens: int = 0
    cuts: int = 0
    over: int = 0
    seconds: list[float] = field(default_factory=list[float])
    _last: Request | None = None

    @property
    def ms(self) -> float:
        return median(self.seconds) * 1000

    def __add__(self, other: Ledger) -> Ledger:
        return Ledger(
            self.window,
            self.requests + other.requests,
            self.sent + other.sent,
            self.kept + other.kept,
            self.kept_bytes + other.kept_bytes,
            self.tokens + other.tokens,
            self.cuts + other.cuts,
            self.over + other.over,
            [*self.seconds, *other.seconds],
        )

    def add(self, request: Request) -> None:
        """Count a request against the one before it."""
        self.requests += 1
        self.tokens += request.tokens
        self.over += request.tokens > self.window
        self.seconds.append(request.seconds)
        self.sent += len(SYSTEM) + sum(map(len, request.messages))
        last, self._last = self._last, request
        if last is not None:
            self.cuts += request.cut != last.cut
            together = zip(request.messages, last.messages, strict=False)
            same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], together)]
            whole = len(SYSTEM) + sum(map(len, same))
            self.kept += whole
            self.kept_bytes += whole + _common(request.messages, last.messages, len(same))


def _common(messages: Sequence[bytes], others: Sequence[bytes], index: int) -> int:
    """Leading bytes that the messages at `index` share, where both lists have one."""
    if index >= min(len(messages), len(others)):
        return 0
    low, high = 0, min(len(messages[index]), len(others[index]))
    while low < high:
        middle = (low + high + 1) // 2
        if messages[index][low:middle] == others[index][low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


async def replay(conversation: Conversation, contender: Contender, window: int) -> Ledger:
    """Make every request of a conversation for a window, in tokens, with a store of its own."""
    ledger = Ledger(window)
    async with _service() as service:
        session = await service.work.store.write(_create)
        peer = _Sliding(window)
        for turn in conversation.turns:
            await service.work.store.write(append, session, turn)
            match contender:
                case "rolling" | "lcm":
                    request = await _prepared(service, session, contender, window)
                case "sliding":
                    request = await service.work.store.read(peer.request, session)
                case "plain":
                    request = await service.work.store.read(_from_row, session, Seq(1))
                case _:
                    assert_never(contender)
            ledger.add(request)
    return ledger


@asynccontextmanager
async def _service() -> AsyncGenerator[Service]:
    with TemporaryDirectory(prefix="lcm-bench-") as folder:
        service = Service.open(Settings(db=Path(folder) / "replay.sqlite"))
        try:
            yield service
        finally:
            await service.close()


def _create(db: apsw.Connection) -> SessionId:
    return sessions.create(db, sessions.NewSession(KEY), 0).id


async def _prepared(
    service: Service, session: SessionId, strategy: Literal["rolling", "lcm"], window: int
) -> Request:
    """A request as the service prepares it; what its first page has no room for is read in one go."""
    query = PrepareQuery(
        KEY, strategy=strategy, window_tokens=window, system=SYSTEM, format=FORMAT, detail=True
    )
    began = time.perf_counter()
    page = await service.prepare(query)
    seconds = time.perf_counter() - began
    assert page.observation is not None
    shown = [Message("", each.message, each.sources) for each in page.messages]
    if page.next_cursor is not None:
        cut, leaf = page.prepared.removeprefix("c").split(".e")
        view = await service.work.store.read(named_view, session, int(cut), int(leaf))
        shown = (await service.work.store.read(rendered, view, FORMAT)).messages
    return _request(shown, page.estimated_input_tokens, page.observation.cut, seconds)


def _request(messages: Sequence[Message], tokens: int, cut: object, seconds: float) -> Request:
    return Request(
        [encode(dict(message.body)) for message in messages],
        tokens,
        cut,
        seconds,
    )


def _from_row(db: apsw.Connection, session: SessionId, first: Seq) -> Request:
    """The rows from `first` on, word for word, as one request."""
    began = time.perf_counter()
    found = sessions.find_by_id(db, session)
    assert found is not None
    path = RowPath(db, session, found.leaf)
    rows = store.read_rows(db, session, path.between(first, found.leaf), images=True)
    tail = [TailRow(f"e{row.seq}", row) for row in rows]
    messages = render(Projection(None, tail), FORMAT).messages
    weight = store.path_totals(db, session, found.leaf) - store.path_totals(db, session, path.before(first))
    seconds = time.perf_counter() - began
    return _request(messages, SYSTEM_TOKENS + weight.tokens, first, seconds)


class _Sliding:
    """The sliding window: it starts at the oldest unit with which the request stays below the trigger.

    The newest unit is never dropped, as the strategies never do, and the start never moves back.
    """

    def __init__(self, window: int) -> None:
        preamble = preamble_of(PrepareQuery(system=SYSTEM))
        lines: Window = divide(window, preamble, "lcm", Settings(db=Path("unused")), None)
        self._room = lines.trigger - preamble.tokens - 1
        self._start = Seq(1)

    def request(self, db: apsw.Connection, session: SessionId) -> Request:
        found = sessions.find_by_id(db, session)
        assert found is not None
        path = RowPath(db, session, found.leaf)
        spans = take_newest(units_back(path.marks_back()), self._room, lambda size: size.tokens)
        self._start = max(self._start, spans[-1].first)
        return _from_row(db, session, self._start)
