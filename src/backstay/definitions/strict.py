"""Which field of a decoded JSON value no declared type would ever read.

Types drop fields that they do not know, so that a newer sender can talk to an older reader. Where a
person or a program hands in a task, such a field is a typo more often than not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

_RECORDS: Final = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
#: Whatever they hold is read by somebody.
_UNJUDGED: Final = (inspect.AnyType, inspect.RawType, inspect.CustomType)
_OBJECTS: Final = (*_RECORDS, inspect.DictType, *_UNJUDGED)
_ARRAYS: Final = (
    inspect.StructType,
    inspect.NamedTupleType,
    inspect.TupleType,
    inspect.CollectionType,
    *_UNJUDGED,
)


class UnknownField(msgspec.Struct, frozen=True):
    """A field that goes unread: the way to what holds it, its name, and those that are known there."""

    path: str
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"unknown field {self.name!r} at {self.path}; known: {', '.join(self.known) or 'none'}"


def unknown_field(kind: Any, value: Any) -> UnknownField | None:
    """The first field in ``value`` that the type ``kind`` does not know, at any depth.

    Only fields are judged: whether a value fits its type at all is for the decoder to say. Types with a
    reader of their own, such as pydantic's models, look after their fields themselves.
    """
    return _look(inspect.type_info(kind), value, "$")


def _look(kind: inspect.Type, value: Any, path: str) -> UnknownField | None:
    if isinstance(kind, inspect.Metadata):
        return _look(kind.type, value, path)
    if isinstance(kind, inspect.UnionType):
        return _in_union(kind, value, path)
    if isinstance(value, dict):
        return _in_object(kind, value, path)
    if isinstance(value, list):
        return _in_array(kind, value, path)
    return None


def _in_union(union: inspect.UnionType, value: Any, path: str) -> UnknownField | None:
    """Of the types that ``value`` may be meant as, one must know all of its fields."""
    found = [_look(kind, value, path) for kind in union.types if _may_be_meant(kind, value)]
    return None if None in found else _first(found)


def _may_be_meant(kind: inspect.Type, value: Any) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _may_be_meant(kind.type, value)
    if not isinstance(kind, _OBJECTS if isinstance(value, dict) else _ARRAYS):
        return False
    if not isinstance(kind, inspect.StructType):
        return True
    if kind.array_like is isinstance(value, dict):
        return False
    return kind.tag_field is None or kind.tag == _tag(value, kind.tag_field)


def _tag(value: Any, tag_field: str) -> Any:
    """What ``value`` says of its own type: under a name, or in the first place of an array."""
    if isinstance(value, dict):
        return value.get(tag_field)
    return value[0] if isinstance(value, list) and value else None


def _in_object(kind: inspect.Type, value: Mapping[str, Any], path: str) -> UnknownField | None:
    if isinstance(kind, inspect.DictType):
        return _first(_look(kind.value_type, one, f"{path}.{name}") for name, one in value.items())
    if not isinstance(kind, _RECORDS):
        return None
    fields = {field.encode_name: field.type for field in kind.fields}
    if isinstance(kind, inspect.StructType) and kind.tag_field is not None:
        fields[kind.tag_field] = inspect.StrType()
    for name in value:
        if name not in fields:
            return UnknownField(path, name, tuple(fields))
    return _first(_look(fields[name], one, f"{path}.{name}") for name, one in value.items())


def _in_array(kind: inspect.Type, value: Sequence[Any], path: str) -> UnknownField | None:
    if isinstance(kind, inspect.CollectionType):
        return _first(_look(kind.item_type, one, f"{path}[{place}]") for place, one in enumerate(value))
    kinds = _places(kind)
    if kinds is None:
        return None
    if len(value) > len(kinds):
        return UnknownField(path, f"[{len(kinds)}]", tuple(f"[{place}]" for place in range(len(kinds))))
    pairs = zip(kinds, value, strict=False)
    return _first(_look(one, item, f"{path}[{place}]") for place, (one, item) in enumerate(pairs))


def _places(kind: inspect.Type) -> Sequence[inspect.Type] | None:
    """The type of each place of an array in which each has its own; ``None`` for any other."""
    if isinstance(kind, inspect.TupleType):
        return kind.item_types
    if isinstance(kind, inspect.NamedTupleType):
        return [field.type for field in kind.fields]
    if isinstance(kind, inspect.StructType) and kind.array_like:
        tag = [] if kind.tag_field is None else [inspect.StrType()]
        return [*tag, *(field.type for field in kind.fields)]
    return None


def _first(found: Iterable[UnknownField | None]) -> UnknownField | None:
    return next((one for one in found if one is not None), None)
