"""Payloads: a row's parts as JSON without the strings that its text holds as well, deflated where that pays.

The words that most of them begin and end with stand in a dictionary that is part of the format: whoever
changes it gives the new one another mark. Parts with images are left as JSON, since the images that a row
shows are looked for in it.
"""

from __future__ import annotations

import json
import zlib
from typing import Final, cast

import orjson

from lcm_mcp.transcript.blocks import has_long_number
from lcm_mcp.transcript.model import Json

SLICE_CHARACTERS: Final = 48
"""Shorter strings cost less written out than as a place in the text."""
_PLACE: Final = "\x00"
"""The key of a place, {"\\0": [start, end]} in characters; payloads that use it themselves are left whole."""
_WHOLE, _SLICED, _DEFLATED = b"W", b"S", b"D"
"""The first byte; of a deflated payload the one of what is in it follows inside."""
LEAST_BYTES: Final = 128
"""Shorter ones are a third of all payloads and a tenth of their bytes."""
_IMAGE: Final = b'"image"'
_LEVEL, _WINDOW, _MEMORY = 2, -12, 5
"""4 KB, which takes a third of the time that 32 KB do, for as little. Payloads are mostly signatures,
where looking longer finds nothing: zlib's usual level saves a hundredth more, for a quarter more time."""
_USUAL: Final = (
    rb'"extra":{"caller":{"type":"direct"}},"is_error":true,"name":"Bash","arguments":{"command":'
    rb'"description":"[{"type":"reasoning","text":"","extra":{"signature":"E"}},{"type":"text","text":"'
    rb'[{"type":"tool_call","call_id":"toolu_01","name":"Read","arguments":{"file_path":{"\u0000":[23,"}}}]'
    rb'","old_string":"","new_string":{"\u0000":["}}}][{"type":"tool_result","call_id":"toolu_01","content":'
    rb'[{"type":"text","text":{"\u0000":[9,1'
)


def encode(value: Json) -> bytes:
    """JSON bytes of any value we can hold; lone surrogates and huge numbers take the slower way."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def decode(data: bytes) -> Json:
    """The value that encode wrote."""
    if not has_long_number(data):
        try:
            return cast("Json", orjson.loads(data))
        except ValueError:
            pass  # a lone surrogate
    return cast("Json", json.loads(data))


def pack(blocks: list[Json], encoded: bytes, text: str) -> bytes:
    """Blocks, and the bytes that encode made of them, as a payload: strings of `text` are places in it.

    Not deflated yet: see shortest.
    """
    if b'"\\u0000"' in encoded:
        return _WHOLE + encoded
    if len(text) >= SLICE_CHARACTERS:
        encoded = encode(_Slicer(text).sliced(blocks))
    return _SLICED + encoded


def shortest(payload: bytes) -> bytes:
    """The same payload, deflated where that is shorter."""
    if len(payload) < LEAST_BYTES or payload[:1] == _DEFLATED or _IMAGE in payload:
        return payload
    packer = zlib.compressobj(_LEVEL, wbits=_WINDOW, memLevel=_MEMORY, zdict=_USUAL)
    return min(_DEFLATED + packer.compress(payload) + packer.flush(), payload, key=len)


def unpack(payload: bytes, text: str) -> list[Json]:
    """The blocks that pack was given together with the same text. Raises ValueError where it wrote none."""
    if payload[:1] == _DEFLATED:
        try:
            payload = zlib.decompressobj(wbits=_WINDOW, zdict=_USUAL).decompress(payload[1:])
        except zlib.error as error:
            raise ValueError(str(error)) from None
    blocks = decode(payload[1:])
    assert isinstance(blocks, list)
    if payload[:1] == _WHOLE:
        return blocks
    filled = _fill(blocks, text)
    assert isinstance(filled, list)
    return filled


class _Slicer:
    """Walks blocks in the order the text was derived from: each search starts where the last ended."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._cursor = 0

    def sliced(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._place(value) if len(value) >= SLICE_CHARACTERS else value
        if isinstance(value, dict):
            return {  # most members are short strings, and a call costs more than a look
                key: member
                if isinstance(member, str) and len(member) < SLICE_CHARACTERS
                else self.sliced(member)
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [self.sliced(member) for member in value]
        return value

    def _place(self, value: str) -> Json:
        start = self._text.find(value[:SLICE_CHARACTERS], self._cursor)  # to look for all of it takes longer
        if start >= 0 and not self._text.startswith(value, start):
            start = self._text.find(value, start + 1)
        if start < 0:
            return value
        self._cursor = start + len(value)
        return {_PLACE: [start, self._cursor]}


def _fill(value: Json, text: str) -> Json:
    match value:
        case list():
            return [_fill(member, text) for member in value]
        case {"\x00": [int(start), int(end)]}:
            return text[start:end]
        case dict():
            return {key: _fill(member, text) for key, member in value.items()}
        case _:
            return value
