"""A server started from outside, as a client starts it, and asked for its tools.

The very command of an entry runs in a process of its own, with as little environment as clients give;
what it says on stderr is the reason where it fails.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Final, cast

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from lcm_mcp.errors import NotServing

WAITING_S: Final = 60.0


async def tools_of(command: str, arguments: Sequence[str]) -> list[str]:
    """The names of the tools that the server of this command offers. Raises NotServing."""
    parameters = StdioServerParameters(command=command, args=list(arguments))
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            with anyio.fail_after(WAITING_S):
                async with Client(stdio_client(parameters, errlog=said)) as client:
                    names = [tool.name for tool in (await client.list_tools()).tools]
                    # Tools are told before the store is open; a call waits for that.
                    answer = await client.call_tool("lcm_sessions", {"limit": 1})
                    if answer.is_error:
                        raise RuntimeError(*(each.text for each in answer.content if each.type == "text"))
                    return names
        except Exception as error:  # whatever ends the conversation, the entry does not work
            said.seek(0)
            lines = said.read().strip().splitlines()
            raise NotServing(command, lines[-1] if lines else _reason(error)) from None


def _reason(error: Exception) -> str:
    """The innermost word of an error, which task groups wrap."""
    if isinstance(error, ExceptionGroup):
        return _reason(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return str(error) or type(error).__name__
