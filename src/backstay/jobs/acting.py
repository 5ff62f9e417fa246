"""One attempt of an action of a job: it is made, and it is in the history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from backstay.clock import Clock
from backstay.definitions.ambient import StepContext
from backstay.definitions.registry import Registry
from backstay.domain.jobs.brokered import Addressed, Bus, addressed, namespaces_of
from backstay.domain.jobs.documents import SECRETS_OF
from backstay.domain.jobs.messages import (
    not_run_here,
    secret_gone,
    secret_unopened,
    service_bus_key_gone,
    service_bus_not_installed,
    storage_not_installed,
    storage_token_gone,
    went_wrong,
)
from backstay.domain.jobs.occurrences import Run
from backstay.domain.jobs.records import ActionName, EntryStatus, HistoryEntry
from backstay.domain.outbound import read_outbound
from backstay.domain.task import derived_id
from backstay.errors import SecretUnopened, Unavailable
from backstay.jobs.certificates import identified
from backstay.jobs.http_request import HttpRequest, NotSent, identifying, request_of
from backstay.jobs.oauth import Grant
from backstay.jobs.queue_action import QueueAction
from backstay.jobs.tried import Tried
from backstay.jobs.workflow_action import WorkflowAction
from backstay.observe import STORE_UNAVAILABLE, emit, log
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.jobs import Attempt
from backstay.submit import Door

if TYPE_CHECKING:
    from backstay.jobs.http_action import HttpAction

# While the store is away, what an attempt came to is told again after this pause.
RECORD_SECONDS: Final = 0.5
# An attempt that was made before is among the last ones of its job.
RECORDED_AMONG: Final = 100

_PLACES: Final = {ActionName.MAIN: "action", ActionName.ERROR: "action.errorAction"}


class Actor:
    """Makes the attempts of one process."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._workflows = WorkflowAction(store, Door(store, registry, settings=settings, clock=clock))
        self._queues = QueueAction(store, registry, settings=settings, clock=clock)
        self._namespaces = namespaces_of(settings.job_namespaces)
        self._outbound = read_outbound(settings.outbound_allow, name="outbound_allow")
        self._http: HttpAction | None = None

    async def attempt(
        self, run: Run, name: ActionName, retry: int, *, last: bool, step: StepContext
    ) -> Tried:
        """What became of it. One that is in the history already, since a process died then, is not repeated.

        Raises Unavailable when nobody can be told: the attempt is then to be made again.
        """
        if step.attempt > 1 and (known := await self._known(run, name, retry)) is not None:
            return known
        began = self._clock.now()
        tried = await self._tried(run, name, retry)
        entry = HistoryEntry(
            action=name,
            status=EntryStatus.COMPLETED if tried.succeeded else EntryStatus.FAILED,
            expected_at=run.occurrence.at,
            started_at=began,
            ended_at=self._clock.now(),
            message=tried.message,
            retry=retry,
            repeat=run.occurrence.number,
        )
        final = name is ActionName.MAIN and (last or tried.succeeded)
        await self._record(Attempt(occurrence=run.occurrence, entry=entry, final=final), step)
        return tried

    async def close(self) -> None:
        self._queues.close()
        if self._http is not None:
            await self._http.close()

    # What is done

    async def _tried(self, run: Run, name: ActionName, retry: int) -> Tried:
        action = run.action if name is ActionName.MAIN else run.action["errorAction"]
        try:
            return await self._done(run, action, name, retry)
        except Unavailable:
            raise
        except SecretUnopened as error:
            return Tried(succeeded=False, message=secret_unopened(action["type"], error.reason))
        except Exception as error:  # noqa: BLE001
            # Whatever somebody wrote into a job, it costs its attempts and nothing else. What was raised may
            # show anything, and the history is for everybody to read.
            log.exception("an attempt of task %s raised", run.occurrence.task_id)
            return Tried(succeeded=False, message=went_wrong(action["type"], type(error).__name__))

    async def _done(self, run: Run, action: Mapping[str, Any], name: ActionName, retry: int) -> Tried:
        match action["type"]:
            case "Http" | "Https":
                return await self._request(run, action, name, retry)
            case "Workflow":
                which = "main" if name is ActionName.MAIN else "error"
                task_id = derived_id(run.occurrence.task_id, which)
                return await self._workflows.start(action["workflow"], id=task_id)
            case "ServiceBusQueue" | "ServiceBusTopic":
                return await self._message(run, addressed(action), name)
            case "StorageQueue":
                return await self._storage_queue(run, action["queueMessage"], name, retry)
            case other:
                return Tried(succeeded=False, message=not_run_here(other))

    async def _request(self, run: Run, action: Mapping[str, Any], name: ActionName, retry: int) -> Tried:
        authentication = action["request"].get("authentication", {"type": "NotSpecified"})
        # All attempts of an action have one key, by which a receiver of two of them knows that they are one.
        key = run.occurrence.task_id if name is ActionName.MAIN else f"{run.occurrence.task_id}/error"
        try:
            secrets = await self._secrets_of(run, name, authentication["type"])
            request = request_of(
                run, action, key=key, attempt=f"{key}#{retry}", password=secrets.get("password", "")
            )
            return await self._sent(request, authentication, secrets)
        except NotSent as error:
            return Tried(succeeded=False, message=error.message)

    async def _sent(
        self, request: HttpRequest, authentication: Mapping[str, Any], secrets: Mapping[str, str]
    ) -> Tried:
        match authentication["type"]:
            case "ClientCertificate":
                # Keys are derived from passwords slowly, and by purpose.
                identity = await asyncio.to_thread(identified, secrets["pfx"], secrets["password"])
                return await self._sender().send(identifying(request, identity))
            case "ActiveDirectoryOAuth":
                named = {"audience": authentication["audience"], "client_id": authentication["clientId"]}
                grant = Grant(tenant=authentication["tenant"], secret=secrets["secret"], **named)
                return await self._sender().send(request, grant)
            case _:
                return await self._sender().send(request)

    async def _secrets_of(self, run: Run, name: ActionName, kind: str) -> dict[str, str]:
        """Those that this authentication needs, by their names. Raises NotSent."""
        needed = SECRETS_OF.get(kind.casefold(), ())
        kept = await self._secrets(run) if needed else {}
        found = {one: kept.get(f"{_PLACES[name]}.request.authentication.{one}") for one in needed}
        for one, secret in found.items():
            if secret is None:
                raise NotSent(secret_gone(one))
        return {one: secret for one, secret in found.items() if secret is not None}

    async def _message(self, run: Run, to: Addressed, name: ActionName) -> Tried:
        task_id = run.occurrence.task_id
        key = task_id if name is ActionName.MAIN else derived_id(task_id, "error")
        bus = self._namespaces.get(to.namespace.lower())
        if bus is None:
            return await self._queues.send(to, key=key)
        kept = (await self._secrets(run)).get(f"{_PLACES[name]}.{to.member}.authentication.sasKey")
        return await self._message_to_azure(to, bus, key=key, secret=kept)

    async def _message_to_azure(self, to: Addressed, bus: Bus, *, key: str, secret: str | None) -> Tried:
        where = (to.kind, to.name, to.namespace)
        try:
            # Of an extra, which not everybody has.
            from backstay.jobs.service_bus_action import ServiceBusAction  # noqa: PLC0415
        except ModuleNotFoundError:
            return Tried(succeeded=False, message=service_bus_not_installed(*where))
        named = to.message.get("authentication", {}).get("sasKeyName")
        if named is None or secret is None:
            return Tried(succeeded=False, message=service_bus_key_gone(*where))
        sending = ServiceBusAction(timeout=self._settings.job_http_timeout, outbound=self._outbound)
        return await sending.send(to, bus, key=key, sas=(named, secret))

    async def _storage_queue(
        self, run: Run, message: Mapping[str, Any], name: ActionName, retry: int
    ) -> Tried:
        try:
            # Of an extra, which not everybody has.
            from backstay.jobs.storage_queue_action import StorageQueueAction, envelope  # noqa: PLC0415
        except ModuleNotFoundError:
            return Tried(succeeded=False, message=storage_not_installed())
        token = (await self._secrets(run)).get(f"{_PLACES[name]}.queueMessage.sasToken")
        if token is None:
            return Tried(succeeded=False, message=storage_token_gone())
        text = envelope(run, message["message"], attempt=f"{run.occurrence.task_id}/{name}#{retry}")
        sending = StorageQueueAction(
            endpoint=self._settings.job_storage_endpoint,
            timeout=self._settings.job_http_timeout,
            outbound=self._outbound,
        )
        return await sending.send(message, text, token=token)

    async def _secrets(self, run: Run) -> Mapping[str, str]:
        return await self._store.jobs.secrets(run.occurrence.job_key, uid=run.occurrence.uid)

    def _sender(self) -> HttpAction:
        if self._http is None:
            # aiohttp takes more than half as long to import as all the rest; only who uses it waits for it.
            from backstay.jobs.http_action import HttpAction  # noqa: PLC0415

            self._http = HttpAction(
                timeout=self._settings.job_http_timeout,
                connections=self._settings.job_concurrency,
                outbound=self._outbound,
                proxy=self._settings.outbound_proxy,
                authority=self._settings.job_oauth_authority,
                monotonic=self._clock.monotonic,
            )
        return self._http

    # The history

    async def _known(self, run: Run, name: ActionName, retry: int) -> Tried | None:
        occurrence = run.occurrence
        entries = await self._store.jobs.history(occurrence.job_key, action=name, limit=RECORDED_AMONG)
        for one in entries:
            if (one.expected_at, one.repeat, one.retry) == (occurrence.at, occurrence.number, retry):
                return Tried(succeeded=one.status is EntryStatus.COMPLETED, message=one.message)
        return None

    async def _record(self, attempt: Attempt, step: StepContext) -> None:
        """Until it is written: to make the attempt again because of an outage would be worse than to wait."""
        while True:
            try:
                await self._store.jobs.record(
                    [attempt], now=self._clock.now(), history_max=self._settings.job_history_max
                )
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                if step.remaining < timedelta(seconds=2 * RECORD_SECONDS):
                    raise
                await asyncio.sleep(RECORD_SECONDS)
            else:
                return
