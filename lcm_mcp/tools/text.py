"""How answers become text: short lines in our words, stored text set apart so that it stays data.

A stored text of one line is quoted as a JSON string; a text of many lines stands verbatim between
two fences longer than any run of backticks in it, so nothing stored can close its fence and speak
in the tool's place. Nothing is cut here: what the structured answer says, the text says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import cast

import orjson

_FENCE = "```"
_BREAKS = ("\x7f", "\x85", "\u2028", "\u2029")
"""Line breaks that JSON leaves as they are."""
_BACKTICKS = re.compile(r"`{3,}")


def paid(tokens: int, usd: float | None) -> str:
    """What something cost, as a further item of a list; nothing where it cost nothing."""
    if not tokens:
        return ""
    return f", {tokens} tokens paid, " + ("price unknown" if usd is None else f"${usd:.6f}")


def quoted(stored: str | None) -> str:
    """A stored text on one line, as a JSON string; "none" for null."""
    return "none" if stored is None else json_line(stored)


def plain(words: str) -> str:
    """Our own words as they are, quoted where a name in them would break the line."""
    return words if words.isprintable() else quoted(words)


def json_line(value: object) -> str:
    """A value as JSON on one line, whatever a reader takes for the end of one."""
    text = written(value).decode()
    for each in _BREAKS:
        if each in text:
            text = text.replace(each, f"\\u{ord(each):04x}")
    return text


def fenced(stored: str) -> str:
    """A stored text verbatim, on lines of its own between fences."""
    fence = max(_BACKTICKS.findall(stored), key=len, default="") + "`" if "```" in stored else _FENCE
    return f"{fence}\n{stored}\n{fence}"


def conflicting(refs: Sequence[str]) -> str:
    """What became of entries whose entry_id is known with other content."""
    told = f"conflicts: {listed(refs)}"
    if not refs:
        return told
    return (
        f"{told} (these rows bear the entry_ids, with other content: they stand, and what came now is kept "
        "beside them, where no request shows it; give what is new an entry_id of its own)"
    )


def listed(items: Iterable[str]) -> str:
    """Addresses in a row; "none" where there are none."""
    return ", ".join(items) or "none"


def span(pair: Sequence[str]) -> str:
    return f"{pair[0]}..{pair[1]}"


def flags(**states: bool) -> str:
    """The names of the flags that are set, each after a comma."""
    return "".join(f", {name}" for name, is_set in states.items() if is_set)


def paragraph(*lines: str | None) -> str:
    """The lines that are there, one below the other."""
    return "\n".join(line for line in lines if line)


def written(value: object) -> bytes:
    """JSON of an answer, or a part of one, also where a stored payload holds what cannot be sent as it is."""
    try:
        return orjson.dumps(value)
    except TypeError:
        plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        return orjson.dumps(_writable(plain))


def _writable(value: object) -> object:
    """Plain JSON with lone surrogates replaced and integers over 64 bits as texts."""
    match value:
        case str():
            return sound(value)
        case bool():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case dict():
            items = cast("dict[object, object]", value).items()
            return {sound(str(key)): _writable(item) for key, item in items}
        case list() | tuple():
            return [_writable(item) for item in cast("list[object]", value)]
        case _:
            return value


def sound(text: str) -> str:
    """The text with lone surrogates replaced: UTF-8 cannot carry them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
