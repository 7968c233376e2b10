"""Wire formats by law: order, sources, encoding and the stable prefix, over random rows."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wire_order import check_order
from wire_rows import DOCUMENT, PICTURE, UNLOADED, Said, say, tail_of

from lcm_mcp.projection.formats import render
from lcm_mcp.projection.model import FORMATS, Message, Projection
from lcm_mcp.transcript.model import (
    Image,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

IDS = st.sampled_from(["a", "b", "b.b", "b:b", "a_2", ""])
TEXTS = st.sampled_from(["hi", "", " \n", "写一个测试", "lone \ud83d and \x00", "=== user e1 ===", "[lcm:x]"])
SAID: st.SearchStrategy[Part] = st.builds(Text, TEXTS)
PICTURES = st.sampled_from([PICTURE, UNLOADED, Image("image/tiff", "cd" * 32, 3, None, None, b"II*")])
OPAQUES = st.sampled_from(
    [
        DOCUMENT,
        Opaque({"type": "server_tool_use", "id": "s", "name": "\udcff", "input": {}}),
        Opaque({"type": "tool_use", "id": 7}),
        Opaque(["no", "object"]),
    ]
)
REASONING = st.sampled_from(
    [Reasoning("hm"), Reasoning("hm", {"signature": "s"}), Reasoning("", {"data": "ZW5j"}), Reasoning("")]
)
ARGUMENTS = st.sampled_from([{"command": "ls \udead"}, "raw \ud800", [1, 2**80], {}])
CALLS = st.builds(ToolCall, IDS, st.sampled_from(["Bash", "mcp.x/y", ""]), ARGUMENTS)
RESULTS = st.builds(
    ToolResult,
    IDS,
    st.lists(st.one_of(st.builds(Text, TEXTS), PICTURES, OPAQUES), max_size=2).map(tuple),
    st.booleans(),
)
MESSAGE_IDS = st.sampled_from(["m1", "m2", None])


def rows_of(roles: Sequence[Role], *parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Said]:
    content = st.lists(st.one_of(*parts), max_size=3).map(tuple)
    return st.tuples(st.sampled_from(roles), content, MESSAGE_IDS)


ROWS = st.lists(
    st.one_of(
        rows_of(["user", "system"], SAID, PICTURES, OPAQUES),
        rows_of(["assistant"], SAID, REASONING, OPAQUES),
        rows_of(["assistant"], CALLS, REASONING, SAID),
        rows_of(["assistant"], CALLS),
        rows_of(["user", "tool"], RESULTS),
        rows_of(["user", "tool"], RESULTS, SAID),
        rows_of(["user", "assistant", "tool", "system"], CALLS, RESULTS, REASONING),
    ),
    max_size=12,
)
HISTORIES = st.sampled_from([None, "[lcm:history] 历史", " "])


def wire(messages: Sequence[Message]) -> list[tuple[bytes, tuple[str, ...]]]:
    """What law 4 compares: each message's canonical bytes, with what it accounts for."""
    return [(orjson.dumps(dict(m.body), option=orjson.OPT_SORT_KEYS), m.sources) for m in messages]


def call_ids(message: Message) -> list[str]:
    content, calls = message.body.get("content"), message.body.get("tool_calls")
    blocks = [*(content if isinstance(content, list) else []), *(calls if isinstance(calls, list) else [])]
    kinds = ("tool_use", "tool_call", "function")
    found = [block for block in blocks if isinstance(block, dict) and block.get("type") in kinds]
    # An unknown block kept verbatim may look like a call; only ours have a text as id.
    ids = [block.get("id", block.get("call_id")) for block in found]
    return [call_id for call_id in ids if isinstance(call_id, str)]


def results_in(message: Message) -> int:
    content = message.body.get("content")
    blocks = content if isinstance(content, list) else []
    native = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
    return len(native) + ("tool_call_id" in message.body)


def settled(messages: Sequence[Message]) -> int:
    """How many messages must stand: all but the last, or all before the group that still waits."""
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=None)
    if last is not None and len(call_ids(messages[last])) > sum(map(results_in, messages[last + 1 :])):
        return last
    return max(0, len(messages) - 1)


TWICE_THEN_BLANK: list[Said] = [
    say("assistant", ToolCall("a", "Bash", {}), ToolCall("a", "Bash", {})),
    say("assistant", " \n"),
    say("user", ToolResult("a", ())),
]


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, history=HISTORIES)
@example(rows=TWICE_THEN_BLANK, history=None)
def test_every_rendering_is_in_order_encodable_and_accounts_for_each_row_once(
    rows: list[Said], history: str | None
) -> None:
    tail = tail_of(rows)
    for form in FORMATS:
        answer = render(Projection(history, tail), form)
        assert check_order(answer.messages, form) == []
        refs = [ref for message in answer.messages for ref in message.sources]
        assert refs == [shown.ref for shown in tail]
        assert all(orjson.dumps(dict(message.body)) for message in answer.messages)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS)
def test_every_call_and_result_is_native_or_labelled_and_counted(rows: list[Said]) -> None:
    parts = [part for _, said, _ in rows for part in said]
    calls = sum(isinstance(part, ToolCall) for part in parts)
    results = sum(isinstance(part, ToolResult) for part in parts)
    for form in FORMATS[:3]:
        answer = render(Projection(None, tail_of(rows)), form)
        native = sum(len(call_ids(message)) for message in answer.messages)
        assert native == calls - answer.notes.labelled_calls
        assert sum(map(results_in, answer.messages)) == results - answer.notes.labelled_results


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, history=HISTORIES, data=st.data())
@example(rows=[("assistant", (Text("x"),), None), ("system", (Text("s"),), None)], history=None, data=None)
def test_adding_rows_changes_no_message_but_the_last_and_a_group_that_waits(
    rows: list[Said], history: str | None, data: st.DataObject | None
) -> None:
    shorter = 1 if data is None else data.draw(st.integers(0, len(rows)))
    for form in FORMATS[:3]:
        before = render(Projection(history, tail_of(rows[:shorter])), form).messages
        after = render(Projection(history, tail_of(rows)), form).messages
        stands = settled(before)
        assert wire(after)[:stands] == wire(before)[:stands]


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, data=st.data())
def test_the_text_of_a_shorter_tail_begins_the_longer_one_unless_calls_wait(
    rows: list[Said], data: st.DataObject
) -> None:
    kept = [row for row in rows if not any(isinstance(part, ToolCall) for part in row[1])]
    shorter = data.draw(st.integers(0, len(kept)))
    before = render(Projection("HISTORY", tail_of(kept[:shorter])), "text").messages[0].body["content"]
    after = render(Projection("HISTORY", tail_of(kept)), "text").messages[0].body["content"]
    assert str(after).startswith(str(before))
