"""Key-shaped strings masked, in text that leaves the store, or (where that is wanted) before it is stored.

A key is known by a shape that its issuer documents (a prefix, a length, an alphabet), by a private key's
frame, or by the name that it is assigned to. That is a floor and no promise: a password in a sentence, a
key without a shape, or one that is split, encoded or in a picture is not seen. Each shape says where it is
from; a test holds the list against the detectors of detect-secrets, which itself is older than some of the
shapes in use and brings an HTTP client, so it is not what masks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from lcm_mcp.values import frozen


class Shape(NamedTuple):
    """What a key looks like, and who says so."""

    pattern: str
    source: str


_SCANNERS: Final = "rules of gitleaks and secretlint"
# Each by the name that stands in its place. None can match a long way and then fail: they are bounded, or
# begin with signs of their own.
SHAPES: Final[Mapping[str, Shape]] = {
    "anthropic-key": Shape(r"sk-ant-[\w-]{20,200}", _SCANNERS),
    "openai-key": Shape(r"sk-(?:proj-|svcacct-|admin-)?[\w-]{20,200}", _SCANNERS),
    "aws-key-id": Shape(
        r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", "AWS: unique identifiers of IAM"
    ),
    "github-token": Shape(
        r"(?:gh[pousr]_[A-Za-z0-9_]{36,255}|github_pat_[A-Za-z0-9_]{40,255})", "GitHub: token formats"
    ),
    "gitlab-token": Shape(
        r"(?:gl(?:pat|dt|rt|rtr|cbt|ptt|ft|oas|soat|imt|agent)-[\w.-]{20,1024}|GR1348941[\w-]{20,50})",
        "GitLab: token overview",
    ),
    "google-key": Shape(r"(?:AIza[\w-]{35}|ya29\.[\w-]{20,500}|GOCSPX-[\w-]{28})", _SCANNERS),
    "slack-token": Shape(
        r"(?i:xox[abeoprs](?:\.xox[bp])?-[\w-]{3,200}|xapp-\d-[\w-]{10,200})", "Slack: token types"
    ),
    "slack-webhook": Shape(
        r"(?i:hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{5,100})", "Slack: incoming webhooks"
    ),
    "stripe-key": Shape(
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[\w+/=]{20,200})", "Stripe: API keys, webhooks"
    ),
    "huggingface-token": Shape(r"hf_[A-Za-z0-9]{30,60}", "Hugging Face: user access tokens"),
    "npm-token": Shape(r"npm_[A-Za-z0-9]{36}", "npm: access token format"),
    "pypi-token": Shape(r"pypi-AgE[\w-]{50,500}", "PyPI: token scanning"),
    "sendgrid-key": Shape(r"SG\.[\w-]{16,32}\.[\w-]{16,64}", "detectors of detect-secrets"),
    "digitalocean-token": Shape(r"do[opr]_v1_[a-f0-9]{64}", "DigitalOcean: token formats"),
    "telegram-token": Shape(r"\d{8,10}:[\w-]{35}(?![\w-])", "Telegram: Bot API"),
    "discord-token": Shape(
        r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", "detectors of detect-secrets"
    ),
    "mailchimp-key": Shape(r"[0-9a-z]{32}-us\d{1,2}(?!\w)", "detectors of detect-secrets"),
    "square-secret": Shape(r"sq0(?:csp|atp)-[\w\\-]{22,60}", "detectors of detect-secrets"),
    "artifactory-key": Shape(r"AKC[A-Za-z0-9]{10,200}", "detectors of detect-secrets"),
    "jwt": Shape(r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}", "RFC 7519"),
    # Atomic groups: a possessive quantifier over alternatives matches too little before Python 3.11.5.
    "private-key": Shape(
        r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        r"(?:(?>(?:[^-]|-(?!---)){0,20000})-{4,5} ?END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        r"|(?:(?>(?:\s|\\[nr])*)[\w+/=]{16,}+)+)",
        "RFC 7468, RFC 9580, RFC 4716",
    ),
}
# Of these only the group named secret is masked: a user and a host, a header's or a variable's name stay.
NAMED: Final[Mapping[str, Shape]] = {
    "password": Shape(r"://[^\s:@/\"']{0,64}:(?P<secret>[^\s:@/\"']{3,200})@(?=[\w.\[-])", "RFC 3986"),
    "authorization": Shape(r"\b(?:bearer|basic) {1,4}(?P<secret>[\w.~+/-]{20,2000}=*)", "RFC 6750, RFC 7617"),
    "azure-storage-key": Shape(r"AccountKey=(?P<secret>[A-Za-z0-9+/=]{88})", "detectors of detect-secrets"),
    "secret": Shape(
        r"(?:api_?-?key|secret|token|passw(?:or)?d|credential|access_?-?key|auth_?-?key)\w{0,20}"
        r"\\?[\"']?\]?\s{0,3}(?:=>|:=|[:=])\s{0,3}\\?[\"']?"
        r"(?=[\w.~+/-]{0,200}\d)(?=[\w.~+/-]{0,200}[A-Za-z])(?P<secret>[\w.~+/-]{16,500}=*)",
        "our own: the names that such values stand under",
    ),
}
_BY_SHAPE = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    + "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, (shape, _) in SHAPES.items())
    + ")"
)
_BY_NAME = tuple((name, re.compile(shape, re.IGNORECASE)) for name, (shape, _) in NAMED.items())


@frozen
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
