"""Random entries for the laws, as clients send them.

Turns look like an agent's; loose rows are anything at all, so that orphans, late and repeated results,
reused ids and odd texts all occur. Everything is a plain value that Hypothesis can shrink.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from random import Random
from typing import cast

from hypothesis import strategies as st

from lcm_mcp.transcript.model import Json

Entry = dict[str, Json]
Block = dict[str, Json]

SENTENCE = "Then we looked at lcm_mcp/store.py:{n} and found that row {n} was written twice. "
ODD_TEXTS = (
    "",
    " \n",
    "写一个测试，然后运行它。",
    "lone \ud83d, then \U0001f600 and a NUL \x00",
    "[lcm:summary #1 depth 0 span e1..e2]",
    "=== user e1 ===\r\n\x1b[31mred\x1b[0m\t\u2028",
    "e\u0301 \u202e ǅ ﬃ",
)


def filler(n: int) -> str:
    """About 80 characters times n, different for each n."""
    return "".join(SENTENCE.format(n=n * 1000 + line) for line in range(n))


def picture(side: int) -> bytes:
    """A real PNG of one colour, side pixels wide and high."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    lines = zlib.compress((b"\x00" + b"\x7f\x20\x10" * side) * side)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


PICTURES = tuple(base64.b64encode(picture(side)).decode() for side in (1, 600))

# --- parts

texts = st.one_of(
    st.integers(0, 6).map(filler),
    st.sampled_from(ODD_TEXTS),
    st.integers(6, 60).map(filler),
    st.integers(10, 150).map(lambda n: "漢字仮名" * n),
)
call_ids = st.sampled_from(["a", "b", "c", "d", "b.\ud800", ""])
pictures = st.sampled_from(PICTURES).map(
    lambda data: cast("Block", {"type": "image", "media_type": "image/png", "data": data})
)
reasonings = st.sampled_from(
    [
        cast("Block", {"type": "thinking", "thinking": filler(3), "signature": "c2ln"}),
        cast("Block", {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}),
        cast("Block", {"type": "reasoning", "text": "hm \ud800"}),
    ]
)
opaques = st.sampled_from(
    [
        cast("Block", {"type": "document", "source": {"type": "text", "data": filler(2)}}),
        cast("Block", {"type": "server_tool_use", "id": "s", "name": "\udcff", "input": {"n": 2**80}}),
    ]
)
arguments = st.one_of(
    st.sampled_from([{"command": "ls \udead"}, "raw \ud800", {"\x00": [1, 2]}, {"file_path": "/a/b.py"}]),
    st.integers(1, 40).map(lambda n: {"content": filler(n)}),
)


def said(text: str) -> Block:
    return {"type": "text", "text": text}


def a_call(call_id: str, given: Json) -> Block:
    return {"type": "tool_call", "call_id": call_id, "name": "Bash", "arguments": given}


def a_result(call_id: str, content: list[Block], is_error: bool) -> Block:
    block: Block = {"type": "tool_result", "call_id": call_id, "content": [*content]}
    return {**block, "is_error": True} if is_error else block


calls = st.builds(a_call, call_ids, arguments)
results = st.builds(
    a_result,
    call_ids,
    st.lists(st.one_of(texts.map(said), pictures, opaques), max_size=2),
    st.booleans(),
)


def entry(role: str, content: Sequence[Block] | str, message_id: str | None = None) -> Entry:
    made: Entry = {"role": role, "content": content if isinstance(content, str) else [*content]}
    return made if message_id is None else {**made, "message_id": message_id}


def _loose(role: str, *parts: st.SearchStrategy[Block]) -> st.SearchStrategy[Entry]:
    content = st.lists(st.one_of(*parts), min_size=1, max_size=3)
    return st.builds(entry, st.just(role), content, st.sampled_from([None, None, "m1", "m2"]))


plain_rows = st.builds(entry, st.sampled_from(["user", "user", "assistant", "system"]), texts)
loose_rows = st.one_of(
    plain_rows,
    _loose("user", texts.map(said), pictures, opaques),
    _loose("assistant", calls, texts.map(said), reasonings),
    _loose("user", results),
    _loose("tool", results),
    _loose("user", results, texts.map(said)),
    _loose("assistant", opaques, reasonings),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Entry]:
    """A user's request and an agent's rounds: calls (alone or side by side), most of them answered."""
    rows = [entry("user", draw(texts))]
    for number in range(draw(st.integers(0, 3))):
        made = draw(st.lists(calls, min_size=1, max_size=3))
        message_id = f"turn{draw(st.integers(0, 99))}.{number}"
        if draw(st.booleans()):
            rows.append(entry("assistant", [*draw(st.lists(reasonings, max_size=1)), *made], message_id))
        else:  # Claude Code writes one line a block, all with the message's id
            rows += [entry("assistant", [call], message_id) for call in made]
        rows += draw(_answers([str(call["call_id"]) for call in made]))
    if draw(st.booleans()):
        rows.append(entry("assistant", draw(texts)))
    return rows


@st.composite
def _answers(draw: st.DrawFn, called: list[str]) -> list[Entry]:
    answered = [call_id for call_id in called if draw(st.integers(0, 5))]
    made = [a_result(call_id, [said(draw(texts))], draw(st.booleans())) for call_id in answered]
    if made and draw(st.booleans()):
        return [entry("user", made)]
    return [entry("tool", [result]) for result in made]


def work_done(size: int, seed: int) -> list[Entry]:
    """That many turns of ordinary work, of sizes that the seed gives; few choices make a long history."""
    luck = Random(seed)
    rows: list[Entry] = []
    for turn in range(size):
        rows.append(entry("user", filler(luck.randint(1, 10))))
        for number in range(luck.randint(1, 3)):
            call_id = luck.choice("abcd")
            rows.append(entry("assistant", [a_call(call_id, {"command": "ls"})], f"work{turn}.{number}"))
            rows.append(entry("tool", [a_result(call_id, [said(filler(luck.randint(1, 50)))], False)]))
        rows.append(entry("assistant", filler(luck.randint(1, 20))))
    return rows


long_work = st.builds(work_done, st.integers(1, 8), st.integers(0, 20))


def one_result(call_id: str, size: int) -> Entry:
    return entry("tool", [a_result(call_id, [said(filler(size))], False)])


def crossed_units(size: int) -> list[Entry]:
    """Units joined by results that come after the next request."""
    return [
        entry("user", filler(size)),
        entry("assistant", [a_call("x", {})]),
        entry("user", filler(size)),
        entry("assistant", [a_call("y", {})]),
        one_result("x", size),
        entry("user", filler(size)),
        one_result("y", size),
        entry("assistant", filler(size)),
    ]


def crossed_rounds(size: int) -> list[Entry]:
    """Rounds joined by results that come after the next message."""
    return [
        entry("user", filler(size)),
        entry("assistant", [a_call("x", {})], "x"),
        entry("assistant", [a_call("y", {})], "y"),
        one_result("x", size),
        entry("assistant", filler(size), "z"),
        one_result("y", size),
        entry("assistant", filler(size)),
    ]


def late_call(size: int) -> list[Entry]:
    return [
        entry("user", filler(size)),
        entry("assistant", [a_call("late", {})]),
        entry("user", filler(size)),
    ]


def late_result(size: int) -> list[Entry]:
    return [one_result("late", size)]


oddly_answered = st.one_of(
    st.builds(crossed_units, st.integers(1, 50)),
    st.builds(crossed_rounds, st.integers(1, 50)),
    st.builds(late_call, st.integers(1, 50)),
    st.builds(late_result, st.integers(1, 50)),
)
HUGE = "漢字かな交じり文。 \U0001f600\n" * 5000
"""More than a page of any tool, in bytes."""
huge_rows = [
    entry("user", HUGE),
    entry("assistant", [{"type": "thinking", "thinking": HUGE, "signature": "s"}, said("done")]),
]
many_entries = st.one_of(
    long_work,
    oddly_answered,
    turns(),
    turns(),
    st.lists(loose_rows, max_size=4),
    st.one_of(st.lists(plain_rows, max_size=4), st.just(huge_rows)),
)


def _pinned(entries: list[Entry], place: int | None) -> list[Entry]:
    """The same entries, the one at that place pinned as it comes."""
    if place is None or not entries:
        return entries
    place %= len(entries)
    return [*entries[:place], {**entries[place], "pin": True}, *entries[place + 1 :]]


batches = st.builds(_pinned, many_entries, st.sampled_from([None, None, None, 0, 1, 5]))


def claude_line(name: str, made: Entry, *, summary: bool = False) -> str:
    """An entry as a line of a Claude Code file, which knows user and assistant only."""
    role = "assistant" if made["role"] == "assistant" else "user"
    message: Block = {"role": role, "content": made["content"]}
    if "message_id" in made:
        message["id"] = made["message_id"]
    line: Block = {"type": role, "uuid": name, "parentUuid": None, "message": message}
    return json.dumps({**line, "isCompactSummary": True} if summary else line)
