"""What a database that many processes share keeps of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.jobs.facts import collection_facts, job_facts
from backstay.domain.jobs.records import (
    ActionName,
    Collection,
    CollectionId,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
)
from backstay.domain.lease import Owner
from backstay.errors import UnknownJob
from backstay.store.base import Changes
from backstay.store.firing import Firings, fire_all
from backstay.store.gathering import Gathering
from backstay.store.job_changes import decided_collection, decided_job, job_of
from backstay.store.job_rows import places_values
from backstay.store.jobs import (
    HISTORY_MAX,
    Attempt,
    DecideCollection,
    DecideJob,
    DecideRun,
    DueJob,
    Firing,
    Place,
    Resealed,
)
from backstay.store.postgres.jobs_moving import (
    SHAPE,
    end_stranded,
    enter_occurrences,
    write_attempts,
    write_firings,
)
from backstay.store.postgres.jobs_tables import (
    collection_seen,
    delete_jobs,
    find_collection,
    find_job,
    found_collection,
    job_seen,
    list_due,
    list_jobs,
    prune_entries,
    secrets_of,
    write_collection,
    write_job,
)
from backstay.store.postgres.sealing import reseal_some
from backstay.store.postgres.session import Session
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.tables import Tables
from backstay.store.recording import Asked
from backstay.store.sealing import FIRST, Opened, deciding_job, deciding_run
from backstay.vault import Vault


class PostgresJobs:
    """The verbs of jobs in one schema."""

    def __init__(
        self, session: Callable[[], Session], vault: Vault, *, schema: str, statuses: Statuses
    ) -> None:
        self._session = session
        self._vault = vault
        self._subscription = f"backstay {schema} subscription"
        self._statuses = statuses
        self._attempts: Gathering[Asked, bool] = Gathering(self._record)

    # Collections

    async def collection(self, id: CollectionId) -> Collection:
        return (await self._session().read(lambda tables: found_collection(tables, id))).collection

    async def collections(
        self, subscription: str, resource_group: str | None = None, *, skip: int = 0, limit: int
    ) -> list[Collection]:
        query = "list_collections" if resource_group is None else "list_collections_of"
        values = {
            "subscription": subscription.casefold(),
            "resource_group": resource_group and resource_group.casefold(),
            "skip": skip,
            "limit": limit,
        }

        async def look(tables: Tables) -> list[Collection]:
            return [SHAPE.found(row).collection for row in await tables.run(query, **values)]

        return await self._session().read(look)

    async def put_collection(
        self, id: CollectionId, decide: DecideCollection, *, act: Act, now: datetime
    ) -> Collection:
        async def operation(tables: Tables, changes: Changes) -> Collection:
            # Who puts another one into the subscription waits for our commit: each sees how many there are.
            await tables.run("one_at_a_time", name=f"{self._subscription} {id.folded[0]}")
            found = await find_collection(tables, id, lock=True)
            before = None if found is None else found.collection
            after = decided_collection(id, before, decide(await collection_seen(tables, id, found)))
            await write_collection(tables, found, after)
            await tables.record(act, now, before=collection_facts(before), after=collection_facts(after))
            changes.jobs = True
            return after

        return await self._session().write(operation)

    async def delete_collection(self, id: CollectionId, *, act: Act, now: datetime) -> None:
        async def operation(tables: Tables, changes: Changes) -> None:
            key, before = await found_collection(tables, id, lock=True)
            await delete_jobs(tables, [row[0] for row in await tables.run("job_keys", collection_key=key)])
            await tables.run("delete_collection", key=key)
            await tables.record(act, now, before=collection_facts(before), after=None)
            changes.jobs = True

        await self._session().write(operation)

    # Jobs

    async def job_numbers(self, collections: Sequence[CollectionId]) -> list[int]:
        values = places_values(collections)
        return [
            row[0] for row in await self._session().read(lambda tables: tables.run("count_jobs_of", **values))
        ]

    async def job(self, collection: CollectionId, name: str) -> JobRecord:
        async def look(tables: Tables) -> JobRecord:
            key, there = await found_collection(tables, collection)
            return job_of(there.id, name, await find_job(tables, key, name)).job

        return await self._session().read(look)

    async def jobs(
        self, collection: CollectionId, *, state: JobState | None = None, skip: int = 0, limit: int
    ) -> list[JobRecord]:
        async def look(tables: Tables) -> list[JobRecord]:
            key, _ = await found_collection(tables, collection)
            return await list_jobs(tables, key, state=state, skip=skip, limit=limit)

        return await self._session().read(look)

    async def put_job(
        self, collection: CollectionId, name: str, decide: DecideJob, *, act: Act, now: datetime
    ) -> JobRecord:
        decide_by_kept = deciding_job(self._vault, decide)

        async def operation(tables: Tables, changes: Changes) -> JobRecord:
            collection_key, seen = await job_seen(tables, collection, name)
            before = seen.job
            after = decided_job(seen.collection, name, before, decide_by_kept(seen))
            written = await write_job(tables, collection_key, seen, after, now)
            await tables.record(act, now, before=job_facts(before), after=job_facts(written))
            changes.jobs = True
            return written

        return await self._session().write(operation)

    async def delete_job(self, collection: CollectionId, name: str, *, act: Act, now: datetime) -> None:
        async def operation(tables: Tables, changes: Changes) -> None:
            key, there = await found_collection(tables, collection, lock=True)
            before = job_of(there.id, name, await find_job(tables, key, name, lock=True)).job
            await delete_jobs(tables, [before.key])
            await tables.record(act, now, before=job_facts(before), after=None)
            changes.jobs = True

        await self._session().write(operation)

    async def run(
        self, collection: CollectionId, name: str, decide: DecideRun, *, act: Act, now: datetime
    ) -> bool:
        decide_by_kept = deciding_run(self._vault, decide)

        async def operation(tables: Tables, changes: Changes) -> bool:
            _, seen = await job_seen(tables, collection, name)
            if seen.job is None:
                raise UnknownJob(seen.collection.id.name, name)
            task = decide_by_kept(seen)
            entered = [(seen.job.key, task.id)], [(task, now)]
            is_new = await enter_occurrences(tables, changes, self._statuses, *entered)
            facts = job_facts(seen.job)
            await tables.record(act, now, before=facts, after=facts)
            return is_new

        return await self._session().write(operation)

    async def secrets(self, job_key: int, *, uid: str) -> Mapping[str, str]:
        sealed = await self._session().read(lambda tables: secrets_of(tables, job_key, uid))
        return Opened(self._vault, uid, sealed)

    async def reseal(
        self, after: Place | None = None, *, limit: int, act: Act | None = None, now: datetime
    ) -> Resealed:
        async def operation(tables: Tables, _changes: Changes) -> Resealed:
            done = await reseal_some(tables, self._vault, after or FIRST, limit=limit)
            if act is not None:
                await tables.record(act, now, before=None, after={"key": self._vault.sealing_key().id})
            return done

        return await self._session().write(operation)

    # Instants

    async def next_due(self) -> datetime | None:
        found = await self._session().read(lambda tables: tables.run("next_due"))
        return found[0][0] if found else None

    async def due(self, *, now: datetime, limit: int) -> list[DueJob]:
        return await self._session().read(lambda tables: list_due(tables, now, limit=limit))

    async def fire(
        self, firings: Sequence[Firing], *, owner: Owner, now: datetime, history_max: int = HISTORY_MAX
    ) -> list[bool]:
        def write(some: Sequence[Firing]) -> Awaitable[list[bool]]:
            async def operation(tables: Tables, changes: Changes) -> list[bool]:
                await tables.check_epoch(owner)
                asked = Firings(some, SHAPE, now=now, history_max=history_max)
                return await write_firings(tables, changes, self._statuses, asked)

            return self._session().write(operation)

        return await fire_all(firings, write, now=now)

    # What became of them

    async def record(
        self, attempts: Sequence[Attempt], *, now: datetime, history_max: int = HISTORY_MAX
    ) -> list[bool]:
        return await self._attempts.add([Asked(one, history_max) for one in attempts], now=now)

    async def _record(self, asked: list[tuple[Asked, datetime]]) -> list[bool]:
        return await self._session().write(lambda tables, _changes: write_attempts(tables, asked))

    async def history(
        self,
        job_key: int,
        *,
        status: EntryStatus | None = None,
        action: ActionName | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        skip: int = 0,
        limit: int,
    ) -> list[HistoryEntry]:
        wanted = {
            "job_key": job_key,
            "status": status,
            "action": action,
            "since": since,
            "until": until,
            "skip": skip,
            "limit": limit,
        }
        rows = await self._session().read(lambda tables: tables.run("list_history", **wanted))
        return [SHAPE.history_entry(row) for row in rows]

    async def close_stranded(self, *, now: datetime, limit: int) -> int:
        async def operation(tables: Tables, _changes: Changes) -> int:
            return await end_stranded(tables, now, limit=limit)

        return await self._session().write(operation)

    async def prune(self, *, finished_before: datetime, entries_before: datetime, limit: int) -> int:
        async def operation(tables: Tables, _changes: Changes) -> int:
            ended = await tables.run("jobs_ended", ended_before=finished_before, limit=limit)
            await delete_jobs(tables, [row[0] for row in ended])
            pruned = len(ended)
            pruned += len(await tables.run("prune_gone", limit=limit - pruned))
            await tables.run("forget_gone", limit=limit)
            return pruned + await prune_entries(tables, entries_before, limit=limit - pruned)

        return await self._session().write(operation)
