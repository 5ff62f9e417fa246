"""A collection's document: read, merged with what is kept, and written as it is answered."""

from __future__ import annotations

from collections.abc import Collection as Several
from collections.abc import Mapping
from typing import Any, Final

from backstay.domain.jobs import skus
from backstay.domain.jobs.locations import display_name, is_same_location
from backstay.domain.jobs.merging import Json, kind_of, merged, spelled
from backstay.domain.jobs.readers import Reader, choice, members, text, texts
from backstay.domain.jobs.records import (
    Collection,
    CollectionId,
    CollectionState,
    Fastest,
    Quota,
    Sku,
)
from backstay.domain.jobs.shapes import COLLECTION
from backstay.domain.recurrence import Frequency
from backstay.domain.recurrence.members import whole
from backstay.domain.recurrence.reading import INTERVAL_MAX
from backstay.errors import InvalidJob, JobForbids

TAGS_MAX: Final = 50
TAG_NAME_LENGTH_MAX: Final = 512
TAG_LENGTH_MAX: Final = 256
LOCATION_LENGTH_MAX: Final = 100
_OCCURRENCES_MAX: Final = 2**31 - 1


def replaced_collection(
    id: CollectionId, body: object, *, kept: Collection | None, known: Several[Sku]
) -> Collection:
    """What a PUT makes of the collection ``kept``, if there is one. Raises InvalidJob, JobForbids."""
    # Where it is stays as it is: it cannot be changed, and need not be said again.
    location = {} if kept is None else {"location": kept.location}
    return _judged(id if kept is None else kept.id, location, body, kept=kept, known=known)


def patched_collection(kept: Collection, body: object, *, known: Several[Sku]) -> Collection:
    """What a PATCH makes of the collection ``kept``. Raises InvalidJob, JobForbids."""
    return _judged(kept.id, _document(kept), body, kept=kept, known=known)


def _judged(
    id: CollectionId,
    document: Mapping[str, Any],
    body: object,
    *,
    kept: Collection | None,
    known: Several[Sku],
) -> Collection:
    """``known`` are the SKUs that may be asked for. One that a collection has already, it may keep."""
    if not isinstance(body, dict):
        raise InvalidJob("the job collection", f"is {kind_of(body)}; it must be a JSON object")
    sent: Json = spelled(body, COLLECTION, "")
    _check_name(sent.get("name"), id)
    whole = merged(document, sent, COLLECTION)
    properties = whole.get("properties", {})
    sku = _sku(properties.get("sku", {}), known=known, kept=kept)
    collection = Collection(
        id=id,
        location=_location(whole.get("location"), kept),
        tags=_tags(whole["tags"]) if "tags" in whole else None,
        sku=sku,
        state=_state(properties.get("state", CollectionState.ENABLED.value)),
        quota=_quota(properties["quota"], sku) if "quota" in properties else None,
    )
    _check_quota(collection)
    return collection


def _check_name(given: object, id: CollectionId) -> None:
    if given is not None and (not isinstance(given, str) or given.casefold() != id.name.casefold()):
        raise InvalidJob("name", f"is not {id.name}, as the path has it; write the same, or leave it out")


def _location(value: Any, kept: Collection | None) -> str:
    if value is None:
        raise InvalidJob("location", 'is missing; write one such as "West US"')
    location = display_name(text(most=LOCATION_LENGTH_MAX)(value, "location"))
    if kept is None:
        return location
    if not is_same_location(location, kept.location):
        raise JobForbids(
            f"The job collection '{kept.id.name}' is in location '{kept.location}', which cannot be changed."
            " Delete it, and create it anew."
        )
    return kept.location


def _tags(value: Mapping[str, Any]) -> dict[str, str]:
    tags = texts(value, "tags")
    too_long = any(
        not 1 <= len(name) <= TAG_NAME_LENGTH_MAX or len(one) > TAG_LENGTH_MAX for name, one in tags.items()
    )
    if len(tags) > TAGS_MAX or too_long:
        raise InvalidJob(
            "tags",
            f"has too much in it; write at most {TAGS_MAX} of them, with {TAG_NAME_LENGTH_MAX} characters"
            f" in a name and {TAG_LENGTH_MAX} in a value",
        )
    return tags


def _sku(value: Mapping[str, Any], *, known: Several[Sku], kept: Collection | None) -> Sku:
    may_be = (*known, *(() if kept is None or kept.sku in known else (kept.sku,)))
    return Sku(choice(may_be)(value.get("name", Sku.STANDARD.value), "properties.sku.name"))


def _state(value: Any) -> CollectionState:
    return CollectionState(choice(CollectionState)(value, "properties.state"))


# Quotas


def _quota(value: Mapping[str, Any], sku: Sku) -> Quota:
    field = "properties.quota"
    readers: dict[str, Reader] = {
        "maxJobCount": whole(0, _OCCURRENCES_MAX),
        "maxJobOccurrence": whole(0, _OCCURRENCES_MAX),
        "maxRecurrence": _max_recurrence,
    }
    quota = members(value, field, readers)
    most = skus.ALLOWANCES[sku].jobs
    if quota.get("maxJobCount", 0) > most:
        raise InvalidJob(
            f"{field}.maxJobCount",
            f"is {quota['maxJobCount']:,}; the max job count of a {sku} job collection cannot be higher"
            f" than {most:,}",
        )
    return Quota(
        max_job_count=quota.get("maxJobCount"),
        max_job_occurrence=quota.get("maxJobOccurrence"),
        max_recurrence=quota.get("maxRecurrence"),
    )


def _max_recurrence(value: Mapping[str, Any], field: str) -> Fastest:
    readers: dict[str, Reader] = {"frequency": choice(Frequency), "interval": whole(1, INTERVAL_MAX)}
    found = members(value, field, readers, needed="frequency")
    return Fastest(found["frequency"], found.get("interval", 1))


def _check_quota(collection: Collection) -> None:
    allowed, wanted = skus.ALLOWANCES[collection.sku].fastest, skus.fastest(collection)
    if skus.period(wanted) < skus.period(allowed):
        raise InvalidJob(
            "properties.quota.maxRecurrence",
            f"exceeds the permissible limit: a {collection.sku} job collection may recur every"
            f" {allowed.interval} {allowed.frequency}, not faster",
        )


# Answers


def rendered_collection(collection: Collection) -> Json:
    """As clients are answered."""
    return {
        "id": resource_of(collection.id),
        "type": "Microsoft.Scheduler/jobCollections",
        "name": collection.id.name,
        **_document(collection),
    }


def resource_of(id: CollectionId) -> str:
    """The path that is a collection's id."""
    return (
        f"/subscriptions/{id.subscription}/resourceGroups/{id.resource_group}"
        f"/providers/Microsoft.Scheduler/jobCollections/{id.name}"
    )


def _document(collection: Collection) -> Json:
    tags = {} if collection.tags is None else {"tags": dict(collection.tags)}
    quota = {} if collection.quota is None else {"quota": _rendered_quota(collection.quota)}
    return {
        "location": collection.location,
        **tags,
        "properties": {
            "sku": {"name": collection.sku.value},
            "state": collection.state.value,
            **quota,
        },
    }


def _rendered_quota(quota: Quota) -> Json:
    fastest = quota.max_recurrence
    given = {
        "maxJobCount": quota.max_job_count,
        "maxJobOccurrence": quota.max_job_occurrence,
        "maxRecurrence": None
        if fastest is None
        else {"frequency": fastest.frequency, "interval": fastest.interval},
    }
    return {name: value for name, value in given.items() if value is not None}
