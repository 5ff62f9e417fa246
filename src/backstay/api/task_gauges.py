"""How tasks and alerts stand in the store, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from backstay.api.exposition import family, label
from backstay.domain.alert import AlertKind
from backstay.web.standings import COUNTED_MAX, EXPIRED, TaskGauges

#: Since when the first of them waits for a person.
_FOR_A_PERSON: Final = ("error", "undo_failed")


def task_lines(gauges: TaskGauges, *, raised: Mapping[str, int], now: datetime) -> Iterator[str]:
    found = {one.state: one for one in gauges.tasks}
    upto = f"counted no further than {COUNTED_MAX:,}"
    yield from family("backstay_tasks", "gauge", f"Tasks by state, {upto}; processed: among the newest.")
    for one in gauges.tasks:
        if one.state != EXPIRED:
            yield f"backstay_tasks{{state={label(one.state)}}} {one.number}"
    yield from family("backstay_tasks_expired", "gauge", "Tasks in processing past their complete-by.")
    yield f"backstay_tasks_expired {found[EXPIRED].number}"
    yield from family("backstay_oldest_pending_seconds", "gauge", "How long the oldest pending task waits.")
    yield f"backstay_oldest_pending_seconds {_age(now, found['pending'].oldest)}"
    name = "backstay_oldest_waiting_for_person_seconds"
    yield from family(name, "gauge", "How long the oldest task in error or undo_failed waits for a person.")
    yield f"{name} {max(_age(now, found[state].oldest) for state in _FOR_A_PERSON)}"
    yield from family("backstay_alerts_open", "gauge", f"Alerts that nobody took up, {upto}.")
    yield from _by_kind("backstay_alerts_open", gauges.alerts)
    yield from family("backstay_alerts_total", "counter", "Alerts that this process raised.")
    yield from _by_kind("backstay_alerts_total", raised)


def _by_kind(name: str, numbers: Mapping[str, int] | Mapping[AlertKind, int]) -> Iterator[str]:
    known: dict[str, int] = {str(kind): number for kind, number in numbers.items()}
    for kind in AlertKind:
        if kind is not AlertKind.TEST:
            yield f"{name}{{kind={label(kind)}}} {known.get(kind, 0)}"


def _age(now: datetime, since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, round((now - since).total_seconds(), 3))
