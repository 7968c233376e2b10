"""Prompts and completion: what people choose from a menu, in both eras."""

from __future__ import annotations

from pathlib import Path

import pytest
from connecting import ERAS, TRANSPORTS, Era, Transport, answered, connected
from harbour import folded, memory, talk
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference, TextContent

CONTEXT = ResourceTemplateReference(uri="lcm://session/{id}/context")
RESUME = PromptReference(name="resume")


async def _written(client: Client, name: str, arguments: dict[str, str] | None = None) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_prompts_send_a_model_to_tools_that_there_are(
    transport: Transport, era: Era, store_path: Path
) -> None:
    async with connected(transport, era, store_path) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["recall", "resume", "summarize"]
        assert all(prompt.description and prompt.title for prompt in prompts)
        assert all(each.description for prompt in prompts for each in prompt.arguments or [])
        recall = await _written(client, "recall", {"question": "How deep is pier 17?"})
        assert "\n\nHow deep is pier 17?\n\n" in recall
        assert "lcm_grep" in recall
        assert 'Call prepare_context with session "a \\"b\\"", compact never' in await _written(
            client, "resume", {"session": 'a "b"'}
        )
        assert "the session used last" in await _written(client, "resume")
        assert 'lcm_next_summary with session "s"' in await _written(client, "summarize", {"session": "s"})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("reminisce", {}, "There is no prompt 'reminisce'. The prompts are recall, resume, summarize."),
        ("recall", {}, "question: it is missing. Give a text of 1 to 10000 characters."),
        ("recall", {"question": " "}, "question: it is missing. "),
        ("recall", {"question": "x" * 10_001}, "question: it has 10001 characters. Give at most 10000."),
        ("resume", {"sesion": "s"}, "'sesion': resume has no such argument. It takes session."),
    ],
)
async def test_a_prompt_that_cannot_be_written_says_why(
    name: str, arguments: dict[str, str], sentence: str, era: Era, store_path: Path
) -> None:
    async with connected("memory", era, store_path) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, arguments)
    assert refused.value.message.startswith(sentence)


@pytest.mark.parametrize("era", ERAS)
async def test_sessions_are_completed_by_any_part_of_key_or_title_last_active_first(
    era: Era, store_path: Path
) -> None:
    async with connected("memory", era, store_path) as client:
        for key, title in (("north", "the harbour"), ("south", "the moor"), ("north-2", "more")):
            await answered(client, "lcm_append", session=key, title=title, entries=talk(1))
        for ref, argument in ((CONTEXT, "id"), (RESUME, "session")):
            for value, keys in (
                ("", ["north-2", "south", "north"]),
                ("nor", ["north-2", "north"]),
                ("moor", ["south"]),
                ("east", []),
            ):
                found = (await client.complete(ref, {"name": argument, "value": value})).completion
                assert (found.values, found.total, found.has_more) == (keys, len(keys), False)


@pytest.mark.parametrize("era", ERAS)
async def test_nodes_are_completed_by_their_numbers_once_the_session_is_named(
    era: Era, store_path: Path
) -> None:
    node = ResourceTemplateReference(uri="lcm://session/{id}/node/{n}")
    async with memory(store_path) as service:
        await folded(service)
    async with connected("memory", era, store_path) as client:
        for value, given, numbers in (
            ("", {"id": "harbour"}, ["1", "2", "3", "4"]),
            ("3", {"id": "s1"}, ["3"]),
            ("9", {"id": "harbour"}, []),
            ("", {"id": "nobody"}, []),
            ("", None, []),
        ):
            found = (await client.complete(node, {"name": "n", "value": value}, given)).completion
            assert found.values == numbers


@pytest.mark.parametrize("era", ERAS)
async def test_what_names_no_session_has_no_completions(era: Era, store_path: Path) -> None:
    async with connected("memory", era, store_path) as client:
        await answered(client, "lcm_append", session="north", entries=talk(1))
        for ref, argument in (
            (PromptReference(name="recall"), "question"),
            (RESUME, "question"),
            (ResourceTemplateReference(uri="lcm://sessions"), "id"),
            (CONTEXT, "session"),
        ):
            found = (await client.complete(ref, {"name": argument, "value": "n"})).completion
            assert found.values == []
        with pytest.raises(MCPError, match="There is no prompt 'reminisce'"):
            await client.complete(PromptReference(name="reminisce"), {"name": "session", "value": ""})


async def test_at_most_a_hundred_are_given_and_how_many_there_are(store_path: Path) -> None:
    async with connected("memory", "auto", store_path) as client:
        for number in range(103):
            entry = {"role": "user", "content": "x"}
            await answered(client, "lcm_append", session=f"s-{number}", entries=[entry])
        found = (await client.complete(RESUME, {"name": "session", "value": "s-"})).completion
    assert (len(found.values), found.total, found.has_more) == (100, 103, True)
