"""What a job's document may say, and how it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.jobs.documents import JOB_BYTES_MAX, MALFORMED, replaced
from backstay.domain.jobs.records import CatchUp, JobState, Overlap
from backstay.errors import InvalidJob
from tests.support.job_documents import BASIC, HTTP, QUEUE, SERVICE_BUS, body, http, pfx, read, whole, written

ORDINARY = {"minutes": [0, 30], "hours": [10, 22]}


def refusal(document: object) -> InvalidJob:
    with pytest.raises(InvalidJob) as refused:
        replaced(document)
    assert "hunter2" not in str(refused.value)
    return refused.value


# The example of the published reference


def test_a_whole_document_is_kept_as_it_is_answered():
    document = replaced(
        {
            "properties": {
                "startTime": "2015-07-13T00:00:00Z",
                "action": {
                    "request": {
                        "uri": "http://www.bing.com/%2d",
                        "method": "get",
                        "headers": {"content-type": "application/xml", "X-A": "b"},
                        "body": "some body message!",
                        "authentication": {"type": "basic", "username": "u", "password": "hunter2"},
                    },
                    "type": "HTTP",
                    "retryPolicy": {"retryType": "Fixed", "retryInterval": "00:01:00", "retryCount": 2},
                    "errorAction": {
                        "queueMessage": {
                            "storageAccount": "acct",
                            "queueName": "queue1",
                            "sasToken": "hunter3",
                            "message": "some message!",
                        },
                        "type": "storageQueue",
                    },
                },
                "recurrence": {
                    "frequency": "Month",
                    "count": 10000,
                    "endTime": "2020-10-10T12:10:10+02:00",
                    "schedule": {"minutes": [10, 0], "hours": 5, "monthDays": [15, 30]},
                },
                "state": "ENABLED",
                "status": {"executionCount": 3},
                "unheard": "of",
            },
            "name": "ignored",
        }
    )

    assert document.definition == {
        "startTime": "2015-07-13T00:00:00Z",
        "action": {
            "request": {
                "uri": "http://www.bing.com/%2d",
                "method": "get",
                "headers": {"content-type": "application/xml", "X-A": "b"},
                "body": "some body message!",
                "authentication": {"username": "u", "type": "Basic"},
            },
            "type": "Http",
            "retryPolicy": {"retryType": "fixed", "retryInterval": "00:01:00", "retryCount": 2},
            "errorAction": {
                "queueMessage": {
                    "storageAccount": "acct",
                    "queueName": "queue1",
                    "message": "some message!",
                },
                "type": "StorageQueue",
            },
        },
        "recurrence": {
            "frequency": "month",
            "count": 10000,
            "endTime": "2020-10-10T10:10:10Z",
            "interval": 1,
            "schedule": {"minutes": [10, 0], "hours": [5], "monthDays": [15, 30]},
        },
    }
    assert document.secrets == {
        "action.request.authentication.password": "hunter2",
        "action.errorAction.queueMessage.sasToken": "hunter3",
    }
    assert document.state is JobState.ENABLED


# The fragments of the concept page


CONCEPT_ACTIONS: list[dict[str, Any]] = [
    {
        "type": "http",
        "retryPolicy": {"retryType": "None"},
        "request": {
            "uri": "http://contoso.com/some-method",
            "method": "PUT",
            "body": "Posting from a timer",
            "headers": {"Content-Type": "application/json"},
        },
        "errorAction": {
            "type": "http",
            "request": {"uri": "http://contoso.com/notifyError", "method": "POST"},
        },
    },
    {
        "type": "storageQueue",
        "queueMessage": {
            "storageAccount": "myStorageAccount",
            "queueName": "myqueue",
            "sasToken": "TOKEN",
            "message": "My message body",
        },
    },
    {
        "type": "serviceBusQueue",
        "serviceBusQueueMessage": {
            "queueName": "q1",
            "namespace": "mySBNamespace",
            "transportType": "netMessaging",
            "authentication": {"sasKeyName": "QPolicy", "type": "sharedAccessKey"},
            "message": "Some message",
            "brokeredMessageProperties": {},
            "customMessageProperties": {"appname": "FromScheduler"},
        },
    },
    {
        "type": "serviceBusTopic",
        "serviceBusTopicMessage": {
            "topicPath": "t1",
            "namespace": "mySBNamespace",
            "transportType": "AMQP",
            "authentication": {"sasKeyName": "QPolicy", "type": "sharedAccessKey"},
            "message": "Some message",
            "brokeredMessageProperties": {},
            "customMessageProperties": {"appname": "FromScheduler"},
        },
    },
]


@pytest.mark.parametrize("action", CONCEPT_ACTIONS, ids=lambda one: one["type"])
@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"startTime": "2012-08-04T00:00Z"},
        {"recurrence": {"frequency": "minute", "interval": 30, "count": 10}, "state": "Disabled"},
        {
            "recurrence": {
                "frequency": "week",
                "interval": 1,
                "schedule": {"weekDays": ["monday", "wednesday", "friday"], **ORDINARY},
                "count": 10,
                "endTime": "2012-11-04",
            },
            "state": "disabled",
            "status": {
                "lastExecutionTime": "2007-03-01T13:00:00Z",
                "nextExecutionTime": "2007-03-01T14:00:00Z ",
                "executionCount": 3,
                "failureCount": 0,
                "faultedCount": 0,
            },
        },
        {"retryPolicy": {"retryType": "Fixed", "retryInterval": "PT1D", "retryCount": 10}},
    ],
    ids=["alone", "start", "minutes", "week", "retry"],
)
def test_the_fragments_of_the_concept_page_are_taken_and_come_back_the_same(action, rest):
    first = written(body(action=action, **rest))
    again = written(whole(first))

    assert (again.definition, again.secrets) == (first.definition, first.secrets)
    assert first.definition["action"]["type"].casefold() == action["type"].casefold()


# How it is answered


def test_only_what_was_given_is_answered():
    assert read().definition == {"action": HTTP}
    assert read(startTime=None, recurrence=None, catchUp=None).definition == {"action": HTTP}


def test_an_interval_is_filled_in():
    assert read(recurrence={"frequency": "Day"}).definition["recurrence"] == {
        "frequency": "day",
        "interval": 1,
    }


@pytest.mark.parametrize(
    ("written", "answered"),
    [
        ("2016-03-30T20:39:53.8021951Z", "2016-03-30T20:39:53.8021951Z"),
        ("2016-07-21T22:24:32.4143650Z", "2016-07-21T22:24:32.414365Z"),
        ("2017-02-08T23:55:45.216000+00:00", "2017-02-08T23:55:45.216Z"),
        ("2030-01-01T09:30:00.000Z", "2030-01-01T09:30:00Z"),
        ("2030-01-01T09:30:00", "2030-01-01T09:30:00Z"),
        ("2030-01-01T00:30:00+02:00", "2029-12-31T22:30:00Z"),
        ("2030-01-01", "2030-01-01T00:00:00Z"),
    ],
)
def test_times_are_answered_in_utc_with_the_digits_that_they_have(written, answered):
    found = read(startTime=written, recurrence={"frequency": "day", "endTime": written}).definition

    assert (found["startTime"], found["recurrence"]["endTime"]) == (answered, answered)


def test_names_in_a_schedule_are_answered_in_lower_case():
    week = read(recurrence={"frequency": "WEEK", "schedule": {"weekDays": ["Monday", "FRIDAY"]}})
    month = read(
        recurrence={
            "frequency": "Month",
            "schedule": {"monthlyOccurrences": [{"day": "Friday", "Occurrence": -1}, {"day": "MONDAY"}]},
        }
    )

    assert week.definition["recurrence"]["schedule"] == {"weekDays": ["monday", "friday"]}
    assert month.definition["recurrence"]["schedule"] == {
        "monthlyOccurrences": [{"day": "friday", "occurrence": -1}, {"day": "monday"}]
    }


def test_something_alone_is_answered_as_an_array_of_it():
    found = read(recurrence={"frequency": "day", "schedule": {"minutes": 15, "hours": 24}})

    assert found.definition["recurrence"]["schedule"] == {"minutes": [15], "hours": [24]}


def test_years_and_months_are_taken():
    found = read(recurrence={"frequency": "Year", "schedule": {"months": [3, 1], "hours": [0]}})

    assert found.definition["recurrence"] == {
        "frequency": "year",
        "interval": 1,
        "schedule": {"hours": [0], "months": [3, 1]},
    }


@pytest.mark.parametrize("kind", ["https", "Http", "STORAGEQUEUE", "serviceBusQueue", "ServiceBusTopic"])
def test_types_are_taken_in_any_letter_case_and_answered_in_one(kind):
    messages = {
        "request": HTTP["request"],
        "queueMessage": QUEUE["queueMessage"],
        "serviceBusQueueMessage": {"queueName": "q", **SERVICE_BUS},
        "serviceBusTopicMessage": {"topicPath": "t", **SERVICE_BUS},
    }
    name = {"https": "request", "http": "request", "storagequeue": "queueMessage"}.get(
        kind.lower(), f"{kind[0].lower()}{kind[1:]}Message"
    )

    found = read(action={"type": kind, name: messages[name]}).definition["action"]["type"]

    assert found in ("Http", "Https", "StorageQueue", "ServiceBusQueue", "ServiceBusTopic")
    assert found.lower() == kind.lower()


def test_service_bus_answers_in_camel_case():
    message = {
        "queueName": "q",
        **SERVICE_BUS,
        "brokeredMessageProperties": {
            "timeToLive": "PT1M",
            "scheduledEnqueueTimeUtc": "2030-01-01",
            "forcePersistence": False,
            "label": "",
        },
    }
    found = read(action={"type": "ServiceBusQueue", "serviceBusQueueMessage": message})

    assert found.definition["action"]["serviceBusQueueMessage"] == {
        "queueName": "q",
        "namespace": "ns",
        "message": "m",
        "transportType": "netMessaging",
        "authentication": {"sasKeyName": "k", "type": "sharedAccessKey"},
        "brokeredMessageProperties": {
            "forcePersistence": False,
            "label": "",
            "scheduledEnqueueTimeUtc": "2030-01-01T00:00:00Z",
            "timeToLive": "PT1M",
        },
    }
    assert found.secrets == {"action.serviceBusQueueMessage.authentication.sasKey": "hunter2"}


def test_a_member_is_known_by_its_name_in_any_letter_case():
    found = replaced(
        {"Properties": {"Action": {"Type": "http", "Request": {"URI": "http://a", "Method": "GET"}}}}
    )

    assert found.definition["action"] == {"request": {"uri": "http://a", "method": "GET"}, "type": "Http"}


@pytest.mark.parametrize(
    ("given", "catch_up", "overlap"),
    [
        ({}, CatchUp.ONE, Overlap.SKIP),
        ({"catchUp": "All", "overlap": "QUEUE"}, CatchUp.ALL, Overlap.QUEUE),
    ],
)
def test_our_own_properties_are_answered_where_they_were_given(given, catch_up, overlap):
    found = read(**given)

    assert (found.catch_up, found.overlap) == (catch_up, overlap)
    assert set(found.definition) - {"action"} == set(given)


def test_a_workflow_is_an_action_of_our_own():
    workflow = {"name": "order", "input": {"a": [None, 1]}, "attributes": {"customer": "c9"}}
    found = read(action={"type": "workflow", "workflow": workflow})

    assert found.definition["action"] == {"workflow": workflow, "type": "Workflow"}


# Where policies may stand


POLICY = {"retryType": "Fixed", "retryInterval": "PT15S", "retryCount": 20}


@pytest.mark.parametrize(
    "properties",
    [
        {"action": {**HTTP, "retryPolicy": POLICY}},
        {"action": HTTP, "retryPolicy": POLICY},
        {"action": {"type": "Http", "request": {**HTTP["request"], "retryPolicy": POLICY}}},
        {"action": {**HTTP, "retryPolicy": POLICY}, "retryPolicy": {"retryType": "none"}},
    ],
    ids=["action", "properties", "request", "action counts most"],
)
def test_a_retry_policy_may_stand_at_three_places_and_is_answered_at_one(properties):
    found = replaced({"properties": properties}).definition

    assert found == {"action": {**HTTP, "retryPolicy": {**POLICY, "retryType": "fixed"}}}


def test_an_error_action_may_stand_beside_the_action_and_has_a_policy_of_its_own():
    error = {"type": "http", "request": {**HTTP["request"], "retryPolicy": POLICY}}
    found = read(errorAction=error).definition["action"]["errorAction"]

    assert found == {**HTTP, "retryPolicy": {**POLICY, "retryType": "fixed"}}


def test_a_policy_answers_only_what_it_was_given():
    assert read(retryPolicy={"retryType": "none"}).definition["action"]["retryPolicy"] == {
        "retryType": "none"
    }
    assert read(retryPolicy={}).definition["action"]["retryPolicy"] == {}


@pytest.mark.parametrize(
    ("written", "answered"),
    [
        ("00:01:00", "00:01:00"),
        ("30.00:00:00", "30.00:00:00"),
        ("PT1M", "PT1M"),
        ("PT60S", "PT1M"),
        ("PT1D", "P1D"),
        ("P1D", "P1D"),
        ("548.00:00:00", "548.00:00:00"),
        ("00:00:15", "00:00:15"),
    ],
)
def test_a_duration_is_answered_in_the_notation_in_which_it_was_written(written, answered):
    found = read(retryPolicy={"retryType": "fixed", "retryInterval": written})

    assert found.definition["action"]["retryPolicy"]["retryInterval"] == answered


# What is refused


@pytest.mark.parametrize(
    "document",
    [None, 1, "hunter2", [], {}, {"properties": None}, {"properties": ["hunter2"]}, {"action": HTTP}],
    ids=repr,
)
def test_what_is_no_job_is_malformed(document):
    assert refusal(document).recorded == MALFORMED == "Malformed Job Object"


def test_days_of_a_month_in_a_week_are_refused_in_the_words_of_the_original():
    refused = refusal(body(recurrence={"frequency": "week", "schedule": {"monthDays": [1]}}))

    assert refused.recorded == "Cannot set days of month with recurrence unit 'Week'."
    assert refused.field == "properties.recurrence.schedule.monthDays"


@pytest.mark.parametrize(
    ("properties", "field", "says"),
    [
        ({"action": None}, "action", "is missing"),
        ({"action": []}, "action", "is an array; it must be a JSON object"),
        ({"action": {"request": HTTP["request"]}}, "action.type", "is missing; write one of Http"),
        ({"action": {"type": "Ftp"}}, "action.type", "is none of Http, Https, StorageQueue"),
        ({"action": {"type": 7}}, "action.type", "is none of Http"),
        ({"action": {"type": "Http"}}, "action.request", "is missing"),
        ({"action": {**HTTP, **QUEUE}}, "action.request", "does not go with type StorageQueue"),
        ({"state": "Completed"}, "state", "write Enabled or Disabled"),
        ({"state": "faulted"}, "state", "write Enabled or Disabled"),
        ({"state": "Suspended"}, "state", "is none of"),
        ({"catchUp": "twice"}, "catchUp", "is none of skip, one, all"),
        ({"overlap": 1}, "overlap", "is none of skip, queue, allow"),
        ({"startTime": "tomorrow"}, "startTime", "write an instant"),
        ({"startTime": "2030-02-30"}, "startTime", "which no calendar has"),
        ({"startTime": 5}, "startTime", "write an instant"),
        ({"recurrence": {}}, "recurrence.frequency", "is missing"),
        ({"recurrence": {"frequency": "decade"}}, "recurrence.frequency", "write one of"),
        ({"recurrence": {"frequency": "day", "interval": 0}}, "recurrence.interval", "between 1 and 1000"),
        ({"recurrence": {"frequency": "day", "interval": 1001}}, "recurrence.interval", "between 1 and 1000"),
        ({"recurrence": {"frequency": "day", "count": 0}}, "recurrence.count", "between 1 and 2147483647"),
        ({"recurrence": {"frequency": "day", "endTime": "x"}}, "recurrence.endTime", "write an instant"),
        (
            {"recurrence": {"frequency": "month", "schedule": {"weekDays": ["monday"]}}},
            "recurrence.schedule.weekDays",
            "does not go with frequency month",
        ),
        (
            {"recurrence": {"frequency": "month", "schedule": {"monthDays": [0]}}},
            "recurrence.schedule.monthDays[0]",
            "not 0",
        ),
        ({"retryPolicy": {"retryType": "Exponential"}}, "action.retryPolicy.retryType", "none, fixed"),
        ({"retryPolicy": {"retryType": "fixed", "retryCount": 21}}, "action.retryPolicy.retryCount", "20"),
        ({"retryPolicy": {"retryType": "fixed", "retryCount": 0}}, "action.retryPolicy.retryCount", "1"),
        (
            {"retryPolicy": {"retryType": "fixed", "retryInterval": "00:00:05"}},
            "action.retryPolicy.retryInterval",
            "at least 15s and at most 548d (18 months)",
        ),
        (
            {"retryPolicy": {"retryInterval": "549.00:00:00"}},
            "action.retryPolicy.retryInterval",
            "at most 548d",
        ),
        ({"retryPolicy": {"retryInterval": "soon"}}, "action.retryPolicy.retryInterval", "write days"),
        ({"retryPolicy": "none"}, "retryPolicy", "is text; it must be a JSON object"),
        ({"Action": HTTP}, "action", "is given twice, in different letter case"),
        ({"action": {"type": "Workflow", "workflow": {}}}, "action.workflow.name", "is missing"),
        ({"action": {"type": "Workflow", "workflow": {"name": "a b"}}}, "action.workflow.name", "an id has"),
    ],
)
def test_a_document_that_is_wrong_is_told_where_and_what_would_be_right(properties, field, says):
    refused = refusal(body(**properties))

    assert refused.field == f"properties.{field}"
    assert says in str(refused)


@pytest.mark.parametrize(
    ("request_members", "field", "says"),
    [
        ({"uri": None}, "uri", "is missing"),
        ({"uri": "ftp://example.org"}, "uri", "write http:// or https://"),
        ({"uri": "http:///path"}, "uri", "a host"),
        ({"uri": "http://a b"}, "uri", "no blanks"),
        ({"uri": f"http://a/{'x' * 2040}"}, "uri", "has 2,049 characters; write at most 2,048"),
        ({"uri": "https://me:hunter2@a/"}, "uri", "has a user in it; leave it out, and write authentication"),
        ({"uri": "http://a\\@b/"}, "uri", "has a user in it"),
        ({"uri": "http://a\\.b/"}, "uri", "has a backslash in it; write / or %5C"),
        ({"uri": 5}, "uri", "is a number; write text"),
        ({"method": None}, "method", "is missing"),
        ({"method": "BREW"}, "method", "is none of GET, PUT, POST, DELETE"),
        ({"body": "x" * 8193}, "body", "has 8,193 characters; write at most 8,192"),
        ({"body": {"a": 1}}, "body", "is an object; write text"),
        ({"headers": {f"h{n}": "" for n in range(51)}}, "headers", "has 51 headers; write at most 50"),
        ({"headers": {"h": "x" * 4096}}, "headers", "has 4,097 characters"),
        ({"headers": {"h": 1}}, "headers", "must be text"),
        ({"headers": {"a b": "x"}}, "headers", "cannot be sent"),
        ({"headers": {"a": "x\r\nb: c"}}, "headers", "cannot be sent"),
        ({"headers": {"a": "x", "A": "y"}}, "headers", "has a name twice"),
        ({"headers": []}, "headers", "is an array; it must be a JSON object"),
        ({"authentication": "hunter2"}, "authentication", "is text; it must be a JSON object"),
        ({"authentication": {}}, "authentication.type", "is missing; write one of NotSpecified"),
        ({"authentication": {"type": "Digest"}}, "authentication.type", "is none of"),
        ({"authentication": {"type": "Basic", "password": "x"}}, "authentication.username", "is missing"),
        ({"authentication": {"type": "Basic", "username": "x"}}, "authentication.password", "is missing"),
        ({"authentication": {**BASIC, "password": ["hunter2"]}}, "authentication.password", "is an array"),
        (
            {"authentication": {"type": "ClientCertificate", "pfx": "hunter2!", "password": "x"}},
            "authentication.pfx",
            "is not base64",
        ),
        (
            {
                "authentication": {
                    "type": "ActiveDirectoryOAuth",
                    "tenant": "t",
                    "audience": "a",
                    "clientId": "c",
                }
            },
            "authentication.secret",
            "is missing",
        ),
    ],
)
def test_a_request_that_is_wrong_is_told_where(request_members, field, says):
    refused = refusal(http(**request_members))

    assert refused.field == f"properties.action.request.{field}"
    assert says in str(refused)
    assert "hunter2" not in str(refused)


@pytest.mark.parametrize("uri", ["http://a/@me", "http://a/?to=me@b", "http://a/#@b", "http://a:80/x%5Cy"])
def test_only_before_the_path_of_an_address_an_at_sign_means_a_user(uri):
    assert replaced(http(uri=uri)).definition["action"]["request"]["uri"] == uri


def test_what_is_just_within_the_limits_is_taken():
    found = replaced(
        http(
            uri=f"http://a/{'x' * 2039}",
            body="x" * 8192,
            headers={f"{n:02}": "" for n in range(49)} | {"hh": "x" * (4096 - 100)},
        )
    )

    assert len(found.definition["action"]["request"]["body"]) == 8192


def test_a_job_of_more_than_sixteen_kilobytes_is_refused():
    def of(length: int) -> dict[str, Any]:
        return body(
            action={
                "type": "StorageQueue",
                "queueMessage": {**QUEUE["queueMessage"], "message": "x" * length},
            }
        )

    assert "is 16,4" in str(refusal(of(JOB_BYTES_MAX - 100)))
    assert "(16 K)" in str(refusal(of(JOB_BYTES_MAX)))
    replaced(of(JOB_BYTES_MAX - 1000))


@pytest.mark.parametrize("missing", ["storageAccount", "queueName", "sasToken", "message"])
def test_a_queue_message_needs_all_of_its_members(missing):
    message = {name: value for name, value in QUEUE["queueMessage"].items() if name != missing}

    refused = refusal(body(action={"type": "StorageQueue", "queueMessage": message}))

    assert refused.field == f"properties.action.queueMessage.{missing}"


@pytest.mark.parametrize("missing", ["topicPath", "namespace", "message", "transportType"])
def test_a_message_to_a_topic_needs_these_members(missing):
    message = {name: value for name, value in {"topicPath": "t", **SERVICE_BUS}.items() if name != missing}

    refused = refusal(body(action={"type": "ServiceBusTopic", "serviceBusTopicMessage": message}))

    assert refused.field == f"properties.action.serviceBusTopicMessage.{missing}"


# Secrets


@pytest.mark.parametrize(
    "authentication",
    [
        BASIC,
        {"type": "ClientCertificate", "pfx": pfx(), "password": "hunter2"},
        {
            "type": "ActiveDirectoryOAuth",
            "tenant": "t",
            "audience": "a",
            "clientId": "c",
            "secret": "hunter2",
        },
    ],
    ids=lambda one: one["type"],
)
def test_no_secret_is_in_what_a_client_may_see_nor_in_what_a_log_shows(authentication):
    job = written(http(authentication=authentication))

    shown = f"{job.definition} {job} {job!r} {replaced(http(authentication=authentication))!r}"
    assert "hunter2" not in shown
    assert pfx() not in shown
    assert "hunter2" in job.secrets.values()
    assert job.definition["action"]["request"]["authentication"]["type"] == authentication["type"]
