"""The jobs of a server: the same questions as to a store's jobroom, over the REST API of Azure Scheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from backstay.agents.http_answers import HttpAnswer
from backstay.cli.remote_answers import ArmRefusal, read
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.records import CollectionId, EntryStatus, JobState
from backstay.errors import UnknownCollection, UnknownJob
from backstay.jobroom import ENTRIES_USUAL, LISTED_MAX

API_VERSION: Final = "2016-03-01"
#: So many a list gives at once, if it is told how many are wanted.
TOP_MAX: Final = 100

_PROVIDER: Final = ("providers", "Microsoft.Scheduler", "jobCollections")
#: The code of an error that means the job; any other that means the collection.
_NO_JOB: Final = "NotFound"
_NO_COLLECTION: Final = "ResourceNotFound"

Send = Callable[..., Awaitable[HttpAnswer]]


class _Listed(msgspec.Struct):
    value: list[Json]


class RemoteJobroom:
    """Asks through ``send``, which knows the server. A 404 is raised as the store would have raised it."""

    def __init__(self, *, send: Send) -> None:
        self._send_to_server = send

    # Collections

    async def collections(
        self, subscription: str, resource_group: str | None = None, *, skip: int = 0
    ) -> list[Json]:
        group = () if resource_group is None else ("resourceGroups", resource_group)
        path = ("subscriptions", subscription, *group, *_PROVIDER)
        answer = await self._send_to_server("GET", path, params=_params({"$skip": skip or None}))
        return read(answer, _Listed).value

    async def collection(self, id: CollectionId) -> Json:
        return read(await self._send("GET", id), dict)

    async def put_collection(self, id: CollectionId, document: Any) -> Json:
        return read(await self._send("PUT", id, json=document), dict)

    async def enable_collection(self, id: CollectionId) -> Json:
        await self._send("POST", id, "enable")
        return await self.collection(id)

    async def disable_collection(self, id: CollectionId) -> Json:
        await self._send("POST", id, "disable")
        return await self.collection(id)

    async def delete_collection(self, id: CollectionId) -> None:
        await self._send("DELETE", id)

    # Jobs

    async def jobs(
        self,
        collection: CollectionId,
        *,
        state: JobState | None = None,
        skip: int = 0,
        limit: int = LISTED_MAX,
    ) -> list[Json]:
        asked = None if state is None else f"state eq {state}"
        return await self._listed(collection, "jobs", asked=asked, skip=skip, limit=limit)

    async def job(self, collection: CollectionId, name: str) -> Json:
        return read(await self._send("GET", collection, *_job(name)), dict)

    async def put_job(self, collection: CollectionId, name: str, document: Any) -> tuple[Json, bool]:
        answer = await self._send("PUT", collection, *_job(name), json=document)
        return read(answer, dict), answer.status == HTTPStatus.CREATED

    async def enable(self, collection: CollectionId, name: str) -> Json:
        return await self._switch(collection, name, JobState.ENABLED)

    async def disable(self, collection: CollectionId, name: str) -> Json:
        return await self._switch(collection, name, JobState.DISABLED)

    async def delete_job(self, collection: CollectionId, name: str) -> None:
        await self._send("DELETE", collection, *_job(name))

    async def run(self, collection: CollectionId, name: str) -> None:
        await self._send("POST", collection, *_job(name), "run")

    async def history(
        self,
        collection: CollectionId,
        name: str,
        *,
        status: EntryStatus | None = None,
        skip: int = 0,
        limit: int = ENTRIES_USUAL,
    ) -> list[Json]:
        asked = None if status is None else f"status eq {status}"
        return await self._listed(collection, *_job(name), "history", asked=asked, skip=skip, limit=limit)

    # Underneath

    async def _switch(self, collection: CollectionId, name: str, state: JobState) -> Json:
        document = {"properties": {"state": state.value}}
        return read(await self._send("PATCH", collection, *_job(name), json=document), dict)

    async def _listed(
        self, collection: CollectionId, *path: str, asked: str | None, skip: int, limit: int
    ) -> list[Json]:
        found: list[Json] = []
        while len(found) < limit:
            top = min(limit - len(found), TOP_MAX)
            params = {"$top": top, "$skip": skip + len(found), "$filter": asked}
            part = read(await self._send("GET", collection, *path, params=params), _Listed).value
            found += part
            if len(part) < top:
                break
        return found

    async def _send(
        self,
        method: str,
        collection: CollectionId,
        *path: str,
        json: Any = None,
        params: dict[str, Any] | None = None,
    ) -> HttpAnswer:
        answer = await self._send_to_server(
            method,
            (*_of(collection), *path),
            json=json,
            params=_params(params or {}),
            fine=lambda answer: _code(answer) in (_NO_JOB, _NO_COLLECTION),
        )
        match _code(answer):
            case code if code == _NO_JOB and len(path) > 1:
                raise UnknownJob(collection.name, path[1])
            case code if code is not None:
                raise UnknownCollection(collection.resource_group, collection.name)
        return answer


def _code(answer: HttpAnswer) -> str | None:
    """What a server that did not find something says it was."""
    if answer.status != HTTPStatus.NOT_FOUND:
        return None
    try:
        return msgspec.json.decode(answer.body, type=ArmRefusal).error.code
    except msgspec.MsgspecError:
        return None


def _of(id: CollectionId) -> tuple[str, ...]:
    check_place(id)
    return "subscriptions", id.subscription, "resourceGroups", id.resource_group, *_PROVIDER, id.name


def _job(name: str) -> tuple[str, str]:
    return "jobs", check_name(name, "job")


def _params(given: dict[str, Any]) -> dict[str, Any]:
    return {"api-version": API_VERSION, **{name: one for name, one in given.items() if one is not None}}
