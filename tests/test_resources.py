"""Resources in both protocol eras: what is listed, what is read, and what is told where nothing is there."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from connecting import ERAS, Era
from harbour import call, folded, memory, talk
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, TextResourceContents

from lcm_mcp.server import build_server
from lcm_mcp.server.resources import RESOURCES
from lcm_mcp.service import Service

both_eras = pytest.mark.parametrize("era", ERAS)


@asynccontextmanager
async def connected(era: Era, db: Path) -> AsyncGenerator[tuple[Client, Service]]:
    async with memory(db) as service, Client(build_server(service), mode=era) as client:
        yield client, service


async def document(client: Client, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert (contents.uri, contents.mime_type) == (uri, "application/json")
    return json.loads(contents.text)


async def refused(client: Client, uri: str) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert caught.value.error.data == {"uri": uri}
    return caught.value


@both_eras
async def test_every_resource_is_listed_with_what_it_is(era: Era, store_path: Path) -> None:
    async with connected(era, store_path) as (client, _):
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri for each in listed] == ["lcm://sessions"]
        assert [each.uri_template for each in templates] == [
            "lcm://session/{id}",
            "lcm://session/{id}/node/{n}",
            "lcm://session/{id}/rows/{first}-{last}{?cursor}",
            "lcm://session/{id}/context",
            "lcm://session/{id}/image/{n}{?offset,length}",
        ]
        for each in (*listed, *templates):
            assert each.title
            assert each.description
            assert each.mime_type == ("image/*" if each.name == "image" else "application/json")


@both_eras
async def test_the_sessions_read_as_lcm_sessions_gives_them(era: Era, store_path: Path) -> None:
    async with connected(era, store_path) as (client, service):
        assert (await document(client, "lcm://sessions"))["total"] == 0
        await call(service, "lcm_append", session="harbour", entries=talk(2))
        asked = await call(service, "lcm_sessions")
        assert await document(client, "lcm://sessions") == asked.structured
        assert asked.structured["sessions"][0]["key"] == "harbour"


@both_eras
@pytest.mark.parametrize("key", ["harbour", "/home/ann/piers & quays", "50%, Ελλάδα #1?", "a+b{id}"])
async def test_the_context_is_what_the_last_prepared_request_showed(
    era: Era, key: str, store_path: Path
) -> None:
    async with connected(era, store_path) as (client, service):
        await folded(service, key)
        asked = await call(service, "prepare_context", session=key, window_tokens=4000, detail=True)
        for name in (quote(key, safe=""), "s1"):
            assert await document(client, f"lcm://session/{name}/context") == asked.structured["observation"]


@both_eras
async def test_a_session_its_nodes_and_its_rows_read_as_the_tools_give_them(
    era: Era, store_path: Path
) -> None:
    async with connected(era, store_path) as (client, service):
        await folded(service)
        listed = await call(service, "lcm_list", session="harbour", frontier_only=True)
        assert await document(client, "lcm://session/harbour") == listed.structured
        node = await call(service, "lcm_describe", session="harbour", id="#2")
        assert await document(client, "lcm://session/s1/node/2") == node.structured
        rows = await call(service, "lcm_expand", session="harbour", id="e3..e9", max_bytes=100_000)
        assert await document(client, "lcm://session/harbour/rows/3-9") == rows.structured
        error = await refused(client, "lcm://session/harbour/rows/9-3")
        assert error.error.message.startswith("'e9..e3' is not an address: its first row comes after")
        await call(
            service, "lcm_append", session="harbour", entries=[{"role": "user", "content": "y" * 150_000}]
        )
        first = await document(client, "lcm://session/harbour/rows/160-161")
        rest = await document(
            client, f"lcm://session/harbour/rows/160-161?cursor={quote(first['next_cursor'])}"
        )
        assert "".join(row["text"] for row in (first["rows"][-1], *rest["rows"])) == "y" * 150_000


@both_eras
@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("rows/1-2?cursor=zz", "cursor: it does not belong to this query. "),
        ("image/-1", "n: '-1' is no whole number of 1 to 18 digits. Give one."),
        ("image/99999999999999999999", "n: '99999999999999999999' is no whole number of 1 to 18 digits. "),
        ("image/1?offset=1e9", "offset: '1e9' is no whole number of 1 to 18 digits. Give one."),
    ],
)
async def test_a_cursor_or_a_number_that_is_none_is_the_clients_fault_and_said_so(
    era: Era, uri: str, told: str, store_path: Path
) -> None:
    async with connected(era, store_path) as (client, service):
        await call(service, "lcm_append", session="harbour", entries=talk(1))
        error = await refused(client, f"lcm://session/harbour/{uri}")
    assert error.error.code == INVALID_PARAMS
    assert error.error.message.startswith(told)


@both_eras
async def test_a_session_that_was_never_prepared_says_how_to_prepare_it(era: Era, store_path: Path) -> None:
    async with connected(era, store_path) as (client, service):
        await call(service, "lcm_append", session="harbour", entries=talk(1))
        error = await refused(client, "lcm://session/harbour/context")
    assert error.error.code == INVALID_PARAMS
    assert error.error.message == (
        "uri: nothing was prepared in session 'harbour' yet. "
        "Call prepare_context with this session, then read again."
    )


@both_eras
async def test_a_session_that_is_not_stored_is_named(era: Era, store_path: Path) -> None:
    async with connected(era, store_path) as (client, _):
        error = await refused(client, "lcm://session/no%20body/context")
    assert error.error.code == INVALID_PARAMS
    assert error.error.message.startswith("There is no session 'no body'. lcm_sessions ")


@both_eras
@pytest.mark.parametrize(
    "uri",
    [
        "lcm://session",
        "lcm://sessions/",
        "lcm://session/harbour/nodes",
        "lcm://session/a/b/context",
        "file:///etc/passwd",
        "sessions",
    ],
)
async def test_a_uri_that_is_no_resource_is_told_with_those_that_are(
    era: Era, uri: str, store_path: Path
) -> None:
    async with connected(era, store_path) as (client, service):
        await call(service, "lcm_append", session="harbour", entries=talk(1))
        error = await refused(client, uri)
    assert error.error.code == INVALID_PARAMS
    known = [each.uri for each in RESOURCES]
    assert error.error.message.startswith(
        f"uri: there is no resource {uri!r}. There are {' and '.join(known)}; "
    )
    assert "\n" not in error.error.message


@both_eras
async def test_a_fault_in_reading_is_not_taken_for_a_missing_resource(
    era: Era, store_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a detail of ours")

    async with connected(era, store_path) as (client, service):
        with monkeypatch.context() as patch:
            patch.setattr(Service, "sessions", broken)
            failed = await refused(client, "lcm://sessions")
        await service.close()
        closed = await refused(client, "lcm://sessions")
    assert failed.error.code == closed.error.code == INTERNAL_ERROR
    assert failed.error.message.startswith(
        "Reading 'lcm://sessions' failed unexpectedly (ZeroDivisionError)."
    )
    assert "a detail of ours" in capfd.readouterr().err
    assert closed.error.message.startswith("The store is closed.")
