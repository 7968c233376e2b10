"""What the tools accept and what they refuse: one sentence that names the argument, and nothing changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from harbour import BY_NAME, call, folded, memory, talk

from lcm_mcp.errors import LcmError
from lcm_mcp.tools.arguments import parse
from lcm_mcp.tools.toolsets import TOOLS


async def test_json_given_as_text_is_taken_for_what_it_holds(store_path: Path) -> None:
    async with memory(store_path) as service:
        answer = await call(service, "lcm_append", session="s", entries=json.dumps(talk(1)))
        assert answer.structured["refs"] == ["e1", "e2", "e3", "e4"]
        one = [json.dumps(entry) for entry in talk(1)[:1]]
        assert (await call(service, "lcm_append", session="s", entries=one)).structured["duplicates"] == [
            "e1"
        ]
        page = await call(service, "lcm_grep", pattern="pier", limit="1", case_sensitive="False", role=None)
        assert len(page.structured["hits"]) == 1


Refused = tuple[str, dict[str, object], str]
_COUNTED: dict[str, object] = {"prepared": "c0.e160", "input_tokens": 100}
_USAGE = "usage: it is {}. Give a JSON object of prepared, input_tokens, cached_tokens."
_WRONG_USAGE: list[tuple[object, str]] = [
    (100, _USAGE.format("a number")),
    ("lots", _USAGE.format("a text")),
    ([_COUNTED], _USAGE.format("an array")),
    ("{}", "usage.prepared: it is missing. Give a text of 1 to 100 characters."),
    ({"prepared": "c0.e160"}, "usage.input_tokens: it is missing. Give a whole number from 0"),
    (
        _COUNTED | {"output_tokens": 5},
        "usage.output_tokens: there is no such argument. The arguments are usage.prepared, usage.input_",
    ),
    (_COUNTED | {"prepared": 12}, "usage.prepared: it is a number. Give a text"),
    (_COUNTED | {"input_tokens": -1}, "usage.input_tokens: it is -1. Give a whole number from 0"),
    (_COUNTED | {"input_tokens": 0.5}, "usage.input_tokens: it is a number with a fraction. Give a whole"),
    (_COUNTED | {"input_tokens": 10**40}, "usage.input_tokens: it is so large a number. Give a whole number"),
    (_COUNTED | {"cached_tokens": "many"}, "usage.cached_tokens: it is a text. Give a whole number from 0"),
    (
        _COUNTED | {"cached_tokens": 101},
        "usage.input_tokens: it is 100, less than cached_tokens. Give all input tokens, cached ones incl",
    ),
]
_READS_OF_ONE: list[tuple[str, str]] = [("lcm_describe", "id"), ("lcm_expand", "id"), ("lcm_grep", "node")]
_OF_A_SESSION = [tool for tool in TOOLS if "session" in tool.input_schema["properties"]]
_REFUSED: list[Refused] = [
    *((tool.name, {"colour": 1, "size": 2}, "colour, size: there is no such argument") for tool in TOOLS),
    ("lcm_list", {"a\nb": 1}, '"a\\nb": there is no such argument'),
    ("lcm_list", {"": 1}, '"": there is no such argument'),
    ("lcm_list", {"limit": float("nan")}, "limit: it is no number. Give a whole number"),
    *(
        (
            tool,
            {name: "half \ud83d"},
            f"{name}: it holds half of a surrogate pair, which is no character. Give a",
        )
        for tool, name in (("lcm_grep", "pattern"), ("lcm_list", "session"), ("lcm_describe", "id"))
    ),
    ("lcm_list", {"cursor": "x" * 2001}, "cursor: it has 2001 characters. Give a text of at most 2000 char"),
    *((tool.name, {"session": ["s"]}, "session: it is an array") for tool in _OF_A_SESSION),
    *((tool.name, {"session": ""}, "session: it has 0 characters") for tool in _OF_A_SESSION),
    *((tool.name, {"session": "nobody"}, "There is no session 'nobody'") for tool in TOOLS[1:6]),
    ("lcm_compact", {"session": "nobody"}, "There is no session 'nobody'"),
    ("lcm_compact", {"session": None}, "session: it is missing. Give a text of 1 to 200 characters."),
    ("lcm_compact", {"strategy": "none"}, "strategy: it is 'none'. Give one of rolling, lcm."),
    *(
        (tool.name, {"cursor": 5}, "cursor: it is a number. Give a text of at most 2000 ")
        for tool in TOOLS[:3]
    ),
    *((tool.name, {"cursor": "Zm9yZWlnbg"}, "cursor: it does not belong to") for tool in TOOLS[:3]),
    ("lcm_expand", {"cursor": "WyJhIl0"}, "cursor: it does not belong to this query"),
    ("prepare_context", {"cursor": "😀"}, "cursor: it does not belong to this query"),
    *((name, {at: "rows"}, "'rows' is not an address") for name, at in _READS_OF_ONE),
    *((name, {at: "#999"}, "#999 names nothing in session") for name, at in _READS_OF_ONE),
    *((name, {at: "s99/#1", "session": None}, "There is no session 's99'") for name, at in _READS_OF_ONE),
    *((name, {at: 12}, f"{at}: it is a number. Give a text") for name, at in _READS_OF_ONE),
    ("lcm_describe", {"id": "e9999"}, "e9999 names nothing"),
    ("lcm_describe", {"id": "e1..e2"}, "id: e1..e2 is a range"),
    ("lcm_describe", {"id": None}, "id: it is missing. Give a text of 1 to 100 characters."),
    ("lcm_expand", {"id": "e5..e2"}, "'e5..e2' is not an address"),
    ("lcm_expand", {"max_bytes": 499}, "max_bytes: it is 499. Give a whole number from 500 to 150000."),
    ("lcm_expand", {"max_bytes": "150001"}, "max_bytes: it is 150001. Give a whole number from 500"),
    ("lcm_expand", {"max_bytes": "many"}, "max_bytes: it is a text. Give a whole number from 500"),
    ("lcm_expand", {"include_payload": 1}, "include_payload: it is a number. Give true or false."),
    ("lcm_sessions", {"limit": 0}, "limit: it is 0. Give a whole number from 1 to 100."),
    ("lcm_sessions", {"query": ""}, "query: it has 0 characters. Give a text of 1 to 500 characters."),
    ("lcm_list", {"limit": 101}, "limit: it is 101. Give a whole number from 1 to 100."),
    ("lcm_list", {"limit": 10**40}, "limit: it is so large a number. Give a whole number"),
    ("lcm_list", {"depth": -1}, "depth: it is -1. Give a whole number from 0 to 8."),
    ("lcm_list", {"depth": True}, "depth: it is a truth value. Give a whole number from 0 to 8."),
    ("lcm_list", {"frontier_only": "maybe"}, "frontier_only: it is a text. Give true or false."),
    ("lcm_grep", {"pattern": None}, "pattern: it is missing. Give a text of 1 to 500 characters."),
    ("lcm_grep", {"pattern": ""}, "pattern: it has 0 characters. Give a text of 1 to 500 characters."),
    ("lcm_grep", {"pattern": "x" * 501}, "pattern: it has 501 characters. Give a text of 1 to 500"),
    ("lcm_grep", {"mode": "regexp"}, "mode: it is 'regexp'. Give one of literal, words, regex."),
    ("lcm_grep", {"role": "nobody"}, "role: it is 'nobody'. Give one of user, assistant, tool, system."),
    ("lcm_grep", {"since": "yesterday"}, "since: "),
    ("lcm_grep", {"node": "e1"}, "node: 'e1' is not a node"),
    ("lcm_grep", {"limit": 1.5}, "limit: it is a number with a fraction. Give a whole number from 1"),
    ("lcm_append", {"session": None}, "session: it is missing. Give a text of 1 to 200 characters."),
    ("lcm_append", {"session": " "}, "session: it is empty or too long"),
    ("lcm_append", {"entries": None}, "entries: it is missing. Give a JSON array of objects"),
    ("lcm_append", {"entries": "[{"}, "entries: it is a text. Give a JSON array of objects"),
    ("lcm_append", {"entries": []}, "entries: it is empty. Give a JSON array of objects"),
    ("lcm_append", {"entries": {"role": "user"}}, "entries: it is an object. Give a JSON array"),
    ("lcm_append", {"entries": [{"role": "user", "content": "a"}, 5]}, "entries[1]: it is a number"),
    ("lcm_append", {"entries": [{"role": "king", "content": "a"}]}, "entries[0]: role: 'king'"),
    ("lcm_append", {"expect_last_seq": 1}, "Nothing was appended: the session ends at e160, not at e1."),
    ("lcm_append", {"expect_last_seq": -1}, "expect_last_seq: it is -1. Give a whole number from 0."),
    (
        "lcm_append",
        {"entries": [{"role": "user", "content": "a", "parent": "e999"}]},
        "entries[0]: parent: it",
    ),
    (
        "lcm_append",
        {"entries": [{"role": "user", "content": "a", "outcome_of": "harbour"}]},
        "entries[0]: outc",
    ),
    (
        "lcm_append",
        {"entries": [{"role": "user", "content": "a", "outcome_of": "no"}]},
        "There is no session",
    ),
    *((name, {"session": "nobody"}, "There is no session 'nobody'") for name in ("lcm_fork", "lcm_rewind")),
    ("lcm_fork", {"at": "e999"}, "at: 'e999' is neither a row nor an entry_id of session 'harbour'"),
    ("lcm_fork", {"at": "e0"}, "at: 'e0' is neither a row nor an entry_id of session 'harbour'"),
    ("lcm_fork", {"new_session": "harbour"}, "new_session: there is a session 'harbour' already"),
    ("lcm_fork", {"new_session": " "}, "new_session: it is empty or too long"),
    ("lcm_fork", {"marker": "here"}, "marker: it is a text. Give true or false."),
    ("lcm_rewind", {"to": "s9/e3"}, "to: 's9/e3' is neither a row nor an entry_id of session 'harbour'"),
    ("lcm_next_summary", {"session": "nobody"}, "There is no session 'nobody'"),
    ("lcm_next_summary", {"cursor": "Zm9yZWlnbg"}, "cursor: it does not belong to"),
    ("lcm_next_summary", {"max_bytes": 30_001}, "max_bytes: it is 30001. Give a whole number from 500 to"),
    ("lcm_submit_summary", {"task": "t"}, "task: 't' is no task, or its time was over and another has it."),
    ("lcm_submit_summary", {"task": None}, "task: it is missing. Give a text of 1 to 100 characters."),
    ("lcm_submit_summary", {"author": ""}, "author: it has 0 characters. Give a text of 1 to 80"),
    ("lcm_expand_query", {"question": None}, "question: it is missing. Give a text of 1 to 2000"),
    ("lcm_expand_query", {"ids": "rows"}, "ids: it is a text. Give a JSON array of texts that"),
    ("lcm_expand_query", {"ids": [1]}, "ids: it is a number. Give a JSON array of texts"),
    ("lcm_expand_query", {"ids": ["#999"]}, "#999 names nothing in session 'harbour'"),
    ("lcm_expand_query", {"max_tokens": 199}, "max_tokens: it is 199. Give a whole number from 200 to 10000"),
    ("lcm_redo", {"id": "e3"}, "id: 'e3' is not a node."),
    ("lcm_redo", {"id": "#999"}, "#999 names nothing in session 'harbour'"),
    ("lcm_rewind", {"to": None}, "to: it is missing. Give a text of 1 to 200 characters."),
    ("lcm_append", {"after": "e3"}, "Nothing was appended: the session ends at e160, not at e3."),
    ("prepare_context", {"strategy": "roll"}, "strategy: it is 'roll'. Give one of rolling, lcm, none."),
    ("prepare_context", {"provider": ""}, "provider: it has 0 characters. Give a text of 1 to 200"),
    ("prepare_context", {"model": "m" * 201}, "model: it has 201 characters. Give a text of 1 to 200"),
    ("prepare_context", {"model": ["m"]}, "model: it is an array. Give a text of 1 to 200 characters."),
    *(("prepare_context", {"usage": usage}, said) for usage, said in _WRONG_USAGE),
    ("prepare_context", {"format": "xml"}, "format: it is 'xml'. Give one of messages, anthropic, openai"),
    ("prepare_context", {"deadline_ms": 50_001}, "deadline_ms: it is 50001. Give a whole number from 1"),
    ("prepare_context", {"window_tokens": "0"}, "window_tokens: it is 0. Give a whole number from 1"),
    ("prepare_context", {"append": 5}, "append: it is a number. Give a JSON array of objects."),
    ("prepare_context", {"append": [{"role": "user"}]}, "entries[0]: content is missing"),
    ("prepare_context", {"append": talk(1), "session": None}, "session: append needs one"),
]
_ENOUGH: dict[str, dict[str, object]] = {
    "lcm_sessions": {},
    "lcm_list": {"session": "harbour"},
    "lcm_grep": {"session": "harbour", "pattern": "pier"},
    "lcm_describe": {"session": "harbour", "id": "e1"},
    "lcm_expand": {"session": "harbour", "id": "e1"},
    "prepare_context": {"session": "harbour"},
    "lcm_append": {"session": "harbour", "entries": [{"role": "user", "content": "a"}]},
    "lcm_compact": {"session": "harbour"},
    "lcm_next_summary": {"session": "harbour"},
    "lcm_submit_summary": {"task": "none", "text": "a"},
    "lcm_redo": {"session": "harbour", "id": "#1"},
    "lcm_fork": {"session": "harbour"},
    "lcm_rewind": {"session": "harbour", "to": "e1"},
    "lcm_expand_query": {"session": "harbour", "question": "How deep is pier 7?"},
}


async def test_each_wrong_call_is_one_sentence_and_changes_nothing(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        before = await service.sessions(), await service.list_nodes(session="harbour")
        for name, wrong, sentence in _REFUSED:
            with pytest.raises(LcmError) as refusal:
                await call(service, name, **_ENOUGH[name] | wrong)
            said = str(refusal.value)
            assert said.startswith(sentence), f"{name} {wrong}: {said}"
            assert "\n" not in said
            assert len(said) < 400
        assert (await service.sessions(), await service.list_nodes(session="harbour")) == before


async def test_an_unknown_argument_is_refused_with_the_names_there_are(store_path: Path) -> None:
    async with memory(store_path) as service:
        with pytest.raises(LcmError, match="The arguments are session, depth, frontier_only, limit, cursor"):
            await call(service, "lcm_list", depht=1)


@pytest.mark.parametrize("wrong", ["limit", "cursor"])
def test_a_value_is_named_by_its_argument_alone(wrong: Literal["limit", "cursor"]) -> None:
    with pytest.raises(LcmError, match=rf"\A{wrong}: it is an object\. Give [^:]+\.\Z"):
        parse(BY_NAME["lcm_sessions"].arguments, {wrong: {"deep": 1}})


_PAGED: list[tuple[str, dict[str, object]]] = [
    ("lcm_sessions", {"limit": 1}),
    ("lcm_list", {"session": "harbour", "limit": 1}),
    ("lcm_grep", {"session": "harbour", "pattern": "pier", "limit": 1}),
    ("lcm_grep", {"session": "harbour", "pattern": "which pier", "mode": "words", "limit": 1}),
    ("lcm_expand", {"session": "harbour", "id": "e1..e160", "max_bytes": 500}),
    ("lcm_next_summary", {"session": "harbour", "max_bytes": 500}),
    ("prepare_context", {"session": "long"}),
]


@pytest.mark.parametrize(("name", "arguments"), _PAGED)
async def test_a_cursor_is_taken_only_as_it_was_given_out(
    name: str, arguments: dict[str, object], store_path: Path
) -> None:
    async with memory(store_path) as service:
        await folded(service)
        await service.append("long", [{"role": "user", "content": "pier " * 40_000}])
        given = (await call(service, name, **arguments)).structured["next_cursor"]
        for other in (f" {given}", f"{given}\n", f"{given[:9]} {given[9:]}", f"!{given}", f"{given}="):
            with pytest.raises(LcmError, match="cursor: it does not belong to this query"):
                await call(service, name, **arguments, cursor=other)
        assert (await call(service, name, **arguments, cursor=given)).text
