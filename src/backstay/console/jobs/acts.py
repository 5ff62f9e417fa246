"""What an operator may do to a job, or to a collection: how it is asked for, and what it says before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from backstay.console.jobs.places import APART, collection_in, job_in, path_of
from backstay.console.questions import Act, act_in, asked
from backstay.console.visits import Visit, moved, reason_in
from backstay.domain.jobs import deciding
from backstay.domain.jobs.records import Collection, CollectionId, JobRecord, JobState
from backstay.domain.target import collection_target, job_target
from backstay.domain.wording import instant
from backstay.errors import Conflict
from backstay.jobroom import Jobroom

RUN: Final = "run"
ENABLE: Final = "enable"
DISABLE: Final = "disable"
DELETE: Final = "delete"


class Offer(msgspec.Struct, frozen=True):
    """A button: what it says, and where it leads; a page of its own, or a question."""

    act: str
    name: str
    path: str
    is_page: bool = False


#: Done to the job of that name, for a reason.
DoneToJob = Callable[[Jobroom, CollectionId, str, str | None], Awaitable[object]]
DoneToCollection = Callable[[Jobroom, CollectionId, str | None], Awaitable[object]]

JOB_ACTS: Final[Mapping[str, Act[DoneToJob]]] = {
    RUN: Act(
        name="Run now",
        question="Run {name} now?",
        says="Its action is done once, now, as a task of its own. Neither its times nor its count change.",
        done=lambda room, place, name, reason: room.run(place, name, reason=reason),
    ),
    ENABLE: Act(
        name="Enable",
        question="Enable {name}?",
        says="It runs again from its next instant on. What it missed while it was disabled, it has missed.",
        done=lambda room, place, name, reason: room.enable(place, name, reason=reason),
    ),
    DISABLE: Act(
        name="Disable",
        question="Disable {name}?",
        says="None of its occurrences starts any more. What is at work comes to its end.",
        done=lambda room, place, name, reason: room.disable(place, name, reason=reason),
    ),
    DELETE: Act(
        name="Delete",
        question="Delete {name} for good?",
        says="The job is gone, and with it its secrets and its history. What is at work comes to its end.",
        done=lambda room, place, name, reason: room.delete_job(place, name, reason=reason),
    ),
}

COLLECTION_ACTS: Final[Mapping[str, Act[DoneToCollection]]] = {
    ENABLE: Act(
        name="Enable",
        question="Enable collection {name}?",
        says="Those of its jobs that are enabled themselves run again; of what passed meanwhile, the catchUp"
        " of each decides what starts.",
        done=lambda room, place, reason: room.enable_collection(place, reason=reason),
    ),
    DISABLE: Act(
        name="Disable",
        question="Disable collection {name}?",
        says="None of its jobs runs, and each keeps its own state. Instants that come wait until the"
        " collection is enabled again. What is at work comes to its end.",
        done=lambda room, place, reason: room.disable_collection(place, reason=reason),
    ),
    DELETE: Act(
        name="Delete",
        question="Delete collection {name} for good?",
        says="All of its jobs are gone with it, and with them their secrets and their history.",
        done=lambda room, place, reason: room.delete_collection(place, reason=reason),
    ),
}


def offers(visit: Visit, job: JobRecord, collection: Collection) -> list[Offer]:
    """A button for each act that would not be refused."""
    path, path_of_collection = path_of(visit, job.collection, job.name), path_of(visit, job.collection)
    acts = [RUN] if _is_let(lambda: deciding.check_may_run(collection, job)) else []
    if _is_let(lambda: deciding.check_open(job)):
        acts.append(DISABLE if job.state is JobState.ENABLED else ENABLE)
    pages = [
        Offer(
            "copy", "Copy", f"{path_of_collection}/{APART}/new?{urlencode({'like': job.name})}", is_page=True
        )
    ]
    if _is_let(lambda: deciding.check_open(job)):
        pages = [Offer("edit", "Edit", f"{path}/edit", is_page=True), *pages]
    questions = [Offer(act, JOB_ACTS[act].name, f"{path}/do/{act}") for act in [*acts, DELETE]]
    return [*questions[:-1], *pages, questions[-1]]


def _is_let(check: Callable[[], None]) -> bool:
    try:
        check()
    except Conflict:
        return False
    return True


# Jobs


async def ask(visit: Visit) -> Response:
    place, act = collection_in(visit), act_in(visit, JOB_ACTS)
    job = await visit.client.jobroom.record(place, job_in(visit))
    says = f"{act.says}{await _more(visit, job)}"
    target = job_target(job.collection.name, job.name)
    back = path_of(visit, job.collection, job.name)
    return await _asked(visit, act, job.name, says=says, target=target, back=back)


async def do(visit: Visit) -> Response:
    place, name = collection_in(visit), job_in(visit)
    await act_in(visit, JOB_ACTS).done(visit.client.jobroom, place, name, reason_in(visit.form))
    return moved(path_of(visit, place) if visit.names["act"] == DELETE else path_of(visit, place, name))


async def _more(visit: Visit, job: JobRecord) -> str:
    """What can be said of this very job."""
    room = visit.client.jobroom
    match visit.names["act"]:
        case "enable":
            due = room.upcoming(await room.previewed_enable(job.collection, job.name), limit=1)
            return f" It runs next at {instant(due[0])}." if due else " There is no instant left for it."
        case "disable" if due := room.upcoming(job, limit=1):
            return f" Else it would run next at {instant(due[0])}."
        case _:
            return ""


# Collections


async def ask_of_collection(visit: Visit) -> Response:
    act = act_in(visit, COLLECTION_ACTS)
    filled = await visit.client.jobroom.filled(collection_in(visit))
    there = filled.collection.id
    says = f"{act.says} It has {filled.jobs:,} {'job' if filled.jobs == 1 else 'jobs'}."
    target, back = collection_target(there.name), path_of(visit, there)
    return await _asked(visit, act, there.name, says=says, target=target, back=back)


async def do_to_collection(visit: Visit) -> Response:
    place = collection_in(visit)
    await act_in(visit, COLLECTION_ACTS).done(visit.client.jobroom, place, reason_in(visit.form))
    return moved("/jobs" if visit.names["act"] == DELETE else path_of(visit, place))


# Both


async def _asked(visit: Visit, act: Act[Any], name: str, *, says: str, target: str, back: str) -> Response:
    title, kind = act.question.format(name=name), visit.names["act"]
    return await asked(visit, title, says=says, button=act.name, kind=kind, target=target, back=back)
