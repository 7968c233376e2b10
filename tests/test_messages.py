"""Messages that the SDK would refuse or leave without an answer, as clients of any language send them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from connecting import ENVELOPE, line, serving
from hypothesis import example, given
from hypothesis import strategies as st
from knocking import knock, open_session, session_of

from lcm_mcp.server.messages import has_odd_id, readable

PIECES = st.sampled_from(
    ["a", "\\", "\\\\", '"', "\ud83d", "\ude00", "\U0001f600", "u", "\\ud83d", "\\ude00", "\u00e9"]
)


@given(st.lists(PIECES, max_size=8).map("".join), st.booleans())
@example("\\\ud83d\ude00", True)
@example("\\ud83d\ude00", True)
@example("\\\\ud83d\ude00", True)
def test_of_a_message_only_halves_of_pairs_are_replaced(text: str, capitals: bool) -> None:
    written = "".join(
        f"\\u{ord(each):04{'X' if capitals else 'x'}}"
        if "\ud800" <= each < "\ue000"
        else json.dumps(each)[1:-1]
        for each in text
    )
    found = json.loads(readable(f'{{"said": "{written}"}}'.encode()))["said"]
    assert found == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_what_has_no_half_of_a_pair_is_handed_on_as_it_is() -> None:
    for message in (b'{"a": "\\ud83d\\ude00"}', b'{ "a" : "\xff" }', b"{", b'{"a": "\\ud83d"'):
        assert readable(message) is message


@pytest.mark.parametrize("number", ["null", "true", "1.0", "-1e3", "{}", "[1]"])
def test_a_request_by_an_odd_id_is_known_wherever_the_id_stands(number: str) -> None:
    assert has_odd_id(f'{{"id" : {number}, "method": "ping"}}'.encode())
    assert has_odd_id(f'{{"method": "ping", "params": {{"id": 1}}, "id":{number}}}'.encode())
    assert not has_odd_id(f'{{"id": 1, "method": "ping", "params": {{"id": {number}}}}}'.encode())
    assert not has_odd_id(f'{{"method": "notifications/x", "params": {{"id": {number}}}}}'.encode())
    assert not has_odd_id(f'{{"id": {number}, "error": {{"code": 1, "message": "m"}}}}'.encode())


def test_half_of_a_surrogate_pair_does_not_lose_a_call_over_http(store_path: Path) -> None:
    entries = [{"role": "user", "content": "cut \ud83d here, whole \U0001f600"}]
    arguments = {"session": "s", "entries": entries}
    with serving(store_path) as (port, _):
        for name, given in (("lcm_append", arguments), ("lcm_expand", {"id": "e1", "session": "s"})):
            asked = line("tools/call", {"name": name, "arguments": given, "_meta": ENVELOPE}, 1)
            named = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": name}
            answer = knock(port, "POST", "/mcp", asked.encode(), **named)
            assert answer.status == 200
        assert json.loads(answer.text)["result"]["structuredContent"]["rows"][0]["text"] == (
            "cut \ufffd here, whole \U0001f600"
        )


def test_a_request_by_an_odd_id_is_refused_over_http_since_nobody_would_answer_it(store_path: Path) -> None:
    with serving(store_path) as (port, _):
        session = session_of(open_session(port))
        for route in ("/mcp", "/messages/?session_id=0123456789abcdef0123456789abcdef"):
            answer = knock(
                port, "POST", route, b'{"jsonrpc":"2.0","id":null,"method":"ping"}', Mcp_Session_Id=session
            )
            assert (answer.status, answer.refusal) == (
                400,
                "The id of a request is a text or a whole number.",
            )
