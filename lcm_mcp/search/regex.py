"""Regular expressions in RE2's syntax, matched in time linear in the text, whatever the pattern.

Refused, as wrong patterns: look-around and references back, which no linear matcher has. What an
expression's matches all begin with is told to the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol, cast

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.search.match import Place
from lcm_mcp.values import frozen

_PREFIX_BYTES = 64


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    def search(self, text: str) -> _Match | None: ...

    def possiblematchrange(self, maxlen: int) -> tuple[bytes, bytes]: ...


@frozen
class Expression:
    """A compiled expression; dots match line ends only under (?s), ^ and $ are lines' under (?m)."""

    compiled: _Compiled
    required: Sequence[str]

    def find(self, text: str) -> Place | None:
        found = self.compiled.search(text)
        return None if found is None else Place(*found.span())


def expression(pattern: str, *, case_sensitive: bool) -> Expression:
    """The matcher of an expression. Raises InvalidArgument where it is none."""
    compiled = _compile(pattern, case_sensitive=case_sensitive)
    # As it is written, the expression still has the prefix that matching without case takes from it.
    prefix = _prefix(_compile(pattern, case_sensitive=True))
    return Expression(compiled, (prefix.casefold(),) if prefix else ())


def _compile(pattern: str, *, case_sensitive: bool) -> _Compiled:
    # A C extension without stubs, which only these searches need.
    import re2  # pyright: ignore[reportMissingTypeStubs]

    options = re2.Options()
    options.case_sensitive = case_sensitive
    options.log_errors = False
    try:
        return cast("_Compiled", re2.compile(pattern, options))  # pyright: ignore[reportUnknownMemberType]
    except re2.error as error:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        reason = cast("bytes", cast("Exception", error).args[0]).decode("utf-8", "replace")
        raise InvalidArgument(
            "pattern",
            f"it is no regular expression ({reason})",
            "Write it in RE2's syntax, with a backslash before what is meant as it is, or use mode literal.",
        ) from None


def _prefix(compiled: _Compiled) -> str:
    """What every match begins with; matches lie, as bytes, between two bounds that then begin alike."""
    low, high = compiled.possiblematchrange(_PREFIX_BYTES)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))
    return low[:alike].decode("utf-8", "ignore")
