"""The view of summaries and context in clients that show such (MCP Apps): declared, read, and at work."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from browser import browser
from connecting import ERAS, Era, connected, serving
from harbour import folded
from mcp import Client
from mcp_types import CallToolResult, TextResourceContents
from playwright.sync_api import Browser, FrameLocator, Page, expect
from test_inspector_page import EVIL, KEY, deep, filled

from lcm_mcp.server.building import VIEWS
from lcm_mcp.server.inspector.view import MEDIA_TYPE, SHOWN_FOR, URI
from lcm_mcp.service import Service

POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
# A client as the extension wants it: nothing is told before the view is there, and its questions are served.
HOST = """async ({html, tool, input, result}) => {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    window.sizes = [];
    window.addEventListener("message", async ({source, data}) => {
        if (source !== frame.contentWindow) return;
        const send = (message) => source.postMessage({jsonrpc: "2.0", ...message}, "*");
        if (data.method === "ui/initialize") {
            send({id: data.id, result: {
                protocolVersion: data.params.protocolVersion,
                hostInfo: {name: "test", version: "1"},
                hostCapabilities: {serverTools: {}, serverResources: {}},
                hostContext: {toolInfo: {tool: {name: tool}}, theme: "dark"},
            }});
        } else if (data.method === "ui/notifications/initialized") {
            send({method: "ui/notifications/tool-input", params: {arguments: input}});
            send({method: "ui/notifications/tool-result", params: result});
        } else if (data.method === "ui/notifications/size-changed") window.sizes.push(data.params.height);
        else if (data.id !== undefined) send({id: data.id, ...await window.served(data.method, data.params)});
    });
    frame.srcdoc = html;
    document.body.append(frame);
}"""


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_told_which_tools_have_the_view_and_reads_it_whole(
    era: Era, store_path: Path
) -> None:
    async with connected("memory", era, store_path) as client:
        announced: dict[str, dict[str, Any]] | None = (
            {VIEWS: {}} if era == "auto" else None
        )  # the handshake has no word for extensions
        assert client.server_capabilities.extensions == announced
        tools = {tool.name: tool.meta for tool in (await client.list_tools()).tools}
        assert {name for name, meta in tools.items() if meta} == set(SHOWN_FOR)
        assert all(tools[name] == {"ui": {"resourceUri": URI}} for name in SHOWN_FOR)
        (contents,) = (await client.read_resource(URI)).contents
        assert isinstance(contents, TextResourceContents)
        assert (contents.uri, contents.mime_type) == (URI, MEDIA_TYPE)
        assert contents.text.startswith("<!doctype html>")
        assert set(re.findall(r"https?://[^\"'\s>]+", contents.text)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r"\s(src|href)=|^import |^export ", contents.text, re.MULTILINE)
        assert len(contents.text) < 100_000


class Host:
    """A client's window with the view in it, over a real server."""

    def __init__(self, chromium: Browser, portal: BlockingPortal, client: Client) -> None:
        self.page: Page = chromium.new_context(viewport={"width": 900, "height": 900}).new_page()
        self.faults: list[str] = []
        self.asked: list[str] = []
        self._portal = portal
        self._client = client
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda asked: self.faults.append(asked.url))
        self.page.expose_function("served", self._served)  # pyright: ignore[reportUnknownMemberType]

    def show(self, tool: str, **arguments: Any) -> FrameLocator:
        """Call a tool, and show the view beside its answer."""
        html: str = self._call("resources/read", {"uri": URI})["result"]["contents"][0]["text"]
        guard = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        given = {
            "html": html.replace("<head>", f"<head>{guard}"),
            "tool": tool,
            "input": arguments,
            "result": self._call("tools/call", {"name": tool, "arguments": arguments})["result"],
        }
        self.page.evaluate(HOST, given)
        return self.page.frame_locator("iframe")

    def _served(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(method)
        return self._call(method, params)

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "resources/read":
            read = self._portal.call(self._client.read_resource, params["uri"])
            return {"result": read.model_dump(mode="json", by_alias=True)}
        called = self._portal.call(self._client.call_tool, params["name"], params["arguments"])
        assert isinstance(called, CallToolResult)
        return {"result": called.model_dump(mode="json", by_alias=True)}


@contextmanager
def hosting(chromium: Browser, db: Path) -> Generator[Host]:
    """A client of a server on that store, in a thread of its own: Playwright's loop runs in this one."""
    with (
        serving(db) as (port, _),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(f"http://127.0.0.1:{port}/mcp")) as client,
    ):
        yield Host(chromium, portal, client)


def test_beside_a_list_of_nodes_it_leads_down_to_the_words(chromium: Browser, store_path: Path) -> None:
    filled(store_path, deep)
    with hosting(chromium, store_path) as host:
        view = host.show("lcm_list", session=KEY)
        expect(view.get_by_role("heading", level=1)).to_have_text("Summaries")
        expect(view.locator("html")).to_have_css("color-scheme", "dark")
        bands = view.locator("ol.band")
        bands.nth(0).locator("a").first.click()
        bands.nth(1).locator("a").first.click()
        expect(view.locator("article.node pre")).to_be_visible()
        expect(view.locator("article.row").first).to_contain_text("question 0: the harbour of Kyrenia")
        assert host.page.evaluate("window.sizes.at(-1)") > 500
        assert host.faults == []


def test_beside_a_prepared_request_it_draws_the_context(chromium: Browser, store_path: Path) -> None:
    filled(store_path, folded)
    with hosting(chromium, store_path) as host:
        view = host.show("prepare_context", session=KEY, window_tokens=4000)
        expect(view.get_by_role("heading", level=1)).to_have_text("Context")
        expect(view.locator(".bar span")).to_have_count(2)
        view.locator("td a").first.click()
        expect(view.get_by_role("heading", level=1)).to_have_text("Summaries")
        assert "resources/read" in host.asked
        assert host.faults == []


def test_hostile_words_stay_words_there_too(chromium: Browser, store_path: Path) -> None:
    async def hostile(service: Service) -> None:
        entries = [{"role": "user", "content": EVIL}, {"role": "assistant", "content": EVIL * 40}] * 20
        await service.append(KEY, entries)
        await service.compact(KEY, "lcm")

    filled(store_path, hostile)
    with hosting(chromium, store_path) as host:
        view = host.show("lcm_list", session=KEY)
        view.locator("ol.band a").first.click()
        expect(view.locator("article.node pre")).to_contain_text("onerror")
        (frame,) = [frame for frame in host.page.frames if frame != host.page.main_frame]
        assert frame.evaluate("window.owned") is None
        assert host.faults == []
