"""What the owner decided, from three layers: settings.json, the environment, flags; the later wins.

Every value remembers the layer it came from, so that `doctor` can say why it holds. A name nobody
knows and a value that cannot hold stop the program with the name, the value and what is allowed:
a misspelt setting that is silently ignored is a setting that silently does not hold.

A key is written `lcm.triggerPercent` (nested in the file), its variable LCM_LCM_TRIGGER_PERCENT: LCM_,
then the key in capitals with an underscore at each dot and hump. Underscores may be left out or doubled.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

import orjson
import platformdirs
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from lcm_mcp.chain import EXTRACTIVE_ONLY, EntryList, fault_in_list, shown_list
from lcm_mcp.errors import SettingsError
from lcm_mcp.values import frozen

Origin = Literal["default", "file", "environment", "flag"]
Value = str | int | bool | None

FILE_VARIABLE = "LCM_SETTINGS"
_PREFIX = "LCM_"


def default_db() -> Path:
    """The store in the platform's data folder."""
    return platformdirs.user_data_path("lcm-mcp", appauthor=False) / "lcm.sqlite"


def default_file() -> Path:
    """settings.json in the platform's config folder; it need not exist."""
    return platformdirs.user_config_path("lcm-mcp", appauthor=False) / "settings.json"


def default_folder() -> Path:
    """Where commands that write summaries are started: what they leave behind is of no session of anyone."""
    return platformdirs.user_cache_path("lcm-mcp", appauthor=False) / "summarizer"


def _whole(value: object) -> object:
    # pydantic reads true as 1; a percentage written as true is a slip, not a number.
    if isinstance(value, bool):
        raise ValueError("it should be a whole number")
    return value


def _located(value: object) -> object:
    if not isinstance(value, str | Path) or str(value) in ("", ".") or "\0" in str(value):
        raise ValueError("it should be the path of a file")
    return _at_home(value).absolute()


def _at_home(path: str | Path) -> Path:
    try:
        found = Path(path).expanduser()
        str(found).encode()
    except RuntimeError:
        raise ValueError("it should start at a home folder that exists, or at none") from None
    except UnicodeEncodeError:  # SQLite opens no other
        raise ValueError("it should be a path in UTF-8") from None
    return found


def _switch(value: object) -> object:
    # Only text is read generously: an environment has nothing else, JSON has true and false.
    switched = _SWITCHES.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(switched, bool):
        raise ValueError(f"it should be true or false, as text one of {', '.join(_SWITCHES)}")
    return switched


def _token(value: object) -> object:
    # It travels in a header, so it must be what one can hold; and guessing it must be hopeless.
    if not isinstance(value, str) or re.fullmatch(r"[!-~]{16,512}", value) is None:
        raise ValueError("it should be 16 to 512 letters, digits and signs, without spaces")
    return value


_SWITCHES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_Whole = Annotated[int, BeforeValidator(_whole)]
_Size = Annotated[_Whole, Field(ge=1, le=1_000_000_000)]
_Percent = Annotated[_Whole, Field(gt=0, lt=100)]
_Switch = Annotated[bool, BeforeValidator(_switch)]
_Located = Annotated[Path, BeforeValidator(_located)]
_Token = Annotated[SecretStr, BeforeValidator(_token)]

_SHAPE = ConfigDict(
    frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
)


class RollingSettings(BaseModel):
    """The rolling strategy's line; percentages are of the context window, sizes are estimated tokens."""

    model_config = _SHAPE

    context_window_tokens: _Size | None = None
    trigger_percent: _Percent = 90
    tail_percent: _Percent = 25
    split_oversized_unit: _Switch = False

    @model_validator(mode="after")
    def _room(self) -> RollingSettings:
        _below({"rolling.tailPercent": self.tail_percent}, "rolling.triggerPercent", self.trigger_percent)
        return self


class LcmSettings(BaseModel):
    """The lcm strategy's line; percentages are of the context window, sizes are estimated tokens."""

    model_config = _SHAPE

    context_window_tokens: _Size | None = None
    trigger_percent: _Percent = 90
    swap_percent: _Percent | None = None
    tail_percent: _Percent = 25
    summary_percent: _Percent = 10
    leaf_chunk_tokens: Annotated[_Size, Field(ge=512)] = 6000
    leaf_target_tokens: Annotated[_Size, Field(ge=64)] = 768
    split_oversized_unit: _Switch = False

    @property
    def swap(self) -> int:
        """Where compaction begins, in percent of the window; unset it is the trigger: nothing ahead of it."""
        return self.trigger_percent if self.swap_percent is None else self.swap_percent

    @model_validator(mode="after")
    def _order(self) -> LcmSettings:
        if self.swap > self.trigger_percent:
            raise ValueError(
                f"lcm.swapPercent {self.swap} must not be above lcm.triggerPercent {self.trigger_percent}, "
                "or requests would wait before the work ahead of them had begun"
            )
        return self


def _below(parts: Mapping[str, int], name: str, line: int) -> None:
    """Raises ValueError where the parts that a compaction leaves standing reach the line that starts it."""
    if sum(parts.values()) >= line:
        written = " + ".join(f"{key} {value}" for key, value in parts.items())
        raise ValueError(
            f"{written} must stay below {name} {line}, or a compaction could not end below where it starts"
        )


@frozen
class InForce:
    """One setting as it holds, under the name users write, with the layer it came from."""

    name: str
    value: Value
    origin: Origin


class Settings(BaseModel):
    """All settings in force."""

    model_config = _SHAPE

    db: _Located = Field(default_factory=default_db)
    session: Annotated[str, Field(min_length=1)] | None = None
    token: _Token | None = None
    strategy: Literal["rolling", "lcm", "none"] = "rolling"
    fold_imports: _Switch = True
    large_file_chars: _Size = 32_000
    semantic_search: _Switch = False
    pinned_rows_percent: Annotated[_Whole, Field(ge=0, lt=100)] = 2
    summarizers: EntryList = EXTRACTIVE_ONLY
    summarizer_call_tokens: _Size = 200_000
    summarizer_pass_tokens: _Size = 1_000_000
    summarizer_day_tokens: _Size = 2_000_000
    redact_outgoing: _Switch = True
    redact_stored: _Switch = False
    rolling: RollingSettings = Field(default_factory=RollingSettings)
    lcm: LcmSettings = Field(default_factory=LcmSettings)

    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict[str, Origin])

    @model_validator(mode="after")
    def _room(self) -> Settings:
        rolling, lcm, pins = self.rolling, self.lcm, {"pinnedRowsPercent": self.pinned_rows_percent}
        tail = {"rolling.tailPercent": rolling.tail_percent}
        _below(tail | pins, "rolling.triggerPercent", rolling.trigger_percent)
        kept = {"lcm.tailPercent": lcm.tail_percent, "lcm.summaryPercent": lcm.summary_percent}
        line = "lcm.triggerPercent" if lcm.swap_percent is None else "lcm.swapPercent"
        _below(kept | pins, line, lcm.swap)
        return self

    @property
    def origins(self) -> dict[str, Origin]:
        """Where each setting, by the name users write, got its value."""
        return {key: self._origins.get(key, "default") for key in KEYS}

    def source(self, key: str) -> str | None:
        """What gave a setting its value, as users write it; None where that is the default."""
        return _source(key, self.origins[key], f"--{key}")

    def in_force(self) -> tuple[InForce, ...]:
        """Every setting in the order of KEYS; a secret that is set is a row of asterisks."""
        values = _flat(cast("dict[str, object]", self.model_dump(mode="json", by_alias=True)))
        values["summarizers"] = shown_list(self.summarizers)
        return tuple(InForce(key, cast("Value", values[key]), origin) for key, origin in self.origins.items())


def _keys(model: type[BaseModel], prefix: str = "") -> Iterable[str]:
    for name, field in model.model_fields.items():
        key = prefix + to_camel(name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _keys(kind, f"{key}.")
        else:
            yield key


KEYS: tuple[str, ...] = tuple(_keys(Settings))
_GROUPS = {key.partition(".")[0] for key in KEYS if "." in key}


def variable(key: str) -> str:
    """The environment variable of a key, in its readable spelling."""
    return _PREFIX + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).replace(".", "_").upper()


def _source(key: str, origin: Origin, flag: str) -> str | None:
    return {"environment": variable(key), "file": "settings.json", "flag": flag}.get(origin)


def _bare(name: str) -> str:
    return name.removeprefix(_PREFIX).replace("_", "").upper()


_BY_VARIABLE = {_bare(variable(key)): key for key in KEYS}


_OTHER_FILE = f"Mend it, or name another file with {FILE_VARIABLE}."


def load_settings(
    overrides: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Read all layers; overrides are the flags by key (`lcm.triggerPercent`), None meaning not given.

    Raises SettingsError for an unknown name or a value that cannot hold, in any layer.
    """
    variables = os.environ if environment is None else environment
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    _refuse_unknown(flags, KEYS, "flags")
    layers: tuple[tuple[Origin, dict[str, object]], ...] = (
        ("file", _from_file(variables)),
        ("environment", _from_environment(variables)),
        ("flag", flags),
    )
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    for origin, layer in layers:
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    try:
        settings = Settings.model_validate(_nested(values))
    except ValidationError as error:
        raise SettingsError(_explain(error, origins)) from None
    settings._origins.update(origins)  # pyright: ignore[reportPrivateUsage]  # ours: the model's maker
    return settings


def _from_file(variables: Mapping[str, str]) -> dict[str, object]:
    named = variables.get(FILE_VARIABLE)
    try:
        path = _at_home(named) if named else default_file()
    except ValueError as error:
        raise SettingsError(f"{FILE_VARIABLE} cannot be {_shown(named)}: {error}.") from None
    try:
        written: object = orjson.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except FileNotFoundError:
        if named:
            raise SettingsError(
                f"{FILE_VARIABLE} names {path}, which does not exist. Name another, or unset it."
            ) from None
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}. {_OTHER_FILE}") from None
    except orjson.JSONDecodeError as error:
        raise SettingsError(f"{path} is not JSON: {error}. {_OTHER_FILE}") from None
    if not isinstance(written, dict):
        raise SettingsError(f"{path} must hold one JSON object, such as {{}}. {_OTHER_FILE}")
    values = _flat(cast("dict[str, object]", written))
    _refuse_unknown(values, KEYS, str(path))
    return values


def _from_environment(variables: Mapping[str, str]) -> dict[str, object]:
    """Set variables by key; an empty one counts as unset, as clients' forms write it."""
    found = {
        name: text
        for name, text in variables.items()
        if name.startswith(_PREFIX) and name != FILE_VARIABLE and text
    }
    spelt: dict[str, str] = {}
    for name in sorted(found):
        key = _BY_VARIABLE.get(_bare(name))
        if key is None:
            _refuse_unknown([name], [FILE_VARIABLE, *map(variable, KEYS)], "the environment")
        elif key in spelt:
            raise SettingsError(f"{spelt[key]} and {name} are one setting, {key}. Unset one of them.")
        else:
            spelt[key] = name
    return {key: found[name] for key, name in spelt.items()}


def _refuse_unknown(names: Iterable[str], allowed: Iterable[str], where: str) -> None:
    known = list(allowed)
    for name in names:
        if name in _GROUPS:
            raise SettingsError(f"{name} in {where} is a group of settings and must hold a JSON object.")
        if name not in known:
            from difflib import get_close_matches  # only a mistake needs it

            grouped = {form for group in _GROUPS for form in _in_group(group, name)}
            close = [key for key in known if key in grouped] or get_close_matches(name, known, 1, 0.75)
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            shown = _shown(name).strip('"')
            raise SettingsError(f"{shown} in {where} is no setting.{meant} Allowed: {', '.join(known)}.")


def _in_group(group: str, name: str) -> tuple[str, str]:
    """A name that lacks its group with it, as a key and as a variable."""
    return f"{group}.{name}", f"{_PREFIX}{group.upper()}_{name.removeprefix(_PREFIX)}"


def _flat(written: Mapping[str, object]) -> dict[str, object]:
    """Keys of nested groups joined by a dot; a group that holds no object keeps its own name."""
    values: dict[str, object] = {}
    for key, value in written.items():
        if key in _GROUPS and isinstance(value, dict):
            inner = cast("dict[str, object]", value)
            values |= {f"{key}.{name}": each for name, each in inner.items()}
        else:
            values[key] = value
    return values


def _nested(values: Mapping[str, object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for key, value in values.items():
        group, dot, name = key.rpartition(".")
        inner = cast("dict[str, object]", tree.setdefault(group, {})) if dot else tree
        inner[name] = value
    return tree


def _explain(error: ValidationError, origins: Mapping[str, Origin]) -> str:
    """The first fault only: one clear line serves better than a list."""
    fault = error.errors(include_url=False)[0]
    key = ".".join(part for part in fault["loc"] if isinstance(part, str) and part in _parts())
    message = re.sub(r"^(Value error, |(Input|String) (?=should))", "", fault["msg"])
    if fault["type"].startswith("int_"):
        message = "should be a whole number"
    if key not in KEYS:
        return f"{message}."  # a rule between settings, which names them; the input is all of them
    where = _source(key, origins.get(key, "default"), "a flag") or "the default"
    if key == "summarizers":
        return f"{fault_in_list(fault['loc'], fault['type'], message)} (from {where})."
    shown = "used" if key == "token" else _shown(fault["input"])  # a secret, even a wrong one
    return f"{key} cannot be {shown} (from {where}): it {message.removeprefix('it ')}."


def _shown(value: object) -> str:
    """A faulty value as JSON writes it, on one line and never long."""
    text = json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:80]}…"


def _parts() -> set[str]:
    return {part for key in KEYS for part in key.split(".")}
