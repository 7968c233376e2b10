"""Local token estimates: byte counts under one fixed rule, never a provider's accounting.

The rule: a list of inputs costs ceil(UTF-8 bytes / 4) + 12 an input + its images; an image costs by
its pixel size, never by the length of its base64. Callers keep byte and image totals apart so that
sums stay exact however a history is cut.
"""

from __future__ import annotations

import math
from typing import NewType

from lcm_mcp.values import frozen

TokenCount = NewType("TokenCount", int)

BYTES_PER_TOKEN = 4
INPUT_TOKENS = 12
PREAMBLE_TOKENS = 16
TOOL_TOKENS = 20
UNKNOWN_SIDE_PIXELS = 1024
MOST_TOKENS = 100_000_000
"""The largest window, preamble or count that a caller may name."""
METHOD = "utf8 bytes / 4 + 12 per input + images by size"


@frozen
class Size:
    """What a run of inputs weighs: UTF-8 bytes of the serialised content, inputs, image tokens."""

    bytes: int = 0
    inputs: int = 0
    fixed: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes, self.inputs + other.inputs, self.fixed + other.fixed)

    def __sub__(self, other: Size) -> Size:
        return Size(self.bytes - other.bytes, self.inputs - other.inputs, self.fixed - other.fixed)

    @property
    def tokens(self) -> TokenCount:
        return TokenCount(bytes_to_tokens(self.bytes) + self.beside_bytes)

    @property
    def beside_bytes(self) -> TokenCount:
        """The part of the estimate that no ratio of bytes to tokens changes."""
        return TokenCount(INPUT_TOKENS * self.inputs + self.fixed)

    def tokens_at(self, bytes_per_token: float) -> TokenCount:
        """The same rule under another ratio than BYTES_PER_TOKEN."""
        return TokenCount(math.ceil(self.bytes / bytes_per_token) + self.beside_bytes)


def bytes_to_tokens(count: int) -> int:
    """Round a byte count up to tokens."""
    return -(-count // BYTES_PER_TOKEN)


def utf8_length(text: str) -> int:
    """Bytes of `text` in UTF-8; a lone surrogate counts as the three bytes it would take."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_tokens(text: str) -> TokenCount:
    """The estimate of a bare text, without any input's overhead."""
    return TokenCount(bytes_to_tokens(utf8_length(text)))


def image_tokens(width: int | None, height: int | None) -> TokenCount:
    """The estimate of one image, in tokens; sides in pixels, an unknown side taken as 1024."""
    columns = -(-(width or UNKNOWN_SIDE_PIXELS) // 512)
    lines = -(-(height or UNKNOWN_SIDE_PIXELS) // 512)
    return TokenCount(85 + 170 * columns * lines + 20)
