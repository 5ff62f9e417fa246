"""The fields on which a job is written, and the properties that they and the document stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstay.console.jobs.form import fields_of, properties_of
from backstay.domain.jobs.documents import replaced
from backstay.errors import InvalidJob, NotJson
from tests.support.job_documents import BASIC, QUEUE, SERVICE_BUS, pfx

REQUEST = {"what": "request", "url": "http://example.org", "method": "GET"}


def typed(**fields: str) -> dict[str, Any]:
    return properties_of({name.replace("_", "-"): value for name, value in {**REQUEST, **fields}.items()})


def recurrence(**fields: str) -> dict[str, Any]:
    return typed(**fields)["recurrence"]


# From fields


def test_a_request_is_a_url_a_method_and_a_body():
    found = typed(url=" https://example.org/x ", method="POST", body="one\r\ntwo")

    request = {"uri": "https://example.org/x", "method": "POST", "body": "one\ntwo"}
    assert found == {"action": {"type": "Https", "request": request}}


def test_a_workflow_is_a_name_and_its_input():
    found = properties_of(
        {"what": "workflow", "workflow": "report", "input": '{"day": [1]}', "url": "left over"}
    )

    assert found == {"action": {"type": "Workflow", "workflow": {"name": "report", "input": {"day": [1]}}}}


def test_a_recurrence_is_made_of_what_goes_with_its_frequency():
    week = recurrence(
        frequency="week", interval="2", hours="5, 17", minutes="0", day_monday="on", month_2="on"
    )
    month = recurrence(frequency="month", month_days="1, -1", day_monday="on", count="9", until="2031-01-01")
    year = recurrence(frequency="year", month_2="on", month_12="on", month_days="3")

    schedule = {"minutes": [0], "hours": [5, 17], "weekDays": ["monday"]}
    assert week == {"frequency": "week", "interval": 2, "schedule": schedule}
    assert month == {
        "frequency": "month",
        "count": 9,
        "endTime": "2031-01-01",
        "schedule": {"monthDays": [1, -1]},
    }
    assert year == {"frequency": "year", "schedule": {"months": [2, 12]}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("last friday", {"day": "friday", "occurrence": -1}),
        ("First Monday", {"day": "Monday", "occurrence": 1}),
        ("-2 sunday", {"day": "sunday", "occurrence": -2}),
        ("every sunday", {"day": "sunday"}),
        ("sunday", {"day": "sunday"}),
    ],
)
def test_weekdays_of_a_month_are_written_as_one_says_them(written: str, meant: dict[str, Any]):
    found = recurrence(frequency="month", weekdays_of_month=written)

    assert found["schedule"]["monthlyOccurrences"] == [meant]


@pytest.mark.parametrize(
    ("fields", "member"),
    [
        ({"hours": "5, noon"}, "properties.recurrence.schedule.hours[1]"),
        ({"minutes": "60"}, "properties.recurrence.schedule.minutes[0]"),
        ({"interval": "often"}, "properties.recurrence.interval"),
        ({"count": "0"}, "properties.recurrence.count"),
        ({"until": "tomorrow"}, "properties.recurrence.endTime"),
        ({"start": "soon"}, "properties.startTime"),
        ({"frequency": "fortnight"}, "properties.recurrence.frequency"),
        ({"frequency": "month", "weekdays_of_month": "frist friday"}, "monthlyOccurrences[0].occurrence"),
        ({"url": "example.org"}, "properties.action.request.uri"),
        ({"url": ""}, "properties.action.request.uri"),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_field_is_said_of_the_member_that_it_stands_for(
    fields: dict[str, str], member: str
):
    with pytest.raises(InvalidJob, match=r".") as wrong:
        replaced({"properties": typed(**{"frequency": "day", **fields})})

    assert wrong.value.field.endswith(member)


# The document beside them


def test_the_document_says_what_has_no_field():
    document = {"action": {"request": {"headers": {"A": "b"}}, "retryPolicy": {"retryType": "None"}}}

    found = typed(document=json.dumps({**document, "overlap": "allow"}))

    assert found["action"]["request"] == {"uri": "http://example.org", "method": "GET", "headers": {"A": "b"}}
    assert found["action"]["retryPolicy"] == {"retryType": "None"}
    assert found["overlap"] == "allow"


def test_a_whole_document_may_be_pasted_beside_empty_fields():
    properties = {
        "action": {"type": "Http", "request": {"uri": "http://b", "method": "PUT"}},
        "overlap": "skip",
    }
    resource = {"id": "/x", "type": "t", "name": "night/b", "properties": properties}

    for document in (properties, resource):
        assert typed(url="", document=json.dumps(document)) == properties
        assert properties_of({"what": "document", "document": json.dumps(document)}) == properties


@pytest.mark.parametrize(
    ("document", "member"),
    [
        ({"action": {"request": {"uri": "http://other"}}}, "properties.action.request.uri"),
        ({"recurrence": {"frequency": "hour"}}, "properties.recurrence.frequency"),
    ],
)
def test_what_is_said_twice_and_not_the_same_is_refused(document: dict[str, Any], member: str):
    with pytest.raises(InvalidJob, match="leave it out of one of them") as wrong:
        typed(frequency="day", document=json.dumps(document))

    assert wrong.value.field == member


def test_a_document_that_is_none_is_named():
    with pytest.raises(NotJson, match="the document"):
        typed(document="{no")
    with pytest.raises(NotJson, match="the workflow's input"):
        properties_of({"what": "workflow", "workflow": "w", "input": "{no"})
    with pytest.raises(InvalidJob, match="properties is an array"):
        typed(document="[1]")


# To fields, and back

SCHEDULES: list[dict[str, Any]] = [
    {"frequency": "minute", "interval": 5},
    {"frequency": "week", "interval": 2, "schedule": {"weekDays": ["monday", "sunday"], "hours": [0, 23]}},
    {"frequency": "month", "interval": 1, "schedule": {"monthDays": [-1, 1], "months": [2, 12]}},
    {
        "frequency": "month",
        "interval": 1,
        "schedule": {
            "minutes": [0, 30],
            "monthlyOccurrences": [
                {"day": "friday", "occurrence": -1},
                {"day": "monday", "occurrence": -3},
                {"day": "sunday"},
            ],
        },
    },
    {"frequency": "year", "interval": 3, "count": 7, "endTime": "2040-01-01T00:00:00Z"},
]
ACTIONS: list[dict[str, Any]] = [
    {"type": "Http", "request": {"uri": "http://a", "method": "GET"}},
    {"type": "Http", "request": {"uri": "https://a", "method": "GET"}},
    {"type": "Https", "request": {"uri": "https://a", "method": "get", "body": "one\ntwo"}},
    {"type": "Http", "request": {"uri": "http://a", "method": "PUT", "body": "one\r\ntwo"}},
    {"type": "Http", "request": {"uri": "http://a", "method": "PUT", "body": "\n\n", "headers": {"A": "b"}}},
    {"type": "Http", "request": {"uri": "http://a", "method": "PUT", "authentication": BASIC}},
    {
        "type": "Http",
        "request": {
            "uri": "https://a",
            "method": "PUT",
            "authentication": {"type": "ClientCertificate", "pfx": pfx(), "password": "hunter2"},
        },
    },
    {"type": "Workflow", "workflow": {"name": "w"}},
    {
        "type": "Workflow",
        "workflow": {"name": "w", "input": {"a": [1, None, "x\r\ny"]}, "attributes": {"A": "b"}},
    },
    QUEUE,
    {"type": "ServiceBusQueue", "serviceBusQueueMessage": {**SERVICE_BUS, "queueName": "q"}},
    {
        "type": "Http",
        "request": {"uri": "http://a", "method": "GET"},
        "retryPolicy": {"retryType": "fixed", "retryInterval": "PT1M", "retryCount": 2},
        "errorAction": {"type": "Http", "request": {"uri": "http://b", "method": "POST"}},
    },
]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda one: one["type"])
@pytest.mark.parametrize("when", [None, *SCHEDULES], ids=lambda one: one and one["frequency"])
def test_a_job_that_is_opened_and_sent_as_it_is_stays_what_it_is(
    action: dict[str, Any], when: dict[str, Any] | None
):
    properties = {"startTime": "2030-01-01T00:00:00Z", "action": action, "catchUp": "all", "overlap": "queue"}
    kept = replaced({"properties": {**properties, **({"recurrence": when} if when else {})}}).definition

    fields = fields_of(kept)
    # As a browser sends it.
    sent = {name: value.replace("\r\n", "\n").replace("\n", "\r\n") for name, value in fields.items()}
    again = properties_of(sent)

    assert properties_of(fields) == again
    shown = json.dumps(kept)
    assert json.loads(json.dumps(again)) == {
        name: value for name, value in _without_told(json.loads(shown)).items() if value is not None
    }
    assert "hunter2" not in json.dumps(fields)


def _without_told(definition: dict[str, Any]) -> dict[str, Any]:
    """What a certificate says of itself is nothing that anybody writes."""
    authentication = definition["action"].get("request", {}).get("authentication", {})
    for name in [name for name in authentication if name.startswith("certificate")]:
        del authentication[name]
    return definition
