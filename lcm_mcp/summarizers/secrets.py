"""Keeping keys out of what is shown and stored.

Keys come from environment variables, so whatever equals the value of one that is named like a key is taken
out of a text, whoever put it there: a provider that quotes it in an error, a program that prints it.
"""

from __future__ import annotations

import os
import re

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
SHORTEST = 12
"""A shorter value is no key (local servers take any word), and taking it out would only garble texts."""
REASON_CHARS = 160


def scrubbed(text: str, *more: str) -> str:
    """The text without the keys of this process's environment, nor those given."""
    named = [
        value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and not value.startswith(("/", "~"))  # where a key lies is none
    ]
    for value in sorted({*named, *more}, key=len, reverse=True):
        if len(value) >= SHORTEST:
            text = text.replace(value, "[key]")
    return text


def short_reason(text: str, *more: str) -> str:
    """Another program's words as the end of a sentence of ours: one line, cut, without keys."""
    line = " ".join(scrubbed(text, *more).split()).rstrip(". ")
    line = "".join(sign if sign.isprintable() else "?" for sign in line)
    return line if len(line) <= REASON_CHARS else line[: REASON_CHARS - 1] + "…"
