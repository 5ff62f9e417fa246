"""A slow and simple model of schedules: look at every minute, and ask of each whether it matches."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

NAMES = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

Job = dict[str, Any]


def matches(recurrence: Job, anchor: datetime, *, since: datetime, until: datetime) -> Iterator[datetime]:
    """The minutes from ``since`` to ``until`` at which a job runs whose periods begin at ``anchor``."""
    minute = since.replace(second=0, microsecond=0)
    while minute < until:
        if not _day_matches(recurrence, anchor, minute):
            minute = minute.replace(hour=0, minute=0) + timedelta(days=1)
            continue
        if minute >= since and _time_matches(recurrence, anchor, minute):
            yield minute
        minute += timedelta(minutes=1)


def _day_matches(recurrence: Job, anchor: datetime, minute: datetime) -> bool:
    interval, schedule = recurrence["interval"], recurrence["schedule"]
    match recurrence["frequency"]:
        case "day":
            return (minute.date() - anchor.date()).days % interval == 0
        case "week":
            names = schedule.get("weekDays", [NAMES[anchor.weekday()]])
            weeks = (_monday(minute) - _monday(anchor)).days // 7
            return weeks % interval == 0 and NAMES[minute.weekday()] in names
        case "month":
            months = (minute.year - anchor.year) * 12 + minute.month - anchor.month
            wanted = minute.month in schedule.get("months", range(1, 13))
            return months % interval == 0 and wanted and _is_day_of_month(schedule, anchor, minute)
        case "year":
            wanted = minute.month in schedule.get("months", [anchor.month])
            return (minute.year - anchor.year) % interval == 0 and wanted and minute.day == anchor.day
        case _:
            return True


def _is_day_of_month(schedule: Job, anchor: datetime, minute: datetime) -> bool:
    length = calendar.monthrange(minute.year, minute.month)[1]
    from_start, from_end = minute.day, minute.day - length - 1
    if "monthlyOccurrences" not in schedule:
        wanted = schedule.get("monthDays", [anchor.day])
        return from_start in wanted or from_end in wanted
    forth, back = (from_start - 1) // 7 + 1, -((-from_end - 1) // 7 + 1)
    return any(
        one["day"] == NAMES[minute.weekday()] and one.get("occurrence") in (None, forth, back)
        for one in schedule["monthlyOccurrences"]
    )


def _time_matches(recurrence: Job, anchor: datetime, minute: datetime) -> bool:
    interval, schedule = recurrence["interval"], recurrence["schedule"]
    hours, minutes = schedule.get("hours"), schedule.get("minutes")
    in_hours = hours is None or minute.hour in [hour % 24 for hour in hours]
    at_minutes = minutes is None or minute.minute in minutes
    apart = minute - anchor.replace(second=0, microsecond=0)
    if recurrence["frequency"] == "minute":
        return apart // timedelta(minutes=1) % interval == 0 and in_hours and at_minutes
    at_minutes = minute.minute == anchor.minute if minutes is None else at_minutes
    if recurrence["frequency"] == "hour":
        apart = minute.replace(minute=0) - anchor.replace(minute=0, second=0, microsecond=0)
        return apart // timedelta(hours=1) % interval == 0 and in_hours and at_minutes
    if hours is None and minutes is None:
        in_hours = minute.hour == anchor.hour
    return in_hours and at_minutes


def _monday(minute: datetime) -> datetime:
    return (minute - timedelta(days=minute.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
