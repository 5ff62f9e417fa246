"""Collections and jobs carried in files: out of a store or a server, and into another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from backstay.cli import run
from backstay.client import Client
from backstay.domain.jobs.records import CollectionId
from backstay.jobroom import LISTED_MAX
from tests.support.service import dead_port
from tests.support.shell import Said, Shell

SECRET = "hunter2-do-not-show"
TIME = "2090-01-01T00:00:00Z"
GET: dict[str, Any] = {"type": "Http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}}
PLACES = {
    "basic": "action.request.authentication.password",
    "queue": "action.errorAction.queueMessage.sasToken",
    "bus": "action.serviceBusQueueMessage.authentication.sasKey",
}
BASIC: dict[str, Any] = {
    **GET,
    "request": {**GET["request"], "authentication": {"type": "Basic", "username": "u", "password": SECRET}},
}
QUEUE: dict[str, Any] = {
    **GET,
    "errorAction": {
        "type": "StorageQueue",
        "queueMessage": {"storageAccount": "a", "queueName": "q", "sasToken": SECRET, "message": "m"},
    },
}
BUS: dict[str, Any] = {
    "type": "ServiceBusQueue",
    "serviceBusQueueMessage": {
        "queueName": "q",
        "namespace": "n",
        "message": "m",
        "transportType": "netMessaging",
        "authentication": {"type": "sharedAccessKey", "sasKeyName": "k", "sasKey": SECRET},
    },
}
#: As the real service answered them.
FOREIGN = "/subscriptions/S-1/resourceGroups/CS-Web/providers/Microsoft.Scheduler/jobCollections/Real"


def collection(name: str = "jc1", **properties: Any) -> dict[str, Any]:
    return {"name": name, "location": "West US", "properties": properties}


def job(name: str = "jc1/j1", action: dict[str, Any] = GET, **properties: Any) -> dict[str, Any]:
    return {"name": name, "properties": {"action": action, "startTime": TIME, **properties}}


def write(tmp_path: Path, content: Any, name: str = "jobs.json") -> str:
    (tmp_path / name).write_text(json.dumps(content))
    return name


def listed(said: Said) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said.json["value"]
    return found


def test_what_is_exported_is_what_is_imported(each_shell: Shell, tmp_path: Path):
    shell = each_shell
    weekly = {"frequency": "week", "interval": 1, "schedule": {"weekDays": ["monday"], "hours": [5]}}
    file = write(
        tmp_path,
        {
            "value": [
                job("jc1/a", recurrence=weekly, catchUp="all", state="Disabled"),
                collection(quota={"maxJobCount": 7}),
                job("jc1/b"),
            ]
        },
    )

    first = shell("import", file)
    exported = shell("export", "--file", "out.json")
    before = listed(shell("export"))
    shell("delete", "jc1")
    again = shell("import", "out.json", "--json")

    assert (first.code, first.out.strip()) == (0, "3 created, 0 updated, 0 refused")
    assert (exported.out.strip(), exported.err) == ("3 written to out.json", "")
    assert [one["name"] for one in before] == ["jc1", "jc1/a", "jc1/b"]
    assert again.json == {
        "created": ["jc1", "jc1/a", "jc1/b"],
        "updated": [],
        "checked": [],
        "skipped": [],
        "refused": [],
    }
    assert listed(shell("export")) == before
    assert not (tmp_path / "out.json.part").exists()
    assert shell("import", "out.json").out.strip() == "0 created, 3 updated, 0 refused"


def test_an_export_of_the_real_service_goes_where_its_ids_say(shell: Shell, tmp_path: Path):
    real = {
        "id": f"{FOREIGN}/jobs/Ping",
        "type": "Microsoft.Scheduler/jobCollections/jobs",
        "name": "Real/Ping",
        "properties": {
            "startTime": "2015-07-13T00:00:00Z",
            "action": {**GET, "retryPolicy": {"retryType": "fixed", "retryInterval": "00:01:00"}},
            "recurrence": {"frequency": "month", "interval": 1, "schedule": {"monthDays": [15, 30]}},
            "state": "enabled",
            "status": {
                "nextExecutionTime": "2016-04-15T05:00:00Z",
                "executionCount": 9,
                "failureCount": 1,
                "faultedCount": 0,
            },
        },
    }
    file = write(tmp_path, [{"id": FOREIGN, "name": "Real", "location": "westus", "properties": {}}, real])

    said = shell("import", file)

    assert (said.code, said.out.strip()) == (0, "2 created, 0 updated, 0 refused")
    found = shell("show", f"{FOREIGN}/jobs/ping", "--json").json
    assert (found["id"], found["properties"]["status"]["executionCount"]) == (real["id"], 0)
    moved = shell("import", file, "--subscription", "default", "--group", "default")
    assert moved.code == 0
    assert shell("show", "real/ping", "--json").json["name"] == "Real/Ping"
    only = [one["name"] for one in listed(shell("export", "--subscription", "s-1", "--group", "cs-web"))]
    assert only == ["Real", "Real/Ping"]
    assert [one["name"] for one in listed(shell("export", "real"))] == only


@pytest.mark.parametrize(("kind", "action"), [("basic", BASIC), ("queue", QUEUE), ("bus", BUS)])
def test_secrets_are_not_exported_and_have_to_be_given_again(
    shell: Shell, tmp_path: Path, kind: str, action: dict[str, Any]
):
    write(tmp_path, [collection(), job(action=action)])
    assert shell("import", "jobs.json").code == 0

    exported = shell("export", "--file", "out.json")
    shell("delete", "jc1")
    without = shell("import", "out.json")
    told = shell("import", "out.json", "--json")
    write(tmp_path, {"JC1/J1": {PLACES[kind]: SECRET}}, "secrets.json")
    with_them = shell("import", "out.json", "--secrets", "secrets.json")

    assert f"jc1/j1: {PLACES[kind]} is not in it" in exported.err
    assert SECRET not in (tmp_path / "out.json").read_text()
    assert (without.code, without.out.strip()) == (1, "1 created, 0 updated, 1 refused")
    assert PLACES[kind] in without.err
    assert [one["secrets"] for one in told.json["refused"]] == [[PLACES[kind]]]
    assert (with_them.code, with_them.out.strip()) == (0, "1 created, 1 updated, 0 refused")
    assert listed(shell("export"))[1]["name"] == "jc1/j1"


def test_each_is_put_whole_or_not_at_all_and_the_others_are_not_in_its_way(shell: Shell, tmp_path: Path):
    file = write(
        tmp_path,
        [
            job("jc1/good"),
            job("jc1/slow", recurrence={"frequency": "minute", "interval": 0}),
            job("jc1/1"),
            job("absent/j1"),
            job("jc1/over", state="Completed"),
            {"properties": {}},
            {"name": "jc1/x", "location": "West US"},
            {"name": "jc1", "properties": {"action": GET}},
            collection("jc1", sku={"name": "Gold"}),
            collection("jc1"),
            {"name": "jc1/y", "type": "Microsoft.Scheduler/jobCollections/jobs"},
        ],
    )

    report = shell("import", file, "--json")
    again = shell("import", file)

    assert report.code == 1
    assert (report.json["created"], report.json["updated"]) == (["jc1", "jc1/good"], [])
    assert [one["name"] for one in report.json["skipped"]] == ["jc1/over"]
    refused = {one["name"]: one["reason"] for one in report.json["refused"]}
    assert set(refused) == {
        "document 6",
        "document 7",
        "document 8",
        "jc1",
        "jc1/slow",
        "jc1/1",
        "absent/j1",
        "jc1/y",
    }
    assert "interval" in refused["jc1/slow"]
    assert "no job collection named 'absent'" in refused["absent/j1"]
    assert (again.code, again.out.strip()) == (1, "0 created, 2 updated, 8 refused")
    assert "jc1/over is left out: it is completed" in again.err


def test_a_quota_holds_for_what_is_imported(shell: Shell, tmp_path: Path):
    jobs = [job(f"jc1/j{number}") for number in range(7)]

    said = shell("import", write(tmp_path, [collection(sku={"name": "Free"}), *jobs]))

    assert (said.code, said.out.strip()) == (1, "6 created, 0 updated, 2 refused")
    assert "has reached its quota of '5' jobs" in said.err


def test_a_dry_run_tells_what_is_wrong_and_writes_nothing(shell: Shell, tmp_path: Path):
    file = write(tmp_path, [collection(), job(), job("jc1/bad", catchUp="maybe"), collection("2")])

    said = shell("import", file, "--dry-run")

    assert (said.code, said.out.strip()) == (1, "nothing is written; 2 good, 2 refused")
    assert "catchUp is none of skip, one, all" in said.err
    assert listed(shell("collections", "--json")) == []


def test_what_is_imported_may_be_held_back(shell: Shell, tmp_path: Path):
    shell("import", write(tmp_path, [collection(), job()]), "--disabled")

    assert [one["properties"]["state"] for one in listed(shell("export"))] == ["Disabled", "enabled"]


def test_it_is_told_how_far_a_long_one_has_got(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.cli.job_files.EVERY", 2)

    imported = shell("import", write(tmp_path, [collection(), job("jc1/a"), job("jc1/b")]))
    exported = shell("export", "--file", "out.json")

    assert imported.err.splitlines() == ["2 of 3"]
    assert exported.err.splitlines() == ["2 written"]


def test_more_collections_than_one_list_gives_are_listed_all(shell: Shell):
    shell.work(put_many)

    assert len({one["name"] for one in listed(shell("collections", "--json"))}) == LISTED_MAX + 1


async def put_many(client: Client) -> None:
    document = {"location": "x", "properties": {"sku": {"name": "P10Premium"}}}
    places = [CollectionId("default", "default", f"jc{number}") for number in range(LISTED_MAX + 1)]
    await asyncio.gather(*(client.jobroom.put_collection(place, document) for place in places))


def test_a_file_is_an_argument_an_option_or_standard_input(shell: Shell, tmp_path: Path):
    file = write(tmp_path, [collection(), job()])

    said = [
        shell("import", file),
        shell("import", "--file", file),
        shell("import", stdin=(tmp_path / file).read_bytes()),
    ]

    assert [one.out.strip() for one in said] == [
        "2 created, 0 updated, 0 refused",
        "0 created, 2 updated, 0 refused",
        "0 created, 2 updated, 0 refused",
    ]
    assert shell("import", file, "--file", file).code == 2


def test_nothing_is_a_good_export_as_well(shell: Shell):
    said = shell("export")

    assert (said.code, said.json) == (0, {"value": [], "nextLink": None})
    assert shell("export", "absent").code == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('"text"', "documents"),
        ("[1]", "documents"),
        ('{"value": 7}', "documents"),
        ("{", "write collections and jobs"),
        ("", "write collections and jobs"),
    ],
)
def test_a_file_that_has_no_documents_is_refused(shell: Shell, tmp_path: Path, content: str, complaint: str):
    (tmp_path / "bad.json").write_text(content)

    said = shell("import", "bad.json")

    assert (said.code, said.out) == (2, "")
    assert complaint in " ".join(said.err.replace("│", " ").split())


def test_secrets_must_be_where_a_job_has_a_place_for_them(shell: Shell, tmp_path: Path):
    file = write(tmp_path, [collection(), job()])
    write(tmp_path, {"jc1/j1": {PLACES["basic"]: SECRET}}, "misplaced.json")
    write(tmp_path, {"jc1/j1": SECRET}, "bad.json")

    misplaced = shell("import", file, "--secrets", "misplaced.json")
    bad = shell("import", file, "--secrets", "bad.json")

    assert (misplaced.code, "has no place for a secret" in misplaced.err) == (1, True)
    assert (bad.code, bad.out) == (2, "")
    assert SECRET not in misplaced.err + bad.err


def test_half_an_export_is_none(shell: Shell, tmp_path: Path):
    said = shell("export", "--file", "no/such/folder.json")

    assert (said.code, said.out) == (2, "")
    assert "cannot be written" in " ".join(said.err.replace("│", " ").split())
    (tmp_path / "kept.json").write_text("kept")
    assert shell("export", "absent", "--file", "kept.json").code == 1
    assert (tmp_path / "kept.json").read_text() == "kept"


def test_an_import_that_is_cut_short_tells_how_far_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, [collection(), job()])

    code = run(["jobs", "import", file, "--url", f"http://127.0.0.1:{dead_port()}"])

    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert "0 of 2 were dealt with; import the file again" in said.err
