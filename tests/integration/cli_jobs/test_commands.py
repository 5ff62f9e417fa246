"""The commands of jobs, on a store and at a server that has it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay.client import Client
from backstay.clock import SystemClock
from backstay.domain.jobs.occurrences import by_hand
from backstay.domain.jobs.records import ActionName, CollectionId, EntryStatus, HistoryEntry
from backstay.store.base import TaskFilter
from backstay.store.jobs import Attempt
from tests.support.shell import Shell

PLACE = CollectionId("default", "default", "jc1")
CALL = ("--call", "http://127.0.0.1:9/ping")
SECRET = "hunter2-do-not-show"
BASIC: dict[str, Any] = {
    "properties": {
        "action": {
            "type": "Http",
            "request": {
                "uri": "http://127.0.0.1:9/",
                "method": "GET",
                "authentication": {"type": "Basic", "username": "u", "password": SECRET},
            },
        },
        "startTime": "2090-01-01T00:00:00Z",
    }
}


@pytest.fixture
def shell(shell: Shell) -> Shell:
    return with_collection(shell)


@pytest.fixture
def each_shell(each_shell: Shell) -> Shell:
    return with_collection(each_shell)


def with_collection(shell: Shell) -> Shell:
    shell.work(lambda client: client.jobroom.put_collection(PLACE, {"location": "westus"}))
    return shell


def names(said: Any) -> list[str]:
    return [one["name"] for one in said.json["value"]]


# Collections


def test_a_collection_is_made_shown_held_back_and_deleted(each_shell: Shell):
    shell = each_shell
    made = shell("create", "jc2", "--sku", "free", "--disabled")
    again = shell("create", "jc2", "--json")
    shown = shell("show", "JC2", "--json").json

    assert (made.code, made.out.strip()) == (0, "collection jc2 is made")
    assert (shown["name"], shown["location"], shown["properties"]) == (
        "jc2",
        "local",
        {"sku": {"name": "Standard"}, "state": "Enabled"},
    )
    assert again.json == shown
    assert names(shell("collections", "--json")) == ["jc1", "jc2"]
    assert shell("disable", "jc2").out.strip() == "collection jc2 is disabled"
    assert shell("show", "jc2", "--json").json["properties"]["state"] == "Disabled"
    assert shell("enable", "jc2", "--json").json["properties"]["state"] == "Enabled"
    assert (shell("delete", "jc2").out.strip(), names(shell("collections", "--json"))) == (
        "collection jc2 is deleted",
        ["jc1"],
    )
    gone = shell("show", "jc2")
    assert (gone.code, "no job collection named 'jc2'" in gone.err) == (1, True)


def test_a_collection_that_is_there_stays_where_it_is(shell: Shell):
    replaced = shell("create", "jc1", "--sku", "P20Premium")
    moved = shell("create", "jc1", "--location", "eastus")

    assert replaced.out.strip() == "collection jc1 is replaced"
    assert shell("show", "jc1", "--json").json["location"] == "West US"
    assert (moved.code, moved.out, "cannot be changed" in moved.err) == (1, "", True)


def test_a_collection_may_come_from_a_file(shell: Shell, tmp_path: Path):
    (tmp_path / "c.json").write_text('{"location": "x", "properties": {"quota": {"maxJobCount": 2}}}')

    assert shell("create", "jc2", "--file", "c.json").code == 0
    assert shell("create", "jc2", "--file", "c.json", "--sku", "Free").code == 2
    assert shell("show", "jc2", "--json").json["properties"]["quota"] == {"maxJobCount": 2}
    assert "maxJobCount" in shell("show", "jc2").out
    assert "maxJobCount" in shell("collections").out


def test_collections_of_all_groups_are_listed_or_those_of_one(shell: Shell):
    shell("create", "jc2", "--group", "other")
    shell("create", "jc3", "--subscription", "elsewhere")

    assert names(shell("collections", "--json")) == ["jc1", "jc2"]
    assert names(shell("collections", "--group", "OTHER", "--json")) == ["jc2"]
    assert names(shell("collections", "--subscription", "elsewhere", "--json")) == ["jc3"]
    listed = shell("collections").lines
    assert any("jc2" in line and "other" in line and "Standard" in line for line in listed)


def test_where_collections_are_is_a_setting(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BACKSTAY_JOB_SUBSCRIPTION", "elsewhere")
    monkeypatch.setenv("BACKSTAY_JOB_RESOURCE_GROUP", "other")

    nothing = shell("collections")
    shell("create", "jc9")

    assert (nothing.code, nothing.out, "jobs create NAME" in nothing.err) == (0, "", True)
    assert (
        shell("show", "jc9", "--json").json["id"].startswith("/subscriptions/elsewhere/resourceGroups/other/")
    )


def test_whoever_is_asked_may_keep_a_collection(shell: Shell):
    kept = shell("delete", "jc1", typed="n\n")
    gone = shell("delete", "jc1", "--yes", typed="")

    assert (kept.code, "nothing is deleted" in kept.err) == (1, True)
    assert (gone.code, gone.out.strip()) == (0, "collection jc1 is deleted")


# Jobs


def test_a_job_is_made_by_options_and_shown(each_shell: Shell):
    shell = each_shell
    made = shell("create", "jc1/j1", "--every", "5m", *CALL)
    again = shell("create", "jc1/j1", "--every", "2h", *CALL, "--json")

    assert (made.code, made.out.strip()) == (0, "job jc1/j1 is made")
    assert "it runs next at 2" in made.err
    assert again.json["properties"]["recurrence"] == {"frequency": "hour", "interval": 2}
    assert shell("show", "jc1/j1", "--json").json == again.json
    assert shell("show", again.json["id"], "--json").json == again.json
    shown = shell("show", "jc1/j1").out
    assert "immediately, then every 2 hours after each start" in shown
    assert "GET http://127.0.0.1:9/ping" in shown
    assert shell("create", "jc1/j1", *CALL).out.strip() == "job jc1/j1 is replaced"


@pytest.mark.parametrize(
    ("options", "properties"),
    [
        (
            ("--call", "https://x.org", "--body", "{}", "--header", "Content-Type: application/json"),
            {
                "action": {
                    "type": "Https",
                    "request": {
                        "uri": "https://x.org",
                        "method": "POST",
                        "headers": {"Content-Type": "application/json"},
                        "body": "{}",
                    },
                }
            },
        ),
        (
            ("--workflow", "pay", "--input", '{"order": 7}', "--overlap", "queue", "--catch-up", "all"),
            {
                "action": {"type": "Workflow", "workflow": {"name": "pay", "input": {"order": 7}}},
                "overlap": "queue",
                "catchUp": "all",
            },
        ),
        (
            ("--workflow", "pay", "--at", "2090-01-01T01:00:00+01:00"),
            {
                "startTime": "2090-01-01T00:00:00Z",
                "action": {"type": "Workflow", "workflow": {"name": "pay"}},
            },
        ),
        (
            ("--workflow", "pay", "--every", "week", "--count", "3", "--until", "2091-01-01T00:00:00Z"),
            {
                "action": {"type": "Workflow", "workflow": {"name": "pay"}},
                "recurrence": {
                    "frequency": "week",
                    "count": 3,
                    "endTime": "2091-01-01T00:00:00Z",
                    "interval": 1,
                },
            },
        ),
        (
            ("--workflow", "pay", "--every", "1d"),
            {
                "action": {"type": "Workflow", "workflow": {"name": "pay"}},
                "recurrence": {"frequency": "day", "interval": 1},
            },
        ),
    ],
)
def test_options_stand_for_a_document(shell: Shell, options: tuple[str, ...], properties: dict[str, Any]):
    made = shell("create", "jc1/j1", *options, "--disabled", "--json").json["properties"]

    assert made == {**properties, "state": "disabled"}


def test_a_time_from_now_is_a_start(shell: Shell):
    start = shell("create", "jc1/j1", *CALL, "--at", "3d", "--json").json["properties"]["startTime"]

    away = datetime.fromisoformat(start) - SystemClock().now()
    assert timedelta(days=2, hours=23) < away <= timedelta(days=3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("jc1/j1",), "--call and --workflow"),
        (("jc1/j1", *CALL, "--workflow", "pay"), "--call and --workflow"),
        (("jc1/j1", "--workflow", "pay", "--body", "x"), "go with --call"),
        (("jc1/j1", *CALL, "--input", "1"), "goes with --workflow"),
        (("jc1/j1", *CALL, "--every", "90s"), "90s is not a whole number of minutes"),
        (("jc1/j1", *CALL, "--every", "0m"), "0m is not a whole number of minutes"),
        (("jc1/j1", *CALL, "--every", "often"), "minute, hour, day, week, month, year"),
        (("jc1/j1", *CALL, "--every", "1001m"), "interval"),
        (("jc1/j1", *CALL, "--count", "3"), "--every"),
        (("jc1/j1", *CALL, "--at", "tomorrow"), "--at"),
        (("jc1/j1", *CALL, "--header", "x"), "is no header"),
        (("jc1/j1", "--call", "ftp://x"), "uri is no address"),
        (("jc1/j1", *CALL, "--sku", "Free"), "belong to a collection"),
        (("jc1/j1", "--file", "f", *CALL), "whole document"),
        (("jc1/j1", "--file", "absent.json"), "cannot be read"),
        (("jc1", *CALL), "names a collection"),
        (("jc1", "--sku", "Gold"), "sku"),
        (("jc1/j1/x", *CALL), "COLLECTION/JOB"),
        (("jc1/1", *CALL), "the name of the job"),
        (("1/j1", *CALL), "collection"),
    ],
)
def test_what_is_written_wrongly_is_told_and_changes_nothing(
    shell: Shell, arguments: tuple[str, ...], complaint: str
):
    said = shell("create", *arguments)

    # A frame, where there is one, breaks lines.
    told = " ".join(said.err.replace("│", " ").split())
    assert (said.out, complaint in told) == ("", True), said
    assert said.code in (1, 2)
    assert shell("ls", "--json").json == {"value": [], "nextLink": None}
    assert names(shell("collections", "--json")) == ["jc1"]


def test_a_document_may_come_from_a_file_or_a_pipe_and_its_secrets_stay_there(shell: Shell, tmp_path: Path):
    (tmp_path / "job.json").write_text(json.dumps(BASIC))

    made = [
        shell("create", "jc1/j1", "--file", "job.json", "--json"),
        shell("create", "jc1/j2", "--file", "-", "--json", stdin=json.dumps(BASIC).encode()),
    ]

    assert [one.json["properties"]["action"]["request"]["authentication"] for one in made] == [
        {"username": "u", "type": "Basic"}
    ] * 2
    told = [*made, shell("show", "jc1/j1"), shell("ls"), shell("export"), shell("history", "jc1/j1")]
    assert not [one for one in told if SECRET in one.out + one.err]


def test_jobs_are_listed_of_one_collection_and_of_all(shell: Shell):
    shell("create", "jc2", "--group", "other")
    for name in ("jc1/b", "jc1/a"):
        shell("create", name, *CALL)
    shell("create", "jc2/c", *CALL, "--group", "other", "--disabled")

    assert names(shell("ls", "--json")) == ["jc1/a", "jc1/b", "jc2/c"]
    assert names(shell("ls", "jc1", "--json")) == ["jc1/a", "jc1/b"]
    assert names(shell("ls", "--state", "Disabled", "--json")) == ["jc2/c"]
    assert names(shell("ls", "jc1", "--limit", "1", "--skip", "1", "--json")) == ["jc1/b"]
    assert names(shell("ls", "--limit", "1", "--skip", "1", "--json")) == ["jc1/b"]
    listed = shell("ls").lines
    assert any("jc1/a" in line and "enabled" in line and "once, immediately" in line for line in listed)
    assert "--skip 2" in shell("ls", "--limit", "1", "--skip", "1").err
    assert (shell("ls", "jc1/a").code, shell("ls", "absent").code) == (2, 1)
    assert "no such jobs" in shell("ls", "--state", "faulted").err


def test_a_job_is_disabled_and_enabled(each_shell: Shell):
    shell = each_shell
    shell("create", "jc1/j1", *CALL, "--every", "1h")

    held = shell("disable", "jc1/j1")
    state = shell("show", "jc1/j1", "--json").json["properties"]["state"]
    free = shell("enable", "jc1/j1", "--json")

    assert (held.out.strip(), state) == ("job jc1/j1 is disabled", "disabled")
    assert free.json["properties"]["state"] == "enabled"
    assert "nextExecutionTime" in free.json["properties"]["status"]


def test_a_job_is_run_by_hand_once_it_may(each_shell: Shell):
    shell = each_shell
    shell("create", "jc1/j1", *CALL, "--disabled")

    refused = shell("run", "jc1/j1")
    shell("enable", "jc1/j1")
    started = shell("run", "jc1/j1")
    [task] = shell.work(lambda client: client.tasks(TaskFilter(workflow="backstay.job"))).items
    silent = shell("run", "jc1/j1", "--json")

    assert (refused.code, refused.out) == (1, "")
    assert (started.code, started.out.strip()) == (0, "job jc1/j1 is started")
    assert (silent.code, silent.out) == (0, "")
    assert (task.state, task.id.endswith(":run")) == ("pending", True)
    assert (shell("run", "jc1").code, shell("run", "jc1/absent").code) == (2, 1)


def test_a_history_is_shown_the_newest_first(each_shell: Shell):
    shell = each_shell
    shell("create", "jc1/j1", *CALL, "--every", "1h")
    nothing = shell("history", "jc1/j1")

    shell.work(record_attempts)

    found = shell("history", "jc1/j1", "--json").json
    assert [one["properties"]["retryCount"] for one in found["value"]] == [1, 0]
    assert found["nextLink"] is None
    failed = shell("history", "jc1/j1", "--status", "failed", "--json").json["value"]
    assert [one["properties"]["message"] for one in failed] == ["no"]
    assert len(shell("history", "jc1/j1", "--limit", "1", "--skip", "1", "--json").json["value"]) == 1
    newest, oldest = [line for line in shell("history", "jc1/j1").lines if "main" in line]
    assert ("completed" in newest, "failed" in oldest) == (True, True)
    assert "failed attempts 1" in shell("show", "jc1/j1").out
    assert (nothing.code, nothing.out, "nothing to tell" in nothing.err) == (0, "", True)
    assert shell("history", "jc1/absent").code == 1


async def record_attempts(client: Client) -> None:
    """Two of one occurrence, of which the second succeeds."""
    jobs = client._store.jobs
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    occurrence = by_hand(await jobs.job(PLACE, "j1"), now=now)
    for retry, status in enumerate((EntryStatus.FAILED, EntryStatus.COMPLETED)):
        entry = HistoryEntry(
            action=ActionName.MAIN,
            status=status,
            expected_at=now,
            started_at=now + timedelta(seconds=30 * retry),
            ended_at=now + timedelta(seconds=30 * retry + 2),
            message="yes" if retry else "no",
            retry=retry,
        )
        attempt = Attempt(occurrence=occurrence, entry=entry, final=bool(retry))
        await jobs.record([attempt], now=now, history_max=100)


def test_a_long_history_is_asked_for_in_parts(shell: Shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.cli.remote_jobs.TOP_MAX", 1)
    shell("create", "jc1/j1", *CALL, "--every", "1h")
    shell.work(record_attempts)

    assert len(shell("history", "jc1/j1", "--json").json["value"]) == 2


def test_a_job_is_deleted_with_no_question(shell: Shell):
    shell("create", "jc1/j1", *CALL)

    gone = shell("delete", "jc1/j1", typed="")
    again = shell("delete", "jc1/j1", "--json")

    assert (gone.code, gone.out.strip()) == (0, "job jc1/j1 is deleted")
    assert (again.code, again.out, again.err.strip()) == (
        1,
        "",
        "Error: no job named 'j1' in job collection 'jc1'",
    )


def test_quotas_are_told_as_what_they_are(shell: Shell):
    shell("create", "jc2", "--sku", "Free")

    fast = shell("create", "jc2/j1", *CALL, "--every", "5m")

    assert (fast.code, fast.out) == (1, "")
    assert "more frequent than the maxRecurrence" in fast.err
