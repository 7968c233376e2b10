"""Toolsets: what a client may call, and that reading leaves the store as it was."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from connecting import (
    ERAS,
    OPENING,
    Era,
    answered,
    asked,
    command,
    connected,
    line,
    piped,
    serving,
    text,
    tool,
)
from harbour import folded, memory, talk
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from lcm_mcp.cli.serving import serve_command
from lcm_mcp.server import build_server
from lcm_mcp.server.prompts import PROMPTS
from lcm_mcp.tools import ToolsetName
from lcm_mcp.tools.toolsets import TOOLS, TOOLSETS

READ = ["lcm_sessions", "lcm_list", "lcm_grep", "lcm_describe", "lcm_expand", "prepare_context"]
OFFERED: dict[ToolsetName, list[str]] = {
    "read": READ,
    "agent": [*READ, "lcm_append", "lcm_compact", "lcm_next_summary", "lcm_submit_summary"],
    "all": [tool.name for tool in TOOLS],
}


def test_the_command_offers_the_toolsets_there_are() -> None:
    option = next(each for each in serve_command.params if each.name == "toolset")
    assert tuple(getattr(option.type, "choices")) == get_args(ToolsetName) == tuple(TOOLSETS)  # noqa: B009


@pytest.mark.parametrize("toolset", list(TOOLSETS))
async def test_a_toolset_is_offered_over_http_and_no_other_tool_is_called(
    toolset: ToolsetName, store_path: Path
) -> None:
    with serving(store_path, "--toolset", toolset) as (port, _):
        for mode in ERAS:
            async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
                offered = [tool.name for tool in (await client.list_tools()).tools]
                assert offered == OFFERED[toolset]
                for name in {tool.name for tool in TOOLS} - set(offered):
                    with pytest.raises(MCPError, match=rf"no tool '{name}'. The tools are lcm_sessions, "):
                        await client.call_tool(name, {"session": "s"})


@pytest.mark.parametrize("era", ERAS)
async def test_a_toolset_and_a_session_are_given_to_a_server_over_stdio(era: Era, store_path: Path) -> None:
    async with connected("stdio", era, store_path) as client:
        for session in ("first", "second", "third"):
            await answered(client, "lcm_append", session=session, entries=talk(1))
    program, *arguments = command(store_path, "--toolset", "read", "--session", "second")
    async with Client(StdioServerParameters(command=program, args=arguments), mode=era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READ
        assert (await answered(client, "prepare_context"))["session"] == "second"
        assert (await answered(client, "lcm_list"))["session"] == "second"


# --- reading only


async def test_reading_leaves_the_store_as_it_was(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        before = _content(store_path)
        async with Client(build_server(service, "read")) as client:
            for tool in (await client.list_tools()).tools:
                hints = tool.annotations
                assert hints is not None
                assert hints.read_only_hint
                assert hints.idempotent_hint
            # Small enough a window that the full tool would fold, and another model than before.
            asking = {
                "session": "harbour",
                "window_tokens": 500,
                "model": "m",
                "provider": "p",
                "detail": True,
            }
            shown = await answered(client, "prepare_context", **asking)
            assert shown["status"] == "limited"
            assert shown["prepared"].startswith("c1.e160")
            assert shown["observation"]["done"] is None
            for name, given in (
                ("lcm_list", {}),
                ("lcm_grep", {"pattern": "pier"}),
                ("lcm_describe", {"id": "#1"}),
                ("lcm_expand", {"id": "e1"}),
            ):
                await answered(client, name, session="harbour", **given)
        assert await service.last_observation("harbour") is not None  # of the folding
        assert _content(store_path) == before


def _content(path: Path) -> bytes:
    wal = path.with_name(path.name + "-wal")
    return path.read_bytes() + (wal.read_bytes() if wal.exists() else b"")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"append": talk(1)}, "append: there is no such argument. The arguments are "),
        ({"strategy": "lcm"}, "strategy: there is no such argument. The arguments are "),
        ({"usage": {"prepared": "c0.e4", "input_tokens": 9}}, "usage: there is no such argument."),
        ({"deadline_ms": 5}, "deadline_ms: there is no such argument."),
        ({"compact": "force"}, "compact: it is 'force'. Give one of never."),
        ({"compact": "auto"}, "compact: it is 'auto'. Give one of never."),
    ],
)
async def test_what_only_reading_cannot_do_is_refused_by_name(
    given: dict[str, object], sentence: str, store_path: Path
) -> None:
    async with memory(store_path) as service, Client(build_server(service, "read")) as client:
        schema = next(
            t.input_schema for t in (await client.list_tools()).tools if t.name == "prepare_context"
        )
        (name,) = given
        assert (name in schema["properties"]) == (name == "compact")
        result = await asked(client, "prepare_context", session="s", **given)
        assert result.is_error
        assert text(result).startswith(sentence)


def test_a_client_that_only_reads_is_told_of_no_tool_that_it_lacks(store_path: Path) -> None:
    messages, _ = piped(
        store_path, OPENING + line("tools/list", {}, 1) + tool(2, "lcm_sessions"), "--toolset", "read"
    )
    told = json.dumps([message["result"] for message in messages]) + "".join(
        prompt.write("s") for prompt in PROMPTS
    )
    assert set(re.findall(r"\blcm_[a-z]+\b|\bprepare_context\b", told)) == set(READ)
