"""Keys are masked by their documented shapes, and what is no key is left alone."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from detect_secrets import plugins
from hypothesis import given, settings
from hypothesis import strategies as st

from lcm_mcp.redaction import NAMED, SHAPES, redact

A, D, H = "Ab3dEf6h" * 40, "1234567890" * 9, "0123456789abcdef" * 8

# Written in two pieces, so that nobody's scanner takes this file for a leak.
KEYS = [
    ("anthropic-key", "sk-" + "ant-api03-" + A[:60]),
    ("openai-key", "sk-" + "proj-" + A[:48]),
    ("openai-key", "sk-" + A[:48]),
    ("aws-key-id", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("github-token", "ghp" + "_" + A[:36]),
    ("github-token", "github_" + "pat_" + A[:82]),
    ("gitlab-token", "glpat" + "-" + A[:20]),
    ("google-key", "AIza" + A[:35]),
    ("google-key", "ya29" + ".a0" + A[:60]),
    ("slack-token", "xoxb" + "-123456789012-" + A[:24]),
    ("slack-webhook", "hooks." + "slack.com/services/T000/B000/" + A[:24]),
    ("stripe-key", "sk_" + "live_" + A[:24]),
    ("huggingface-token", "hf" + "_" + A[:34]),
    ("npm-token", "npm" + "_" + A[:36]),
    ("pypi-token", "pypi" + "-AgEIcHlwaS5vcmc" + A[:70]),
    ("sendgrid-key", "SG." + A[:22] + "." + A[:43]),
    ("digitalocean-token", "dop_" + "v1_" + H[:64]),
    ("telegram-token", D[:9] + ":AA" + A[:33]),
    ("jwt", "eyJ" + A[:20] + ".eyJ" + A[:40] + "." + A[:43]),
    (
        "private-key",
        "-----BEGIN RSA PRIVATE " + f"KEY-----\n{A[:64]}\n{A[:64]}\n-----END RSA PRIVATE KEY-----",
    ),
    ("private-key", "---- BEGIN SSH2 ENCRYPTED PRIVATE " + f"KEY ----\n{A[:64]}\n{A[:64]}"),
    ("private-key", "-----BEGIN PRIVATE " + f"KEY-----\\n{A[:64]}\\n{A[:64]}"),
]


# What the detectors of detect-secrets find and we do not, as docs/redaction.md says: by plugin, all its
# patterns or that at one place.
NOT_SEEN = {
    "artifactory 1": "a word of eleven letters that begins with AP",
    "aws 1": "known by a name that is a word anywhere before it; by the usual names we see it",
    "basic_auth": "a password of one or two characters",
    "cloudant 0": "values all of one kind of character",
    "cloudant 1": "values all of one kind of character",
    "ibm_cloud_iam": "values all of one kind of character",
    "ibm_cos_hmac": "values all of one kind of character",
    "ip_public": "an address is no key",
    "jwt": "any two words behind eyJ",
    "npm": "any text at all behind the name",
    "private_key": "a frame without a key, which holds nothing",
    "softlayer": "values all of one kind of character",
    "twilio": "ids of accounts and keys, which are no secrets",
}


def detected() -> Iterator[tuple[str, re.Pattern[str]]]:
    """The patterns of the detectors of detect-secrets that we are to see too, each with a name."""
    for found in pkgutil.iter_modules(plugins.__path__):
        if found.name == "base":
            continue
        module = importlib.import_module(f"{plugins.__name__}.{found.name}")
        for detector in vars(module).values():
            if isinstance(detector, type) and detector.__module__ == module.__name__:
                for place, pattern in enumerate(getattr(detector, "denylist", ())):
                    name = f"{found.name} {place}"
                    if found.name not in NOT_SEEN and name not in NOT_SEEN:
                        yield name, pattern


DETECTED = dict(detected())


@pytest.mark.parametrize("name", DETECTED)
def test_what_a_kept_list_of_detectors_finds_is_masked(name: str) -> None:
    pattern = DETECTED[name]
    in_ascii = re.compile(pattern.pattern, pattern.flags & ~re.UNICODE | re.ASCII)

    @settings(max_examples=40, database=None, derandomize=True, deadline=None)
    @given(st.from_regex(in_ascii, fullmatch=True))
    def masked(key: str) -> None:
        assert redact(f"it is {key} now").masked

    masked()


def test_the_page_on_redaction_names_each_shape_and_who_says_so() -> None:
    page = (Path(__file__).parent.parent / "docs" / "redaction.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|$", page, re.MULTILINE)
    assert rows == [(kind, shape.source) for kind, shape in {**SHAPES, **NAMED}.items()]


@pytest.mark.parametrize(("kind", "key"), KEYS)
@pytest.mark.parametrize("around", ["{}", "the key is {}, keep it", '{{"k": "{}"}}', "X={}\n", "({})"])
def test_a_key_of_a_documented_shape_is_masked_wherever_it_stands(kind: str, key: str, around: str) -> None:
    made = redact(around.format(key))
    assert made.text == around.format(f"[redacted:{kind}]")
    assert made.masked == {kind: 1}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgres://admin:hunter2x@db.example/x", "postgres://admin:[redacted:password]@db.example/x"),
        (f"Authorization: Bearer {A[:40]}", "Authorization: Bearer [redacted:authorization]"),
        (f'"client_secret": "{A[:32]}"', '"client_secret": "[redacted:secret]"'),
        (f"AWS_SECRET_ACCESS_KEY={A[:40]}", "AWS_SECRET_ACCESS_KEY=[redacted:secret]"),
        (f'{{\\"apiKey\\": \\"{A[:32]}\\"}}', '{\\"apiKey\\": \\"[redacted:secret]\\"}'),
    ],
)
def test_a_key_is_known_by_what_it_is_assigned_to(text: str, left: str) -> None:
    assert redact(text).text == left


@pytest.mark.parametrize(
    "text",
    [
        "the token budget is 4096 tokens, the password was changed",
        "task-list-of-the-whole-team risk-management-for-everyone",
        "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
        "https://example.org:8080/path?token=short",
        "api_key = os.environ['API_KEY']",
        "session 839b35f7-4dbd-4d93-9772-3c272cc87caa",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_key_is_left_alone(text: str) -> None:
    made = redact(text)
    assert (made.text, made.masked) == (text, {})


@given(st.lists(st.sampled_from([key for _, key in KEYS] + [" ", "\n", "a", '"', "=", "token", ":", "-"])))
def test_masking_twice_is_masking_once(pieces: list[str]) -> None:
    once = redact(" ".join(pieces)).text
    assert redact(once).text == once


def test_no_text_takes_more_than_a_time_in_proportion() -> None:
    script = (
        "from lcm_mcp.redaction import redact\n"
        "pieces = ['a', 'sk-', 'eyJ', 'token', '://', '-----BEGIN PRIVATE KEY-----', 'api_key=', ' ',"
        " 'bearer ', '://a:', 'eyJaaaaaaaaaa.', '-----BEGIN PRIVATE KEY-----aaaaaaaaaaaaaaaa ']\n"
        "for piece in pieces:\n"
        "    redact(piece * (400_000 // len(piece)))\n"
        "    redact(piece + 'a' * 400_000)\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)
