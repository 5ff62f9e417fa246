"""What a collection's document may say, how it is answered, and what a collection allows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from backstay.domain.jobs import deciding
from backstay.domain.jobs.collection import patched_collection, rendered_collection, replaced_collection
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.records import Collection, CollectionId, CollectionState, JobState, Sku
from backstay.domain.jobs.skus import ALLOWANCES
from backstay.errors import InvalidJob, JobForbids, QuotaExceeded
from tests.support.job_documents import BASIC, body, http, written
from tests.support.job_records import NOON

ID = CollectionId("S", "RG", "jc1")
SKUS = (Sku.STANDARD, Sku.FREE, Sku.P10_PREMIUM, Sku.P20_PREMIUM)


def put(document: Any, kept: Collection | None = None) -> Collection:
    return replaced_collection(ID, document, kept=kept, known=SKUS)


def patch(kept: Collection, document: Any) -> Collection:
    return patched_collection(kept, document, known=SKUS)


def of(sku: str = "Standard", **quota: Any) -> Collection:
    quotas = {"quota": quota} if quota else {}
    return put({"location": "westus", "properties": {"sku": {"name": sku}, **quotas}})


# Documents


def test_a_collection_is_answered_as_the_reference_shows_it():
    found = put(
        {
            "location": "southcentralus",
            "tags": {"department": "marketing"},
            "properties": {
                "sku": {"name": "standard"},
                "state": "enabled",
                "quota": {
                    "maxJobCount": 50,
                    "maxJobOccurrence": 1,
                    "maxRecurrence": {"frequency": "Minute", "interval": 1},
                },
            },
        }
    )

    assert rendered_collection(found) == {
        "id": "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Scheduler/jobCollections/jc1",
        "type": "Microsoft.Scheduler/jobCollections",
        "name": "jc1",
        "location": "South Central US",
        "tags": {"department": "marketing"},
        "properties": {
            "sku": {"name": "Standard"},
            "state": "Enabled",
            "quota": {
                "maxJobCount": 50,
                "maxJobOccurrence": 1,
                "maxRecurrence": {"frequency": "minute", "interval": 1},
            },
        },
    }


def test_what_is_not_set_is_left_out():
    found = rendered_collection(put({"location": "Moon"}))

    assert found["location"] == "Moon"
    assert found["properties"] == {"sku": {"name": "Standard"}, "state": "Enabled"}
    assert "tags" not in found


def test_what_was_answered_and_is_put_again_is_answered_the_same():
    first = put({"location": "westus", "tags": {}, "properties": {"quota": {}, "state": "Suspended"}})

    assert put(rendered_collection(first), first) == first
    assert put(rendered_collection(first)) == first


def test_a_patch_changes_only_what_it_says():
    first = put({"location": "westus", "tags": {"a": "1"}, "properties": {"quota": {"maxJobCount": 3}}})

    found = patch(first, {"tags": {"department": "x"}})
    more = patch(
        found, {"properties": {"quota": {"maxRecurrence": {"frequency": "Day"}}, "state": "disabled"}}
    )
    less = patch(more, {"tags": {"a": None}, "properties": {"quota": {"maxJobCount": None}}})

    assert found == replace(first, tags={"a": "1", "department": "x"})
    assert rendered_collection(more)["properties"]["quota"] == {
        "maxJobCount": 3,
        "maxRecurrence": {"frequency": "day", "interval": 1},
    }
    assert more.state is CollectionState.DISABLED
    assert less.tags == {"department": "x"}
    assert less.quota is not None
    assert less.quota.max_job_count is None
    assert patch(less, {"tags": None, "properties": {"quota": None}}).quota is None


def test_a_put_replaces_all_but_the_location():
    first = put(
        {
            "location": "westus",
            "tags": {"a": "1"},
            "properties": {"sku": {"name": "free"}, "state": "disabled"},
        }
    )

    assert put({}, first) == Collection(id=ID, location="West US")
    assert put({"location": "West US"}, first).location == "West US"


@pytest.mark.parametrize("change", [put, lambda document, kept: patch(kept, document)], ids=["PUT", "PATCH"])
def test_a_location_cannot_be_changed(change):
    first = put({"location": "westus"})

    with pytest.raises(JobForbids, match="is in location 'West US', which cannot be changed"):
        change({"location": "eastus"}, first)


def test_a_collection_keeps_a_sku_that_is_no_longer_given_away():
    kept = replaced_collection(
        ID, {"location": "x", "properties": {"sku": {"name": "Premium"}}}, kept=None, known=[Sku.PREMIUM]
    )

    assert patch(kept, {"tags": {}}).sku is Sku.PREMIUM
    with pytest.raises(InvalidJob, match=r"properties\.sku\.name is none of Standard, Free, P10Premium, P20"):
        put({"location": "x", "properties": {"sku": {"name": "Premium"}}})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (None, "the job collection is null; it must be a JSON object"),
        ([], "the job collection is an array"),
        ({}, "location is missing"),
        ({"location": ""}, "location is empty"),
        ({"location": 5}, "location is a number"),
        ({"location": "x", "name": "jc2"}, "name is not jc1, as the path has it"),
        ({"location": "x", "tags": {"a": 1}}, "tags has a member that is a number"),
        ({"location": "x", "tags": {str(n): "" for n in range(51)}}, "tags has too much in it"),
        ({"location": "x", "tags": {"a": "x" * 257}}, "256 in a value"),
        ({"location": "x", "properties": {"state": "Deleted"}}, "properties.state is none of Enabled"),
        (
            {"location": "x", "properties": {"sku": "Free"}},
            "properties.sku is text; it must be a JSON object",
        ),
        ({"location": "x", "properties": {"sku": {"name": "Gold"}}}, "properties.sku.name is none of"),
        (
            {"location": "x", "properties": {"quota": {"maxJobCount": -1}}},
            "properties.quota.maxJobCount is -1",
        ),
        ({"location": "x", "properties": {"quota": {"maxJobCount": 51}}}, "cannot be higher than 50"),
        (
            {"location": "x", "properties": {"sku": {"name": "Free"}, "quota": {"maxJobCount": 6}}},
            "the max job count of a Free job collection cannot be higher than 5",
        ),
        (
            {
                "location": "x",
                "properties": {
                    "sku": {"name": "Free"},
                    "quota": {"maxRecurrence": {"frequency": "minute", "interval": 59}},
                },
            },
            "properties.quota.maxRecurrence exceeds the permissible limit",
        ),
        (
            {"location": "x", "properties": {"quota": {"maxRecurrence": {"interval": 1}}}},
            "properties.quota.maxRecurrence.frequency is missing",
        ),
        (
            {
                "location": "x",
                "properties": {"quota": {"maxRecurrence": {"frequency": "day", "interval": 0}}},
            },
            "properties.quota.maxRecurrence.interval is 0",
        ),
    ],
)
def test_a_document_that_is_wrong_is_told_what_would_be_right(document, says):
    with pytest.raises(InvalidJob) as refused:
        put(document)

    assert says in str(refused.value)


# Names


@pytest.mark.parametrize("name", ["a", "Jc-1_x", "x" * 100])
def test_names_begin_with_a_letter(name):
    assert check_name(name, "job") == name


@pytest.mark.parametrize("name", ["", "1a", "-a", "_a", "a b", "a.b", "a/b", "é", "x" * 101, "a\n"])
def test_other_names_are_refused(name):
    with pytest.raises(InvalidJob, match="write a letter, then letters, digits, - and _, 100 characters"):
        check_name(name, "job")


@pytest.mark.parametrize(
    ("subscription", "group"),
    [("", "g"), ("s s", "g"), ("s", ""), ("s", "a/b"), ("s", "end."), ("s", "x" * 91)],
)
def test_a_collection_is_in_a_subscription_and_a_group(subscription, group):
    check_place(CollectionId("a-1", "My.Group(1)", "jc"))
    with pytest.raises(InvalidJob):
        check_place(CollectionId(subscription, group, "jc"))


# What a collection allows


def new_job(collection: Collection, document: Any, there: int = 0) -> None:
    written(document, collection=collection, jobs=there)


@pytest.mark.parametrize("sku", SKUS)
def test_a_collection_takes_as_many_jobs_as_its_sku_allows(sku):
    most = ALLOWANCES[sku].jobs

    new_job(of(sku), body(), most - 1)
    with pytest.raises(QuotaExceeded, match=f"has reached its quota of '{most}'"):
        new_job(of(sku), body(), most)


def test_a_quota_is_narrower():
    new_job(of(maxJobCount=2), body(), 1)
    with pytest.raises(QuotaExceeded, match="has reached its quota of '2'"):
        new_job(of(maxJobCount=2), body(), 2)
    with pytest.raises(QuotaExceeded, match="'0'"):
        new_job(of(maxJobCount=0), body())


def test_a_job_that_is_there_already_takes_no_further_place():
    job = written(body())

    written(body(), collection=of(maxJobCount=1), job=job, jobs=1)


FAST: list[dict[str, Any]] = [
    {"frequency": "minute", "interval": 59},
    {"frequency": "day", "schedule": {"minutes": [0, 15, 30, 45]}},
    {"frequency": "month", "schedule": {"minutes": [0, 59], "hours": [5], "monthDays": [-1]}},
]
SLOW: list[dict[str, Any]] = [
    {"frequency": "minute", "interval": 60},
    {"frequency": "hour"},
    {"frequency": "year"},
    {"frequency": "day", "schedule": {"minutes": [30]}},
    {"frequency": "week", "schedule": {"hours": [5, 6], "weekDays": ["monday"]}},
    {"frequency": "minute", "count": 1},
]


@pytest.mark.parametrize("start", [None, "2030-01-01T12:25:00Z"], ids=["no start", "start"])
@pytest.mark.parametrize(
    "collection", [of("Free"), of(maxRecurrence={"frequency": "hour"})], ids=["Free", "quota"]
)
def test_no_job_recurs_faster_than_its_collection_allows(collection, start):
    for recurrence in SLOW:
        new_job(collection, body(startTime=start, recurrence=recurrence))
    for recurrence in FAST:
        with pytest.raises(QuotaExceeded, match="is more frequent than the maxRecurrence"):
            new_job(collection, body(startTime=start, recurrence=recurrence))
    new_job(collection, body(startTime=start))


def test_each_month_is_not_faster_than_each_month():
    new_job(of(maxRecurrence={"frequency": "month"}), body(recurrence={"frequency": "month"}))
    monthly = {"frequency": "month", "schedule": {"monthDays": [1]}}
    new_job(of(maxRecurrence={"frequency": "month"}), body(startTime="2030-01-01", recurrence=monthly))


def test_a_free_collection_has_no_request_authentication():
    document = http(authentication=BASIC)
    nothing = http(authentication={"type": "NotSpecified"})

    new_job(of("Standard"), document)
    new_job(of("Free"), nothing)
    with pytest.raises(QuotaExceeded, match="uses request authentication"):
        new_job(of("Free"), document)
    with pytest.raises(QuotaExceeded, match="uses request authentication"):
        new_job(of("Free"), body(errorAction=document["properties"]["action"]))


# Changes of a collection with jobs


def changed(
    new: Collection, *documents: Any, others: Any = None, was: Collection | None = None
) -> Collection:
    return deciding.checked_collection(
        new,
        collection=was or of(),
        jobs=[replace(written(one), name=f"j{number}") for number, one in enumerate(documents)],
        others=others or {},
        now=NOON,
    )


def test_a_quota_cannot_be_lowered_below_what_is_there():
    minutely = body(recurrence={"frequency": "minute"})

    changed(of(maxJobCount=2), body(), body())
    with pytest.raises(QuotaExceeded, match="quota of '1'"):
        changed(of(maxJobCount=1), body(), body())
    with pytest.raises(QuotaExceeded, match="The recurrence of job 'j1' is more frequent"):
        changed(of(maxRecurrence={"frequency": "minute", "interval": 2}), body(), minutely)


@pytest.mark.parametrize(
    "documents",
    [[body()] * 6, [body(recurrence={"frequency": "minute"})], [http(authentication=BASIC)]],
    ids=["six jobs", "faster than hourly", "authentication"],
)
def test_a_collection_becomes_free_only_if_its_jobs_may_be(documents):
    changed(of("Free"), body(recurrence={"frequency": "hour"}))
    with pytest.raises(QuotaExceeded):
        changed(of("Free"), *documents)


def test_an_empty_collection_may_become_anything():
    for sku in SKUS:
        for other in SKUS:
            assert changed(of(sku), was=of(other)).sku is sku


def test_what_is_over_is_no_hindrance_but_counts():
    over = replace(written(body(recurrence={"frequency": "minute"})), state=JobState.COMPLETED, next_at=None)

    def free(*jobs: Any) -> Collection:
        return deciding.checked_collection(of("Free"), collection=of(), jobs=jobs, others={}, now=NOON)

    free(over)
    with pytest.raises(QuotaExceeded):
        free(*[over] * 6)


@pytest.mark.parametrize(
    ("sku", "there"), [("Free", 1), ("Standard", 100), ("P10Premium", 10_000), ("P20Premium", 10_000)]
)
def test_a_subscription_has_so_many_collections_of_a_sku(sku, there):
    new = of(sku)

    def created(others: dict[str, int]) -> Collection:
        return deciding.checked_collection(new, collection=None, jobs=[], others=others, now=NOON)

    created({sku: there - 1, "Other": 10_000})
    with pytest.raises(QuotaExceeded):
        created({sku: there})
    with pytest.raises(QuotaExceeded):
        changed(new, others={sku: there}, was=of("Free" if sku != "Free" else "Standard"))
    # One that is there already may be changed, as long as its SKU is the same.
    changed(new, others={sku: there}, was=new)


def test_a_second_free_collection_is_told_why():
    with pytest.raises(QuotaExceeded, match="only one free job collection per subscription"):
        changed(of("Free"), others={"Free": 1})


def test_a_job_is_run_by_hand_only_while_it_and_its_collection_are_enabled():
    job, collection = written(body()), of()

    deciding.check_may_run(collection, job)
    with pytest.raises(JobForbids, match=r"Job 'j1' is disabled\. Enable it"):
        deciding.check_may_run(collection, written(body(state="disabled")))
    for state in (CollectionState.DISABLED, CollectionState.SUSPENDED):
        with pytest.raises(JobForbids, match=f"The job collection 'jc1' is {state}"):
            deciding.check_may_run(replace(collection, state=state), job)


def test_a_schedule_shows_how_fast_it_is_wherever_in_its_round_it_begins():
    daily = of(maxRecurrence={"frequency": "day", "interval": 2})
    pairs = {"frequency": "month", "schedule": {"monthDays": [1, 15, 16], "hours": [5], "minutes": [0]}}
    weeks = {"frequency": "week", "interval": 4, "schedule": {"weekDays": ["monday", "tuesday"]}}

    for start in ("2030-01-02", "2030-01-15T06:00:00Z", "2030-01-16"):
        for recurrence in (pairs, weeks):
            with pytest.raises(QuotaExceeded):
                new_job(daily, body(startTime=start, recurrence=recurrence))
