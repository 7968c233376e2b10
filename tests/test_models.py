"""The catalogue of windows: its own figures, under the names people write, offline and loaded late."""

from __future__ import annotations

import subprocess
import sys

import pytest
from genai_prices.data import providers
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.models import context_window

_LISTED = {(provider.id, model.id): model for provider in providers for model in provider.models}


def listed(provider: str, model: str) -> int:
    """The catalogue's own figure, which an update of it may change but not take away."""
    window = _LISTED[provider, model].context_window
    assert window is not None
    return window


def unstated(provider: str) -> list[str]:
    """What a provider lists without a window, by id."""
    own = [model for key, model in _LISTED.items() if key[0] == provider]
    return [model.id for model in own if model.context_window is None]


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-5"),
        ("openai", "gpt-5"),
        ("openai", "gpt-4o"),
        ("google", "gemini-2.5-flash"),
        ("deepseek", "deepseek-chat"),
    ],
)
def test_a_model_has_the_catalogues_window_with_and_without_its_provider(provider: str, model: str) -> None:
    expected = listed(provider, model)
    assert 1_000 < expected < 100_000_000
    named = [(provider, model), (None, model), ("a proxy of ours", model), (f" {provider.upper()} ", model)]
    named += [(None, f"{provider}/{model}"), ("litellm", f"{provider}/{model}"), ("", model.upper())]
    assert {name: context_window(*name) for name in named} == dict.fromkeys(named, expected)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google"])
def test_every_figure_of_a_maker_is_the_answer_to_its_id(provider: str) -> None:
    # By the catalogue's own rules an id may belong to an earlier entry: such are left to it.
    seller = next(each for each in providers if each.id == provider)
    own = [model for model in seller.models if seller.find_model(model.id) is model and model.context_window]
    assert len(own) > 10
    assert [model.id for model in own if context_window(provider, model.id) != model.context_window] == []


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-5-20251101[thinking]", "claude-opus-4-5"),
        ("claude-opus-4-5 [ ]", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ],
)
def test_dated_bracketed_and_regional_names_are_the_model(name: str, model: str) -> None:
    assert context_window(None, name) == listed("anthropic", model)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("anthropic/claude-sonnet-4-5[1M]", 1_000_000),
        ("claude-opus-4-5 [200k]", 200_000),
        ("a model of ours[32K]", 32_000),
    ],
)
def test_a_name_that_ends_in_its_window_is_believed(name: str, window: int) -> None:
    assert context_window(None, name) == window


def test_a_seller_goes_before_the_maker_and_the_maker_before_nothing() -> None:
    name = "anthropic/claude-sonnet-4.5"
    assert context_window("openrouter", name) == listed("openrouter", name)
    assert context_window(None, f"openrouter/{name}") == listed("openrouter", name)
    assert context_window(None, name) == listed("anthropic", "claude-sonnet-4-5")
    assert context_window("openrouter", "anthropic/claude-sonnet-4-5") == listed(
        "anthropic", "claude-sonnet-4-5"
    )


def test_a_seller_without_a_figure_of_its_own_is_not_lent_the_makers() -> None:
    silent = unstated("github-copilot")
    assert [name for name in silent if context_window("github-copilot", name) is not None] == []


def test_a_maker_without_a_figure_is_lent_the_resellers() -> None:
    lent = {name: _LISTED.get(("openrouter", f"google/{name}")) for name in unstated("google")}
    figures = {name: entry.context_window for name, entry in lent.items() if entry is not None}
    assert {name: context_window("google", name) for name in figures} == figures
    assert context_window(None, "gemini-2.5-pro") is not None


@pytest.mark.parametrize(
    "odd",
    [
        *("", " ", "/", "a/b/c/", "/" * 200, "x" * 201, "claude-sonnet-4-5" * 9999, "unknown-model"),
        *("[", "[]", "[0m]", "[99999m]", "x[1g]", "(((", "\0\x1b[0m", "-20259999"),
        *("\ud800", "\ud800/\udfff[1m\udfff]"),
    ],
)
def test_what_the_catalogue_does_not_know_is_unknown(odd: str) -> None:
    assert [context_window(provider, odd) for provider in (None, odd, "openai", "openrouter")] == [None] * 4


@given(
    provider=st.none() | st.text(), model=st.text() | st.from_regex(r"(claude|gpt|o3|gemini)[-/:\[].{0,9}")
)
def test_no_text_is_an_error(provider: str | None, model: str) -> None:
    window = context_window(provider, model)
    assert window is None or window > 0


_OFFLINE = """
import sys, threading
import lcm_mcp.models
assert "genai_prices" not in sys.modules

def refuse(event, arguments):
    if event.startswith(("socket.", "subprocess.", "urllib.")):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(refuse)
assert lcm_mcp.models.context_window("anthropic", "claude-sonnet-4-5") > 0
assert lcm_mcp.models.context_window(None, "unknown-model") is None
assert "genai_prices" in sys.modules
assert threading.enumerate() == [threading.main_thread()]
"""
_HELP = """
import sys
from lcm_mcp.cli import main
try:
    main(["--help"])
finally:
    assert "lcm_mcp.cli.entry" in sys.modules
    assert "genai_prices" not in sys.modules
"""


@pytest.mark.parametrize("code", [_OFFLINE, _HELP], ids=["asking", "help"])
def test_the_catalogue_is_loaded_by_the_first_question_and_reaches_for_no_network(code: str) -> None:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
