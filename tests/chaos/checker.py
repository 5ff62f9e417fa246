"""The sixteen invariants, each a small function over what is known after a run.

A function looks at one fact after the other: for each it yields ``None`` when the fact is as it must be, and
a sentence when it is not. So it is known not only that nothing was wrong, but also that something was looked
at: a row of the matrix that claims an invariant without evidence of it fails as well. ``test_checker.py``
plants a bug against each of them.

Numbers 4, 5 and 11 need the rows of the store alone; the others need its history, or what the test knows.
At the end of a run there is little left that anybody holds or waits for: so those of ``AT_ANY_MOMENT`` are
looked at again and again while it lasts (``sampling.py``), and what was found then is in the evidence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from backstay.domain.states import SETTLED
from tests.chaos.evidence import Evidence, Step
from tests.chaos.history import Change

#: So many violations of each invariant are told.
TOLD_MAX: Final = 10
#: The databases and the processes read the same clock, SQLite in whole milliseconds.
CLOCK_STEP_MICROS: Final = 2_000

Facts = Iterator[str | None]
Invariant = Callable[[Evidence], Facts]

INVARIANTS: dict[int, tuple[str, Invariant]] = {}
#: What one look at the rows can tell, whenever it is taken.
AT_ANY_MOMENT: Final = (4, 5, 11)


def invariant(number: int, sentence: str) -> Callable[[Invariant], Invariant]:
    def register(function: Invariant) -> Invariant:
        INVARIANTS[number] = (sentence, function)
        return function

    return register


class Finding(NamedTuple):
    number: int
    looked_at: int
    violations: list[str]


def findings(evidence: Evidence) -> list[Finding]:
    """What each invariant has to say."""
    found = []
    for number, (_, look) in sorted(INVARIANTS.items()):
        facts = [*evidence.facts.seen.get(number, ()), *look(evidence)]
        found.append(Finding(number, len(facts), [one for one in facts if one is not None]))
    return found


def check(evidence: Evidence, *, claimed: Collection[int] = ()) -> list[Finding]:
    """Fail if an invariant does not hold, or if one that is ``claimed`` had nothing to look at."""
    found = findings(evidence)
    wrong = [
        f"{one.number} · {INVARIANTS[one.number][0]}: {violation}"
        for one in found
        for violation in one.violations[:TOLD_MAX]
    ]
    wrong += [
        f"{one.number} · {INVARIANTS[one.number][0]}: is claimed, and there was nothing to look at"
        for one in found
        if one.number in claimed and not one.looked_at
    ]
    assert not wrong, "\n".join(["invariants are broken:", *wrong])
    return found


def _or(holds: object, violation: str) -> str | None:
    return None if holds else violation


def _name(change: Change) -> str:
    return change.id if change.key is None else f"{change.id}/{change.key}"


def _of(evidence: Evidence, what: str) -> Iterator[Change]:
    return (change for change in evidence.changes if change.what == what)


def _ends(evidence: Evidence) -> dict[str, str | None]:
    """How each task stands, or stood before it was forgotten, where that is allowed."""
    stood = {change.id: change.after for change in _of(evidence, "task")} if evidence.facts.forgetful else {}
    return stood | {task.id: task.state for task in evidence.tasks}


# ---------------------------------------------------------------- what is recorded


@invariant(1, "A step is recorded as completed once, and is never run again after that")
def recorded_once(evidence: Evidence) -> Facts:
    completed: dict[str, Change] = {}
    for change in _of(evidence, "step"):
        if change.after == "completed":
            yield _or(_name(change) not in completed, f"{_name(change)} was recorded again: {change}")
            completed[_name(change)] = change
    for body in evidence.facts.bodies:
        record = completed.get(body.key)
        if body.what == "began" and record is not None:
            in_time = body.attempt < record.fence or body.at <= record.at + CLOCK_STEP_MICROS
            yield _or(body.attempt <= record.fence and in_time, f"{body} began after {record.at} recorded it")


@invariant(2, "A write under an old fence is refused")
def fenced(evidence: Evidence) -> Facts:
    dead: dict[str, int] = {}
    fences: dict[tuple[str, str], Change] = {}
    for change in evidence.changes:
        if change.what == "instance":
            dead[change.id] = change.number
        if change.what in ("task", "step", "checkpoint", "leader"):
            last = fences.get((change.what, _name(change)))
            yield _or(last is None or last.fence <= change.fence, f"{change} came after {last}")
            fences[change.what, _name(change)] = change
        # What a dead instance held is set free with its death: nobody acts in its name after that.
        if change.what in ("task", "step") and change.holder is not None and dead:
            yield _or(change.holder not in dead, f"{change} was written in the name of one that is dead")
    yield from _by_its_own_attempt(evidence)


def _by_its_own_attempt(evidence: Evidence) -> Facts:
    """Whoever writes what an earlier attempt replied writes it beside the number of the latest one."""
    done = {(body.key, body.attempt) for body in evidence.facts.bodies if body.what == "done"}
    known = {key for key, _ in done}
    for change in _of(evidence, "step"):
        if change.after == "completed" and _name(change) in known:
            yield _or((_name(change), change.fence) in done, f"{change} is not what that attempt replied")


@invariant(3, "No result is accepted after its complete-by")
def in_time(evidence: Evidence) -> Facts:
    for step in evidence.steps:
        if (
            step.kind == "step"
            and step.state == "completed"
            and None not in (step.ended_at, step.complete_by)
        ):
            late = (step.ended_at or 0) - (step.complete_by or 0)
            yield _or(
                late <= evidence.facts.set_ahead_micros,
                f"{step.task_id}/{step.key} ended {late} microseconds too late",
            )
    # The record of a step that was undone since tells of its undo; its history tells of itself.
    for change in _of(evidence, "step"):
        if change.after == "completed" and change.late is not None:
            in_time = change.late <= evidence.facts.set_ahead_micros
            yield _or(in_time, f"{change} was accepted too late")


# ---------------------------------------------------------------- who holds what


@invariant(4, "Every open task has a wake-up, a lease or a waiter")
def has_a_way_on(evidence: Evidence) -> Facts:
    waited_for = {
        step.task_id
        for step in evidence.steps
        if (step.kind in ("signal", "child", "sleep") and step.state == "running")
        or (step.state == "undoing" and (step.kind == "child" or step.undo == "manual"))
    }
    for task in evidence.tasks:
        if task.state in SETTLED:
            continue
        claimable = task.state in ("pending", "undoing") and not task.parked
        has_one = task.locked_by or task.wake_at or claimable or task.id in waited_for
        yield _or(has_one, f"nothing will ever happen to {task}")


@invariant(5, "Whatever is leased belongs to somebody who lives")
def leased_to_the_living(evidence: Evidence) -> Facts:
    held = [(task.id, task.locked_by) for task in evidence.tasks if task.locked_by is not None]
    for what, holder in [*held, *evidence.at_work]:
        yield _or(evidence.instances.get(holder), f"{what} is held by {holder}, who is dead")
    for task in evidence.tasks:
        if task.state in SETTLED:
            yield _or(task.locked_by is None, f"{task} is over, and still held")


@invariant(6, "No more bodies are at work at once than the agent allows")
def within_the_cap(evidence: Evidence) -> Facts:
    at_work: Counter[tuple[int, str]] = Counter()
    for body in evidence.facts.bodies:
        cap = evidence.facts.caps.get(body.agent)
        if cap is None or body.what == "done":
            continue
        at_work[body.pid, body.agent] += 1 if body.what == "began" else -1
        running = at_work[body.pid, body.agent]
        yield _or(running <= cap, f"{running} bodies of {body.agent} at {body}; {cap} are allowed")


# ---------------------------------------------------------------- undoing


@invariant(7, "Undone is exactly what declared an undo and may have happened, newest first, each once")
def undone_exactly(evidence: Evidence) -> Facts:
    ends = _ends(evidence)
    of_task: defaultdict[str, list[Step]] = defaultdict(list)
    for step in evidence.steps:
        of_task[step.task_id].append(step)
    for task_id, state in ends.items():
        if state in ("undone", "undo_failed"):
            yield from _undone(of_task[task_id], state)
    yield from _undone_in_order(evidence)
    known = {body.key.split("/")[0] for body in evidence.facts.bodies}
    undos = {body.key for body in evidence.facts.bodies if body.key.endswith("/undo")}
    for key in undos:
        task_id = key.split("/")[0]
        back = ("undoing", "undone", "undo_failed")
        yield _or(ends.get(task_id) in back, f"{key} ran, and its task is {ends.get(task_id)}")
    for step in evidence.steps:
        if step.state == "undone" and step.undo == "automatic" and step.task_id in known:
            key = f"{step.task_id}/{step.key}/undo"
            yield _or(key in undos, f"{key} is recorded, and nobody was asked for it")


def _undone(steps: list[Step], state: str) -> Facts:
    for step in steps:
        name = f"{step.task_id}/{step.key}"
        if step.undo is None:
            yield _or(step.state not in ("undoing", "undone"), f"{name} has no undo, and is {step.state}")
        elif step.state in ("running", "completed", "undoing") or (step.state == "failed" and step.unsure):
            yield f"{name} declared an undo, and is {step.state} in a task that is {state}"
        else:
            stuck = step.state == "undo_failed" and state == "undone"
            yield _or(not stuck, f"{name} is {step.state}, and its task is {state}")


def _undone_in_order(evidence: Evidence) -> Facts:
    positions = {f"{step.task_id}/{step.key}": step.position for step in evidence.steps}
    begun: defaultdict[str, list[int]] = defaultdict(list)
    over: Counter[str] = Counter()
    seen: set[str] = set()
    for change in _of(evidence, "step"):
        name = _name(change)
        if change.after == "undoing" and name not in seen:
            seen.add(name)
            position = positions.get(name)
            if position is not None:
                begun[change.id].append(position)
        if change.after == "undone" and change.before != "undone":
            over[name] += 1
    yield from _never_again(evidence)
    for task_id, order in begun.items():
        yield _or(order == sorted(order, reverse=True), f"{task_id} was undone in the order {order}")
    for name, times in over.items():
        yield _or(times == 1, f"{name} was undone {times} times")


def _never_again(evidence: Evidence) -> Facts:
    """Once it is recorded that a step is undone, nobody is asked to undo it."""
    undone = {f"{_name(change)}/undo": change for change in _of(evidence, "step") if change.after == "undone"}
    for body in evidence.facts.bodies:
        record = undone.get(body.key)
        if body.what == "began" and record is not None:
            yield _or(body.at <= record.at + CLOCK_STEP_MICROS, f"{body} began after {record.at} recorded it")


# ---------------------------------------------------------------- what comes in


@invariant(8, "An instant of a job starts one task, whoever leads")
def fires_once(evidence: Evidence) -> Facts:
    started = Counter(
        change.id
        for change in _of(evidence, "task")
        if change.before is None and change.id.startswith("job:")
    )
    for task_id, times in started.items():
        yield _or(times == 1, f"{task_id} was started {times} times")
    keys: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for job, instant, key in evidence.facts.fired:
        keys[job, instant].add(key)
    for (job, instant), used in keys.items():
        yield _or(len(used) == 1, f"{job} at {instant} was asked for under {sorted(used)}")


@invariant(9, "What was acknowledged is in the log, where it was said to be, in order")
def readable(evidence: Evidence) -> Facts:
    there = {(place.partition, place.offset): place.body for place in evidence.facts.readable}
    for place in evidence.facts.appended:
        found = there.get((place.partition, place.offset))
        yield _or(found == place.body, f"{place} was acknowledged, and what is there is {found!r}")
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for place in evidence.facts.readable:
        offsets[place.partition].append(place.offset)
    for partition, found_at in offsets.items():
        gaps = [after for before, after in pairwise(found_at) if after != before + 1]
        yield _or(not gaps, f"partition {partition} has gaps before {gaps[:TOLD_MAX]}")


@invariant(10, "A checkpoint never passes an event that was not processed")
def passes_nothing(evidence: Evidence) -> Facts:
    for change in _of(evidence, "checkpoint"):
        unit = change.id.rpartition("/")[0]
        if change.place is None or unit not in evidence.facts.handled:
            continue
        handled = evidence.facts.handled[unit]
        latest = change.at + CLOCK_STEP_MICROS
        skipped = [offset for offset in range(change.place) if handled.get(offset, latest + 1) > latest]
        yield _or(not skipped, f"{unit} stood at {change.place}, and {skipped[:TOLD_MAX]} was not processed")


@invariant(11, "Nothing is forgotten that is still needed")
def kept(evidence: Evidence) -> Facts:
    keys = {task.key for task in evidence.tasks}
    children = Counter(task.parent_key for task in evidence.tasks)
    awaited = Counter(
        one.task_id for one in evidence.steps if one.kind == "child" and one.state == "completed"
    )
    for task in evidence.tasks:
        # However it ended: whoever undoes it by hand has its children undone as well.
        if task.id in awaited:
            yield _or(children[task.key] >= awaited[task.id], f"{task} is there, and a child of it is gone")
        if task.state in SETTLED:
            continue
        there = task.parent_key is None or task.parent_key in keys
        yield _or(there, f"{task} is open, and its parent is gone")
        has_all = evidence.payloads.get(task.key, 0) >= task.claim_checks
        yield _or(has_all, f"{task} is open, and its input is gone")
    for partition, first in evidence.facts.first_kept.items():
        needed = evidence.checkpoints.get(partition, 0)
        yield _or(first <= needed, f"{partition} begins at {first}, and {needed} was not read yet")


@invariant(12, "What was handed in within a transaction that was rolled back left nothing")
def left_nothing(evidence: Evidence) -> Facts:
    ids = {task.id for task in evidence.tasks} | evidence.messages
    for one in evidence.facts.rolled_back:
        yield _or(one not in ids, f"{one} was rolled back, and is there")


# ---------------------------------------------------------------- the whole


@invariant(13, "One supervisor acts at a time, under its own epoch")
def one_leads(evidence: Evidence) -> Facts:
    current = 0
    for change in evidence.changes:
        if change.what == "leader":
            yield _or(change.fence > current, f"{change} did not move the epoch {current} on")
            current = change.fence
        elif change.what == "round":
            yield _or(change.fence == current, f"{change} was written, and {current} leads")


@invariant(14, "Once the faults are over everything ends, within its bound")
def ends(evidence: Evidence) -> Facts:
    for task in evidence.tasks:
        is_over = task.state in SETTLED or task.id in evidence.facts.open
        yield _or(is_over, f"{task} has not ended")
    for took, within in evidence.facts.healed:
        yield _or(took <= within, f"it took {took:.1f} s, and {within:.0f} s are promised")


@invariant(15, "The same seed plans the same faults, another seed plans others")
def planned(evidence: Evidence) -> Facts:
    for one, again, other in evidence.facts.plans:
        yield _or(one == again, f"{one} was planned, and then {again}")
        yield _or(one != other, f"{one} was planned whatever the seed")


@invariant(16, "Every database holds at the end what the model says")
def as_the_model(evidence: Evidence) -> Facts:
    states = _ends(evidence)
    for task_id, state in evidence.facts.model.items():
        yield _or(states.get(task_id) == state, f"{task_id} is {states.get(task_id)}, the model says {state}")
