"""What a document is and where it belongs, by what it says of itself: an id, a type, a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from backstay.domain.jobs.merging import kind_of
from backstay.domain.jobs.records import CollectionId
from backstay.domain.text import shortened
from backstay.errors import InvalidJob

_JOB_TYPE: Final = "Microsoft.Scheduler/jobCollections/jobs"

_ID: Final = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.Scheduler"
    r"/jobCollections/([^/]+)(?:/jobs/([^/]+))?/?",
    re.IGNORECASE,
)


class Place(msgspec.Struct, frozen=True):
    """Where a collection is, or a job in it."""

    collection: CollectionId
    job: str | None = None

    @property
    def name(self) -> str:
        """``jc1``, or ``jc1/j1`` for a job."""
        return self.collection.name if self.job is None else f"{self.collection.name}/{self.job}"


def read_place(written: str, *, subscription: str, resource_group: str) -> Place:
    """The place that a name (``jc1``, ``jc1/j1``) means there, or an id anywhere. Raises InvalidJob."""
    found = _ID.fullmatch(written)
    if found is not None:
        return Place(CollectionId(*found.group(1, 2, 3)), found[4])
    collection, slash, job = written.partition("/")
    if not collection or (slash and not job) or "/" in job:
        raise InvalidJob("the name", f"is {shortened(written)}; write COLLECTION, COLLECTION/JOB, or an id")
    return Place(CollectionId(subscription, resource_group, collection), job or None)


def place_of(document: Any, *, subscription: str, resource_group: str) -> Place:
    """Where a document belongs: by its id, else by its name there. Raises InvalidJob."""
    if not isinstance(document, Mapping):
        raise InvalidJob("the document", f"is {kind_of(document)}; it must be a collection or a job")
    written = document.get("id") or document.get("name")
    if not isinstance(written, str):
        raise InvalidJob("name", "is missing; a document says by its name or its id what it is of")
    place = read_place(written, subscription=subscription, resource_group=resource_group)
    if _is_job(document) is not (place.job is not None):
        what = "a job, whose name is COLLECTION/JOB" if place.job is None else "a collection"
        raise InvalidJob("name", f"is {shortened(place.name)}, and the document is that of {what}")
    return place


def resources(content: Any) -> list[Any]:
    """The documents of a file: a list, such as the REST API answers, or a single one. Raises InvalidJob."""
    if isinstance(content, Mapping) and "value" in content:
        content = content["value"]
    found = content if isinstance(content, list) else [content]
    if not all(isinstance(one, Mapping) for one in found):
        raise InvalidJob("the file", 'must have documents in it: one, an array, or {"value": […]}')
    return found


def _is_job(document: Mapping[str, Any]) -> bool:
    kind = document.get("type")
    if isinstance(kind, str):
        return kind.casefold() == _JOB_TYPE.casefold()
    properties = document.get("properties")
    return isinstance(properties, Mapping) and "action" in properties
