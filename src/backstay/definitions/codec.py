"""Typed values to JSON and back, checked where they are handed over.

What a step gets and gives passes through JSON even inside one process, so that the first run, a
replay after a crash and an agent on another machine all see the same values.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from backstay.definitions.strict import unknown_field
from backstay.errors import InvalidDefinition, InvalidInput, PayloadTooLarge

Function = Callable[..., Any]

# Replay compares inputs byte by byte: the same value must always give the same text.
_ORDER: Final = "deterministic"

_SCALARS: Final = (str, int, bool, type(None))
_NAMELESS: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)
_REQUIRED: Final = inspect.Parameter.empty


def _encode_other(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # pydantic
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    hint = "; is an `await` missing?" if inspect.isawaitable(value) else ""
    raise NotImplementedError(f"values of type {type(value).__name__} have no JSON form{hint}")


def _decode_other(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate_json"):  # pydantic; as JSON, because a strict model minds the difference
        try:
            return kind.model_validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise _without_values(error) from None
    if isinstance(value, kind):
        return value
    raise NotImplementedError(f"type {kind.__name__} has no JSON form")


def _without_values(error: ValueError) -> ValueError:
    """What pydantic says of a misfit, but for the value: that may be nothing that belongs into a log."""
    if not hasattr(error, "errors"):
        return error
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return ValueError("; ".join(f"{one['msg']} - at `{'.'.join(map(str, one['loc']))}`" for one in found))


DECODE_ERRORS: Final = (msgspec.MsgspecError, NotImplementedError, RecursionError)

_encoder: Final = msgspec.json.Encoder(enc_hook=_encode_other, order=_ORDER)


def encode(value: Any, what: str) -> bytes:
    """``value`` as JSON. Raises InvalidInput, naming ``what``."""
    try:
        data = _to_json(value)
        # JSON has no NaN; msgspec writes null instead, and the difference would show only after a replay.
        if b"null" in data and _has_nan(msgspec.to_builtins(value, enc_hook=_encode_other, str_keys=True)):
            raise ValueError("NaN and infinity have no JSON form")
    except (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError) as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}") from error
    return data


def _to_json(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except TypeError:
        # Keys that are numbers, dates or enums are not put in order by msgspec; as text they are.
        return _encoder.encode(msgspec.to_builtins(value, enc_hook=_encode_other, str_keys=True))


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_nan, value))


def check_size(data: bytes, what: str, bytes_max: int) -> bytes:
    """Return ``data`` if it is not larger than the payload limit."""
    if len(data) > bytes_max:
        raise PayloadTooLarge(what, size_bytes=len(data), limit_bytes=bytes_max)
    return data


class TypeCodec:
    """Values of one declared type."""

    def __init__(self, kind: Any, what: str, *, hint: str = "") -> None:
        """``hint``: what else to say of a value that does not fit."""
        self._what = what
        self._kind = kind
        self._hint = hint
        # A plain value of just the declared type needs no second look.
        self.plain_kind = kind if kind in _SCALARS else None
        try:
            self.raw_decode = msgspec.json.Decoder(kind, dec_hook=_decode_other).decode
        except (TypeError, RuntimeError) as error:
            raise InvalidDefinition(f"{what}: type {kind!r} cannot be read from JSON: {error}") from error

    def encode(self, value: Any) -> bytes:
        """``value`` as JSON, after checking that it fits the declared type."""
        plain = type(value) is self.plain_kind
        if plain:
            try:
                return _encoder.encode(value)
            except (ValueError, OverflowError):
                pass  # Below it is said what is wrong.
        data = encode(value, self._what)
        if not plain:
            self.decode(data)
        return data

    def canonical(self, value: Any) -> bytes:
        """The one text that stands for ``value``: as an object, as a dict, with its defaults or without."""
        if type(value) is self.plain_kind:
            return self.encode(value)  # A plain value has one text only.
        return encode(self.decode(encode(value, self._what)), self._what)

    def check_fields(self, value: Any) -> None:
        """Raise InvalidInput, naming the path, if ``value`` has a field that nobody would read."""
        try:
            unknown = unknown_field(self._kind, value)
        except RecursionError as error:
            raise InvalidInput(f"{self._what} is nested too deeply") from error
        if unknown is not None:
            raise InvalidInput(f"{self._what} has an {unknown}")

    def decode(self, data: bytes) -> Any:
        try:
            return self.raw_decode(data)
        except DECODE_ERRORS as error:
            raise self.misfit(error) from error

    def misfit(self, error: Exception) -> InvalidInput:
        """What to say when ``raw_decode`` raised one of DECODE_ERRORS."""
        return InvalidInput(f"{self._what} does not fit its type: {error}{self._hint}")


class Signature:
    """The arguments of a function as one JSON value.

    No parameter: ``null``. One: the argument itself. Several: an object of them, by name.
    """

    def __init__(self, function: Function, what: str, *, hints: Mapping[str, Any]) -> None:
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            if parameter.kind in _NAMELESS:
                shown = str(parameter).partition(":")[0]
                raise InvalidDefinition(
                    f"{what}: {shown} cannot be recorded; declare arguments that can be given by name"
                )
        self._parameters = list(signature.parameters.values())
        self._bind = signature.bind
        self._names = tuple(parameter.name for parameter in self._parameters)
        self._only = self._names[0] if len(self._names) == 1 else None
        self._what = what
        hint = f"; it is the value of its one argument, {self._only}" if self._only is not None else ""
        self._codec = TypeCodec(self._whole_type(hints), f"input of {what}", hint=hint)
        self._only_kind = self._codec.plain_kind if self._only is not None else None

    def _whole_type(self, hints: Mapping[str, Any]) -> Any:
        kinds = [hints.get(name, Any) for name in self._names]
        match len(kinds):
            case 0:
                return None
            case 1:
                return kinds[0]
        fields = [_field(one, kind) for one, kind in zip(self._parameters, kinds, strict=True)]
        return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def encode_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The arguments of a call as JSON, checked against the declared types."""
        if self._only is not None and len(args) == 1 and not kwargs:
            value = args[0]
            if type(value) is self._only_kind:
                try:
                    return _encoder.encode(value)
                except (ValueError, OverflowError):
                    pass  # Below it is said what is wrong.
            return self._codec.encode(value)
        return self._codec.encode(self._as_one_value(args, kwargs))

    def encode_input(self, args: tuple[Any, ...]) -> bytes:
        """What a task is given, in its canonical form: the same input is the same text.

        One mapping may stand for several arguments: that is how HTTP and the command line give them.
        """
        if len(args) == 1 and self._stands_for_all(args[0]):
            return self._codec.canonical(args[0] if self._names else None)
        try:
            value = self._as_one_value(args, {})
        except InvalidInput as error:
            hint = ": in JSON, one object with these names" if len(self._names) > 1 else ""
            raise InvalidInput(f"{error}{hint}") from error
        return self._codec.canonical(value)

    def check_fields(self, value: Any) -> None:
        """Raise InvalidInput if the declared types would leave a field of decoded JSON unread."""
        self._codec.check_fields(value)

    def _stands_for_all(self, value: Any) -> bool:
        match len(self._names):
            case 0:
                return value is None or value == {}
            case 1:
                return True
        return isinstance(value, Mapping)

    def decode(self, data: bytes) -> dict[str, Any]:
        """The arguments by name."""
        if self._only is not None:
            try:
                return {self._only: self._codec.raw_decode(data)}
            except DECODE_ERRORS as error:
                raise self._codec.misfit(error) from error
        value = self._codec.decode(data)
        return msgspec.structs.asdict(value) if self._names else {}

    def _as_one_value(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        names = self._names
        if len(args) == len(names) and not kwargs:
            return args[0] if len(names) == 1 else dict(zip(names, args, strict=True)) or None
        try:
            bound = self._bind(*args, **kwargs)
        except TypeError as error:
            takes = ", ".join(self._names) or "nothing"
            raise InvalidInput(f"{self._what}: {error}; it takes {takes}") from error
        bound.apply_defaults()
        return bound.arguments[names[0]] if len(names) == 1 else bound.arguments or None


def _field(parameter: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is _REQUIRED:
        return parameter.name, kind
    default = parameter.default
    return parameter.name, kind, msgspec.field(default_factory=lambda: default)


def type_hints(function: Function, what: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The declared types of a function; ``namespace`` is where it was declared, for local classes."""
    try:
        hints = typing.get_type_hints(function, localns=dict(namespace), include_extras=True)
    except NameError as error:
        raise InvalidDefinition(f"{what}: {error}; declare the type before it is used") from error
    # ``None`` as a return type comes back as NoneType, which msgspec understands as well.
    return hints
