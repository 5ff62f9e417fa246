"""Jobs and collections as tests want them: what a test says nothing about is as usual."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from backstay.domain.jobs.records import Collection, CollectionId, JobRecord
from backstay.domain.jobs.ticking import Rules
from backstay.domain.recurrence import Timetable, read_timing

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RULES = Rules(grace=timedelta(seconds=30), catch_up_max=5, immediately=timedelta(seconds=20))

PLACE = CollectionId("s", "g", "jc")
COLLECTION = Collection(id=PLACE, location="West US")
GET: Mapping[str, Any] = {
    "type": "Http",
    "request": {"uri": "http://127.0.0.1:9/", "method": "GET"},
    "retryPolicy": {"retryType": "none"},
}
EVERY_MINUTE: Mapping[str, Any] = {
    "startTime": "2030-01-01T12:00:00Z",
    "recurrence": {"frequency": "minute", "interval": 1},
}


def job(
    timing: Mapping[str, Any] = EVERY_MINUTE,
    *,
    created_at: datetime = NOON,
    action: Mapping[str, Any] = GET,
    **fields: Any,
) -> JobRecord:
    """One that has just been written, unless ``fields`` say otherwise."""
    definition = {**copy.deepcopy(dict(timing)), "action": action}
    table = Timetable(read_timing(definition), created=created_at, delay=RULES.immediately)
    usual = {"key": 1, "uid": "u1", "next_at": table.first, "updated_at": created_at, "name": "j"}
    return JobRecord(**{**usual, **fields}, collection=PLACE, definition=definition, created_at=created_at)
