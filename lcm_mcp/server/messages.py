"""What clients send as a JSON-RPC message, as the SDK can read it, on every transport.

The SDK takes no lone surrogate, which JavaScript writes as an escape where a text was cut within a character,
and takes a request whose id none may have for a notification: its sender would wait for ever. Nothing else is
looked at here, and nothing is read that has neither.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from contextlib import suppress
from typing import Final, cast

from pydantic_core import from_json

from lcm_mcp.tools.text import sound

_LONE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
    rb"|\\\\u[dD]"
)
"""Half of a pair, or a backslash that is none of an escape, after which this cannot be told so easily."""
_ODD_ID: Final = re.compile(rb'"id"\s*:\s*(?:[ntf\[{]|-?[0-9]+[.eE])')


def readable(message: bytes) -> bytes:
    """The message, its lone surrogates replaced where it has any, without the byte order mark that PowerShell
    puts before what it pipes."""
    message = message.removeprefix(BOM_UTF8)
    if _LONE.search(message):
        with suppress(ValueError, RecursionError):
            given = json.dumps(json.loads(message.decode(errors="replace")), ensure_ascii=False)
            if (whole := sound(given)) != given:
                return whole.encode()
    return message


def has_odd_id(message: bytes) -> bool:
    """Whether it is a request by an id that is neither a whole number nor a text."""
    if not _ODD_ID.search(message):
        return False
    try:
        found = cast("object", json.loads(message.decode(errors="replace")))
    except (ValueError, RecursionError):
        return False
    asked = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return "method" in asked and "id" in asked and type(asked["id"]) not in (int, str)


def asked_by(message: bytes) -> str | None:
    """The id of a request, as the SDK keeps requests apart: to it, "7" is 7. None of anything else."""
    try:
        found = cast("object", from_json(message))
    except ValueError:
        return None
    asked = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return str(asked["id"]) if "method" in asked and "id" in asked else None
