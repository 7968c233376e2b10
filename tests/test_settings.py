"""Settings: every layer overrides the one below, remembers itself, and refuses what it does not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lcm_mcp.errors import SettingsError
from lcm_mcp.settings import (
    KEYS,
    LcmSettings,
    RollingSettings,
    Settings,
    default_db,
    default_file,
    load_settings,
    variable,
)

_OPTIONAL = {"session", "token", "rolling.contextWindowTokens", "lcm.contextWindowTokens", "lcm.swapPercent"}
_SWITCH_NAMES = ("foldImports", "splitOversizedUnit", "redactOutgoing", "redactStored", "semanticSearch")
_SWITCHES = [key for key in KEYS if key.endswith(_SWITCH_NAMES)]


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


def nested(key: str, value: object) -> dict[str, object]:
    group, _, name = key.rpartition(".")
    return {group: {name: value}} if group else {name: value}


def test_without_any_layer_the_documented_defaults_hold() -> None:
    settings = load_settings({}, {})
    assert settings.db == default_db()
    assert settings.db.is_absolute()
    assert (settings.session, settings.strategy, settings.fold_imports) == (None, "rolling", True)
    assert (settings.large_file_chars, settings.pinned_rows_percent) == (32_000, 2)
    assert settings.rolling == RollingSettings(
        context_window_tokens=None, trigger_percent=90, tail_percent=25, split_oversized_unit=False
    )
    assert settings.lcm == LcmSettings(
        context_window_tokens=None,
        trigger_percent=90,
        swap_percent=None,
        tail_percent=25,
        summary_percent=10,
        leaf_chunk_tokens=6000,
        leaf_target_tokens=768,
        split_oversized_unit=False,
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


def test_the_groups_do_not_share_their_settings(tmp_path: Path) -> None:
    settings = load_settings({}, {"LCM_ROLLING_TRIGGER_PERCENT": "60", **write(tmp_path, {"lcm": {}})})
    assert (settings.rolling.trigger_percent, settings.lcm.trigger_percent) == (60, 90)
    assert settings.origins["rolling.triggerPercent"] == "environment"


def test_the_swap_point_is_the_trigger_unless_set() -> None:
    assert load_settings({"lcm.triggerPercent": 80}, {}).lcm.swap == 80
    assert load_settings({"lcm.triggerPercent": 80, "lcm.swapPercent": 60}, {}).lcm.swap == 60
    assert load_settings({"lcm.triggerPercent": 80, "lcm.swapPercent": 80}, {}).lcm.swap == 80


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
    texts = {"db": "/a/b", "session": "x", "token": "x" * 16, "strategy": "none"}
    values = {**texts, **dict.fromkeys(_SWITCHES, "false"), "summarizers": '[{"kind": "extractive"}]'}
    for key in KEYS:
        share = "50" if key.endswith(("triggerPercent", "swapPercent")) else "9"
        value = values.get(key, "512" if "Tokens" in key else share)
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
    assert "Did you mean LCM_ROLLING_TAIL_PERCENT or LCM_LCM_TAIL_PERCENT?" in refused(
        {}, {"LCM_TAIL_PERCENT": "1"}
    )
    text = refused({}, {"LCM_STRATGEY": "lcm", "PATH": "/bin", "LCMX": "1"})
    assert "LCM_STRATGEY" in text
    assert "Did you mean LCM_STRATEGY?" in text


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"lcm.triggerPercent": 100}, ("lcm.triggerPercent", "100", "less than 100")),
        ({"lcm.triggerPercent": "many"}, ("lcm.triggerPercent", "many", "whole number")),
        ({"lcm.triggerPercent": "9" * 5000}, ("lcm.triggerPercent", "999…", "whole number")),
        ({"lcm.triggerPercent": 90.5}, ("lcm.triggerPercent", "90.5", "whole number")),
        ({"lcm.triggerPercent": True}, ("lcm.triggerPercent", "true", "whole number")),
        ({"lcm.tailPercent": 0}, ("lcm.tailPercent", "0", "greater than 0")),
        ({"lcm.leafTargetTokens": 63}, ("lcm.leafTargetTokens", "63", "64")),
        ({"lcm.leafChunkTokens": 511}, ("lcm.leafChunkTokens", "511", "512")),
        ({"lcm.contextWindowTokens": 0}, ("lcm.contextWindowTokens", "0", "1")),
        ({"lcm.contextWindowTokens": 10**18}, ("lcm.contextWindowTokens", "1000000000")),
        ({"largeFileChars": 0}, ("largeFileChars", "0", "1")),
        ({"pinnedRowsPercent": -1}, ("pinnedRowsPercent", "-1", "0")),
        ({"pinnedRowsPercent": 100}, ("pinnedRowsPercent", "100", "less than 100")),
        ({"strategy": "both"}, ("strategy", "both", "'rolling', 'lcm' or 'none'")),
        ({"session": ""}, ("session", "at least 1 character")),
        ({"db": "~nobody-of-that-name/x"}, ("db", "~nobody-of-that-name", "home folder")),
        ({"db": "a\0b"}, ("db", "path of a file")),
        (
            {"triggerPercent": 35},
            ("triggerPercent", "Did you mean rolling.triggerPercent or lcm.triggerPercent?"),
        ),
        ({"swapPercent": 35}, ("swapPercent", "Did you mean lcm.swapPercent?")),
        ({"a\nb" * 99: 35}, ("a\\nb", "is no setting")),
    ],
)
def test_a_value_that_cannot_hold_is_refused_by_name_value_and_rule(
    overrides: Mapping[str, object], words: tuple[str, ...]
) -> None:
    text = refused(overrides)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ({"rolling.tailPercent": 90}, "rolling.tailPercent 90 must stay below rolling.triggerPercent 90"),
        (
            {"rolling.tailPercent": 85, "pinnedRowsPercent": 5},
            "rolling.tailPercent 85 + pinnedRowsPercent 5 must stay below rolling.triggerPercent 90",
        ),
        ({"lcm.swapPercent": 91}, "lcm.swapPercent 91 must not be above lcm.triggerPercent 90"),
        (
            {"lcm.triggerPercent": 37},
            "lcm.tailPercent 25 + lcm.summaryPercent 10 + pinnedRowsPercent 2 must stay below "
            "lcm.triggerPercent 37",
        ),
        (
            {"lcm.swapPercent": 40, "pinnedRowsPercent": 5},
            "lcm.tailPercent 25 + lcm.summaryPercent 10 + pinnedRowsPercent 5 must stay below "
            "lcm.swapPercent 40",
        ),
    ],
)
def test_shares_that_leave_no_room_are_refused_in_one_sentence_of_names_and_figures(
    overrides: Mapping[str, object], rule: str
) -> None:
    text = refused(overrides)
    assert text.startswith(f"{rule}, or ")
    assert len(text) < 220


def test_shares_may_go_up_to_one_below_the_line() -> None:
    fits = {"lcm.swapPercent": 38, "rolling.tailPercent": 87}
    settings = load_settings(fits, {})
    assert (settings.lcm.swap, settings.rolling.tail_percent) == (38, 87)
    assert load_settings({"pinnedRowsPercent": 0, "rolling.tailPercent": 89}, {}).pinned_rows_percent == 0


@pytest.mark.parametrize("key", _SWITCHES)
def test_a_switch_is_true_or_false_or_what_an_environment_calls_so(key: str, tmp_path: Path) -> None:
    on, off = ("true", "1", "yes", "on", "TRUE", "On", " yes "), ("false", "0", "no", "off", "False", "NO")
    found = {text: value(load_settings({}, {variable(key): text}), key) for text in (*on, *off)}
    assert found == dict.fromkeys(on, True) | dict.fromkeys(off, False)
    for written in (True, False, "yes"):
        layer = write(tmp_path, nested(key, written))
        assert value(load_settings({}, layer), key) is bool(written)


@pytest.mark.parametrize("key", _SWITCHES)
@pytest.mark.parametrize("written", ["2", "y", "truth", "", 0, 1, 2, 1.0])
def test_a_switch_that_is_neither_is_refused_by_name(key: str, written: object, tmp_path: Path) -> None:
    text = refused({}, write(tmp_path, nested(key, written)))
    assert text.startswith(f"{key} cannot be {json.dumps(written)} (from settings.json): it should be true")


def value(settings: Settings, key: str) -> object:
    return next(line.value for line in settings.in_force() if line.name == key)


@pytest.mark.parametrize("key", [key for key in KEYS if key != "summarizers"])
def test_no_key_takes_a_list_or_an_object_and_null_only_unsets_what_may_be_unset(
    key: str, tmp_path: Path
) -> None:
    for written in ([], [1], {}, {"a": 1}):
        text = refused({}, write(tmp_path, nested(key, written)))
        shown = "used" if key == "token" else json.dumps(written)  # a secret is not shown
        assert text.startswith(f"{key} cannot be {shown} (from settings.json): it should ")
    layer = write(tmp_path, nested(key, None))
    if key in _OPTIONAL:
        assert value(load_settings({}, layer), key) is None
    else:
        assert refused({}, layer).startswith(f"{key} cannot be null (from settings.json): it should ")


@pytest.mark.parametrize("written", [None, 3, [], "lcm", True])
@pytest.mark.parametrize("group", ["rolling", "lcm"])
def test_a_group_must_be_an_object(group: str, written: object, tmp_path: Path) -> None:
    text = refused({}, write(tmp_path, {group: written}))
    assert text.startswith(f"{group} in ")
    assert text.endswith("is a group of settings and must hold a JSON object.")


def test_a_long_value_is_cut_in_its_refusal(tmp_path: Path) -> None:
    assert len(refused({}, write(tmp_path, {"lcm": {"tailPercent": ["x"] * 9999}}))) < 200


def test_a_refusal_names_the_variable_the_value_came_from() -> None:
    assert "LCM_LCM_TAIL_PERCENT" in refused({}, {"LCM_LCM__TAILPERCENT": "x"})


def test_two_spellings_of_one_variable_are_refused() -> None:
    text = refused({}, {"LCM_FOLD_IMPORTS": "1", "LCM_FOLDIMPORTS": "0"})
    assert "LCM_FOLD_IMPORTS" in text
    assert "LCM_FOLDIMPORTS" in text


@pytest.mark.parametrize("content", ["", "[]", "{", '"lcm"', '{"lcm": 3}', '{"db": [1]}'])
def test_a_file_that_is_not_settings_is_refused_with_its_fault(tmp_path: Path, content: str) -> None:
    said = refused({}, write(tmp_path, content))
    is_object = content.endswith("}")
    assert said.endswith("Mend it, or name another file with LCM_SETTINGS.") == (not is_object)


def test_a_named_file_must_exist_but_the_default_one_need_not(tmp_path: Path) -> None:
    assert not default_file().exists()
    assert load_settings({}, {}) == Settings()
    assert "does not exist" in refused({}, {"LCM_SETTINGS": str(tmp_path / "none.json")})
    assert "home folder" in refused({}, {"LCM_SETTINGS": "~nobody-of-that-name/settings.json"})


def test_the_default_file_is_read_where_it_is(own_home: Path) -> None:
    path = default_file()
    assert own_home in path.parents
    path.parent.mkdir(parents=True)
    try:
        path.write_text('\ufeff{"session": "mine"}', encoding="utf-8")
        assert load_settings({}, {}).origins["session"] == "file"
    finally:
        path.unlink()
