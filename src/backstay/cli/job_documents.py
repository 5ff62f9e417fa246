"""From the options of ``backstay jobs create`` to the document that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

import typer

from backstay.cli.arguments import json_value, pair
from backstay.domain.durations import duration, instant_of
from backstay.domain.jobs.merging import Json
from backstay.domain.recurrence import Frequency, Moment
from backstay.errors import InvalidRequest

_LENGTHS: Final[Mapping[str, timedelta]] = {
    "Day": timedelta(days=1),
    "Hour": timedelta(hours=1),
    "Minute": timedelta(minutes=1),
}


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a job is to do and when, as somebody typed it."""

    call: str | None
    method: str | None
    body: str | None
    headers: Sequence[str]
    workflow: str | None
    input: str | None
    every: str | None
    at: str | None
    count: int | None
    until: str | None
    catch_up: str | None
    overlap: str | None
    disabled: bool

    def names(self) -> set[str]:
        """Those that there are."""
        return {one.name for one in fields(self) if getattr(self, one.name) not in (None, (), False)}

    def document(self, *, now: datetime) -> Json:
        properties = {
            "startTime": _instant(self.at, "--at", now=now),
            "action": self._action(),
            "recurrence": self._recurrence(now),
            "state": "Disabled" if self.disabled else None,
            "catchUp": self.catch_up,
            "overlap": self.overlap,
        }
        return {"properties": _given(properties)}

    def _action(self) -> Json:
        if (self.call is None) is (self.workflow is None):
            raise typer.BadParameter(
                "a job makes a request or starts a task; give one of --call and --workflow, or --file"
            )
        if self.call is not None:
            return self._request(self.call)
        if self.method or self.body or self.headers:
            raise typer.BadParameter("--method, --body and --header go with --call")
        given = {} if self.input is None else {"input": json_value(self.input, example='{"order": 7}')}
        return {"type": "Workflow", "workflow": {"name": self.workflow, **given}}

    def _request(self, uri: str) -> Json:
        if self.input is not None:
            raise typer.BadParameter("it goes with --workflow; a request has a --body", param_hint="--input")
        headers = dict(pair(one, ":", option="--header", what="header") for one in self.headers)
        request = {
            "uri": uri,
            "method": self.method or ("GET" if self.body is None else "POST"),
            "headers": {name: value.strip() for name, value in headers.items()} or None,
            "body": self.body,
        }
        kind = "Https" if uri.lower().startswith("https:") else "Http"
        return {"type": kind, "request": _given(request)}

    def _recurrence(self, now: datetime) -> Json | None:
        if self.every is None:
            if self.count is not None or self.until is not None:
                raise typer.BadParameter("--count and --until end what recurs; say how often with --every")
            return None
        ends = {"count": self.count, "endTime": _instant(self.until, "--until", now=now)}
        return {**_every(self.every), **_given(ends)}


def _every(written: str) -> Json:
    """A frequency by its name, or a time, in the largest unit of which it is a whole number."""
    if written.lower() in set(Frequency):
        return {"frequency": written.lower(), "interval": 1}
    try:
        time = duration(written, name="the time")
    except InvalidRequest as error:
        named = ", ".join(Frequency)
        raise typer.BadParameter(f"{error}, or one of {named}", param_hint="--every") from error
    for frequency, length in _LENGTHS.items():
        if time and time % length == timedelta(0):
            return {"frequency": frequency, "interval": time // length}
    raise typer.BadParameter(f"{written} is not a whole number of minutes", param_hint="--every")


def _instant(written: str | None, option: str, *, now: datetime) -> str | None:
    if written is None:
        return None
    try:
        return Moment(instant_of(written, now=now, name="the time")).text
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _given(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}
