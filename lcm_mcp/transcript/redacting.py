"""Keys masked in the parts of a row: for a copy that leaves the store, or before a row is stored at all.

Words, reasoning, arguments of calls and unknown blocks are masked wherever text stands in them; names, ids
and images are left. In JSON a value is looked at together with the name it stands under. Nothing else
changes, so a row keeps its parts, their order and its place. A signature of reasoning that was masked goes
with it, as it is of other words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never, cast

from lcm_mcp.redaction import redact
from lcm_mcp.transcript.model import (
    Draft,
    Image,
    Json,
    JsonObject,
    Opaque,
    Part,
    Reasoning,
    ResultPart,
    Text,
    ToolCall,
    ToolResult,
)


class Masking:
    """What masks parts, and counts what it masked by kind; sized marks say how long a key was."""

    def __init__(self, *, sized: bool = False) -> None:
        self.masked: Counter[str] = Counter()
        self._sized = sized

    def draft(self, draft: Draft) -> Draft:
        return replace(draft, parts=self.parts(draft.parts))

    def parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(map(self._part, parts))

    def _part(self, part: Part) -> Part:
        match part:
            case Text() | Image() | Opaque():
                return self._piece(part)
            case Reasoning(text, extra):
                made = self.text(text)
                kept = extra if made == text else {k: v for k, v in extra.items() if k != "signature"}
                return Reasoning(made, self._named(kept))
            case ToolCall():
                return replace(part, arguments=self._json(part.arguments), extra=self._named(part.extra))
            case ToolResult():
                content = tuple(map(self._piece, part.content))
                return replace(part, content=content, extra=self._named(part.extra))
            case _:
                assert_never(part)

    def _piece(self, part: ResultPart) -> ResultPart:
        match part:
            case Text():
                return replace(part, text=self.text(part.text), extra=self._named(part.extra))
            case Image():
                return part
            case Opaque(raw):
                return Opaque(self._json(raw))
            case _:
                assert_never(part)

    def text(self, text: str) -> str:
        found = redact(text, sized=self._sized)
        self.masked.update(found.masked)
        return found.text

    def _json(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._json(item) for item in value]
            case dict():
                return cast("Json", self._named(value))
            case _:
                return value

    def _named(self, values: JsonObject) -> JsonObject:
        return {name: self._under(name, value) for name, value in values.items()}

    def _under(self, name: str, value: Json) -> Json:
        if not isinstance(value, str):
            return self._json(value)
        before = f"{name}="
        found = redact(before + value, sized=self._sized)
        if not found.text.startswith(before):  # the name itself looks like a key
            return self.text(value)
        self.masked.update(found.masked)
        return found.text[len(before) :]
