"""Clients over HTTP that leave, come back, or ask twice by one id: each is told, and nobody else notices."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from connecting import OPENING, line, serving, tool
from knocking import knock, open_session, posting_to, session_of, stream

_SLOW = """
import anyio, os, sys
from lcm_mcp.service import Service
quick = Service.sessions
async def slow(*given, **named):
    sys.stderr.write("asked\\n")
    sys.stderr.flush()
    with anyio.CancelScope(shield=True):
        while not os.path.exists({!r}):
            await anyio.sleep(0.02)
    return await quick(*given, **named)
Service.sessions = slow
"""


def _slow(go_on: Path) -> str:
    """Lets lcm_sessions say that it was asked, and wait for a file before it answers."""
    return _SLOW.format(str(go_on))


def test_what_comes_for_a_client_that_has_left_is_no_fault(store_path: Path) -> None:
    """Its call is still at work, and so its session is still there."""
    go_on = store_path.with_name("go-on")
    with serving(store_path, before=_slow(go_on)) as (port, running):
        assert running.stderr is not None
        with stream(port) as events:
            route = posting_to(events)
            for said in (*OPENING.splitlines(), tool(1, "lcm_sessions")):
                assert knock(port, "POST", route, said.encode()).status == 202
            assert running.stderr.readline() == "asked\n"
        for number in range(2, 10):
            assert knock(port, "POST", route, line("ping", {}, number).encode()).status == 202
        go_on.touch()
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr.read() == ""


def test_a_client_that_comes_back_to_its_stream_is_given_a_new_one(store_path: Path) -> None:
    with serving(store_path) as (port, running):
        session = session_of(open_session(port))
        with stream(port, "/mcp", Mcp_Session_Id=session, Last_Event_Id="7") as again:
            assert again.status == 200
            assert again.headers["content-type"].startswith("text/event-stream")
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def test_a_request_by_an_id_that_is_being_answered_is_refused_and_the_first_one_answered(
    store_path: Path,
) -> None:
    go_on = store_path.with_name("go-on")
    with ThreadPoolExecutor(1) as others, serving(store_path, before=_slow(go_on)) as (port, running):
        session, other = (session_of(open_session(port)) for _ in range(2))
        asking = tool(7, "lcm_sessions").encode()
        first = others.submit(knock, port, "POST", "/mcp", asking, Mcp_Session_Id=session)
        assert running.stderr is not None
        assert running.stderr.readline() == "asked\n"
        for number in (7, "7"):
            second = json.dumps({**json.loads(line("ping", {})), "id": number}).encode()
            refused = knock(port, "POST", "/mcp", second, Mcp_Session_Id=session)
            assert refused.status == 400
            assert refused.refusal == (
                "A request by this id is still being answered. Give each request of a session its own."
            )
            assert knock(port, "POST", "/mcp", second, Mcp_Session_Id=other).status == 200
        assert knock(port, "POST", "/mcp", line("ping", {}, 8).encode(), Mcp_Session_Id=session).status == 200
        go_on.touch()
        assert "0 sessions in " in first.result().text
        assert knock(port, "POST", "/mcp", asking, Mcp_Session_Id=session).status == 200
