"""Settings: every layer overrides the one below, remembers itself, and refuses what it does not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lcm_mcp.errors import SettingsError
from lcm_mcp.settings import KEYS, LcmSettings, Settings, default_db, default_file, load_settings, variable


def write(tmp_path: Path, content: object) -> Mapping[str, str]:
    """A settings file with that content, and the environment that names it."""
    path = tmp_path / "settings.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"LCM_SETTINGS": str(path)}


def refused(
    overrides: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None
) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(overrides, environment or {})
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_without_any_layer_the_documented_defaults_hold() -> None:
    settings = load_settings({}, {})
    assert settings.db == default_db()
    assert settings.db.is_absolute()
    assert (settings.session, settings.strategy, settings.fold_imports) == (None, "lcm", True)
    assert settings.lcm == LcmSettings(
        context_window_tokens=None,
        trigger_percent=90,
        tail_percent=25,
        summary_percent=10,
        leaf_chunk_tokens=6000,
        leaf_target_tokens=768,
    )
    assert set(settings.origins.values()) == {"default"}


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    written = {"strategy": "none", "lcm": {"triggerPercent": 70, "tailPercent": 20, "summaryPercent": 5}}
    environment = {**write(tmp_path, written), "LCM_LCM_TRIGGER_PERCENT": "75", "LCM_LCM_TAIL_PERCENT": "30"}
    settings = load_settings({"lcm.tailPercent": 40, "session": None}, environment)
    lcm = settings.lcm
    assert (lcm.summary_percent, lcm.trigger_percent, lcm.tail_percent) == (5, 75, 40)
    assert settings.strategy == "none"
    assert {key: origin for key, origin in settings.origins.items() if origin != "default"} == {
        "strategy": "file",
        "lcm.summaryPercent": "file",
        "lcm.triggerPercent": "environment",
        "lcm.tailPercent": "flag",
    }


def test_settings_in_force_name_value_and_origin_of_every_key() -> None:
    lines = load_settings({"db": "/x/y.sqlite"}, {"LCM_FOLD_IMPORTS": "false"}).in_force()
    assert tuple(line.name for line in lines) == KEYS
    found = {line.name: (line.value, line.origin) for line in lines}
    assert found["foldImports"] == (False, "environment")
    assert found["db"][1] == "flag"
    assert found["lcm.contextWindowTokens"] == (None, "default")


@pytest.mark.parametrize(
    "name", ["LCM_FOLD_IMPORTS", "LCM_FOLDIMPORTS", "LCM_LCM__TRIGGERPERCENT", "LCM_LCM_TRIGGER_PERCENT"]
)
def test_underscores_in_a_variable_may_be_left_out_or_doubled(name: str) -> None:
    assert "environment" in load_settings({}, {name: "1" if "FOLD" in name else "91"}).origins.values()


def test_every_key_has_a_variable_that_sets_it() -> None:
    values = {"db": "/a/b", "session": "x", "strategy": "none", "foldImports": "false"}
    for key in KEYS:
        value = values.get(key, "512" if "Tokens" in key else "50" if "trigger" in key else "9")
        assert load_settings({}, {variable(key): value}).origins[key] == "environment"


def test_an_empty_variable_counts_as_unset() -> None:
    assert load_settings({}, {"LCM_DB": "", "LCM_SESSION": ""}).session is None


def test_a_path_may_start_at_the_home_folder() -> None:
    assert load_settings({"db": "~/store.sqlite"}, {}).db == Path.home() / "store.sqlite"


def test_an_unknown_key_in_the_file_is_refused_with_the_closest_and_the_allowed(tmp_path: Path) -> None:
    text = refused({}, write(tmp_path, {"lcm": {"triggerPrecent": 80}}))
    assert "lcm.triggerPrecent" in text
    assert "Did you mean lcm.triggerPercent?" in text
    assert "foldImports" in text


def test_an_unknown_variable_is_refused_but_foreign_ones_are_none_of_ours() -> None:
    text = refused({}, {"LCM_STRATGEY": "lcm", "PATH": "/bin", "LCMX": "1"})
    assert "LCM_STRATGEY" in text
    assert "Did you mean LCM_STRATEGY?" in text


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"lcm.triggerPercent": 100}, ("lcm.triggerPercent", "100", "less than 100")),
        ({"lcm.triggerPercent": "many"}, ("lcm.triggerPercent", "many", "integer")),
        ({"lcm.triggerPercent": True}, ("lcm.triggerPercent", "True", "whole number")),
        ({"lcm.tailPercent": 0}, ("lcm.tailPercent", "0", "greater than 0")),
        ({"lcm.leafTargetTokens": 63}, ("lcm.leafTargetTokens", "63", "64")),
        ({"lcm.leafChunkTokens": 511}, ("lcm.leafChunkTokens", "511", "512")),
        ({"lcm.contextWindowTokens": 0}, ("lcm.contextWindowTokens", "0", "1")),
        ({"strategy": "rolling"}, ("strategy", "rolling", "'lcm' or 'none'")),
        ({"session": ""}, ("session", "at least 1 character")),
        ({"lcm.triggerPercent": 35}, ("tailPercent 25", "summaryPercent 10", "triggerPercent 35")),
        ({"triggerPercent": 35}, ("triggerPercent", "Did you mean lcm.triggerPercent?")),
    ],
)
def test_a_value_that_cannot_hold_is_refused_by_name_value_and_rule(
    overrides: Mapping[str, object], words: tuple[str, ...]
) -> None:
    text = refused(overrides)
    assert [word for word in words if word not in text] == []


def test_a_refusal_names_the_variable_the_value_came_from() -> None:
    assert "LCM_LCM_TAIL_PERCENT" in refused({}, {"LCM_LCM__TAILPERCENT": "x"})


def test_two_spellings_of_one_variable_are_refused() -> None:
    text = refused({}, {"LCM_FOLD_IMPORTS": "1", "LCM_FOLDIMPORTS": "0"})
    assert "LCM_FOLD_IMPORTS" in text
    assert "LCM_FOLDIMPORTS" in text


@pytest.mark.parametrize("content", ["", "[]", "{", '"lcm"', '{"lcm": 3}', '{"db": [1]}'])
def test_a_file_that_is_not_settings_is_refused_with_its_fault(tmp_path: Path, content: str) -> None:
    assert refused({}, write(tmp_path, content))


def test_a_named_file_must_exist_but_the_default_one_need_not(tmp_path: Path) -> None:
    assert not default_file().exists()
    assert load_settings({}, {}) == Settings()
    assert "does not exist" in refused({}, {"LCM_SETTINGS": str(tmp_path / "none.json")})


def test_the_default_file_is_read_where_it_is(own_home: Path) -> None:
    path = default_file()
    assert own_home in path.parents
    path.parent.mkdir(parents=True)
    try:
        path.write_text('\ufeff{"session": "mine"}', encoding="utf-8")
        assert load_settings({}, {}).origins["session"] == "file"
    finally:
        path.unlink()
