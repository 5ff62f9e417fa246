"""Puts documents of collections and jobs, one after the other, and keeps account of what became of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from backstay.cli.access import JobDesk
from backstay.cli.job_where import collection_if_there
from backstay.domain.jobs.collection import replaced_collection
from backstay.domain.jobs.documents import missing_secrets, replaced, with_secrets
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.outcomes import FINISHED
from backstay.domain.jobs.records import CollectionId, CollectionState
from backstay.domain.jobs.resources import Place, place_of
from backstay.errors import Conflict, InvalidRequest
from backstay.jobroom import SKUS

_NAMELESS: Final = "document"


class Skipped(msgspec.Struct, frozen=True):
    name: str
    reason: str


class Refused(msgspec.Struct, frozen=True, omit_defaults=True):
    """``secrets`` are the places of those that have to be given again."""

    name: str
    reason: str
    secrets: list[str] = []


class Report(msgspec.Struct, frozen=True):
    """Names of what was put, in the order of the file, and why the rest was not."""

    created: list[str] = msgspec.field(default_factory=list)
    updated: list[str] = msgspec.field(default_factory=list)
    # Good, and with a dry run not written.
    checked: list[str] = msgspec.field(default_factory=list)
    skipped: list[Skipped] = msgspec.field(default_factory=list)
    refused: list[Refused] = msgspec.field(default_factory=list)


class Importer:
    """``names``: the subscription and group of what says neither. The options move everything there."""

    def __init__(
        self,
        names: Mapping[str, str],
        *,
        subscription: str | None,
        resource_group: str | None,
        secrets: Mapping[str, Mapping[str, str]],
        disabled: bool,
        dry_run: bool,
    ) -> None:
        self._names = names
        self._subscription = subscription
        self._resource_group = resource_group
        self._secrets = {name.casefold(): given for name, given in secrets.items()}
        self._disabled = disabled
        self._dry_run = dry_run
        self.report = Report()

    async def put_all(self, desk: JobDesk, documents: list[Any]) -> AsyncIterator[int]:
        """Collections first, since no job can be without its own; how many are done, after each."""
        found = [(number, *self._placed(number, one)) for number, one in enumerate(documents, 1)]
        found.sort(key=lambda one: (one[1] is not None and one[1].job is not None, one[0]))
        for done, (_, place, document) in enumerate(found, 1):
            if place is not None:
                await self._put(desk, place, document)
            yield done

    def _placed(self, number: int, document: Any) -> tuple[Place | None, Any]:
        try:
            place = place_of(document, **self._names)
        except InvalidRequest as error:
            self.report.refused.append(Refused(f"{_NAMELESS} {number}", str(error)))
            return None, document
        collection = CollectionId(
            self._subscription or place.collection.subscription,
            self._resource_group or place.collection.resource_group,
            place.collection.name,
        )
        return Place(collection, place.job), document

    async def _put(self, desk: JobDesk, place: Place, document: Json) -> None:
        try:
            if place.job is None:
                await self._put_collection(desk, place, document)
            else:
                await self._put_job(desk, place, place.job, document)
        except (InvalidRequest, Conflict) as error:
            self.report.refused.append(Refused(place.name, str(error)))

    async def _put_collection(self, desk: JobDesk, place: Place, document: Json) -> None:
        if self._disabled:
            properties = {**(document.get("properties") or {}), "state": CollectionState.DISABLED.value}
            document = {**document, "properties": properties}
        if self._dry_run:
            replaced_collection(check_place(place.collection), document, kept=None, known=SKUS)
            self.report.checked.append(place.name)
            return
        new = await collection_if_there(desk, place.collection) is None
        await desk.put_collection(place.collection, document)
        self._count(place, new=new)

    async def _put_job(self, desk: JobDesk, place: Place, name: str, document: Json) -> None:
        over = _state(document)
        if over in FINISHED:
            self.report.skipped.append(Skipped(place.name, f"it is {over}, and would not run"))
            return
        given = self._secrets.get(place.name.casefold(), {})
        whole = with_secrets(document, given)
        missing = missing_secrets(whole)
        if missing:
            reason = (
                f"secrets are missing, which no export has: {', '.join(missing)}; give them with --secrets"
            )
            self.report.refused.append(Refused(place.name, reason, missing))
            return
        # Here, so that a server that says no more than the original service did need not be asked.
        replaced(whole)
        check_name(name, "job")
        if self._dry_run:
            self.report.checked.append(place.name)
            return
        _, new = await desk.put_job(place.collection, name, whole)
        self._count(place, new=new)

    def _count(self, place: Place, *, new: bool) -> None:
        (self.report.created if new else self.report.updated).append(place.name)


def _state(document: Mapping[str, Any]) -> str:
    properties = document.get("properties")
    state = properties.get("state") if isinstance(properties, Mapping) else None
    return state.lower() if isinstance(state, str) else ""
