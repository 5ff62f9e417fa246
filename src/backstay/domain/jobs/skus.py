"""What a collection allows: by its SKU, and by the quota that it set itself within it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any, Final

from backstay.domain.jobs.records import Collection, Fastest, Sku
from backstay.domain.recurrence import Recurrence, Timetable, Timing
from backstay.errors import QuotaExceeded

#: Collections of one subscription, whatever their SKUs.
COLLECTIONS_MAX: Final = 200_000

# As many instants as a day has minutes, and one: a schedule that is too fast shows it within a day or two.
_LOOKED_AT: Final = 24 * 60 + 1

#: The shortest that a unit can be.
_UNITS: Final[Mapping[str, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=28),
    "year": timedelta(days=365),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a SKU allows."""

    jobs: int
    fastest: Fastest
    collections: int
    authentication: bool = True


_MINUTE: Final = Fastest("minute", 1)
ALLOWANCES: Final[Mapping[Sku, Allowance]] = {
    Sku.FREE: Allowance(jobs=5, fastest=Fastest("hour", 1), collections=1, authentication=False),
    Sku.STANDARD: Allowance(jobs=50, fastest=_MINUTE, collections=100),
    Sku.P10_PREMIUM: Allowance(jobs=50, fastest=_MINUTE, collections=10_000),
    Sku.P20_PREMIUM: Allowance(jobs=1_000, fastest=_MINUTE, collections=10_000),
    # What earlier api-versions call the smaller of the two.
    Sku.PREMIUM: Allowance(jobs=50, fastest=_MINUTE, collections=10_000),
}


def period(fastest: Fastest) -> timedelta:
    """The shortest time between two occurrences that it allows."""
    return _UNITS[fastest.frequency] * fastest.interval


def jobs_max(collection: Collection) -> int:
    quota = collection.quota.max_job_count if collection.quota is not None else None
    return ALLOWANCES[collection.sku].jobs if quota is None else quota


def fastest(collection: Collection) -> Fastest:
    quota = collection.quota.max_recurrence if collection.quota is not None else None
    return ALLOWANCES[collection.sku].fastest if quota is None else quota


def is_narrower(collection: Collection, *, than: Collection) -> bool:
    """Whether a job that is in one might not be allowed in the other."""
    slower = period(fastest(collection)) > period(fastest(than))
    return slower or ALLOWANCES[collection.sku].authentication < ALLOWANCES[than.sku].authentication


def check_number(collection: Collection, jobs: int) -> None:
    """Raise QuotaExceeded when the collection may not have so many jobs."""
    most = jobs_max(collection)
    if jobs > most:
        raise QuotaExceeded(
            f"The job collection '{collection.id.name}' has reached its quota of '{most}' jobs."
            " Delete a job, or raise maxJobCount as far as the SKU allows."
        )


def check_pace(collection: Collection, name: str, timing: Timing, *, now: datetime) -> None:
    """Raise QuotaExceeded when a job recurs faster than the collection allows."""
    allowed = fastest(collection)
    if _recurs_within(timing, period(allowed), now=now):
        raise QuotaExceeded(
            f"The recurrence of job '{name}' is more frequent than the maxRecurrence of job collection"
            f" '{collection.id.name}', every {allowed.interval} {allowed.frequency}."
            " Make it recur less often, or raise maxRecurrence as far as the SKU allows."
        )


def check_authentication(collection: Collection, name: str, definition: Mapping[str, Any]) -> None:
    """Raise QuotaExceeded when a request needs to authenticate and the SKU has no such thing."""
    if ALLOWANCES[collection.sku].authentication:
        return
    action = definition["action"]
    for one in (action, action.get("errorAction") or {}):
        authentication = one.get("request", {}).get("authentication", {})
        if authentication.get("type", "NotSpecified") != "NotSpecified":
            raise QuotaExceeded(
                f"Job '{name}' uses request authentication, which jobs of a {collection.sku} job collection"
                " may not. Leave authentication out, or choose another SKU."
            )


def _recurs_within(timing: Timing, time: timedelta, *, now: datetime) -> bool:
    """Whether two occurrences lie closer together than ``time``."""
    recurrence = timing.recurrence
    # Nothing that is written in minutes can be faster than each minute.
    if recurrence is None or recurrence.count == 1 or time <= _UNITS["minute"]:
        return False
    if recurrence.schedule is None:
        return _UNITS[recurrence.frequency] * recurrence.interval < time
    return any(later - earlier < time for earlier, later in pairwise(_round(timing, recurrence, now)))


def _round(timing: Timing, recurrence: Recurrence, now: datetime) -> Iterator[datetime]:
    """Occurrences until the schedule begins anew: all that it has to show, up to a bound."""
    occurrences = islice(Timetable(timing, created=now).occurrences(), _LOOKED_AT)
    first = next(occurrences, None)
    if first is None:
        return
    # A job without a start runs at once beside its schedule: that is no recurrence.
    if timing.start is not None:
        yield first
    # A month may be longer than the shortest one: hence one more.
    until = first + _UNITS[recurrence.frequency] * (recurrence.interval + 2)
    yield from takewhile(lambda occurrence: occurrence <= until, occurrences)
