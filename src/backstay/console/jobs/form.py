"""The fields of the page on which a job is written, and the document that they and it stand for. Pure.

    definition ── fields_of ──▶ fields, and a document with the rest
                                       │ typed, ticked
    properties ◀── properties_of ──────┘

What has a field stands in the field, everything else in the document, and nothing in both. Whether it makes a
job is judged where every document is: here values are only put where they belong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from backstay.domain import jsontext
from backstay.domain.jobs.actions import METHODS
from backstay.domain.jobs.merging import Json, spelled
from backstay.domain.jobs.shapes import JOB, Shape
from backstay.domain.recurrence.definition import WEEK_DAYS
from backstay.domain.recurrence.reading import FITTING
from backstay.errors import InvalidInput, InvalidJob

Fields = Mapping[str, str]

REQUEST: Final = "request"
WORKFLOW: Final = "workflow"
DOCUMENT: Final = "document"

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_WHOLE: Final = re.compile(r"-?[0-9]{1,9}")
_PLACES: Final[Mapping[str, int]] = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
_WORDS: Final[Mapping[int, str]] = {number: word for word, number in _PLACES.items()}
#: What browsers make of the end of a line.
_LINE_END: Final = "\r\n"


# From fields


def properties_of(fields: Fields) -> Json:
    """The properties that were typed. Raises InvalidJob, NotJson, InvalidInput."""
    document = _document(fields.get("document", ""))
    typed = {**_timing(fields), **_action(fields, document)}
    return _together(typed, document, JOB, "properties")


def _document(written: str) -> Json:
    """The properties in the document: it may be the whole one, as the REST API answers it."""
    given = _json(written, "the document")
    if isinstance(given, dict) and isinstance(given.get("properties"), dict):
        given = given["properties"]
    document: Json = spelled({} if given is None else given, JOB, "properties")
    return document


def _timing(fields: Fields) -> Json:
    timing = _given({"startTime": _text(fields, "start")})
    frequency = _text(fields, "frequency")
    if frequency is None:
        return timing
    recurrence = {
        "frequency": frequency,
        "interval": _number(_text(fields, "interval")),
        "count": _number(_text(fields, "count")),
        "endTime": _text(fields, "until"),
        "schedule": _schedule(fields, frequency) or None,
    }
    return {**timing, "recurrence": _given(recurrence)}


def _schedule(fields: Fields, frequency: str) -> Json:
    """What goes with the frequency: fields of another one are hidden, and left out."""
    elements = {
        "minutes": _numbers(_text(fields, "minutes")),
        "hours": _numbers(_text(fields, "hours")),
        "weekDays": [day for day in WEEK_DAYS if f"day-{day}" in fields],
        "monthDays": _numbers(_text(fields, "month-days")),
        "monthlyOccurrences": [_monthly(one) for one in _parts(_text(fields, "weekdays-of-month"))],
        "months": [number for number in range(1, len(MONTHS) + 1) if f"month-{number}" in fields],
    }
    return {name: value for name, value in elements.items() if value and frequency in FITTING[name]}


def _action(fields: Fields, document: Json) -> Json:
    match fields.get("what", DOCUMENT):
        # Whoever pasted a whole document need not say that it is one.
        case "request" if _text(fields, "url") or "action" not in document:
            request = {
                "uri": _text(fields, "url"),
                "method": _text(fields, "method"),
                "body": fields.get("body", "").replace(_LINE_END, "\n") or None,
            }
            return _with_type(_type_of(request["uri"] or ""), {"request": _given(request)}, document)
        case "workflow" if _text(fields, "workflow") or "action" not in document:
            workflow = _given({"name": _text(fields, "workflow")})
            if _text(fields, "input") is not None:
                workflow["input"] = _json(fields["input"], "the workflow's input")
            return _with_type("Workflow", {"workflow": workflow}, document)
        case _:
            return {}


def _with_type(kind: str, action: Json, document: Json) -> Json:
    is_said = (document.get("action") or {}).get("type") is not None
    return {"action": action if is_said else {**action, "type": kind}}


def _type_of(uri: str) -> str:
    return "Https" if uri.lower().startswith("https:") else "Http"


def _together(typed: Json, document: Json, shape: Shape, field: str) -> Json:
    """Both in one. Raises InvalidJob for what is said twice, and not the same."""
    whole = {**document, **typed}
    for name in typed.keys() & document.keys():
        one, other, path = typed[name], document[name], f"{field}.{name}"
        inner = shape.members[name]
        if isinstance(inner, Shape) and isinstance(one, dict) and isinstance(other, dict):
            whole[name] = _together(one, other, inner, path)
        elif jsontext.written(one) != jsontext.written(other):
            raise InvalidJob(path, "is in a field and in the document; leave it out of one of them")
    return whole


# To fields


def fields_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a job as it is kept, without its secrets."""
    rest: Json = spelled(definition, JOB, "properties")
    fields = {"start": rest.pop("startTime", None) or "", **_timing_fields(rest), **_action_fields(rest)}
    return {**fields, "document": _shown(rest) if rest else ""}


def _timing_fields(rest: Json) -> dict[str, str]:
    recurrence = rest.pop("recurrence", None) or {}
    schedule = recurrence.get("schedule") or {}
    return {
        "frequency": recurrence.get("frequency", ""),
        "interval": str(recurrence.get("interval", "")),
        "count": str(recurrence.get("count", "")),
        "until": recurrence.get("endTime", ""),
        "minutes": _listed(schedule.get("minutes", ())),
        "hours": _listed(schedule.get("hours", ())),
        "month-days": _listed(schedule.get("monthDays", ())),
        "weekdays-of-month": _listed([_monthly_words(one) for one in schedule.get("monthlyOccurrences", ())]),
        **{f"day-{day}": "on" for day in schedule.get("weekDays", ())},
        **{f"month-{number}": "on" for number in schedule.get("months", ())},
    }


def _action_fields(rest: Json) -> dict[str, str]:
    action = rest["action"]
    message = action.get("request") or action.get("workflow")
    if message is None or not _has_fields(message):
        return {"what": DOCUMENT}
    # Else it is said again by the field.
    if action["type"] in ("Workflow", _type_of(message.get("uri", ""))):
        action.pop("type")
    if "request" in action:
        names, fields = {"uri": "url", "method": "method", "body": "body"}, {"what": REQUEST}
    else:
        names, fields = {"name": "workflow"}, {"what": WORKFLOW}
        fields |= {"input": _shown(message.pop("input"))} if "input" in message else {}
    fields |= {field: message.pop(name) for name, field in names.items() if name in message}
    _drop_empty(rest)
    return fields


def _has_fields(message: Json) -> bool:
    """Whether the fields can hold it as it is; a method in small letters, say, they cannot."""
    return message.get("method", METHODS[0]) in METHODS and "\r" not in message.get("body", "")


def _drop_empty(rest: Json) -> None:
    action = rest["action"]
    for name in (REQUEST, WORKFLOW):
        if action.get(name) == {}:
            del action[name]
    if not action:
        del rest["action"]


# Words


def _text(fields: Fields, name: str) -> str | None:
    return fields.get(name, "").strip() or None


def _given(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _parts(written: str | None) -> list[str]:
    return [part.strip() for part in (written or "").split(",") if part.strip()]


def _number(written: str | None) -> Any:
    """A whole number; what is none stays what it is, for whoever judges it."""
    return int(written) if written is not None and _WHOLE.fullmatch(written) else written


def _numbers(written: str | None) -> list[Any]:
    return [_number(part) for part in _parts(written)]


def _monthly(written: str) -> Json:
    """``last friday``, ``2 monday``; of a day alone, every one."""
    *places, day = written.split()
    if not places or places == ["every"]:
        return {"day": day}
    place = " ".join(places)
    return {"day": day, "occurrence": _PLACES.get(place.lower(), _number(place))}


def _monthly_words(one: Json) -> str:
    place = one.get("occurrence")
    return f"{'every' if place is None else _WORDS.get(place, place)} {one['day']}"


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))


def _json(written: str, what: str) -> Any:
    """What was written; nothing is null. Raises NotJson, InvalidInput."""
    try:
        return jsontext.value_of(written.encode(), what) if written.strip() else None
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} is no text") from error


def _shown(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
