"""What a text is about, as 256 bits: two texts are near where few of them differ.

The model gives each piece of a word its place, whatever stands beside it, and a text is where its pieces are
on average; so it knows what words go with, not what a sentence says. It comes in a package (the extra
`semantic`), nothing is fetched, and nothing leaves the machine. Its files are read when it is first asked;
the package's own code is not, since that brings an HTTP client and a log to the console.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

BYTES: Final = 32
"""Of a text's bits."""
MOST_CHARACTERS: Final = 2000
"""Of a text, its first ones: what goes on for long is about everything."""
PACKAGES: Final = ("wordllama", "tokenizers", "safetensors", "numpy", "sqlite_vec")


def is_installed() -> bool:
    """Whether the extra is there; imports nothing."""
    return all(find_spec(name) is not None for name in PACKAGES)


class Meaning:
    """The model of one process."""

    name: Final = "wordllama l2_supercat 256, bits of 2000 characters"
    """What bits are made by; bits of another name cannot be compared with these."""

    def bits(self, text: str) -> bytes:
        """The bits of a text's beginning; all 0 where it has no words."""
        return self._of(text[:MOST_CHARACTERS])

    @cached_property
    def _of(self) -> Callable[[str], bytes]:
        import numpy as np
        from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
        from tokenizers import Tokenizer

        package = find_spec("wordllama")
        assert package is not None
        assert package.origin is not None
        folder = Path(package.origin).parent
        places = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        middle = places.mean(axis=0, dtype=np.float32)
        pieces = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))

        def bits(text: str) -> bytes:
            ids = pieces.encode(text, add_special_tokens=False).ids
            return np.packbits(places[ids].sum(axis=0, dtype=np.float32) > len(ids) * middle).tobytes()

        return bits


def far(one: bytes, other: bytes) -> int:
    """In how many bits two texts differ."""
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()
