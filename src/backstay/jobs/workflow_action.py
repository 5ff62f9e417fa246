"""The action of our own: starts a task of a workflow that the application has registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backstay.domain.jobs.messages import workflow_failed, workflow_started
from backstay.domain.task import NewTask
from backstay.errors import Conflict, InvalidRequest, UnknownWorkflow
from backstay.jobs.tried import Tried
from backstay.store.base import Store
from backstay.submit import Door


class WorkflowAction:
    """What is started comes to its end by itself: an attempt has succeeded once the task is in the store."""

    def __init__(self, store: Store, door: Door) -> None:
        self._store = store
        self._door = door

    async def start(self, wanted: Mapping[str, Any], *, id: str) -> Tried:
        """Start it under this ``id``; an id is accepted once, however often this is called."""
        name = wanted["name"]
        try:
            await self._door.submit(await self._task(name, wanted, id))
        except (InvalidRequest, Conflict) as error:
            return Tried(succeeded=False, message=workflow_failed(name, str(error)))
        return Tried(succeeded=True, message=workflow_started(name, id))

    async def _task(self, name: str, wanted: Mapping[str, Any], id: str) -> NewTask:
        given, attributes = wanted.get("input"), wanted.get("attributes")
        try:
            return self._door.new_task(name, (given,), id=id, attributes=attributes)
        except UnknownWorkflow:
            version = await self._version_elsewhere(name)
            return self._door.foreign_task(name, version, given, id=id, attributes=attributes)

    async def _version_elsewhere(self, name: str) -> int:
        """The newest that some live scheduler has the code of."""
        versions = [
            version
            for instance in await self._store.instances()
            if instance.live
            for workflow, version in instance.runs
            if workflow == name
        ]
        if not versions:
            raise UnknownWorkflow(f"there is no workflow {name!r} here or in any live process")
        return max(versions)
