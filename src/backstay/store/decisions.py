"""What the verbs of every backend decide alike, on what they have read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from backstay.domain.access import TOKENS_MAX, Token
from backstay.domain.alert import Alert
from backstay.domain.control import Control, workflow_goes_on
from backstay.domain.states import SETTLED, TaskState
from backstay.domain.stream import Group
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import (
    BackstayError,
    Conflict,
    IdConflict,
    InvalidRequest,
    UnknownAlert,
    UnknownEvent,
    UnknownGroup,
)
from backstay.store.base import Changes, Submitted, TaskFilter
from backstay.store.records import AlertFilter, AuditFilter
from backstay.store.rows import Row
from backstay.store.supervision import Freed, Round

SIGNALS_MAX: Final = 10_000

#: How many rounds of the supervisor are kept, and how long what it recovered.
ROUNDS_KEPT: Final = 1_000
RECOVERIES_KEPT: Final = timedelta(days=1)

#: How long an instance that has ended is remembered.
INSTANCES_KEPT: Final = timedelta(days=7)

#: How many requests that nobody asks for any more are removed when a process starts.
REQUESTS_FORGOTTEN_MAX: Final = 1_000

#: How many tasks are called when an agent goes on; the others wake by their own times.
CALLED_MAX: Final = 10_000

#: Of what is kept for a while, up to so many old rows are removed with each new one: it cannot grow forever.
FORGOTTEN_PER_ROW: Final = 10

#: The states that the index task_unusual holds.
RARE: Final = frozenset(TaskState) - {TaskState.PENDING, TaskState.PROCESSING, TaskState.PROCESSED}

_KEY_MAX: Final = 2**63 - 1


def known_task(new: NewTask, known: TaskRecord) -> Submitted | BackstayError:
    """The answer to a submission whose id is taken."""
    # The version is not the caller's: the same submission may come again after a deploy.
    if (known.workflow, known.input) != (new.workflow, new.input):
        return IdConflict(new.id, workflow=known.workflow, state=known.state)
    return Submitted(known, created=False)


def check_room_for_signal(task_id: str, signals: int) -> None:
    if signals >= SIGNALS_MAX:
        raise InvalidRequest(f"task {task_id} was sent {SIGNALS_MAX:,} signals, which is the limit")


def listing(wanted: TaskFilter) -> tuple[str, dict[str, Any]]:
    """The query that lists ``wanted`` by an index, and its parameters; instants are still instants."""
    values = {
        "before": _bound(wanted.before),
        "after": _bound(wanted.after),
        "workflow": wanted.workflow,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "attribute": None if wanted.attribute is None else wanted.attribute[0],
        "value": None if wanted.attribute is None else wanted.attribute[1],
        "limit": wanted.limit,
    }
    match wanted.states:
        case (TaskState.PENDING,):
            return "list_pending_tasks", values
        case (TaskState.PROCESSING,):
            return "list_processing_tasks", values
        case (state,) if state in RARE:
            return "list_rare_tasks", {**values, "state": state}
        case states:
            return "list_tasks", {**values, "states": states or None}


def alert_listing(wanted: AlertFilter) -> tuple[str, dict[str, Any]]:
    """The query that lists ``wanted`` by an index, and its parameters."""
    query = "list_open_alerts" if wanted.open_only else "list_alerts"
    return query, {"before": _bound(wanted.before), "limit": wanted.limit}


def audit_listing(wanted: AuditFilter) -> tuple[str, dict[str, Any]]:
    """The query that lists ``wanted`` by an index, and its parameters."""
    values = {"before": _bound(wanted.before), "limit": wanted.limit}
    if wanted.target is None:
        return "list_entries", values
    return "list_entries_of", {**values, "target": wanted.target}


def _bound(before: int | None) -> int:
    """A number that every database knows, whatever a caller took for one."""
    return _KEY_MAX if before is None else max(0, min(before, _KEY_MAX))


def taken_away(keys: list[int], changes: Changes) -> None:
    changes.touched += keys
    changes.claimable = changes.claimable or bool(keys)


def amended(task: TaskRecord, changes: Changes) -> None:
    changes.touched.append(task.key)
    changes.claimable = True
    if task.state in SETTLED:
        changes.settled.append(task)
        if task.parent_key is not None:
            changes.touched.append(task.parent_key)


# What the supervisor frees

#: How often what had to be recovered: (workflow, agent or None) to number.
Tally = Counter[tuple[str, str | None]]


def crashes(held: Iterable[Iterable[Row]]) -> Tally:
    """Each death counts once for every workflow of which the instance held tasks.

    ``held``: of each dead instance, its tasks by workflow and state.
    """
    return Counter((workflow, None) for tasks in held for workflow in {workflow for workflow, _ in tasks})


def broken_off(of_each: Iterable[Iterable[Row]]) -> Tally:
    """Each death counts once for every agent and workflow of which the host worked on something.

    ``of_each``: of each dead instance, the requests that it left: task, workflow, agent.
    """
    left = ({(workflow, agent) for _, workflow, agent in rows if agent} for rows in of_each)
    return Counter(one for found in left for one in found)


def freed(states: Iterable[str]) -> Freed:
    """What was taken away, given the states that it is left in."""
    undos = [state == TaskState.UNDOING for state in states]
    return Freed(runs=len(undos) - sum(undos), undos=sum(undos))


def is_repeated(newest: Round | None, done: Round) -> bool:
    """Whether a round is told in place of the one before: of idle ones in a row only the last is kept."""
    return newest is not None and newest.idle and done.idle


# Controls


def regulated(before: Control | None, after: Control, changes: Changes) -> None:
    changes.controls = True
    if workflow_goes_on(before, after):
        changes.claimable = True


# Alerts and tokens


def check_alert_id(alert_id: int) -> None:
    if not 0 < alert_id <= _KEY_MAX:
        raise UnknownAlert(alert_id)


def alert_facts(alert: Alert) -> dict[str, Any]:
    return {"acknowledged_by": alert.acknowledged_by}


def token_facts(token: Token) -> dict[str, Any]:
    return {"role": token.role, "revoked": token.revoked_at is not None}


def check_room_for_token(tokens: int) -> None:
    """``tokens`` counts the new one."""
    if tokens > TOKENS_MAX:
        raise InvalidRequest(f"there are {TOKENS_MAX:,} tokens, revoked ones included, which is the limit")


# Groups of streams


def check_forgettable(group: Group, partitions: Sequence[int], readers: Sequence[str]) -> None:
    """``readers``: the instances that live, and read for the group."""
    if not partitions:
        raise UnknownGroup(group.stream, group.name)
    if readers:
        raise Conflict(
            f"group {group.name!r} of stream {group.stream!r} is read by {', '.join(readers)};"
            " stop that first: what is forgotten while somebody reads begins anew at once"
        )


def check_event_ids(stream: str, ids: Sequence[int] | None, found: Collection[int] | None = None) -> None:
    """Whether they can be ids, before anybody looks for them; and then, whether all were ``found``."""
    for one in ids or ():
        if not 0 < one <= _KEY_MAX or (found is not None and one not in found):
            raise UnknownEvent(stream, one)
