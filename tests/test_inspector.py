"""The inspector's routes: what a browser may do with the page, and what the page is told of a store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from connecting import serving
from harbour import call, folded, memory, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from knocking import Answer, knock
from test_images import GIF, png, said, shot

from lcm_mcp.server.inspector.images import sniffed
from lcm_mcp.server.inspector.pages import FOLDER, PAGE_PATHS
from lcm_mcp.service import Service
from lcm_mcp.service.browsing import PAGE_CHARACTERS, PART_CHARACTERS
from lcm_mcp.service.pictures import RANGE_BYTES
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.transcript.blocks import image_from_bytes

KEY = "harbour"
TOKEN = "kyrenia-harbour-1974"
SINKS = r"(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|javascript:"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def asked(port: int, question: str, **arguments: object) -> Answer:
    return knock(port, "GET", f"/inspect/{question}?{urlencode(arguments)}")


def told(port: int, question: str, **arguments: object) -> Any:
    answer = asked(port, question, **arguments)
    assert answer.status == 200, answer.text
    return json.loads(answer.text)


async def test_the_page_may_run_nothing_but_its_own_files_and_be_shown_in_no_other(store_path: Path) -> None:
    with serving(store_path) as (port, _):
        for path in PAGE_PATHS:
            answer = knock(port, "GET", path)
            assert answer.status == 200
            policy = answer.headers["Content-Security-Policy"].split("; ")
            assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
            assert {"frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"} <= set(policy)
            assert "unsafe" not in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert knock(port, "GET", "/").headers["Content-Type"].startswith("text/html")
        assert knock(port, "GET", "/page/main.js").headers["Content-Type"].startswith("text/javascript")
        for path in ("/page/nothing.js", "/page/../pages.py", "/page/%2e%2e/pages.py"):
            assert knock(port, "GET", path).status == 404
        for path in ("/", "/inspect/now"):
            assert knock(port, "POST", path, b"{}").status == 405


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_words() -> None:
    for file in (*FOLDER.iterdir(), *FOLDER.with_name("view").iterdir()):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, file.name
        addresses = set(re.findall(r"https?://[^\"'\s>]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file.name
        sinks = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|javascript:"
        )
        assert not re.search(sinks, text), file.name
        if file.suffix == ".html":
            assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", text)


async def test_with_a_token_the_page_is_open_and_what_is_stored_is_not(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        await service.append(KEY, [said(shot(GIF))])
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with serving(store_path, LCM_TOKEN=TOKEN) as (port, _):
        for path in PAGE_PATHS:
            assert knock(port, "GET", path).status == 200
        for question in ("lcm_sessions", "lcm_grep?pattern=pier", "conversation", "trail", "context", "now"):
            refused = knock(port, "GET", f"/inspect/{question}")
            assert refused.status == 401
            assert KEY not in refused.text
            assert knock(port, "GET", f"/inspect/{question}", None, **bearer).status == 200
        for headers, status in (({}, 401), (bearer, 200)):
            found = knock(port, "GET", f"/inspect/image?session={KEY}&n=1", None, **headers)
            assert found.status == status


async def test_pages_of_other_sites_are_told_nothing(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append(KEY, [said(shot(GIF))])
    with serving(store_path) as (port, _):
        for question in ("lcm_sessions", "conversation", f"image?session={KEY}&n=1"):
            for headers, status in (
                ({"Sec-Fetch-Site": "cross-site"}, 403),
                ({"Sec-Fetch-Site": "same-site"}, 403),
                ({"Origin": "https://evil.example"}, 403),
                ({"Host": "evil.example"}, 421),
                ({"Sec-Fetch-Site": "same-origin"}, 200),
                ({"Sec-Fetch-Site": "none"}, 200),
            ):
                answer = knock(port, "GET", f"/inspect/{question}", None, **headers)
                assert answer.status == status
                if status == 200:
                    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_a_question_is_answered_as_the_tool_of_that_name_and_a_wrong_one_in_a_sentence(
    store_path: Path,
) -> None:
    async with memory(store_path) as service:
        await folded(service)
        await service.index()  # else the server does, and what had to be read is another number then
        with serving(store_path) as (port, _):
            for name, arguments in (
                ("lcm_sessions", {"project": "*"}),
                ("lcm_list", {"session": KEY, "frontier_only": "true", "limit": "3"}),
                ("lcm_grep", {"pattern": "pier 17", "session": "*"}),
                ("lcm_describe", {"session": KEY, "id": "#1"}),
                ("lcm_expand", {"session": KEY, "id": "#1", "max_bytes": "500"}),
            ):
                answer = await call(service, name, **arguments)
                assert told(port, name, **arguments) == answer.structured
            for question, arguments, status, sentence in (
                ("lcm_append", {}, 404, "There is no question 'lcm_append'. There are lcm_sessions, "),
                ("prepare_context", {}, 404, "There is no question"),
                ("conversation", {"sesion": "s"}, 400, "sesion: there is no such argument."),
                ("conversation", {"session": "elsewhere"}, 404, "There is no session 'elsewhere'."),
                ("conversation", {"at": "e9999"}, 404, "e9999 names nothing in session"),
                ("conversation", {"at": "#1"}, 400, "at: '#1' is not a row of this session."),
                ("conversation", {"limit": 101}, 400, "limit: it is 101."),
                ("trail", {"cursor": "x"}, 400, "cursor: it does not belong to this query."),
                ("context", {"window_tokens": 0}, 400, "window_tokens: it is 0."),
                ("image", {"session": KEY, "n": 7}, 400, f"n: session '{KEY}' has no image '7'."),
                ("image", {"session": "elsewhere", "n": 1}, 404, "There is no session 'elsewhere'."),
            ):
                refused = asked(port, question, **arguments)
                assert refused.status == status
                assert json.loads(refused.text)["error"].startswith(sentence)


def test_an_empty_store_says_how_to_fill_it(store_path: Path) -> None:
    with serving(store_path) as (port, _):
        assert "lcm-mcp import" in told(port, "lcm_sessions", project="*")["note"]
        for question in ("conversation", "trail", "context", "now", "lcm_list"):
            answer = asked(port, question)
            assert answer.status == 404
            assert "`lcm-mcp import --discover`" in json.loads(answer.text)["error"]


async def _pages(service: Service, start: str | None, newer: bool, limit: int) -> list[str]:
    """The rows on all pages from one on, oldest first."""
    found: list[str] = []
    at = start
    while True:
        page = await service.converse(KEY, at, None, newer, limit)
        rows = [row.ref for row in page.rows]
        assert len(rows) <= limit
        found = [*found, *rows] if newer else [*rows, *found]
        at = page.newer if newer else page.older
        if at is None:
            return found


async def _all_reached(service: Service) -> set[str]:
    """Every row that can be come to from the newest page by what pages name."""
    reached: set[str] = set()
    lines: list[str | None] = [None]
    seen: set[str] = set()
    while lines:
        line, at = lines.pop(), None
        at = line
        while True:
            page = await service.converse(KEY, at, line, False, 4)
            reached |= {row.ref for row in page.rows}
            for branch in (branch for row in page.rows for branch in row.branches if not branch.active):
                if branch.last not in seen:
                    seen.add(branch.last)
                    lines.append(branch.last)
            at = page.older
            if at is None:
                break
    return reached


@settings(max_examples=12, deadline=None)
@given(
    deeds=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), min_size=1, max_size=6),
    limit=st.integers(1, 7),
)
def test_pages_joined_either_way_are_the_active_path_and_branches_lead_to_every_other_row(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[int, int]], limit: int
) -> None:
    import anyio

    anyio.run(_branching, tmp_path_factory.mktemp("store") / "lcm.sqlite", deeds, limit)


async def _branching(path: Path, deeds: Iterable[tuple[int, int]], limit: int) -> None:
    async with memory(path) as service:
        last, active = 0, list[int]()
        for rows, back in deeds:
            if active:
                to = active[back * len(active) // 101]
                await service.rewind(f"e{to}", KEY)
                active = active[: active.index(to) + 1]
            await service.append(KEY, [{"role": "user", "content": "x"}] * rows)
            active += range(last + 1, last + rows + 1)
            last += rows
        refs = [f"e{seq}" for seq in active]
        assert await _pages(service, None, False, limit) == refs
        assert await _pages(service, refs[0], True, limit) == refs
        assert await _all_reached(service) == {f"e{seq}" for seq in range(1, last + 1)}
        # A removed row by its address alone shows the branch it is in.
        for seq in set(range(1, last + 1)) - set(active):
            page = await service.converse(KEY, f"e{seq}", None, True, limit)
            assert page.rows[0].ref == f"e{seq}"
            assert page.rows[0].removed


async def test_rows_tell_their_parts_units_nodes_pins_and_what_starts_from_them(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        long = "x" * (PART_CHARACTERS + 7)
        content = [{"type": "text", "text": long}, {"type": "odd", "n": 1}, shot(png(30, 20))]
        await service.append(KEY, [said(*content)])
        await service.pin(["e161"], KEY)
        await service.fork(KEY, "e4", "fork")
        page = await service.converse(KEY, "e161")
        (row,) = page.rows[-1:]
        assert (row.ref, row.opens, row.pinned, row.node, page.newer) == ("e161", True, True, None, None)
        text, odd, image = row.parts
        assert (text.text, text.more) == (long[:PART_CHARACTERS], 7)
        assert (odd.kind, odd.name, odd.text) == ("other", "odd", '{"type":"odd","n":1}')
        assert [(each.number, each.width, each.height) for each in image.images] == [(1, 30, 20)]
        first = await service.converse(KEY, "e1", None, True, 4)
        called, answered = first.rows[1].parts[-1], first.rows[2].parts[0]
        assert (called.kind, called.name, called.text) == ("tool_call", "measure", "pier: 0")
        assert (answered.kind, answered.call, answered.text) == (
            "tool_result",
            called.call,
            "measured 0 metres",
        )
        assert [row.opens for row in first.rows] == [True, False, False, False]
        assert all(row.node is not None for row in first.rows)
        assert [(each.session, each.link) for each in first.rows[3].starts] == [("fork", "fork")]


async def test_a_page_ends_with_the_row_that_fills_it(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append(KEY, [{"role": "user", "content": "y" * 9000}] * 60)
        page = await service.converse(KEY, None, None, False, 100)
        assert len(page.rows) == PAGE_CHARACTERS // PART_CHARACTERS
        assert len(await _pages(service, None, False, 100)) == 60


async def test_images_are_given_whole_by_what_their_bytes_are(store_path: Path) -> None:
    large = png(640, 480, 2 * RANGE_BYTES)
    hostile = [SVG, b"<html><script>alert(1)</script>", b"GIF87", b"\x00"]
    async with memory(store_path) as service:
        pictures = [shot(large, "text/html"), *(shot(each, "image/svg+xml") for each in hostile)]
        await service.append(KEY, [said(each) for each in pictures])
    with serving(store_path) as (port, _):
        path = f"/inspect/image?session={KEY}&n="
        headers = knock_bytes(port, f"{path}1")
        assert headers == ("image/png", hashlib.sha256(large).hexdigest(), None)
        for number, body in enumerate(hostile, 2):
            kind, digest, disposition = knock_bytes(port, f"{path}{number}")
            assert (kind, digest) == ("application/octet-stream", hashlib.sha256(body).hexdigest())
            assert disposition is not None
            assert disposition.startswith("attachment")


def knock_bytes(port: int, path: str) -> tuple[str | None, str, str | None]:
    """Type, digest and disposition of what a route gives."""
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        digest = hashlib.sha256(answer.read()).hexdigest()
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Cache-Control") == "no-store"
        return answer.getheader("Content-Type"), digest, answer.getheader("Content-Disposition")
    finally:
        connection.close()


def test_only_four_kinds_of_images_are_shown() -> None:
    for data, kind in (
        (png(1, 1), "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", None),
        (SVG, None),
        (b"", None),
    ):
        assert sniffed(data) == kind
    assert image_from_bytes("image/svg+xml", SVG).media_type == "image/svg+xml"


async def test_the_trail_pages_back_to_the_first_request_and_looking_leaves_none(store_path: Path) -> None:
    async with memory(store_path) as service:
        names: list[str] = []
        await service.append(KEY, talk(2))
        for turn in range(205):
            await service.append(KEY, [{"role": "user", "content": f"more {turn}"}])
            prepared = await service.prepare(PrepareQuery(KEY, window_tokens=6000, strategy="lcm"))
            names.append(prepared.prepared)
        with serving(store_path) as (port, _):
            first = told(port, "trail", session=KEY)
            rest = told(port, "trail", session=KEY, cursor=first["next_cursor"])
            context = told(port, "context", session=KEY, window_tokens=1000)
            told(port, "now", session=KEY)
            after = told(port, "trail", session=KEY)
        assert after == first
        points = [*first["points"], *rest["points"]]
        assert [point["prepared"] for point in points] == names[::-1]
        assert rest["next_cursor"] is None
        assert rest["samples"] == []
        samples = [(int(each["row"][1:]), each["tokens"]) for each in first["samples"]]
        assert samples == sorted(samples)
        assert (samples[0][0], samples[-1][0]) == (1, 213)
        assert len(samples) <= 110
        assert context["last"]["prepared"] == names[-1]
        assert context["now"]["window_tokens"] == 1000
        assert context["last"]["estimated_input_tokens"] == points[0]["estimated_tokens"]
