"""The output schema of an answer: a JSON schema derived from the frozen dataclasses of the service.

Pydantic's own derivation does not end on the recursive type of arbitrary JSON, so the few shapes
that answers are built from are read here: dataclasses, tuples, literals, optional values, scalars,
JSON. Every field is required, since every answer names all of them; a shape not known is an error
when the server starts, not a schema that promises nothing. What a list holds many of, such as hits, has its
fields named, and their types in words: some clients check an answer in Python, field by field, and would take
longer for that than the call takes.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

_SCALARS: dict[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}

Schema = dict[str, Any]


@cache
def answer_schema(answer: type) -> Schema:
    """The schema of an answer's class."""
    hints = get_type_hints(answer)
    names = [field.name for field in fields(answer)]
    return {
        "type": "object",
        "properties": {name: _schema(hints[name]) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def _schema(hint: Any) -> Schema:
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if isinstance(hint, type) and is_dataclass(hint):
        return answer_schema(hint)
    return _composed(hint)


def _item(hint: Any) -> Schema:
    """An item of a list; an object by the names of its fields, and what they hold in words."""
    if not is_dataclass(hint):
        return _schema(hint)
    whole = answer_schema(cast("type", hint))
    told = "; ".join(f"{name}: {_words(field)}" for name, field in whole["properties"].items())
    return {"type": "object", "description": told, "required": whole["required"]}


def _words(schema: Schema) -> str:
    """A schema in words, such as `string or null`, `row | summary` or `string[]`."""
    match schema:
        case {"enum": values}:
            return " | ".join(map(str, values))
        case {"anyOf": parts}:
            return " or ".join(map(_words, reversed(parts)))
        case {"type": "array", "items": {**held}}:
            return f"{_words(held)}[]"
        case {"description": told}:
            return f"{{{told}}}"
        case {"properties": {**held}}:
            return f"{{{'; '.join(f'{name}: {_words(field)}' for name, field in held.items())}}}"
        case _:
            return str(schema.get("type", "any JSON"))


def _composed(hint: Any) -> Schema:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(parts)}
    if origin in (Union, types.UnionType):
        if any(get_origin(part) is list for part in parts):
            return {}  # only the type of arbitrary JSON holds lists
        # Not a list of types: clients that map schemas onto a dialect with one type each drop those. Null
        # first, as most of what may be null is, and who checks an answer tries one after the other.
        return {
            "anyOf": [_schema(part) for part in sorted(parts, key=lambda part: part is not types.NoneType)]
        }
    if origin is dict:
        return {"type": "object"}
    if origin is tuple and parts[1:] == (...,):
        return {"type": "array", "items": _item(parts[0])}
    if origin is tuple and len(set(parts)) == 1:
        return {"type": "array", "items": _schema(parts[0]), "minItems": len(parts), "maxItems": len(parts)}
    raise TypeError(f"an answer holds {hint!r}, which has no schema here")
