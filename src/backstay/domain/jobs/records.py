"""What is kept of job collections, jobs and what became of their occurrences.

    collection ──< job ──< history entry        one per attempt, and one per gap
                    │
                    └──▶ task job:{uid}:{generation}:{instant}, one per occurrence

Names are told apart without regard to letter case, and shown as they were first written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from backstay.domain.instants import micros


class CollectionState(StrEnum):
    """Jobs of a collection run only while it is enabled, whatever their own state."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"
    SUSPENDED = "Suspended"


class Sku(StrEnum):
    STANDARD = "Standard"
    FREE = "Free"
    P10_PREMIUM = "P10Premium"
    P20_PREMIUM = "P20Premium"
    # Of the earlier api-versions.
    PREMIUM = "Premium"


class JobState(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    COMPLETED = "completed"
    FAULTED = "faulted"


class CatchUp(StrEnum):
    """What becomes of instants that passed while nothing could be started."""

    SKIP = "skip"
    ONE = "one"
    ALL = "all"


class Overlap(StrEnum):
    """What becomes of an instant that comes while an earlier occurrence is still at work."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class ActionName(StrEnum):
    MAIN = "MainAction"
    ERROR = "ErrorAction"


class EntryStatus(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    POSTPONED = "postponed"


class CollectionId(msgspec.Struct, frozen=True, order=True):
    """Where a collection is, as it was written."""

    subscription: str
    resource_group: str
    name: str

    @property
    def folded(self) -> tuple[str, str, str]:
        """The same for all spellings."""
        return (self.subscription.casefold(), self.resource_group.casefold(), self.name.casefold())


class Fastest(msgspec.Struct, frozen=True):
    """The fastest recurrence that is allowed: every so many of these."""

    frequency: str
    interval: int


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection allows itself, within what its SKU allows. None: as the SKU says."""

    max_job_count: int | None = None
    max_job_occurrence: int | None = None
    max_recurrence: Fastest | None = None


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    id: CollectionId
    location: str
    tags: Mapping[str, str] | None = None
    sku: Sku = Sku.STANDARD
    state: CollectionState = CollectionState.ENABLED
    quota: Quota | None = None


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Executions are occurrences that began, failures failed attempts, faults occurrences that gave up."""

    executions: int = 0
    failures: int = 0
    faults: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """How the main action of an occurrence ended, and which instant that was of."""

    at: datetime
    failed: bool


#: Stands for a secret that is there and cannot be opened. It is known by ``is``: what somebody wrote may look
#: like it, and is another object.
LOST: Final = "[a secret that cannot be opened]"


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job. ``key`` is the store's own number; ``uid`` is new whenever a job of this name is created."""

    key: int = 0
    uid: str
    # Moves on with every PUT: counts and the timetable begin anew.
    generation: int = 1
    collection: CollectionId
    name: str
    # What a client may see of its properties, without state and status, and never a secret.
    definition: Mapping[str, Any]
    # Secrets, by the place in the definition that they belong to: "action.request.authentication.password".
    # One that cannot be opened is LOST, and stays as it is where it is kept.
    secrets: Mapping[str, str] = {}
    state: JobState = JobState.ENABLED
    catch_up: CatchUp = CatchUp.ONE
    overlap: Overlap = Overlap.SKIP
    # When this generation was written: its timetable starts from here.
    created_at: datetime
    updated_at: datetime
    # The next occurrence. None: there is none, or the job is not enabled.
    next_at: datetime | None = None
    # The instant of the occurrence that was started last, and how many were in this generation.
    fired_at: datetime | None = None
    occurrences: int = 0
    # When the last execution really began.
    last_execution_at: datetime | None = None
    counters: Counters = Counters()
    # Of the latest occurrence of this generation that came to its end, of those that nobody asked for.
    outcome: Outcome | None = None

    def __repr__(self) -> str:
        """Without its secrets: this is what logs and failed assertions show."""
        return f"JobRecord({self.collection.name}/{self.name}, {self.uid}, {self.state}, next {self.next_at})"


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One instant of a job; ``by_hand``: a person asked for it, and no instant is used up."""

    job_key: int
    uid: str
    generation: int
    at: datetime
    by_hand: bool = False
    # 1-based among those of this generation; the number of the last one if a person asked for it.
    number: int

    @property
    def task_id(self) -> str:
        """At most one task is ever created for it: an id is accepted once."""
        return task_id_of(self.uid, Origin(self.generation, self.at, self.by_hand))


class Origin(msgspec.Struct, frozen=True):
    """Which occurrence of its job an entry of the history is of."""

    generation: int
    at: datetime
    by_hand: bool = False


def task_id_of(uid: str, origin: Origin) -> str:
    """The id of the task of an occurrence."""
    asked = ":run" if origin.by_hand else ""
    return f"job:{uid}:{origin.generation}:{micros(origin.at)}{asked}"


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of an action; or, postponed, instants that passed without one."""

    # The store's own number: entries of the same start are told apart by it.
    number: int = 0
    action: ActionName = ActionName.MAIN
    status: EntryStatus
    expected_at: datetime
    started_at: datetime
    ended_at: datetime
    message: str
    # 0 for the first attempt of an action in an occurrence.
    retry: int = 0
    # The number of the occurrence.
    repeat: int = 0
    # Instants that a gap is about.
    instants: int = 1
    # As the store gives it back. None: a gap, for which nothing was started.
    origin: Origin | None = None
