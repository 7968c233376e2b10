"""Content blocks of every provider become parts, and parts survive their neutral JSON."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcm_mcp.transcript.blocks import (
    MAX_DEPTH,
    MAX_SIDE_PIXELS,
    image_from_bytes,
    parse_content,
    parse_part,
    parse_result_content,
    parse_tool_call,
    part_to_json,
    too_deep,
)
from lcm_mcp.transcript.model import (
    Image,
    Json,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)


def png(width: int, height: int) -> bytes:
    """A PNG header, which is all that sizing reads."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


PNG = png(640, 480)
PNG_BASE64 = base64.b64encode(PNG).decode()

texts = st.text(alphabet=st.characters(codec=None), max_size=12)  # lone surrogates included
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
words = st.sampled_from(["type", "text", "extra", "id", "raw", "data", "source", "content", "is_error"])
keys = words | texts
types = st.sampled_from(
    ["text", "tool_use", "tool_call", "tool_result", "image", "image_url", "opaque", "reasoning", "thinking"]
)
values = st.recursive(
    scalars | types,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
blocks = st.fixed_dictionaries({"type": types}, optional={"raw": values, "text": values, "content": values})
extras = st.dictionaries(keys, values, max_size=3)
sides = st.none() | st.integers(1, MAX_SIDE_PIXELS)
bare_images = st.builds(
    Image,
    media_type=texts,
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    size_bytes=st.integers(0, 10**9),
    width=sides,
    height=sides,
    data=st.none(),
    extra=extras,
)
pictures = st.binary(min_size=1, max_size=20) | st.builds(png, st.integers(1, 2000), st.integers(1, 2000))
images = bare_images | st.builds(image_from_bytes, texts, pictures, extras)
opaques = st.builds(Opaque, values | blocks)
result_parts = st.builds(Text, texts, extras) | images | opaques
parts = (
    st.builds(Text, texts, extras)
    | st.builds(Reasoning, texts, extras)
    | st.builds(ToolCall, texts, texts, values, extras)
    | st.builds(ToolResult, texts, st.lists(result_parts, max_size=3).map(tuple), st.booleans(), extras)
    | images
    | opaques
)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(parts, max_size=3))
def test_parts_written_as_neutral_json_read_back_equal(given_parts: list[Part]) -> None:
    written = json.loads(json.dumps([part_to_json(part) for part in given_parts]))
    assert parse_content(written) == tuple(given_parts)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(values | blocks | st.lists(blocks, max_size=3))
def test_reading_odd_content_never_raises_and_settles_after_one_reading(content: Json) -> None:
    once = parse_content(content)
    assert parse_content([part_to_json(part) for part in once]) == once
    parse_result_content(content)
    parse_tool_call(content)


def test_a_string_is_one_text_and_null_is_no_part() -> None:
    assert parse_content("hi") == (Text("hi"),)
    assert parse_content("") == (Text(""),)
    assert parse_content(None) == ()
    assert parse_content([]) == ()


def test_a_string_inside_a_list_is_a_text() -> None:
    assert parse_content(["wow", {"type": "text", "text": "so"}]) == (Text("wow"), Text("so"))


def test_unknown_fields_of_a_known_block_are_kept_as_extra() -> None:
    cached: Json = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert parse_part(cached) == Text("a", {"cache_control": {"type": "ephemeral"}})
    called: Json = {
        "type": "tool_use",
        "id": "t1",
        "name": "Read",
        "input": {"p": 1},
        "caller": {"type": "direct"},
    }
    assert parse_part(called) == ToolCall("t1", "Read", {"p": 1}, {"caller": {"type": "direct"}})


def test_thinking_keeps_its_signature_beside_the_text() -> None:
    block: Json = {"type": "thinking", "thinking": "hm", "signature": "Eu=="}
    assert parse_part(block) == Reasoning("hm", {"signature": "Eu=="})


def test_redacted_thinking_is_reasoning_without_text_that_keeps_its_data() -> None:
    assert parse_part({"type": "redacted_thinking", "data": "zzz"}) == Reasoning("", {"data": "zzz"})


def test_a_thinking_block_that_could_pass_for_redacted_stays_verbatim() -> None:
    block: Json = {"type": "thinking", "thinking": "", "data": "zzz"}
    assert parse_part(block) == Opaque(block)


def test_a_tool_result_holds_text_images_and_what_it_cannot_hold_as_opaque() -> None:
    stray: Json = {"type": "tool_use", "id": "x", "name": "y", "input": {}}
    picture: Json = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG_BASE64},
    }
    content: list[Json] = ["a", {"type": "text", "text": "b"}, picture, stray]
    result = parse_part({"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": True})
    image = image_from_bytes("image/png", PNG)
    assert result == ToolResult("t1", (Text("a"), Text("b"), image, Opaque(stray)), is_error=True)


def test_a_tool_result_takes_a_string_or_nothing_for_content() -> None:
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": "t"}
    assert parse_part(block) == ToolResult("t", ())
    assert parse_part({**block, "content": "ok"}) == ToolResult("t", (Text("ok"),))
    assert parse_part({**block, "content": {"a": 1}}) == ToolResult("t", (Opaque({"a": 1}),))


def test_a_base64_image_becomes_raw_bytes_with_its_size_in_pixels() -> None:
    source: Json = {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}
    image = parse_part({"type": "image", "source": source, "cache_control": None})
    assert isinstance(image, Image)
    assert (image.width, image.height, image.size_bytes, image.data) == (640, 480, len(PNG), PNG)
    assert image.extra == {"cache_control": None}


def test_an_image_whose_header_claims_an_absurd_side_has_no_known_size() -> None:
    image = image_from_bytes("image/png", png(4_000_000_000, 10))
    assert (image.width, image.height) == (None, 10)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "url": "https://example.org/a.png"},
        {"type": "file", "file_id": "f"},
        {"type": "base64", "media_type": "image/png", "data": "!!not base64!!"},
        {"type": "base64", "media_type": "image/png", "data": ""},
        {"type": "base64", "media_type": "image/png", "data": "ü"},
        {"type": "base64", "data": PNG_BASE64},
        "nothing",
    ],
)
def test_an_image_that_is_linked_or_does_not_decode_stays_verbatim(source: Json) -> None:
    block: Json = {"type": "image", "source": source}
    assert parse_part(block) == Opaque(block)


def test_openai_content_parts_are_read_as_texts_and_images() -> None:
    url: Json = {"url": f"data:image/png;base64,{PNG_BASE64}", "detail": "low"}
    content: list[Json] = [
        {"type": "input_text", "text": "a"},
        {"type": "output_text", "text": "b"},
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_BASE64}"},
    ]
    with_detail = image_from_bytes("image/png", PNG, {"detail": "low"})
    assert parse_content(content) == (Text("a"), Text("b"), with_detail, image_from_bytes("image/png", PNG))


def test_a_linked_openai_image_stays_verbatim() -> None:
    for url in ("https://example.org/a.png", "data:image/svg+xml,<svg/>", "data:image/png;base64,*"):
        block: Json = {"type": "image_url", "image_url": {"url": url}}
        assert parse_part(block) == Opaque(block)


def test_openai_call_arguments_are_parsed_only_when_they_are_an_object() -> None:
    def call(arguments: str) -> Json:
        return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}

    assert parse_tool_call(call('{"a": [1]}')) == ToolCall("c1", "f", {"a": [1]})
    deep = '{"a":' + "[" * 5000 + "]" * 5000 + "}"
    for text in ("", "[1]", '{"a": ', "rm -rf", "3", deep):
        assert parse_tool_call(call(text)) == ToolCall("c1", "f", text)


def test_a_custom_tool_call_keeps_its_free_text_and_its_kind() -> None:
    call: Json = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "{}"}}
    assert parse_tool_call(call) == ToolCall("c1", "patch", "{}", {"type": "custom"})


def test_unknown_blocks_stay_verbatim_under_their_own_kind() -> None:
    block: Json = {"type": "server_tool_use", "id": "s", "input": {"q": 1}}
    part = parse_part(block)
    assert part == Opaque(block)
    assert isinstance(part, Opaque)
    assert part.kind == "server_tool_use"
    for odd in (None, 3, True, [1], {}, {"type": 4}, {"type": "text"}, {"type": "tool_use", "id": "x"}):
        assert parse_part(cast("Json", odd)) == Opaque(cast("Json", odd))


def test_a_document_is_written_as_it_came() -> None:
    block: Json = {"type": "document", "source": {"type": "text", "data": "x"}}
    assert part_to_json(parse_part(block)) == block


def test_an_opaque_that_would_read_as_something_else_is_wrapped() -> None:
    part = Opaque({"type": "text", "text": "not a text"})
    assert part_to_json(part) == {"type": "opaque", "raw": part.raw}
    assert parse_part(part_to_json(part)) == part


def test_an_image_without_its_bytes_is_written_as_metadata_alone() -> None:
    image = Image("image/png", "0" * 64, 12, 3, None)
    assert "data" not in part_to_json(image)
    assert parse_part(part_to_json(image)) == image


def test_depth_is_counted_in_containers() -> None:
    nested: Json = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert not too_deep(nested)
    assert too_deep({"a": nested})
    assert not too_deep("text")
