"""The inspector in a real browser: what people see and walk through, and what hostile history cannot do."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from browser import PATIENCE_MS, browser
from connecting import serving
from harbour import folded, talk
from playwright.sync_api import Browser, Page, expect
from stores import serving as small_leaves
from test_images import said, shot

from lcm_mcp.service import Service
from lcm_mcp.service.browsing import PARTS_SHOWN
from lcm_mcp.service.requests import PrepareQuery

KEY = "harbour"
TOKEN = "kyrenia-harbour-1974"
EVIL = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>\'"><svg onload=window.owned=1>'
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk" * 3
VIEWS = ("conversation", "dag", "context", "occupancy")
# Of each text the contrast with the ground it stands on, for those below what WCAG AA asks.
CONTRASTS = """() => {
    const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (at) => {
        for (let each = at; each; each = each.parentElement) {
            const color = parsed(getComputedStyle(each).backgroundColor);
            if (color.length === 3 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const at = walk.currentNode.parentElement;
        const words = walk.currentNode.data.trim();
        if (!words || !at.getClientRects().length || at.tagName === "NOSCRIPT") continue;
        const style = getComputedStyle(at);
        const above = light(parsed(at instanceof SVGElement ? style.fill : style.color));
        const below = light(ground(at));
        const ratio = (Math.max(above, below) + 0.05) / (Math.min(above, below) + 0.05);
        if (ratio < 4.5) found.push(`${at.tagName}.${at.className} ${words.slice(0, 20)} ${ratio}`);
    }
    return found;
}"""
# What has no name for who cannot see it, or stands outside the landmarks.
NAMELESS = """() => [...document.querySelectorAll(
        "a, button, input, select, img, [role=img], summary, table")]
    .filter((each) => !(each.labels?.length || each.getAttribute("aria-label") || each.alt
        || each.querySelector("caption") || (!each.matches("table, input") && each.textContent.trim())))
    .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as opened:
        yield opened


def painted() -> bytes:
    """A whole PNG of 9 by 9 black pixels."""
    header, rows = pack(">IIBBBBB", 9, 9, 8, 0, 0, 0, 0), zlib.compress(bytes(9 * 10))
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    framed = (
        pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def filled(path: Path, *fill: Callable[[Service], Any]) -> None:
    async def run() -> None:
        async with small_leaves(path) as service:
            for each in fill:
                await each(service)

    with ThreadPoolExecutor(1) as elsewhere:  # Playwright's loop runs in this thread
        elsewhere.submit(anyio.run, run).result()


async def deep(service: Service) -> None:
    """A session with parents over leaves."""
    await service.append(KEY, talk(120))
    await service.prepare(PrepareQuery(KEY, window_tokens=6000, strategy="lcm", compact="force"))


async def requests(service: Service) -> None:
    """A session that requests were prepared of, with two cuts and what a provider counted."""
    await folded(service)
    for window in (100_000, 3_000):
        query = PrepareQuery(KEY, window_tokens=window, strategy="lcm", compact="auto")
        await service.prepare(query)


async def hostile(service: Service) -> None:
    used = {"type": "tool_use", "id": EVIL, "name": EVIL, "input": {EVIL: EVIL}}
    answer = {
        "type": "tool_result",
        "tool_use_id": EVIL,
        "is_error": True,
        "content": [shot(painted(), EVIL)],
    }
    entries: list[object] = [
        said(
            {"type": "text", "text": EVIL}, shot(b"<svg xmlns='http://www.w3.org/2000/svg' onload='x'>", EVIL)
        ),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": EVIL}, used]},
        said(answer, {"type": EVIL, "x": EVIL}),
        {"role": "assistant", "content": f"[click](javascript:window.owned=1) {EVIL * 400}"},
    ]
    for _ in range(3):
        await service.append(EVIL[:200], entries, title=EVIL, project=EVIL)
    query = PrepareQuery(EVIL[:200], window_tokens=4000, strategy="lcm", compact="force", system=EVIL)
    await service.prepare(query)
    await service.fork(EVIL[:200], "e4", f"fork {EVIL}"[:200])


async def long_words(service: Service) -> None:
    """Words, names and a key that no line can hold, and cuts that stand at one row."""
    used = {"type": "tool_use", "id": "c1", "name": WORD, "input": {WORD: WORD}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": WORD * 9}
    turn: list[object] = [
        {"role": "user", "content": f"{WORD} {WORD}"},
        {"role": "assistant", "content": [{"type": "text", "text": WORD}, used]},
        said(answer),
        {"role": "assistant", "content": "漢" * 300},
    ]
    for _ in range(20):
        await service.append(WORD, turn, title=WORD * 2, project=WORD)
    for window in (12_000, 4_000):
        query = PrepareQuery(WORD, window_tokens=window, strategy="lcm", compact="auto")
        await service.prepare(query)
    await service.fork(WORD, "e8", f"{WORD}-fork")


class Watched:
    """A tab that fails on a fault of a script, on what its policy forbids, and on a request elsewhere."""

    def __init__(self, chromium: Browser, port: int, **options: Any) -> None:
        self.home = f"http://127.0.0.1:{port}/"
        self.page: Page = chromium.new_context(**options).new_page()
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda asked: self._asked(asked.url))
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))
        self.page.set_default_timeout(PATIENCE_MS)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.home, f"blob:{self.home}")):
            self.faults.append(url)

    def go(self, address: str, wait: str = "main section") -> Page:
        self.page.goto("about:blank")
        self.page.goto(f"{self.home}#/{address}")
        self.page.wait_for_selector(f"{wait}, main .refusal")
        return self.page


def test_from_the_list_of_sessions_by_keys_alone_down_to_the_original_words(
    chromium: Browser, store_path: Path
) -> None:
    filled(store_path, deep)
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port)
        page = tab.go("sessions")
        row = page.get_by_role("row").filter(has_text=KEY)
        expect(row).to_contain_text("480")
        row.get_by_role("link").nth(1).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Summaries")
        bands = page.locator("ol.band")
        top = bands.first.locator("a")
        expect(top.first).to_have_attribute("aria-label", re.compile("^#\\d+, depth 1, e1 to e"))
        top.first.focus()
        page.keyboard.press("ArrowRight")
        expect(top.nth(1)).to_be_focused()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowDown")
        expect(bands).to_have_count(2)
        expect(page.get_by_role("heading", level=2).filter(has_text="Node #")).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(bands).to_have_count(3)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("article.row")).to_have_count(1)
        expect(page.locator("article.row pre").first).to_contain_text("question 0: the harbour of Kyrenia")
        page.keyboard.press("/")
        page.keyboard.type("219 metres")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Search").wait_for()
        page.locator("#needle").fill("pier 17 has 119")
        page.keyboard.press("Enter")
        expect(page.locator("#hits mark").first).to_have_text("Pier 17 has 119")
        page.locator("#hits a", has_text=re.compile("^e\\d")).first.click()
        expect(page.locator("article.row").first).to_contain_text("Pier 17 has 119 metres.")
        assert tab.faults == []


def test_hostile_history_stays_words_in_every_view(chromium: Browser, store_path: Path) -> None:
    filled(store_path, hostile)
    session = quote(EVIL[:200], safe="")
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port)
        views = [f"{view}?session={session}" for view in VIEWS]
        for address in ("sessions", *views, f"dag?session={session}&node=1", f"search?pattern={quote(EVIL)}"):
            page = tab.go(address)
            assert "onerror" in page.inner_text("body")
            for detail in page.locator("main details").all():
                detail.evaluate("(each) => (each.open = true)")
            page.wait_for_timeout(100)
            assert page.evaluate("window.owned") is None
            assert (
                page.locator(
                    "main script, main iframe, main [onerror], main [onload], main svg[onload]"
                ).count()
                == 0
            )
            hrefs = page.locator("a").evaluate_all("(all) => all.map((each) => each.getAttribute('href'))")
            assert all(href.startswith("#") for href in hrefs)
        page = tab.go(f"conversation?session={session}&at=e1", "main article")
        expect(page.get_by_text("No picture a browser may show.").first).to_be_visible()
        expect(page.locator("main img").first).to_have_js_property("naturalWidth", 9)
        assert tab.faults == []


def test_the_context_is_drawn_to_scale_and_the_plot_has_every_request_and_cut(
    chromium: Browser, store_path: Path
) -> None:
    filled(store_path, requests)
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port)
        page = tab.go(f"context?session={KEY}")
        last = page.locator(".observation").first
        bar = last.locator(".bar")
        whole = bar.bounding_box()
        assert whole is not None
        figures = last.locator("tbody tr").evaluate_all(
            "(rows) => rows.map((row) => Number(row.children[1].textContent.replaceAll(',', '')))"
        )
        widths = bar.locator("span").evaluate_all(
            "(all) => all.map((each) => each.getBoundingClientRect().width)"
        )
        assert len(figures) == len(widths) > 1
        for tokens, width in zip(figures, widths, strict=True):
            assert abs(width / (whole["width"] - 2) - tokens / 3000) < 0.01
        last.locator("td a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Summaries")
        page = tab.go(f"occupancy?session={KEY}")
        expect(page.locator(".plot circle.request")).to_have_count(3)
        expect(page.locator(".plot .cut")).to_have_count(2)
        expect(page.get_by_role("table").locator("tbody tr")).to_have_count(3)
        assert tab.faults == []


def test_of_many_branches_at_a_row_the_first_are_named_and_the_others_counted(
    chromium: Browser, store_path: Path
) -> None:
    async def branching(service: Service) -> None:
        await service.append("s", [{"role": "user", "content": "Try them all."}])
        for number in range(PARTS_SHOWN + 4):
            await service.append("s", [{"role": "user", "content": f"try {number}", "parent": "e1"}])
        await service.rewind("e3", "s")

    filled(store_path, branching)
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port)
        tab.go("conversation?session=s&at=e1&line=e5")
        told = tab.page.locator("#e1 .branch")
        expect(told).to_have_count(PARTS_SHOWN + 1)
        expect(told.first).to_have_text("The active path goes on with e3..e3")
        expect(told.nth(1)).to_have_text("A removed branch leaves here: e2..e2")
        expect(told.last).to_have_text("And 3 more, which lcm-mcp tree names")
        assert tab.faults == []


def test_what_is_shown_grows_with_its_session(chromium: Browser, store_path: Path) -> None:
    filled(store_path, folded)

    async def more(service: Service) -> None:
        await service.append(KEY, [{"role": "user", "content": "and the breakwater?"}])
        await service.append("another", [{"role": "user", "content": "new"}])

    with serving(store_path) as (port, _):
        conversation = Watched(chromium, port)
        sessions = Watched(chromium, port)
        conversation.go(f"conversation?session={KEY}")
        sessions.go("sessions")
        expect(conversation.page.locator("article.row").last).to_have_id("e160")
        conversation.page.wait_for_timeout(2500)  # it has looked once
        filled(store_path, more)
        expect(conversation.page.locator("#e161")).to_contain_text("and the breakwater?")
        expect(conversation.page.locator("article.row").last).to_have_id("e161")
        expect(sessions.page.get_by_role("row").filter(has_text="another")).to_be_visible()
        conversation.page.get_by_role("button", name="Older rows").click()
        expect(conversation.page.locator("#e101")).to_be_attached()
        assert conversation.faults == sessions.faults == []


def test_a_token_is_asked_for_and_goes_with_every_question(chromium: Browser, store_path: Path) -> None:
    async def pictured(service: Service) -> None:
        await service.append(KEY, [said(shot(painted()))])

    filled(store_path, pictured)
    with serving(store_path, LCM_TOKEN=TOKEN) as (port, _):
        tab = Watched(chromium, port)
        page = tab.page
        page.goto(f"{tab.home}#/conversation?session={KEY}")
        page.get_by_label("The server's LCM_TOKEN:").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_label("That token is wrong.").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("main img")).to_have_js_property("naturalWidth", 9)
        page.reload()
        expect(page.locator("main img")).to_have_js_property("naturalWidth", 9)
        assert TOKEN not in page.url
        assert [fault for fault in tab.faults if "401" not in fault] == []


def test_words_that_no_line_can_hold_stay_within_the_page(chromium: Browser, store_path: Path) -> None:
    filled(store_path, long_words)
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port, viewport={"width": 360, "height": 700})
        views = [f"{view}?session={WORD}" for view in VIEWS]
        search = f"search?pattern={WORD[:30]}"
        for address in ("sessions", *views, f"dag?session={WORD}&node=1", search, "dag?session=none"):
            page = tab.go(address)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
        page = tab.go(f"occupancy?session={WORD}")
        heights = page.locator(".plot .cut text").evaluate_all("(all) => all.map((each) => each.getBBox().y)")
        assert len(set(heights)) == len(heights) > 1
        page = tab.go(f"dag?session={WORD}&node=1")
        cut_off = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).length"
        assert page.locator("ol.band a").evaluate_all(cut_off) == 0
        assert [fault for fault in tab.faults if "404" not in fault] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_that_is_shown_can_be_read_and_is_named(scheme: str, chromium: Browser, store_path: Path) -> None:
    filled(store_path, requests)
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port, color_scheme=scheme, viewport={"width": 360, "height": 700})
        views = [f"{view}?session={KEY}" for view in VIEWS]
        for address in (
            "sessions",
            *views,
            f"dag?session={KEY}&node=1",
            "search?pattern=pier",
            "dag?session=none",
        ):
            page = tab.go(address)
            assert page.evaluate(CONTRASTS) == []
            assert page.evaluate(NAMELESS) == []
            assert page.locator("h1").count() == 1 or address.endswith("none")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert [fault for fault in tab.faults if "404" not in fault] == []


def test_an_empty_store_says_how_to_fill_it(chromium: Browser, store_path: Path) -> None:
    with serving(store_path) as (port, _):
        tab = Watched(chromium, port)
        assert "lcm-mcp import" in tab.go("sessions").inner_text("main")
        assert tab.faults == []
