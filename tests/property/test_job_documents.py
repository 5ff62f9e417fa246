"""Whatever a job's document says: put again, it is answered the same; and a merge keeps the rest."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from backstay.domain.jobs.documents import SECRETS, joined, patched, replaced, split
from backstay.domain.jobs.merging import merged, spelled
from backstay.domain.jobs.outcomes import FINISHED
from backstay.domain.jobs.rendering import rendered_job
from backstay.domain.jobs.shapes import JOB, TEXTS, WHOLE, Shape
from tests.support.job_documents import whole, written

TEXT = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
SECRET = st.integers(0, 10**6).map(lambda number: f"s3cr3t{number}")
INSTANTS = st.sampled_from(["2030-05-01", "2031-01-01T10:00:00.1234567Z", "2030-06-01T00:00:00+05:30"])
SPANS = st.sampled_from(["00:00:15", "00:01:00", "30.00:00:00", "PT30S", "PT1D", "P1DT2H"])
DAYS = st.sampled_from(["Monday", "tuesday", "SUNDAY"])


def some(needed: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(needed, optional=optional)


POLICIES = some(
    {},
    retryType=st.sampled_from(["None", "fixed", "FIXED"]),
    retryInterval=SPANS,
    retryCount=st.integers(1, 20),
)
AUTHENTICATIONS = st.one_of(
    some({"type": st.just("basic"), "username": TEXT, "password": SECRET}),
    some(
        {
            "type": st.just("ActiveDirectoryOAuth"),
            "tenant": st.sampled_from(["t", "contoso.example"]),
            "audience": TEXT,
            "clientId": TEXT,
            "secret": SECRET,
        }
    ),
    some({"type": st.just("NotSpecified")}),
)
REQUESTS = some(
    {"uri": st.sampled_from(["http://a", "HTTPS://b/%2d?c=d"]), "method": st.sampled_from(["get", "POST"])},
    headers=st.dictionaries(st.sampled_from(["X-A", "x-b", "Content-Type"]), TEXT),
    body=TEXT,
    authentication=AUTHENTICATIONS,
    retryPolicy=POLICIES,
)
MESSAGE = {"namespace": TEXT, "message": TEXT, "transportType": st.sampled_from(["AMQP", "netmessaging"])}
MORE = {
    "authentication": some({}, type=st.just("SharedAccessKey"), sasKeyName=TEXT, sasKey=SECRET),
    "brokeredMessageProperties": some({}, label=TEXT, timeToLive=SPANS, scheduledEnqueueTimeUtc=INSTANTS),
    "customMessageProperties": st.dictionaries(st.sampled_from("abc"), TEXT),
}
WORKFLOWS = some(
    {"name": st.just("w")}, input=st.recursive(st.none() | st.integers(), st.lists), attributes=st.just({})
)


def actions(**more: Any) -> st.SearchStrategy[dict[str, Any]]:
    queue = some({"storageAccount": TEXT, "queueName": TEXT, "sasToken": SECRET, "message": TEXT})
    return st.one_of(
        some({"type": st.sampled_from(["http", "HTTPS"]), "request": REQUESTS}, **more),
        some({"type": st.just("storageQueue"), "queueMessage": queue}, **more),
        some(
            {
                "type": st.just("ServiceBusQueue"),
                "serviceBusQueueMessage": some({"queueName": TEXT, **MESSAGE}, **MORE),
            },
            **more,
        ),
        some(
            {
                "type": st.just("SERVICEBUSTOPIC"),
                "serviceBusTopicMessage": some({"topicPath": TEXT, **MESSAGE}, **MORE),
            },
            **more,
        ),
        some({"type": st.just("workflow"), "workflow": WORKFLOWS}, **more),
    )


ERROR_ACTIONS = actions(retryPolicy=POLICIES)
NUMBERS = st.integers(0, 23)
ELEMENTS = {
    "minutes": NUMBERS | st.lists(NUMBERS, min_size=1, max_size=3),
    "hours": st.lists(NUMBERS, min_size=1, max_size=3),
}
OCCURRENCES = st.lists(some({"day": DAYS}, Occurrence=st.sampled_from([-1, 1, 4])), min_size=1, max_size=2)
ENDS = {"count": st.integers(1, 9), "endTime": INSTANTS, "interval": st.integers(1, 1000)}
RECURRENCES = st.one_of(
    some({"frequency": st.sampled_from(["Minute", "HOUR"])}, **ENDS),
    some(
        {"frequency": st.sampled_from(["day", "Year"])},
        schedule=some({}, **ELEMENTS),
        **ENDS,
    ),
    some(
        {"frequency": st.just("week")},
        schedule=some({}, weekDays=st.lists(DAYS, min_size=1), **ELEMENTS),
        **ENDS,
    ),
    some({"frequency": st.just("Month")}, schedule=some({}, monthDays=st.just([1, -1]), **ELEMENTS), **ENDS),
    some(
        {"frequency": st.just("Month")}, schedule=some({}, monthlyOccurrences=OCCURRENCES, **ELEMENTS), **ENDS
    ),
)
PROPERTIES = some(
    {"action": actions(retryPolicy=POLICIES, errorAction=ERROR_ACTIONS)},
    startTime=INSTANTS,
    recurrence=RECURRENCES,
    state=st.sampled_from(["Enabled", "disabled"]),
    catchUp=st.sampled_from(["One", "all"]),
    overlap=st.sampled_from(["queue", "ALLOW"]),
    retryPolicy=POLICIES,
    errorAction=ERROR_ACTIONS,
    status=st.just({"executionCount": 3}),
)


@given(PROPERTIES)
def test_what_is_answered_and_put_again_with_its_secrets_is_answered_the_same(properties):
    before = copy.deepcopy(properties)

    first = written({"properties": properties})
    again = written(whole(first) if first.state != "completed" else {"properties": properties})

    assert rendered_job(again) == rendered_job(first)
    assert again.secrets == first.secrets
    assert properties == before


@given(PROPERTIES)
def test_no_secret_is_answered(properties):
    job = written({"properties": properties})

    assert "s3cr3t" not in f"{rendered_job(job)}{job!r}"
    assert set(job.secrets) <= set(SECRETS)
    assert all(secret.startswith("s3cr3t") for secret in job.secrets.values())


@given(PROPERTIES)
def test_secrets_that_were_split_off_and_joined_again_are_where_they_were(properties):
    job = written({"properties": properties})

    assert split(joined(job.definition, job.secrets)) == (job.definition, job.secrets)


@given(PROPERTIES, PROPERTIES)
def test_a_whole_document_patched_onto_any_other_says_all_that_it_says(one, other):
    # A schedule of one and the frequency of the other need not go together.
    other.pop("recurrence", None)
    first, second = written({"properties": one}), replaced({"properties": other})
    assume(first.state not in FINISHED)  # Its end was in the past: such a job is not changed any more.

    found = patched(first, {"properties": other})

    assert found.definition["action"]["type"] == second.definition["action"]["type"]
    assert contains(found.definition["action"], second.definition["action"])
    assert second.secrets.items() <= found.secrets.items()


def contains(whole: Any, part: Any) -> bool:
    """Whether every member of ``part`` is in ``whole``; durations may be in the other notation."""
    if not isinstance(part, dict):
        return bool(whole == part)
    return all(
        name in whole and (name in ("retryInterval", "timeToLive") or contains(whole[name], value))
        for name, value in part.items()
    )


JSON = st.recursive(st.none() | st.integers(0, 3), lambda inner: st.lists(inner, max_size=2))
SHAPE = Shape({"a": WHOLE, "b": TEXTS, "c": Shape({"a": WHOLE, "d": TEXTS})})


def trees(shape: Any) -> st.SearchStrategy[Any]:
    if shape is TEXTS:
        return st.dictionaries(st.sampled_from("xyz"), st.none() | st.just("1"))
    if isinstance(shape, Shape):
        return st.fixed_dictionaries(
            {}, optional={name: st.none() | trees(one) for name, one in shape.members.items()}
        )
    return JSON


@given(trees(SHAPE), trees(SHAPE))
def test_a_merge_keeps_what_is_not_said_and_says_nothing_twice(kept, sent):
    there = merged({}, spelled(kept, SHAPE, ""), SHAPE)
    said = spelled(sent, SHAPE, "")

    once = merged(there, said, SHAPE)

    assert merged(there, {}, SHAPE) == there
    assert merged(once, said, SHAPE) == once
    assert {name: value for name, value in once.items() if name not in said} == {
        name: value for name, value in there.items() if name not in said
    }
    assert not [name for name, value in said.items() if value is None and name in once]


def test_every_place_of_a_secret_is_a_member_that_documents_have():
    for place in SECRETS:
        shape: Any = JOB
        for name in place.split("."):
            shape = shape.members[name]
        assert shape is WHOLE
