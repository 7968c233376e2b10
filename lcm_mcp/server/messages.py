"""What clients send as a JSON-RPC message, as the SDK can read it, on every transport.

The SDK takes no lone surrogate, which JavaScript writes as an escape where a text was cut within a character,
and takes a request whose id none may have for a notification: its sender would wait for ever. Nothing is read
that has neither, but for what is asked over HTTP: by which id, in a session, and what is wrong with what the
SDK has refused.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from contextlib import suppress
from typing import Final, cast

import mcp_types as types
from pydantic import ValidationError
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
    if b"\\u" in message and _LONE.search(message):
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


def fault_of(message: bytes) -> tuple[int, str] | None:
    """What is wrong with what is no message, as the code and the sentence of an error; None of a message."""
    try:
        types.jsonrpc_message_adapter.validate_json(message, by_name=False)
    except ValidationError as fault:
        if fault.errors()[0]["type"] == "json_invalid":
            return types.PARSE_ERROR, "The request's body cannot be read as JSON in UTF-8."
        if message.lstrip().startswith(b"["):
            return types.INVALID_REQUEST, "Batches are not taken. Send each message in a request of its own."
        return types.INVALID_REQUEST, "The request's body is not a JSON-RPC 2.0 message."
    return None
