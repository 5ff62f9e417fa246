"""What a document is of, where it belongs, and which secrets it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.jobs.documents import SECRETS, missing_secrets, replaced, with_secrets
from backstay.domain.jobs.records import CollectionId
from backstay.domain.jobs.resources import Place, place_of, read_place, resources
from backstay.errors import InvalidJob
from tests.support.job_documents import BASIC, HTTP, QUEUE, SERVICE_BUS, body, http, pfx

HERE = {"subscription": "s", "resource_group": "g"}
ID = "/subscriptions/S/resourceGroups/G/providers/Microsoft.Scheduler/jobCollections/jc1"
THERE = CollectionId("S", "G", "jc1")


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("jc1", Place(CollectionId("s", "g", "jc1"))),
        ("jc1/j1", Place(CollectionId("s", "g", "jc1"), "j1")),
        (ID, Place(THERE)),
        (f"{ID}/jobs/j1", Place(THERE, "j1")),
        (f"{ID}/jobs/j1/".replace("subscriptions", "SUBSCRIPTIONS"), Place(THERE, "j1")),
    ],
)
def test_a_name_means_a_place_here_and_an_id_one_anywhere(written: str, place: Place):
    assert read_place(written, **HERE) == place


@pytest.mark.parametrize("written", ["", "/", "jc1/", "/j1", "jc1/j1/x", ID.replace("Scheduler", "Other")])
def test_what_is_neither_a_name_nor_an_id_is_refused(written: str):
    with pytest.raises(InvalidJob, match="write COLLECTION, COLLECTION/JOB, or an id"):
        read_place(written, **HERE)


def test_the_place_of_a_document_is_in_its_id_and_else_in_its_name():
    job = {"type": "microsoft.scheduler/jobcollections/JOBS", "name": "jc9/j9"}

    assert place_of({**job, "id": f"{ID}/jobs/j1"}, **HERE) == Place(THERE, "j1")
    assert place_of(job, **HERE) == Place(CollectionId("s", "g", "jc9"), "j9")
    assert place_of({"name": "jc9", "location": "West US"}, **HERE).job is None
    assert place_of({"name": "jc9/j9", "properties": {"action": {}}}, **HERE).job == "j9"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (7, "a collection or a job"),
        ({}, "name is missing"),
        ({"name": 7}, "name is missing"),
        ({"name": "jc1", "properties": {"action": {}}}, "of a job"),
        ({"name": "jc1/j1", "type": "Microsoft.Scheduler/jobCollections"}, "of a collection"),
    ],
)
def test_a_document_whose_place_is_unclear_is_refused(document: Any, complaint: str):
    with pytest.raises(InvalidJob, match=complaint):
        place_of(document, **HERE)


def test_a_file_has_one_document_or_a_list_of_them():
    assert resources({"name": "a"}) == [{"name": "a"}]
    assert resources([{"name": "a"}]) == resources({"value": [{"name": "a"}], "nextLink": None})
    assert resources([]) == []


def both(action: dict[str, Any]) -> dict[str, Any]:
    """The action, and the same again after a failure."""
    return body(action={**action, "errorAction": action})


@pytest.mark.parametrize(
    "document",
    [
        both({**HTTP, "request": {**HTTP["request"], "authentication": BASIC}}),
        both(
            {
                **HTTP,
                "request": {
                    **HTTP["request"],
                    "authentication": {"type": "CLIENTCERTIFICATE", "pfx": pfx("p"), "password": "p"},
                },
            }
        ),
        http(
            authentication={
                "type": "ActiveDirectoryOAuth",
                "tenant": "t",
                "audience": "a",
                "clientId": "c",
                "secret": "s",
            }
        ),
        both(QUEUE),
        both({"type": "ServiceBusQueue", "serviceBusQueueMessage": {**SERVICE_BUS, "queueName": "q"}}),
        both({"type": "ServiceBusTopic", "serviceBusTopicMessage": {**SERVICE_BUS, "topicPath": "t"}}),
    ],
)
def test_what_was_answered_lacks_its_secrets_and_no_more(document: dict[str, Any]):
    read = replaced(document)
    assert read.secrets
    answered = {"properties": read.definition}

    assert missing_secrets(document) == []
    assert set(missing_secrets(answered)) == set(read.secrets)
    assert replaced(with_secrets(answered, read.secrets)) == read


def test_a_job_without_secrets_lacks_none():
    assert missing_secrets(body()) == []
    assert missing_secrets(http(authentication={"type": "NotSpecified"})) == []


@pytest.mark.parametrize("place", ["action.request.uri", SECRETS[0], ""])
def test_a_secret_goes_nowhere_but_where_one_belongs(place: str):
    with pytest.raises(InvalidJob, match="no place for a secret"):
        with_secrets(body(), {place: "hunter2"})
