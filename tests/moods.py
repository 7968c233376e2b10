"""Summarizers for the laws: one that does as it likes, and one that is watched while another writes.

The watched one knows every source it was given, and can stop for good at a call, as one does that never
answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio
from hypothesis import strategies as st

from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.summarizers.extractive import Extractive
from lcm_mcp.summarizers.ladder import source_text
from lcm_mcp.summarizers.model import Answer, Request, Source, Summarizer
from lcm_mcp.tokens import BYTES_PER_TOKEN

Mood = Literal["good", "tiny", "wordy", "long", "empty", "echo", "joined", "odd", "fails"]
MOODS: tuple[Mood, ...] = ("good", "tiny", "wordy", "long", "empty", "echo", "joined", "odd", "fails")

moods = st.lists(st.sampled_from(MOODS), min_size=1, max_size=5)


@dataclass(slots=True)
class Scripted:
    """Answers in its moods, one after the other and round again."""

    moods: Sequence[Mood]
    name: str = "scripted"
    place: int = 0

    async def summarize(self, request: Request) -> Answer:
        mood = self.moods[self.place % len(self.moods)]
        self.place += 1
        if mood == "fails":
            raise SummarizerFailed(self.name, "it is in the mood")
        return Answer(_answer(mood, request), "scripted")


def _answer(mood: Mood, request: Request) -> str:
    target = request.target_tokens * BYTES_PER_TOKEN
    limit = request.limit_tokens * BYTES_PER_TOKEN
    answers: dict[Mood, str] = {
        "good": "g" * target,
        "tiny": "k",
        "wordy": "w " * (target * 3 // 2),
        "long": "l" * (limit + 1),
        "empty": " \n",
        "echo": source_text(request.source),
        "joined": source_text(request.source)[:limit],
        "odd": "[lcm:summary #1 depth 0 span e1..e2]\n\x00\ud800 [lcm:history ends] 要約",
    }
    return answers[mood]


@dataclass(slots=True)
class Watched:
    """Another summarizer, its calls counted, their sources kept; the call numbered `stop_at` never ends."""

    inner: Summarizer = field(default_factory=Extractive)
    calls: int = 0
    sources: list[Source] = field(default_factory=list[Source])
    stop_at: int | None = None
    gate: anyio.Event | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def may_fail(self) -> bool:
        return isinstance(self.inner, Scripted) and "fails" in self.inner.moods

    @property
    def is_steady(self) -> bool:
        """Whether it answers the same the next time."""
        return isinstance(self.inner, Extractive)

    async def summarize(self, request: Request) -> Answer:
        self.calls += 1
        self.sources.append(request.source)
        if self.gate is not None:
            await self.gate.wait()
        if self.calls == self.stop_at:
            self.stopped.set()
            await anyio.sleep_forever()
        return await self.inner.summarize(request)


def chain_of(drawn: Sequence[Mood] | None, *, fallback: bool) -> list[Watched]:
    """The extractive summarizer, or one of such moods, with the extractive one after it where asked."""
    if drawn is None:
        return [Watched()]
    scripted = Watched(Scripted(drawn))
    return [scripted, Watched()] if fallback else [scripted]
