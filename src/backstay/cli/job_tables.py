"""What collections, jobs and their history look like to people. All of them are documents of the REST API."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from rich.table import Table

from backstay.cli.cells import LOUD, QUIET, columns, cut, keep_whole, words
from backstay.cli.render import value_text
from backstay.domain.jobs.actions import MESSAGES
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.resources import read_place
from backstay.domain.recurrence import Timetable, read_moment, read_timing
from backstay.domain.wording import age, instant, took

_STYLES: Final = {
    "enabled": "green",
    "disabled": "yellow",
    "suspended": "yellow",
    "completed": QUIET,
    "faulted": LOUD,
    "failed": "red",
    "postponed": "yellow",
}


def collection_table(collections: Iterable[Json]) -> Table:
    table = columns("collection", "group", "state", "sku", "location", "quota")
    for one in collections:
        properties = one["properties"]
        table.add_row(
            words(one["name"]),
            words(_group(one)),
            _state(properties["state"]),
            words(properties["sku"]["name"]),
            words(one["location"]),
            cut(value_text(properties["quota"]) if "quota" in properties else ""),
        )
    return table


def job_table(jobs: Iterable[Json], *, now: datetime) -> Table:
    table = columns("job", "group", "state", "next", "last", "runs", "failures", "faults", "when", "action")
    for one in jobs:
        properties = one["properties"]
        status = properties.get("status", {})
        table.add_row(
            words(one["name"]),
            words(_group(one)),
            _state(properties["state"]),
            _age(status.get("nextExecutionTime"), now=now),
            _age(status.get("lastExecutionTime"), now=now),
            str(status.get("executionCount", 0)),
            str(status.get("failureCount", 0)),
            words(str(status.get("faultedCount", 0)), style=LOUD if status.get("faultedCount") else ""),
            cut(when(properties, now=now)),
            cut(action_text(properties["action"])),
        )
    keep_whole(table, "job", "state", "next", "last")
    return table


def history_table(entries: Iterable[Json]) -> Table:
    table = columns("due", "began", "took", "status", "action", "run", "retry", "message")
    for one in entries:
        entry = one["properties"]
        began, ended = _at(entry["startTime"]), _at(entry["endTime"])
        table.add_row(
            instant(_at(entry["expectedExecutionTime"])),
            instant(began),
            took(ended - began),
            _state(entry.get("status", "completed")),
            words(entry["actionName"].removesuffix("Action").lower()),
            str(entry["repeatCount"]),
            str(entry["retryCount"]),
            cut(entry["message"]),
        )
    keep_whole(table, "due", "began", "took", "status")
    return table


def collection_facts(collection: Json) -> list[tuple[str, str]]:
    properties = collection["properties"]
    facts = [
        ("collection", collection["name"]),
        ("state", properties["state"]),
        ("sku", properties["sku"]["name"]),
        ("location", collection["location"]),
    ]
    facts += [(name, value_text(one)) for name, one in properties.get("quota", {}).items()]
    facts += [("tag", f"{name} = {one}") for name, one in collection.get("tags", {}).items()]
    return [*facts, ("id", collection["id"])]


def job_facts(job: Json, *, now: datetime) -> list[tuple[str, str]]:
    properties = job["properties"]
    action, status = properties["action"], properties.get("status", {})
    facts = [
        ("job", job["name"]),
        ("state", properties["state"]),
        ("when", when(properties, now=now)),
        ("action", action_text(action)),
    ]
    facts += [(name, properties[name]) for name in ("catchUp", "overlap") if name in properties]
    if "retryPolicy" in action:
        facts.append(("retry policy", value_text(action["retryPolicy"])))
    if "errorAction" in action:
        facts.append(("when it fails", action_text(action["errorAction"])))
    for label, name in (("next", "nextExecutionTime"), ("last", "lastExecutionTime")):
        if name in status:
            facts.append((label, f"{status[name]}, {_age(status[name], now=now)}"))
    if status:
        counts = f"{status['executionCount']}, failed attempts {status['failureCount']}"
        facts.append(("runs", f"{counts}, given up {status['faultedCount']}"))
    return [*facts, ("id", job["id"])]


def when(properties: Json, *, now: datetime) -> str:
    """A sentence about when it runs."""
    return Timetable(read_timing(properties), created=now).describe()


def action_text(action: Json) -> str:
    kind = action["type"]
    match kind:
        case "Http" | "Https":
            return f"{action['request']['method']} {action['request']['uri']}"
        case "Workflow":
            workflow = action["workflow"]
            given = f" with {value_text(workflow['input'])}" if "input" in workflow else ""
            return f"workflow {workflow['name']}{given}"
    message = action[MESSAGES[kind]]
    return f"{kind} {message.get('queueName') or message['topicPath']}"


def _state(state: str) -> Any:
    return words(state, style=_STYLES.get(state.lower(), ""))


def _group(document: Json) -> str:
    return read_place(document["id"], subscription="", resource_group="").collection.resource_group


def _age(text: str | None, *, now: datetime) -> str:
    return "" if text is None else age(_at(text), now=now)


def _at(text: str) -> datetime:
    return read_moment(text, "the instant").at
