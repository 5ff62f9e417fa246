"""How the answer writes what a document says about time: names in lower case, arrays, the interval filled in.

Whether it may be said is judged by ``domain.recurrence``, before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.readers import Reader
from backstay.domain.recurrence import read_moment
from backstay.domain.recurrence.members import Members


def read_recurrence(value: Mapping[str, Any], field: str) -> Json:
    """A recurrence that was judged already."""
    given = {"interval": 1, **value}
    return {
        name: reader(given[name], f"{field}.{name}") for name, reader in _RECURRENCE.items() if name in given
    }


def _schedule(value: Mapping[str, Any], field: str) -> Json:
    return {
        name: [reader(one, field) for one in _several(value[name])]
        for name, reader in _SCHEDULE.items()
        if name in value
    }


def _several(value: Any) -> list[Any]:
    """Something that is no array stands for an array of it alone."""
    return value if isinstance(value, list) else [value]


def _same(value: Any, _: str) -> Any:
    return value


def _lower(value: Any, _: str) -> str:
    return str(value).lower()


def _monthly_occurrence(value: Any, field: str) -> Json:
    members = Members(value, field)
    occurrence = members.get("occurrence")
    day = {"day": str(members.get("day")).lower()}
    return day if occurrence is None else {**day, "occurrence": occurrence}


_SCHEDULE: Final[Mapping[str, Reader]] = {
    "minutes": _same,
    "hours": _same,
    "weekDays": _lower,
    "monthDays": _same,
    "monthlyOccurrences": _monthly_occurrence,
    "months": _same,
}
_RECURRENCE: Final[Mapping[str, Reader]] = {
    "frequency": _lower,
    "count": _same,
    "endTime": lambda value, field: read_moment(value, field).text,
    "interval": _same,
    "schedule": _schedule,
}
