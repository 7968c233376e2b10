"""A token and the hosts: who is answered over HTTP, and that a secret stays one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx2
import pytest
from commands import Cli
from connecting import ERAS, Era, answered, command, serving
from harbour import talk
from knocking import ROUTES, knock
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from lcm_mcp.errors import SettingsError
from lcm_mcp.settings import load_settings

TOKEN = "kyrenia-harbour-1974"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_without_the_token_every_route_but_health_says_so_and_nothing_else(store_path: Path) -> None:
    wrong = ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer \xfc")
    with serving(store_path, LCM_TOKEN=TOKEN) as (port, running):
        for method, route in ROUTES:
            answers = [
                knock(port, method, route),
                *(knock(port, method, route, Authorization=w) for w in wrong),
            ]
            for answer in answers:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith('Bearer realm="lcm-mcp"')
                assert "Send the header Authorization: Bearer TOKEN" in answer.refusal
                assert TOKEN not in answer.text
        health = knock(port, "GET", "/health")
        assert health.status == 200
        assert json.loads(health.text).keys() == {"status", "server", "version"}
        assert knock(port, "GET", "/mcp", Authorization=f"Bearer {TOKEN}").status not in (200, 401)
        assert knock(port, "GET", "/anything", Authorization=f"Bearer {TOKEN}").status == 404
        assert knock(port, "GET", "/anything", Authorization=f"bearer  {TOKEN} ").status == 404
        running.terminate()
        assert running.wait(timeout=20) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


@pytest.mark.parametrize("era", ERAS)
async def test_clients_that_send_the_token_are_served_on_both_legs(era: Era, store_path: Path) -> None:
    with serving(store_path, LCM_TOKEN=TOKEN) as (port, _):
        address = f"http://127.0.0.1:{port}"
        async with (
            httpx2.AsyncClient(headers=BEARER) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=era) as streamable,
            Client(sse_client(f"{address}/sse", headers=BEARER), mode=era) as sse,
        ):
            await answered(streamable, "lcm_append", session="s", entries=talk(1))
            assert (await answered(sse, "lcm_sessions"))["total"] == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("leg", ["mcp", "sse"])
async def test_a_client_without_the_token_is_told_so(leg: str, era: Era, store_path: Path) -> None:
    with serving(store_path, LCM_TOKEN=TOKEN) as (port, _):
        address = f"http://127.0.0.1:{port}/{leg}"
        with pytest.raises(Exception) as caught:  # noqa: PT011  # a group, of what differs from leg to leg
            async with Client(sse_client(address) if leg == "sse" else address, mode=era) as client:
                await client.list_tools()
        assert ("401 Unauthorized" if leg == "sse" else "This server wants a token.") in repr(caught.value)


def test_a_server_that_others_can_reach_answers_only_to_names_it_was_given(store_path: Path) -> None:
    arguments = ("--host", "0.0.0.0", "--allowed-host", "Memory.example", "--allowed-host", "box:81")
    with serving(store_path, *arguments, LCM_TOKEN=TOKEN) as (port, _):

        def status(host: str, origin: str = "") -> int:
            given = BEARER | {"Host": host} | ({"Origin": origin} if origin else {})
            return knock(port, "GET", "/anything", None, **given).status

        for host in ("memory.example", "MEMORY.example:443", "box:81", "localhost", f"127.0.0.1:{port}"):
            assert status(host) == 404
        for origin in (
            "https://memory.example",
            "https://Memory.Example",
            "http://memory.example:8080",
            "https://box:81",
        ):
            assert status("memory.example", origin) == 404
        for host in ("box", "box:82", "0.0.0.0", "evil.example", "memory.example.evil.example", "example"):
            assert status(host) == 421
        for origin in ("https://evil.example", "https://box", "null", "ftp://memory.example"):
            assert status("memory.example", origin) == 403


@pytest.mark.parametrize(
    "host", ["", "*", "http://memory.example", "a b", "[::1", "memory.example:port", "ü"]
)
def test_an_allowed_host_that_is_none_is_one_line_and_exit_1(host: str, store_path: Path) -> None:
    run = command(store_path, "--transport", "http", "--port", "0", "--allowed-host", host)
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"lcm-mcp: allowed-host: {host!r} is no host. Give a name")
    assert ended.stderr.count("\n") == 1


def test_the_token_is_shown_nowhere(
    store_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_TOKEN", TOKEN)
    run = Cli(capsys, store_path).on_empty()
    shown = next(line for line in run.answer("doctor")["settings"] if line["name"] == "token")
    assert shown == {"name": "token", "value": "**********", "origin": "environment"}
    assert TOKEN not in run.done("doctor") + repr(load_settings()) + str(load_settings().in_force())


@pytest.mark.parametrize("given", ["short", "has a space in it, alas", "ümlaut-ümlaut-ümlaut", "x" * 513])
def test_a_token_that_no_header_holds_or_anybody_guesses_is_refused_unseen(given: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {"LCM_TOKEN": given})
    assert str(caught.value).startswith("token cannot be used (from LCM_TOKEN): it should be 16 to 512 ")
    assert given not in str(caught.value)
