"""What one file keeps of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from backstay.domain.audit import Act
from backstay.domain.instants import instant, micros
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
from backstay.store.recording import Asked
from backstay.store.rows import as_json
from backstay.store.sealing import FIRST, Opened, deciding_job, deciding_run
from backstay.store.sqlite.jobs_moving import (
    SHAPE,
    end_stranded,
    enter_occurrences,
    write_attempts,
    write_firings,
)
from backstay.store.sqlite.jobs_tables import (
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
from backstay.store.sqlite.sealing import reseal_some
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables
from backstay.vault import Vault


class SqliteJobs:
    """The verbs of jobs on one file."""

    def __init__(self, session: Callable[[], Session], vault: Vault) -> None:
        self._session = session
        self._vault = vault
        self._attempts: Gathering[Asked, bool] = Gathering(self._record)

    # Collections

    async def collection(self, id: CollectionId) -> Collection:
        return await self._session().read(lambda tables: found_collection(tables, id).collection)

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

        def look(tables: Tables) -> list[Collection]:
            return [SHAPE.found(row).collection for row in tables.run(query, **values).fetchall()]

        return await self._session().read(look)

    async def put_collection(
        self, id: CollectionId, decide: DecideCollection, *, act: Act, now: datetime
    ) -> Collection:
        def operation(tables: Tables, changes: Changes) -> Collection:
            found = find_collection(tables, id)
            before = None if found is None else found.collection
            after = decided_collection(id, before, decide(collection_seen(tables, id, found)))
            write_collection(tables, found, after)
            tables.record(act, now, before=collection_facts(before), after=collection_facts(after))
            changes.jobs = True
            return after

        return await self._session().write(operation)

    async def delete_collection(self, id: CollectionId, *, act: Act, now: datetime) -> None:
        def operation(tables: Tables, changes: Changes) -> None:
            key, before = found_collection(tables, id)
            delete_jobs(tables, [one for (one,) in tables.run("job_keys", collection_key=key).fetchall()])
            tables.run("delete_collection", key=key)
            tables.record(act, now, before=collection_facts(before), after=None)
            changes.jobs = True

        await self._session().write(operation)

    # Jobs

    async def job_numbers(self, collections: Sequence[CollectionId]) -> list[int]:
        values = {name: as_json(some) for name, some in places_values(collections).items()}

        def look(tables: Tables) -> list[int]:
            return [number for (number,) in tables.run("count_jobs_of", **values).fetchall()]

        return await self._session().read(look)

    async def job(self, collection: CollectionId, name: str) -> JobRecord:
        def look(tables: Tables) -> JobRecord:
            key, there = found_collection(tables, collection)
            return job_of(there.id, name, find_job(tables, key, name)).job

        return await self._session().read(look)

    async def jobs(
        self, collection: CollectionId, *, state: JobState | None = None, skip: int = 0, limit: int
    ) -> list[JobRecord]:
        def look(tables: Tables) -> list[JobRecord]:
            return list_jobs(
                tables, found_collection(tables, collection).key, state=state, skip=skip, limit=limit
            )

        return await self._session().read(look)

    async def put_job(
        self, collection: CollectionId, name: str, decide: DecideJob, *, act: Act, now: datetime
    ) -> JobRecord:
        decide_by_kept = deciding_job(self._vault, decide)

        def operation(tables: Tables, changes: Changes) -> JobRecord:
            collection_key, seen = job_seen(tables, collection, name)
            before = seen.job
            after = decided_job(seen.collection, name, before, decide_by_kept(seen))
            written = write_job(tables, collection_key, seen, after, now)
            tables.record(act, now, before=job_facts(before), after=job_facts(written))
            changes.jobs = True
            return written

        return await self._session().write(operation)

    async def delete_job(self, collection: CollectionId, name: str, *, act: Act, now: datetime) -> None:
        def operation(tables: Tables, changes: Changes) -> None:
            key, there = found_collection(tables, collection)
            before = job_of(there.id, name, find_job(tables, key, name)).job
            delete_jobs(tables, [before.key])
            tables.record(act, now, before=job_facts(before), after=None)
            changes.jobs = True

        await self._session().write(operation)

    async def run(
        self, collection: CollectionId, name: str, decide: DecideRun, *, act: Act, now: datetime
    ) -> bool:
        decide_by_kept = deciding_run(self._vault, decide)

        def operation(tables: Tables, changes: Changes) -> bool:
            _, seen = job_seen(tables, collection, name)
            if seen.job is None:
                raise UnknownJob(seen.collection.id.name, name)
            task = decide_by_kept(seen)
            is_new = enter_occurrences(tables, changes, [(seen.job.key, task.id)], [(task, now)])
            facts = job_facts(seen.job)
            tables.record(act, now, before=facts, after=facts)
            return is_new

        return await self._session().write(operation)

    async def secrets(self, job_key: int, *, uid: str) -> Mapping[str, str]:
        sealed = await self._session().read(lambda tables: secrets_of(tables, job_key, uid))
        return Opened(self._vault, uid, sealed)

    async def reseal(
        self, after: Place | None = None, *, limit: int, act: Act | None = None, now: datetime
    ) -> Resealed:
        def operation(tables: Tables, _changes: Changes) -> Resealed:
            done = reseal_some(tables, self._vault, after or FIRST, limit=limit)
            if act is not None:
                tables.record(act, now, before=None, after={"key": self._vault.sealing_key().id})
            return done

        return await self._session().write(operation)

    # Instants

    async def next_due(self) -> datetime | None:
        def look(tables: Tables) -> datetime | None:
            found = tables.run("next_due").fetchone()
            return None if found is None else instant(found[0])

        return await self._session().read(look)

    async def due(self, *, now: datetime, limit: int) -> list[DueJob]:
        return await self._session().read(lambda tables: list_due(tables, now, limit=limit))

    async def fire(
        self, firings: Sequence[Firing], *, owner: Owner, now: datetime, history_max: int = HISTORY_MAX
    ) -> list[bool]:
        def write(some: Sequence[Firing]) -> Awaitable[list[bool]]:
            def operation(tables: Tables, changes: Changes) -> list[bool]:
                tables.check_epoch(owner)
                return write_firings(tables, changes, Firings(some, SHAPE, now=now, history_max=history_max))

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
            "since": SHAPE.stored(since),
            "until": SHAPE.stored(until),
            "skip": skip,
            "limit": limit,
        }
        return await self._session().read(
            lambda tables: [
                SHAPE.history_entry(row) for row in tables.run("list_history", **wanted).fetchall()
            ]
        )

    async def close_stranded(self, *, now: datetime, limit: int) -> int:
        return await self._session().write(lambda tables, _changes: end_stranded(tables, now, limit=limit))

    async def prune(self, *, finished_before: datetime, entries_before: datetime, limit: int) -> int:
        def operation(tables: Tables, _changes: Changes) -> int:
            ended = tables.run("jobs_ended", ended_before=micros(finished_before), limit=limit).fetchall()
            keys = [key for (key,) in ended]
            delete_jobs(tables, keys)
            pruned = len(keys)
            pruned += tables.run("prune_gone", limit=limit - pruned).rowcount
            tables.run("forget_gone", limit=limit)
            return pruned + prune_entries(tables, micros(entries_before), limit=limit - pruned)

        return await self._session().write(operation)
