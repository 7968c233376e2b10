"""Values: objects that hold what they were made of and do not change.

They are frozen dataclasses with slots, but that nothing changes them is for the type checker to see: at run
time it would make each of them four times as dear, and a row on its way into the store takes twenty. How they
compare, hash and show themselves is written once for all, since making that anew for each class would be a
quarter of the time in which a command starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A class of values, equal where class and fields are, and hashed by the fields."""
    made: Any = dataclass(slots=True, repr=False, eq=False)(cls)
    made.__eq__, made.__hash__, made.__repr__ = _equal, _hash, _shown
    return made


def _fields(each: Any) -> tuple[Any, ...]:
    return tuple([getattr(each, name) for name in each.__match_args__])


def _equal(one: Any, other: object) -> bool:
    if one.__class__ is not other.__class__:
        return NotImplemented
    return _fields(one) == _fields(other)


def _hash(each: Any) -> int:
    return hash(_fields(each))


def _shown(each: Any) -> str:
    told = (f"{name}={getattr(each, name)!r}" for name in each.__match_args__)
    return f"{type(each).__qualname__}({', '.join(told)})"
