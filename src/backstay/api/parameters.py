"""What a path and a query say, as the struct that a handler declares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from backstay.errors import InvalidInput

# As many as nobody needs; each more would only cost us time.
PARAMETERS_MAX: Final = 100

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_TRUTH: Final = {"true": True, "false": False}

Kind = TypeVar("Kind")


def query_pairs(query: bytes) -> list[tuple[str, str]]:
    """The parameters in the order in which they were given. Raises InvalidInput."""
    try:
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=PARAMETERS_MAX,
        )
    except ValueError as error:  # Neither ASCII nor UTF-8, or too many.
        raise InvalidInput(f"the query cannot be read: {error}") from error


class Parameters(Generic[Kind]):
    """Reads what a path or a query says as ``kind``, whose fields are its parameters."""

    def __init__(self, kind: type[Kind]) -> None:
        struct = inspect.type_info(kind)
        assert isinstance(struct, inspect.StructType)
        self._kind = kind
        self._types = {field.encode_name: _when_given(field.type) for field in struct.fields}

    def taken_from(self, pairs: Iterable[tuple[str, str]]) -> Kind:
        """Raises InvalidInput, naming the parameter."""
        values: dict[str, Any] = {}
        for name, text in pairs:
            self._put(values, name, text)
        try:
            return msgspec.convert(values, self._kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the parameters do not fit: {error}") from error

    def _put(self, values: dict[str, Any], name: str, text: str) -> None:
        declared = self._types.get(name)
        if "\0" in text:
            raise InvalidInput(f"parameter {name} holds NUL, which not every store can keep")
        if isinstance(declared, inspect.ListType):
            values.setdefault(name, []).append(text)
        elif name in values:
            raise InvalidInput(f"parameter {name} is given twice; give it once")
        else:
            values[name] = _value(text, declared)


def _value(text: str, declared: inspect.Type | None) -> Any:
    """What ``text`` stands for. What does not fit stays text, and is refused with everything else."""
    if isinstance(declared, inspect.IntType) and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if isinstance(declared, inspect.BoolType):
        return _TRUTH.get(text, text)
    return text


def _when_given(declared: inspect.Type) -> inspect.Type:
    """The type of a field; of one that may be left out, the type that it has otherwise."""
    if isinstance(declared, inspect.UnionType):
        [given] = [one for one in declared.types if not isinstance(one, inspect.NoneType)]
        return _when_given(given)
    return declared.type if isinstance(declared, inspect.Metadata) else declared
