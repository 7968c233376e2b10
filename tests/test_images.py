"""Images from the append to every way out: as they are, as metadata, and by a resource read in ranges."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from struct import pack
from typing import Any

import apsw
import pytest
from asking import expanded, parts_of
from harbour import call, memory
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ImageContent

from lcm_mcp.server import build_server
from lcm_mcp.service.pictures import LARGEST_BYTES, RANGE_BYTES
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.transcript.blocks import image_from_bytes, parse_part
from lcm_mcp.transcript.model import Json
from lcm_mcp.transcript.sealing import weigh

KEY = "pictures"
Entry = dict[str, object]


def png(width: int, height: int, padding: int = 0) -> bytes:
    """A PNG's header and then so many bytes that compress to nothing."""
    header = b"IHDR" + pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + pack(">I", 13) + header + pack(">I", zlib.crc32(header))
    return start + bytes(number * 7 % 251 for number in range(251)) * (padding // 251)


def shot(data: bytes, media_type: str = "image/png") -> Entry:
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def said(*blocks: object) -> Entry:
    return {"role": "user", "content": [*blocks]}


GIF = b"GIF89a" + pack("<HH", 30, 20) + b"\x00\x00\x00"
WEBP = b"RIFF" + pack("<I", 22) + b"WEBPVP8X" + pack("<I", 10) + bytes(4) + b"\x1d\x00\x00\x13\x00\x00"
JPEG = (
    b"\xff\xd8\xff\xc0\x00\x11\x08"
    + pack(">HH", 20, 30)
    + b"\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xd9"
)


@pytest.mark.parametrize("data", [png(30, 20), GIF, WEBP, JPEG], ids=["png", "gif", "webp", "jpeg"])
def test_the_pixels_of_an_image_are_read_from_its_header(data: bytes) -> None:
    image = image_from_bytes("image/any", data)
    assert (image.width, image.height, image.size_bytes) == (30, 20, len(data))


@pytest.mark.parametrize("cut", [0, 7, 16, 20])
async def test_a_truncated_image_is_kept_and_its_size_is_unknown(cut: int, store_path: Path) -> None:
    data = png(30, 20)[:cut] or b"\x00"
    async with memory(store_path) as service:
        await service.append(KEY, [said(shot(data))])
        (row,) = await expanded(service, KEY, "e1", 6000, payload=True)
        assert row.text == f"[image image/png, size unknown, {len(data)} bytes]"
        assert parts_of(row)[0] == {
            "type": "image",
            "media_type": "image/png",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "width": None,
            "height": None,
            "data": base64.b64encode(data).decode(),
        }


async def test_the_estimate_of_a_hundred_pictures_is_the_rules_to_the_token(store_path: Path) -> None:
    sizes = [(17 * number % 3000 + 1, 29 * number % 2000 + 1) for number in range(100)]
    async with memory(store_path) as service:
        entries = [said(shot(png(*size)), {"type": "text", "text": "see"}) for size in sizes]
        await service.append(KEY, [*entries, said(shot(b"no header"))])
        answer = await service.prepare(PrepareQuery(KEY, window_tokens=2_000_000))
        known = sum(85 + 170 * ceil(width / 512) * ceil(height / 512) + 20 for width, height in sizes)
        unknown = 85 + 170 * 4 + 20
        assert answer.estimated_input_tokens == ceil(3 * 100 / 4) + 101 * 12 + known + unknown


async def test_expanding_with_payload_shows_images_as_images_and_the_texts_their_metadata(
    store_path: Path,
) -> None:
    data = png(640, 480, 5000)
    encoded = base64.b64encode(data).decode()
    result = {"type": "tool_result", "tool_use_id": "a", "content": [shot(data)]}
    used: Entry = {"type": "tool_use", "id": "a", "name": "look", "input": dict[str, object]()}
    async with memory(store_path) as service, Client(build_server(service)) as client:
        await service.append(KEY, [said(shot(data)), {"role": "assistant", "content": [used]}, said(result)])
        for id, shown in (("e1", 1), ("e3", 1), ("e1..e3", 2)):
            answer = await client.call_tool("lcm_expand", {"id": id, "session": KEY, "include_payload": True})
            pictures = [block for block in answer.content if isinstance(block, ImageContent)]
            assert [(each.mime_type, each.data) for each in pictures] == [("image/png", encoded)] * shown
            rest = repr([answer.structured_content, answer.content[0]])
            assert encoded[:64] not in rest
            assert f"image {shown} of this answer" in rest
            assert "640" in rest
        plain = await client.call_tool("lcm_expand", {"id": "e1", "session": KEY})
        assert len(plain.content) == 1


async def test_an_image_that_fits_no_page_is_metadata_and_a_resource_read_in_ranges(store_path: Path) -> None:
    data = png(9000, 9000, 20_000_000)
    async with memory(store_path) as service, Client(build_server(service)) as client:
        await service.append(KEY, [said(shot(data), {"type": "text", "text": "large"})])
        answer = await client.call_tool("lcm_expand", {"id": "e1", "session": KEY, "include_payload": True})
        assert len(answer.content) == 1
        assert answer.structured_content is not None
        block = answer.structured_content["rows"][0]["payload"][0]
        assert (block["width"], block["size_bytes"], "data" in block) == (9000, len(data), False)
        uri: str = block["resource"]
        with pytest.raises(MCPError, match=f"has {len(data)} bytes. Read it in ranges: .*offset=0&length"):
            await client.read_resource(uri)
        start, pieces = 19_000_000, list[bytes]()
        following: int | None = start
        while following is not None:
            piece, meta = await ranged(client, f"{uri}?offset={following}&length=900000")
            assert meta["lcm/total"] == len(data)
            assert len(piece) <= RANGE_BYTES
            pieces.append(piece)
            following = meta.get("lcm/next")
        assert b"".join(pieces) == data[start:]


async def ranged(client: Client, uri: str) -> tuple[bytes, dict[str, Any]]:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, BlobResourceContents)
    assert contents.meta is not None
    return base64.b64decode(contents.blob), contents.meta


async def test_a_small_image_is_read_whole_and_wrong_addresses_are_told(store_path: Path) -> None:
    async with memory(store_path) as service, Client(build_server(service)) as client:
        await service.append(KEY, [said(shot(png(3, 4)))])
        await service.append("other", [said({"type": "text", "text": "no picture here"})])
        assert (await ranged(client, "lcm://session/s1/image/1"))[0] == png(3, 4)
        assert (await ranged(client, "lcm://session/pictures/image/1?offset=60"))[0] == b""
        for uri, fault in (
            ("lcm://session/s1/image/2", "no image"),
            ("lcm://session/other/image/1", "'other' has no image '1'"),
            ("lcm://session/s1/image/x", "whole number"),
            ("lcm://session/s9/image/1", "s9"),
            ("lcm://session/s1/image/1?offset=-1", "whole number"),
        ):
            with pytest.raises(MCPError, match=fault):
                await client.read_resource(uri)


async def test_images_of_a_row_that_fit_no_page_together_are_shown_as_far_as_they_fit(
    store_path: Path,
) -> None:
    images = [png(10, number + 1, LARGEST_BYTES // 2 - 1000) for number in range(3)]
    async with memory(store_path) as service:
        await service.append(KEY, [said(*map(shot, images))])
        answer = await call(service, "lcm_expand", id="e1", session=KEY, include_payload=True)
        blocks = answer.structured["rows"][0]["payload"]
        assert ["resource" in block for block in blocks] == [False, False, True]
        assert len(answer.pictures) == 2


async def test_no_base64_is_in_texts_index_or_summaries(store_path: Path) -> None:
    data = png(640, 480, 60_000)
    encoded = base64.b64encode(data).decode()
    sound = {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}}
    paper = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": encoded},
    }
    async with memory(store_path) as service:
        await service.append(
            KEY, [said(shot(data), sound, paper, {"type": "text", "text": "see " * 900})] * 3
        )
        await service.compact(KEY, "lcm")
        await service.index()
        for piece in (encoded[100:120], encoded[1000:1016]):
            assert not (await service.grep(GrepQuery(piece, session=KEY))).hits
    db = apsw.Connection(str(store_path))
    texts = [body for (body,) in db.execute("SELECT body FROM text")]
    grams = {gram for (gram,) in db.execute("SELECT DISTINCT term FROM gram_instance")}
    db.close()
    assert not [text for text in texts if encoded[100:116] in text]
    held = {text.casefold()[at : at + 3] for text in texts for at in range(len(text))}
    assert {gram for gram in grams if "\x1a" not in gram} <= held


async def test_audio_documents_and_unknown_blocks_come_back_as_they_were_and_are_counted_elsewhere(
    store_path: Path,
) -> None:
    sound: Any = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    upload: Any = {
        "type": "file",
        "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"},
    }
    paper: Any = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    odd: Any = {"type": "hologram", "beam": [1, None, {"x": "y"}]}
    async with memory(store_path) as service:
        await service.append(KEY, [said(sound, upload, paper, odd)])
        (row,) = await expanded(service, KEY, "e1", 6000, payload=True)
        assert parts_of(row) == [sound, upload, paper, odd]
        assert "UklGRg" not in row.text
        for form, kept in (
            ("openai", [sound, upload]),
            ("anthropic", [paper]),
            ("messages", [sound, upload, paper, odd]),
        ):
            answer = await service.prepare(PrepareQuery(KEY, window_tokens=200_000, format=form))  # pyright: ignore[reportArgumentType]
            content: Any = answer.messages[0].message["content"]
            assert [block for block in content if block in (sound, upload, paper, odd)] == kept
            lost = 4 - len(kept)
            assert any(str(lost) in note and "block" in note for note in answer.notes) == (lost > 0)


def test_bytes_that_a_block_carries_are_not_weighed_by_their_length() -> None:
    def weight(data: str) -> int:
        return weigh([parse_part({"type": "input_audio", "input_audio": {"data": data}})]).tokens

    assert weight("A" * 4) == weight("A" * 4_000_000) > 700


# --- real sessions


async def test_an_image_that_stands_twice_in_a_line_is_stored_once(
    shared_data: Path, store_path: Path
) -> None:
    path = shared_data / "claude-code" / "image-twice-961kb-line.jsonl"
    async with memory(store_path) as service:
        (imported,) = (await service.import_file(path)).sessions
        stats = await service.stats(imported.session)
        assert stats.images == 1
        data = next(iter(_images([json.loads(line) for line in path.read_text().splitlines() if line])))
        assert stats.image_bytes == len(data)
        await service.index()
        encoded = base64.b64encode(data).decode()
        assert not (await service.grep(GrepQuery(encoded[5000:5024], session=imported.session))).hits
        assert stats.text_bytes + stats.payload_bytes < path.stat().st_size - 2 * len(encoded)


def _images(value: Json) -> list[bytes]:
    """Every base64 image in some JSON, decoded."""
    match value:
        case {"type": "base64", "media_type": "image/png" | "image/jpeg", "data": str(data)}:
            return [base64.b64decode(data)]
        case {"type": "image", "data": str(data)}:
            return [base64.b64decode(data)]
        case dict():
            return [found for member in value.values() for found in _images(member)]
        case list():
            return [found for member in value for found in _images(member)]
        case _:
            return []


async def test_the_images_of_a_pi_session_are_kept_with_their_pixels(
    shared_data: Path, store_path: Path
) -> None:
    path = shared_data / "pi" / "images-glued-line-v1.jsonl"
    entries, images = pi_entries(path.read_text(encoding="utf-8"))
    async with memory(store_path) as service:
        await service.append(KEY, entries)
        stats = await service.stats(KEY)
        assert (stats.images, stats.image_bytes) == (len(set(images)), sum(map(len, set(images))))
        assert stats.images == 3
        rows = await expanded(service, KEY, f"e1..e{len(entries)}", 150_000)
        described = [line for row in rows for line in row.text.split("\n") if line.startswith("[image ")]
        assert len(described) == len(images)
        assert not [line for line in described if "size unknown" in line]


def pi_entries(text: str) -> tuple[list[Entry], Sequence[bytes]]:
    """Pi's lines as entries by hand: its messages in order, a glued line's objects one by one."""
    decoder = json.JSONDecoder()
    entries: list[Entry] = []
    images: list[bytes] = []
    at = 0
    while at < len(text):
        found: Json
        found, at = decoder.raw_decode(text, at)
        at += len(text[at : at + 9]) - len(text[at : at + 9].lstrip())
        if isinstance(found, dict):
            images += _images(found.get("message"))
            entries += _entry(found.get("message"))
    return entries, images


def _entry(message: Json) -> list[Entry]:
    match message:
        case {"role": "user", "content": content}:
            return [{"role": "user", "content": content}]
        case {"role": "assistant", "content": list(content)}:
            return [{"role": "assistant", "content": [*map(_called, content)]}]
        case {"role": "toolResult", "toolCallId": call_id, "content": content}:
            result = {"type": "tool_result", "call_id": call_id, "content": content}
            return [{"role": "tool", "content": [result]}]
        case _:
            return []


def _called(block: Json) -> Json:
    match block:
        case {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}:
            return {"type": "tool_call", "call_id": call_id, "name": name, "arguments": arguments}
        case _:
            return block
