"""What was kept and what a client sends, made one document.

Members that are not sent keep their value at every depth, an explicit null removes one, arrays are replaced.
A document that replaces another is merged with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstay.domain import jsontext
from backstay.domain.jobs.shapes import TEXTS, Shape
from backstay.errors import InvalidJob

Json = dict[str, Any]

_KINDS: Final[Mapping[type, str]] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """What sort of JSON a value is. Errors say that where the value itself may be a secret."""
    return _KINDS.get(type(value), "null")


def merged(kept: Mapping[str, Any], sent: Mapping[str, Any], shape: Shape) -> Json:
    """``kept`` with what ``sent``, which is spelled already, says; no null is left."""
    whole = dict(kept)
    for name, value in sent.items():
        inner = shape.members[name]
        if value is None:
            whole.pop(name, None)
        elif isinstance(inner, Shape):
            whole[name] = merged(whole.get(name, {}), value, inner)
        elif inner is TEXTS:
            whole[name] = _merged_texts(whole.get(name, {}), value)
        else:
            whole[name] = value
    return whole


def difference(kept: Mapping[str, Any], wanted: Mapping[str, Any], shape: Shape) -> Json:
    """What has to be sent so that ``kept`` becomes ``wanted``; both are spelled already.

    What is the same in both is not said, so that whatever lies beside it in what is really kept stays there.
    """
    sent: Json = dict.fromkeys(name for name in kept if name not in wanted)
    for name, value in wanted.items():
        before: Any = kept.get(name)
        inner = shape.members[name]
        if name in kept and jsontext.written(before) == jsontext.written(value):
            continue
        are_objects = isinstance(before, dict) and isinstance(value, dict)
        if isinstance(inner, Shape) and are_objects:
            sent[name] = difference(before, value, inner)
        elif inner is TEXTS and are_objects:
            sent[name] = _different_texts(before, value)
        else:
            sent[name] = value
    return sent


def _different_texts(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json:
    again = {name.casefold() for name in wanted}
    gone = dict.fromkeys(name for name in kept if name.casefold() not in again)
    return gone | {name: value for name, value in wanted.items() if kept.get(name) != value}


def _merged_texts(kept: Mapping[str, Any], sent: Mapping[str, Any]) -> Json:
    again = {name.casefold() for name in sent}
    left = {name: value for name, value in kept.items() if name.casefold() not in again}
    return left | {name: value for name, value in sent.items() if value is not None}


def spelled(given: object, shape: object, field: str) -> Any:
    """What ``shape`` knows of ``given``, each member by its own name and in its own place.

    Raises InvalidJob for what is no object and must be one, and for a name that comes twice.
    """
    if given is None:
        return None
    if shape is TEXTS:
        return _spelled_texts(given, field)
    if not isinstance(shape, Shape):
        return given
    sent: Json = {}
    names = {name.casefold(): name for name in shape.members}
    for written, value in _checked_object(given, field).items():
        name = names.get(written.casefold())
        if name is None:
            continue
        path = f"{field}.{name}" if field else name
        if name in sent:
            raise InvalidJob(path, "is given twice, in different letter case; keep one of them")
        sent[name] = spelled(value, shape.members[name], path)
    for source, target in shape.moved.items():
        _move(sent, source, target)
    return sent


def _spelled_texts(given: object, field: str) -> Json:
    texts = _checked_object(given, field)
    if len({name.casefold() for name in texts}) < len(texts):
        raise InvalidJob(field, "has a name twice, in different letter case; keep one of them")
    return texts


def _move(sent: Json, source: tuple[str, ...], target: tuple[str, ...]) -> None:
    """Put a member to where it belongs. What is there already counts, and this one does not."""
    holder: Any = sent
    for name in source[:-1]:
        holder = holder.get(name) or {}
    if source[-1] not in holder:
        return
    value = holder.pop(source[-1])
    for name in target[:-1]:
        sent = sent.setdefault(name, {})
    # None: the client wants all of it to be gone.
    if sent is not None:
        sent.setdefault(target[-1], value)


def _checked_object(value: object, field: str) -> Json:
    if not isinstance(value, dict):
        raise InvalidJob(field, f"is {kind_of(value)}; it must be a JSON object")
    return value
