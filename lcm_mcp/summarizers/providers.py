"""Models behind Anthropic's Messages API and OpenAI's chat completions, asked through the providers' SDKs.

An SDK is an extra, loaded when it is first needed, beside the event loop. It neither tries again (metered.py
does) nor follows redirects, which would carry the key elsewhere. A refusal, an answer cut off or one of
reasoning alone is an answer that says nothing; a connection or a form that breaks is a call that failed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

import anyio.to_thread

from lcm_mcp import models
from lcm_mcp.chain import AnthropicEntry, OpenaiEntry
from lcm_mcp.summarizers.metered import CallFault, Reply
from lcm_mcp.summarizers.prompting import Prompt
from lcm_mcp.summarizers.secrets import scrubbed, short_reason
from lcm_mcp.values import frozen

if TYPE_CHECKING:
    import anthropic
    import openai
    from anthropic.types import Message
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.completion_usage import CompletionUsage

NO_KEY = "no-key"
"""Sent where no key is configured, as the SDKs insist on one and local servers ignore it."""
_REFUSALS = frozenset((401, 402, 403, 404))
_NO_CONNECTION = frozenset(("ConnectError", "ConnectTimeout"))


class _Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...


@frozen
class _Endpoint:
    """What both kinds of endpoint have in common."""

    entry: AnthropicEntry | OpenaiEntry
    name: str

    @property
    def timeout_s(self) -> float:
        return self.entry.timeout_seconds

    @property
    def key(self) -> str:
        variable = self.entry.variable
        return NO_KEY if variable is None else os.environ.get(variable, "")

    @property
    def mark(self) -> str:
        told = f"{self.entry.model_dump_json()}\0{self.key}"
        return hashlib.sha256(told.encode(errors="replace")).hexdigest()[:16]

    def unready(self) -> str | None:
        kind = self.entry.kind
        if find_spec(kind) is None:
            return f"its SDK is not installed: pip install 'lcm-mcp[{kind}]'"
        return None if self.key else f"{self.entry.variable} is not set"

    def window(self) -> int | None:
        provider = self.entry.kind if self.entry.base_url is None else None
        return self.entry.context_window_tokens or models.context_window(provider, self.entry.model)

    def output_tokens(self, limit_tokens: int) -> int:
        wanted = limit_tokens + self.entry.reasoning_tokens
        return min(wanted, self.entry.max_output_tokens or wanted)

    def price(self, input_tokens: int, output_tokens: int) -> int | None:
        address = self.entry.base_url
        provider = self.entry.kind if address is None else None
        return models.price_micro_usd(provider, address, self.entry.model, input_tokens, output_tokens)

    def told(self, text: str) -> str:
        """An answer, in which no key stands, whatever a server may echo."""
        return scrubbed(text, self.key)


class AnthropicModel(_Endpoint):
    """A model behind the Messages API."""

    __slots__ = ()

    async def ask(self, prompt: Prompt) -> Reply:
        sdk = await _load("anthropic")
        try:
            return self._read(await self._message(prompt))
        except CallFault:
            raise
        except Exception as error:
            raise _read_fault(sdk, error, self.key) from None

    async def _message(self, prompt: Prompt) -> Message:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key=self.key,
            base_url=self.entry.base_url or "https://api.anthropic.com",
            max_retries=0,
            timeout=self.timeout_s,
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        most = self.output_tokens(prompt.limit_tokens)
        said: list[anthropic.types.MessageParam] = [{"role": "user", "content": prompt.user}]
        async with client:
            if not self.entry.stream:
                return await client.messages.create(
                    model=self.entry.model, max_tokens=most, system=prompt.system, messages=said
                )
            async with client.messages.stream(
                model=self.entry.model, max_tokens=most, system=prompt.system, messages=said
            ) as stream:
                return await stream.get_final_message()

    def _read(self, message: Message) -> Reply:
        if message.stop_reason is None:
            raise CallFault("its answer broke off")
        usage = message.usage
        given = sum(
            _count(each) or 0
            for each in (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        )
        text = "".join(block.text for block in message.content if block.type == "text")
        whole = message.stop_reason in ("end_turn", "stop_sequence")
        return Reply(self.told(text), given or None, _count(usage.output_tokens), whole)


class OpenaiModel(_Endpoint):
    """A model behind chat completions."""

    __slots__ = ()

    async def ask(self, prompt: Prompt) -> Reply:
        sdk = await _load("openai")
        try:
            return await self._reply(prompt)
        except CallFault:
            raise
        except Exception as error:
            raise _read_fault(sdk, error, self.key) from None

    async def _reply(self, prompt: Prompt) -> Reply:
        import openai

        client = openai.AsyncOpenAI(
            api_key=self.key,
            base_url=self.entry.base_url or "https://api.openai.com/v1",
            max_retries=0,
            timeout=self.timeout_s,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )
        async with client:
            if self.entry.stream:
                return await self._followed(client, prompt)
            answer = await client.chat.completions.create(
                model=self.entry.model, messages=_messages(prompt), **self._limits(prompt)
            )
        choice = answer.choices[0]
        return self._reply_of(choice.message.content or "", choice.finish_reason, answer.usage)

    def _limits(self, prompt: Prompt) -> _Limits:
        # OpenAI's own models that reason know only the new name, most other servers only the old one.
        most = self.output_tokens(prompt.limit_tokens)
        return {"max_completion_tokens": most} if self.entry.base_url is None else {"max_tokens": most}

    async def _followed(self, client: openai.AsyncOpenAI, prompt: Prompt) -> Reply:
        pieces: list[str] = []
        ended: str | None = None
        usage: CompletionUsage | None = None
        chunks = await client.chat.completions.create(
            model=self.entry.model,
            messages=_messages(prompt),
            stream=True,
            stream_options={"include_usage": True},
            **self._limits(prompt),
        )
        async with chunks:
            async for chunk in chunks:
                usage = chunk.usage or usage
                for choice in chunk.choices[:1]:
                    pieces.append(choice.delta.content or "")
                    ended = choice.finish_reason or ended
        return self._reply_of("".join(pieces), ended, usage)

    def _reply_of(self, text: str, ended: str | None, usage: CompletionUsage | None) -> Reply:
        if ended is None:
            raise CallFault("its answer broke off")
        given = None if usage is None else _count(usage.prompt_tokens)
        taken = None if usage is None else _count(usage.completion_tokens)
        return Reply(self.told(text), given, taken, ended == "stop")


class _Limits(TypedDict, total=False):
    max_tokens: int
    max_completion_tokens: int


def _messages(prompt: Prompt) -> list[ChatCompletionMessageParam]:
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]


async def _load(name: str) -> Any:
    """The SDK; loading one takes a second or more, so other work goes on meanwhile."""
    return await anyio.to_thread.run_sync(import_module, name)


def _count(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and tokens >= 0 else None


def _read_fault(sdk: Any, error: Exception, key: str) -> CallFault:
    """What an SDK's error means; the two name theirs alike."""
    if isinstance(error, sdk.APIStatusError):
        response: Any = cast("Any", error).response
        return fault_of_status(response.status_code, response.headers, str(error), key)
    if isinstance(error, sdk.APITimeoutError):
        return CallFault("it did not answer in time")
    cause = type(error.__cause__ or error).__name__
    if cause in _NO_CONNECTION:
        return CallFault("it cannot be reached", passing=True, unpaid=True)
    if isinstance(error, sdk.APIError) or cause.endswith(("ProtocolError", "ReadError")):
        return CallFault(f"the call broke off ({cause})")
    return CallFault(f"its answer cannot be understood ({cause})")


def fault_of_status(status: int, headers: _Headers, message: str, key: str) -> CallFault:
    """A status other than success; its message is told where it may help, without keys."""
    if status in _REFUSALS:
        return CallFault(f"it was refused with status {status}", refused=True, unpaid=True)
    if status == 429 or status >= 500:
        return CallFault(
            f"it answered with status {status}", passing=True, unpaid=True, wait_s=retry_after(headers)
        )
    unpaid = 300 <= status < 500
    return CallFault(f"it answered with status {status}: {short_reason(message, key)}", unpaid=unpaid)


def retry_after(headers: _Headers, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """How long the other side wants to be left alone, in seconds; None where it does not say."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        try:
            seconds = float(value or "") * scale
        except ValueError:
            continue
        if 0 <= seconds < 10**9:
            return seconds
    try:
        return max(0.0, (parsedate_to_datetime(headers.get("retry-after") or "") - now()).total_seconds())
    except (TypeError, ValueError):
        return None
