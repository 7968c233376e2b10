"""A tool's arguments: declared as a pydantic model, published as a plain schema, refused in a sentence.

Clients differ in what they send: null for what they leave out, digits for a number, JSON text for an
array or an object. These are read as what they plainly mean. Refused, by name and with the remedy:
arguments that do not exist, wrong types, values out of range. Only the first fault is reported; a
client corrects one call at a time. The published schema names no null, no title and no reference: fewer
words for a model to read, and nothing some clients cannot parse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from typing import Annotated, Any, TypeVar, cast, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.tools.text import plain

SHOWN_CHARACTERS = 60
_MOST_DIGITS = 18
_TRUTH = {"true": True, "false": False}


class Arguments(BaseModel):
    """The base of every tool's arguments; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=Arguments)


def _whole(value: object) -> object:
    """A whole number out of its digits, or out of 10.0; anything else is left to be refused."""
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        return int(value) if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _truth(value: object) -> object:
    return _TRUTH.get(value.strip().lower(), value) if isinstance(value, str) else value


def _as_it_is(value: object) -> object:
    return value


def _json(value: object) -> object:
    """What a text holds where it is JSON; anything else is left to be refused."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _objects(value: object) -> object:
    """A list, out of JSON text or as it is, whose items may be JSON text too."""
    items = _json(value)
    return [_json(item) for item in cast("list[object]", items)] if isinstance(items, list) else items


_READERS: dict[str, Callable[[object], object]] = {
    "integer": _whole,
    "boolean": _truth,
    "array": _objects,
    "object": _json,
}

Objects = Annotated[list[object], Field(json_schema_extra={"items": {"type": "object"}})]
"""An array of objects, whose content is for the service to judge: its refusals name the item."""


SessionKey = Annotated[
    str | None,
    Field(min_length=1, max_length=200, description="The session's key or id; default: the current one."),
]
Cursor = Annotated[str | None, Field(max_length=2000, description="next_cursor of the page before.")]


def parse(model: type[A], given: Mapping[str, object], within: str = "") -> A:
    """Read a call's arguments, or (within names it, with a dot) the members of an object among them.

    Raises InvalidArgument for the first that cannot be used.
    """
    unknown = [name for name in given if name not in model.model_fields]
    if unknown:
        raise InvalidArgument(
            ", ".join(within + (plain(name[:SHOWN_CHARACTERS]) or '""') for name in unknown[:8]),
            "there is no such argument",
            f"The arguments are {', '.join(within + name for name in model.model_fields)}.",
        )
    properties = input_schema(model)["properties"]
    present = {
        name: _READERS.get(properties[name].get("type"), _as_it_is)(value)
        for name, value in given.items()
        if value is not None
    }
    for name, inner in _objects_of(model).items():
        if isinstance(members := present.get(name), dict):
            present[name] = parse(inner, cast("dict[str, object]", members), f"{within}{name}.")
    try:
        return model.model_validate(present)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
    name = str(fault["loc"][0])
    raise InvalidArgument(within + name, _problem(fault), f"Give {_wanted(properties[name])}.")


@cache
def _objects_of(model: type[Arguments]) -> Mapping[str, type[Arguments]]:
    """The arguments that are objects with members of their own."""
    return {
        name: part
        for name, field in model.model_fields.items()
        for part in (field.annotation, *get_args(field.annotation))
        if isinstance(part, type) and issubclass(part, Arguments)
    }


def _problem(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind == "missing":
        return "it is missing"
    if kind == "string_unicode":
        return "it holds half of a surrogate pair, which is no character"
    match cast("object", fault["input"]):
        case value if kind.endswith("_type"):
            return f"it is {_kind(value)}"
        case str(text) if kind != "literal_error":
            return f"it has {len(text)} characters"
        case list() if kind == "too_short":
            return "it is empty"
        case value:
            return f"it is {_shown(value)}"


def _wanted(schema: Mapping[str, Any]) -> str:
    """What a published property takes, in words."""
    match schema:
        case {"enum": [*values]}:
            return f"one of {', '.join(map(str, values))}"
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"a whole number from {least} to {most}"
        case {"type": "integer", "minimum": least}:
            return f"a whole number from {least}"
        case {"type": "string", "maxLength": most}:
            least = schema.get("minLength", 0)
            return f"a text of {f'{least} to' if least else 'at most'} {most} characters"
        case {"type": "array", "minItems": _, "items": {"type": kind}}:
            return f"a JSON array of {_ITEMS[kind]} that is not empty"
        case {"type": "object", "properties": {**members}}:
            return f"a JSON object of {', '.join(members)}"
        case {"type": kind}:
            return _KINDS.get(kind, str(kind))
        case _:
            return "a value that its description allows"


_ITEMS = {"object": "objects", "string": "texts"}
_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a JSON array of objects",
    "object": "a JSON object",
}


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a truth value"
        case str():
            return "a text"
        case int():
            return "a number"
        case float():
            return "a number with a fraction" if isfinite(value) else "no number"
        case list():
            return "an array"
        case _:
            return "an object"


def _shown(value: object) -> str:
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        return repr(value[:SHOWN_CHARACTERS] + "…")
    # Python refuses to print integers of thousands of digits.
    return repr(value) if not isinstance(value, int) or abs(value) < 10**_MOST_DIGITS else "so large a number"


class _Plain(GenerateJsonSchema):
    """The schema as a reader needs it: an optional argument by its type, without null and titles."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return inner if default is None else {**inner, "default": default}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        inner = super().literal_schema(schema)
        return {"enum": [inner.pop("const")], **inner} if "const" in inner else inner

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    schema = model.model_json_schema(schema_generator=_Plain)
    for name, inner in _objects_of(model).items():
        said = schema["properties"][name]
        described = {key: said[key] for key in ("description",) if key in said}
        schema["properties"][name] = {**input_schema(inner), **described}
    return {key: value for key, value in schema.items() if key not in ("title", "description", "$defs")}
