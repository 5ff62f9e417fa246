"""Whether a store is as it must be: every rule that nothing may break, looked for in what is written.

Nothing is changed, and nothing held up: each rule is one query over one page of tasks, which sees a single
moment. So it can be asked of a store that others work on, and of one that was just restored or upgraded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from backstay.messaging.stream import Log
from backstay.store.base import Store
from backstay.store.inspection import Inspection, Reached

# Tasks of one page; and of each rule so many faults are named: with more of them the number says enough.
PAGE: Final = 5_000
FAULTS_MAX: Final = 100
GROUPS_PAGE: Final = 1_000


class Rule(msgspec.Struct, frozen=True):
    """What is never to be found."""

    kind: str
    query: str
    # Of what was found: what is wrong with it. ``{}`` stands for what the query says of it.
    wrong: str
    remedy: str


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that breaks a rule."""

    kind: str
    id: str
    wrong: str
    remedy: str


#: Told now and then: how many tasks were looked at, by the number of their keys, and the last key there is.
Progress = Callable[[int, int], None]

_RESTORE: Final = (
    "restore the last backup that passes this check; something wrote past Backstay, or the disk is failing"
)
_SUPERVISE: Final = "let a supervisor run (`backstay supervise --once`), then check again"
_OPERATE: Final = "look at the task (`backstay tasks show ID`), then undo it or mark it by hand"
_REPORT: Final = "delete these rows once a backup is made, and report it: Backstay never leaves them"

#: Over the tasks of one page of keys, and what belongs to them.
TASK_RULES: Final = (
    Rule("task_columns", "faulty_task_columns", "its columns do not fit its state, {}", _RESTORE),
    Rule("task_holder", "faulty_task_holders", "it is held by {}, which does not live", _SUPERVISE),
    Rule("task_wait", "faulty_waits", "it is {}, and nothing will ever call it", _OPERATE),
    Rule("open_step", "faulty_open_steps", "the task ended, but not its step {}", _OPERATE),
    Rule("undo_incomplete", "faulty_undos", "the task is undone, but not its step {}", _OPERATE),
    Rule("step_columns", "faulty_step_columns", "the columns of step {} do not fit its state", _RESTORE),
    Rule("step_order", "faulty_positions", "steps {} have the same place in the journal", _RESTORE),
    Rule("without_task", "faulty_belongings", "a {} without its task", _REPORT),
    Rule("payload_missing", "faulty_claim_checks", "the value of its {} is missing", _RESTORE),
    Rule("child_without_parent", "faulty_children", "it is {}, and who started it is gone", _OPERATE),
    Rule("parent_without_child", "faulty_parents", "{} waits for a task that is not there", _OPERATE),
)

#: Over everything else.
OTHER_RULES: Final = (
    Rule(
        "message",
        "faulty_messages",
        "of queue {}: it has none, or its columns do not fit its state",
        _RESTORE,
    ),
    Rule("message_number", "faulty_sequences", "its number lies {}, and would be given again", _RESTORE),
    Rule("subscription", "faulty_subscriptions", "its topic, or its {}, is not there", _REPORT),
    Rule(
        "job", "faulty_jobs", "of {}: it is due although it must not be, or never although it should", _REPORT
    ),
    Rule("job_uid", "faulty_job_uids", "{} jobs have this uid, and would share their tasks", _REPORT),
    Rule("job_entries", "faulty_histories", "its history has another number of entries than the {}", _REPORT),
    Rule("without_job", "faulty_job_belongings", "a {} without its job", _REPORT),
    Rule("job_task", "faulty_job_tasks", "{} jobs have this task", _REPORT),
    Rule("leader", "faulty_leader", "there must be one row for the lead, not {}", _RESTORE),
)


def _quiet(_looked: int, _last: int) -> None:
    pass


async def check_store(store: Store, log: Log | None = None, *, progress: Progress = _quiet) -> list[Fault]:
    """Everything in an open store that breaks a rule, and where groups got beyond their ``log``."""
    inspection = store.inspection
    faults = [
        Fault(kind="integrity", id="database", wrong=said, remedy=_RESTORE)
        for said in await inspection.integrity(limit=FAULTS_MAX)
    ]
    faults += await _check_tasks(inspection, progress)
    for rule in OTHER_RULES:
        faults += await _check(inspection, rule, 0, 0)
    if log is not None:
        faults += await _check_groups(inspection, log)
    return faults


async def _check_tasks(inspection: Inspection, progress: Progress) -> list[Fault]:
    found: dict[Rule, list[Fault]] = {rule: [] for rule in TASK_RULES}
    after = 0
    while True:
        through, last = await inspection.page_of_keys(after=after, size=PAGE)
        if through <= after:
            break
        for rule, faults in found.items():
            if len(faults) < FAULTS_MAX:
                faults.extend(await _check(inspection, rule, after, through))
        progress(through, last)
        after = through
    return [fault for faults in found.values() for fault in faults]


async def _check(inspection: Inspection, rule: Rule, after: int, through: int) -> list[Fault]:
    broken = await inspection.broken(rule.query, after=after, through=through, limit=FAULTS_MAX)
    return [
        Fault(kind=rule.kind, id=str(name), wrong=rule.wrong.format(word), remedy=rule.remedy)
        for name, word in broken
    ]


async def _check_groups(inspection: Inspection, log: Log) -> list[Fault]:
    """Checkpoints are read before the ends of their log, which only grow: no live reader is found ahead."""
    faults: list[Fault] = []
    after = ("", "", -1, -1)
    while reached := await inspection.reached(after=after, limit=GROUPS_PAGE):
        after = reached[-1].place
        bounds = await _bounds(log, sorted({one.stream for one in reached}))
        faults += [fault for one in reached if (fault := _beyond(one, bounds)) is not None]
    return faults[:FAULTS_MAX]


async def _bounds(log: Log, streams: Sequence[str]) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Of each partition the first offset and the end, by stream, identity and number."""
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    for standing in await log.standings(names=streams, limit=len(streams)):
        name = standing.stream.name
        identity = await log.identity(name)
        for one in standing.partitions:
            found[name, identity, one.partition] = (one.first, one.end)
    return found


def _beyond(one: Reached, bounds: dict[tuple[str, str, int], Any]) -> Fault | None:
    """Of a group that got somewhere in another log nothing is said here: it is told when it reads."""
    first, end = bounds.get((one.stream, one.log, one.partition), (0, None))
    if one.checkpoint is None or end is None or first <= one.checkpoint <= end:
        return None
    name = f"{one.stream}/{one.group}/{one.partition}"
    if one.checkpoint > end:
        wrong = f"it has got to {one.checkpoint}, but the stream ends at {end}"
        remedy = (
            "restore store and streams from the same backup, or let the group begin anew (`streams forget`)"
        )
    else:
        wrong = f"it has got to {one.checkpoint}, but the stream begins at {first}: some was forgotten unread"
        remedy = "have the events sent again; restore store and streams from the same backup"
    return Fault(kind="checkpoint", id=name, wrong=wrong, remedy=remedy)
