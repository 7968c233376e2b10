"""Key-shaped strings masked, in text that leaves the store, or (where that is wanted) before it is stored.

A key is known by a shape that its issuer documents (a prefix, a length, an alphabet), by a private key's
frame, or by the name that it is assigned to. That is a floor and no promise: a password in a sentence, a key
without a shape, or one that is split, encoded or in a picture is not seen. The list is our own: a scanner of
code that would bring one was found to be older than the shapes in use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

# Each by the name that stands in its place. None can match a long way and then fail: they are bounded, or
# begin with signs of their own.
_SHAPES: dict[str, str] = {
    "anthropic-key": r"sk-ant-[\w-]{20,200}",
    "openai-key": r"sk-(?:proj-|svcacct-|admin-)?[\w-]{20,200}",
    "aws-key-id": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "github-token": r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{40,255})",
    "gitlab-token": r"gl(?:pat|dt|rt|cbt|ptt|ft|oas)-[\w.-]{20,200}",
    "google-key": r"(?:AIza[\w-]{35}|ya29\.[\w-]{20,500}|GOCSPX-[\w-]{28})",
    "slack-token": r"(?:xox[abeoprs](?:\.xox[bp])?-[\w-]{10,200}|xapp-\d-[\w-]{10,200})",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,100}",
    "stripe-key": r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[\w+/=]{20,200})",
    "huggingface-token": r"hf_[A-Za-z0-9]{30,60}",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-AgE[\w-]{50,500}",
    "sendgrid-key": r"SG\.[\w-]{16,32}\.[\w-]{16,64}",
    "digitalocean-token": r"do[opr]_v1_[a-f0-9]{64}",
    "telegram-token": r"\d{8,10}:AA[\w-]{33}",
    "jwt": r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}",
    # Atomic groups: a possessive quantifier over alternatives matches too little before Python 3.11.5.
    "private-key": (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?>(?:[^-]|-(?!----)){0,20000})-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?>(?:\s|\\[nr])*)[\w+/=]{16,}+)+)"
    ),
}
# Of these only the group named secret is masked: a user and a host, a header's or a variable's name stay.
_NAMED: dict[str, str] = {
    "password": r"://[^\s:@/\"']{0,64}:(?P<secret>[^\s:@/\"']{3,200})@(?=[\w.\[-])",
    "authorization": r"\b(?:bearer|basic) {1,4}(?P<secret>[\w.~+/-]{20,2000}=*)",
    "secret": (
        r"(?:api_?-?key|secret|token|passw(?:or)?d|credential|access_?-?key|auth_?-?key)\w{0,20}"
        r"\\?[\"']?\s{0,3}(?:=>|:=|[:=])\s{0,3}\\?[\"']?"
        r"(?=[\w.~+/-]{0,200}\d)(?=[\w.~+/-]{0,200}[A-Za-z])(?P<secret>[\w.~+/-]{16,500}=*)"
    ),
}
_BY_SHAPE = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    + "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in _SHAPES.items())
    + ")"
)
_BY_NAME = tuple((name, re.compile(shape, re.IGNORECASE)) for name, shape in _NAMED.items())


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its keys, and how many of each kind were masked."""

    text: str
    masked: Mapping[str, int]


def redact(text: str, *, sized: bool = False) -> Redacted:
    """Put `[redacted:KIND]` in the place of every key; a text that was masked already stays as it is.

    sized: `[redacted:KIND of 51 characters]`, for where no other copy tells how long it was.
    """
    masked: Counter[str] = Counter()

    def shape(found: re.Match[str]) -> str:
        return tag((found.lastgroup or "").replace("_", "-"), len(found[0]))

    def named(kind: str, found: re.Match[str]) -> str:
        begin, end = (place - found.start() for place in found.span("secret"))
        return found[0][:begin] + tag(kind, end - begin) + found[0][end:]

    def tag(kind: str, characters: int) -> str:
        masked[kind] += 1
        return f"[redacted:{kind} of {characters} characters]" if sized else f"[redacted:{kind}]"

    text = _BY_SHAPE.sub(shape, text)
    for kind, pattern in _BY_NAME:
        text = pattern.sub(partial(named, kind), text)
    return Redacted(text, masked)
