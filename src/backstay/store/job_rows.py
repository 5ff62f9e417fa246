"""What is kept of jobs as rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from backstay.domain.jobs.records import (
    ActionName,
    CatchUp,
    Collection,
    CollectionId,
    CollectionState,
    Counters,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Occurrence,
    Origin,
    Outcome,
    Overlap,
    Quota,
    Sku,
)
from backstay.store.rows import Row, Shape, Values, as_json, storable

#: What an action was told may be anything, and of any length.
ENTRY_MESSAGE_LENGTH_MAX: Final = 8_192

_decode_tags: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_quota: Final = msgspec.json.Decoder(Quota).decode
_decode_definition: Final = msgspec.json.Decoder(dict[str, Any]).decode

#: How many columns a job has in a row.
JOB_WIDTH: Final = 24


class Found(NamedTuple):
    """A collection, and the store's own number of it."""

    key: int
    collection: Collection


class Kept(NamedTuple):
    """A job as its row has it, with what is the store's own."""

    job: JobRecord
    # When it is due; None: never, or its collection is not enabled.
    armed_at: datetime | None
    # How many entries there are in its history.
    entries: int


#: (key of a job, how many entries too many its history has)
Excess = tuple[int, int]


class JobShape(Shape):
    """How one database keeps what is kept of jobs."""

    # Collections

    def found(self, row: Row) -> Found:
        """From the columns of ``collection_columns``."""
        key, subscription, resource_group, name, location, tags, sku, state, quota = row
        collection = Collection(
            id=CollectionId(subscription, resource_group, name),
            location=location,
            tags=None if tags is None else _decode_tags(tags),
            sku=Sku(sku),
            state=CollectionState(state),
            quota=None if quota is None else _decode_quota(quota),
        )
        return Found(key, collection)

    # Jobs

    def kept(self, row: Row) -> Kept:
        """From the columns of ``standing_columns``, and the definition, if there is one."""
        job = JobRecord(
            key=row[0],
            uid=row[1],
            generation=row[2],
            collection=CollectionId(row[3], row[4], row[5]),
            name=row[6],
            state=JobState(row[7]),
            catch_up=CatchUp(row[8]),
            overlap=Overlap(row[9]),
            created_at=self._instant(row[10]),
            updated_at=self._instant(row[11]),
            next_at=self._optional(row[12]),
            fired_at=self._optional(row[13]),
            occurrences=row[14],
            last_execution_at=self._optional(row[15]),
            counters=Counters(executions=row[16], failures=row[17], faults=row[18]),
            outcome=None if row[19] is None else Outcome(self._instant(row[19]), bool(row[20])),
            definition={} if row[23] is None else _decode_definition(row[23]),
        )
        return Kept(job, self._optional(row[21]), row[22])

    def job_values(self, job: JobRecord, *, armed_at: datetime | None, now: datetime) -> Values:
        """The parameters of ``insert_job`` and ``update_job``."""
        outcome = job.outcome
        return {
            "key": job.key,
            "name": job.name,
            "name_folded": job.name.casefold(),
            "uid": job.uid,
            "generation": job.generation,
            "state": job.state.value,
            "catch_up": job.catch_up.value,
            "overlap": job.overlap.value,
            "created_at": self.stored(job.created_at),
            "updated_at": self.stored(job.updated_at),
            "next_at": self.stored(job.next_at),
            "armed_at": self.stored(armed_at),
            "fired_at": self.stored(job.fired_at),
            "occurrences": job.occurrences,
            "last_execution_at": self.stored(job.last_execution_at),
            **msgspec.structs.asdict(job.counters),
            "outcome_at": None if outcome is None else self.stored(outcome.at),
            "outcome_failed": None if outcome is None else self._flag(outcome.failed),
            "definition": as_json(job.definition),
            "now": self.stored(now),
        }

    def standing_row(self, kept: Kept) -> Row:
        """The parameters of ``put_standings``."""
        job, counters, outcome = kept.job, kept.job.counters, kept.job.outcome
        return (
            job.key,
            job.state.value,
            self.stored(job.next_at),
            self.stored(kept.armed_at),
            self.stored(job.fired_at),
            job.occurrences,
            self.stored(job.last_execution_at),
            counters.executions,
            counters.failures,
            counters.faults,
            None if outcome is None else self.stored(outcome.at),
            None if outcome is None else self._flag(outcome.failed),
            kept.entries,
        )

    # The history

    def attempt_row(self, occurrence: Occurrence, entry: HistoryEntry) -> Row:
        """The parameters of ``insert_history``; the first six make it the attempt that it is."""
        at, by_hand = self.stored(occurrence.at), self._flag(occurrence.by_hand)
        return self._entry_row(occurrence.job_key, occurrence.generation, at, by_hand, entry)

    def gap_row(self, job: JobRecord, entry: HistoryEntry) -> Row:
        """The same for instants that passed without an attempt."""
        return self._entry_row(job.key, job.generation, None, self._flag(False), entry)  # noqa: FBT003

    def _entry_row(self, job_key: int, generation: int, at: Any, by_hand: Any, entry: HistoryEntry) -> Row:
        return (
            job_key,
            generation,
            at,
            by_hand,
            entry.action.value,
            entry.retry,
            entry.status.value,
            self.stored(entry.expected_at),
            self.stored(entry.started_at),
            self.stored(entry.ended_at),
            entry.repeat,
            entry.instants,
            storable(entry.message, length_max=ENTRY_MESSAGE_LENGTH_MAX),
        )

    def history_entry(self, row: Row) -> HistoryEntry:
        """From the columns of ``history_columns``."""
        return HistoryEntry(
            number=row[0],
            action=ActionName(row[1]),
            status=EntryStatus(row[2]),
            expected_at=self._instant(row[3]),
            started_at=self._instant(row[4]),
            ended_at=self._instant(row[5]),
            message=row[6],
            retry=row[7],
            repeat=row[8],
            instants=row[9],
            origin=None if row[11] is None else Origin(row[10], self._instant(row[11]), bool(row[12])),
        )


def trimmed(changed: Iterable[tuple[Kept, int]], shape: JobShape) -> tuple[list[Row], list[Excess]]:
    """The rows of jobs, each of which keeps so many entries; and what is too much of their histories."""
    rows: list[Row] = []
    excess: list[Excess] = []
    for kept, history_max in changed:
        rows.append(shape.standing_row(kept._replace(entries=min(kept.entries, history_max))))
        if kept.entries > history_max:
            excess.append((kept.job.key, kept.entries - history_max))
    return rows, excess


def places_values(ids: Sequence[CollectionId]) -> Values:
    """The parameters of ``count_jobs_of``: what stands in the same place of each list belongs together."""
    folded = [one.folded for one in ids]
    return {
        "subscriptions": [subscription for subscription, _, _ in folded],
        "resource_groups": [resource_group for _, resource_group, _ in folded],
        "names": [name for _, _, name in folded],
    }


def place_values(id: CollectionId) -> Values:
    """The parameters of ``find_collection``."""
    subscription, resource_group, name = id.folded
    return {"subscription": subscription, "resource_group": resource_group, "name": name}


def collection_values(collection: Collection) -> Values:
    """The parameters of ``insert_collection`` and ``update_collection``."""
    subscription, resource_group, name = collection.id.folded
    return {
        **msgspec.structs.asdict(collection.id),
        "subscription_folded": subscription,
        "resource_group_folded": resource_group,
        "name_folded": name,
        "location": collection.location,
        "tags": None if collection.tags is None else as_json(collection.tags),
        "sku": collection.sku.value,
        "state": collection.state.value,
        "quota": None if collection.quota is None else as_json(collection.quota),
    }
