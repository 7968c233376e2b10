"""The owner's list of summarizers: which are asked, in which order, and what each needs to be asked.

An entry names the environment variable that holds a key, never the key, so that a list can be shown. A
provider's own key goes to the provider's own address alone: who names another says which key, if any.
What is wrong in a list is told without its values, as one may be a key put in the wrong place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, ClassVar, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

_SHAPE = ConfigDict(
    frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
)
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
_Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
_Window = Annotated[int, Field(strict=True, ge=1024, le=1_000_000_000)]


def _address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ValueError("it should be http(s)://HOST/PATH, without a name, a password or a query")
    return value


class _Endpoint(BaseModel):
    """A model behind a provider's protocol; base_url is None for the provider's own address."""

    model_config = _SHAPE
    own_key: ClassVar[str]

    model: _Name
    base_url: Annotated[str, AfterValidator(_address)] | None = None
    key_variable: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$", max_length=100)] | None = None
    timeout_seconds: _Seconds = 60.0
    max_output_tokens: _Tokens | None = None
    context_window_tokens: _Window | None = None
    reasoning_tokens: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 4096
    stream: bool = True

    @property
    def variable(self) -> str | None:
        """The environment variable that holds the key; None where none is sent."""
        return self.key_variable or (self.own_key if self.base_url is None else None)

    @property
    def name(self) -> str:
        return self.model

    @property
    def line(self) -> str:
        """The entry as people are shown it."""
        host = "" if self.base_url is None else f" at {urlsplit(self.base_url).netloc}"
        key = "no key" if self.variable is None else f"key in {self.variable}"
        return f"{self.model}{host} ({key})"


class AnthropicEntry(_Endpoint):
    """A model behind Anthropic's Messages API."""

    own_key: ClassVar[str] = "ANTHROPIC_API_KEY"
    kind: Literal["anthropic"]


class OpenaiEntry(_Endpoint):
    """A model behind OpenAI's chat completions, whoever serves them."""

    own_key: ClassVar[str] = "OPENAI_API_KEY"
    kind: Literal["openai"]


class CommandEntry(BaseModel):
    """A program that reads the prompt on stdin and answers on stdout."""

    model_config = _SHAPE

    kind: Literal["command"]
    command: Annotated[tuple[Annotated[str, Field(pattern=r"^[^\x00]*$")], ...], Field(min_length=1)]
    timeout_seconds: _Seconds = 120.0
    context_window_tokens: _Window | None = None

    @property
    def name(self) -> str:
        return f"command {PurePath(self.command[0]).name}"

    @property
    def line(self) -> str:
        """The entry as people are shown it: its arguments may hold anything, so they are not."""
        return self.name


class ExtractiveEntry(BaseModel):
    """The summarizer without a model."""

    model_config = _SHAPE

    kind: Literal["extractive"]

    @property
    def line(self) -> str:
        return self.kind


Entry = Annotated[AnthropicEntry | OpenaiEntry | CommandEntry | ExtractiveEntry, Field(discriminator="kind")]


def _read(value: object) -> object:
    # In a variable the list is JSON text.
    if not isinstance(value, str):
        return value
    try:
        return cast("object", json.loads(value))
    except ValueError:
        raise ValueError("it should be a JSON list") from None


def _ended(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    if any(entry.kind == "extractive" for entry in entries[:-1]):
        raise ValueError("extractive always answers, so it should stand last")
    if entries and entries[-1].kind == "extractive":
        return entries
    return (*entries, ExtractiveEntry(kind="extractive"))


EntryList = Annotated[tuple[Entry, ...], BeforeValidator(_read), AfterValidator(_ended)]
"""The list as the settings hold it: the extractive summarizer is always its end."""

EXTRACTIVE_ONLY: tuple[Entry, ...] = (ExtractiveEntry(kind="extractive"),)


def shown_list(entries: Sequence[Entry]) -> str:
    """A list on one line, without what may be secret."""
    return ", then ".join(entry.line for entry in entries)


def fault_in_list(where: Sequence[str | int], kind: str, message: str) -> str:
    """What is wrong in a list, for a fault that pydantic located at `where`; no value of it is told."""
    steps = [step for step in where[1:] if step not in ("anthropic", "openai", "command", "extractive")]
    place = "summarizers" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    if len(where) > 3 and where[-1] == "command":
        place += ".command"
    if kind == "extra_forbidden":
        return f"{place} is no setting of a summarizer; a key stands in the variable that keyVariable names"
    if kind == "string_pattern_mismatch" and place.endswith(".keyVariable"):
        return f"{place} should be the name of an environment variable in capitals, not a key"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return f"{place}.kind should be anthropic, openai, command or extractive"
    if kind == "tuple_type":
        return f"{place}: it should be a JSON list"
    return f"{place}: {message[:1].lower()}{message[1:]}"
