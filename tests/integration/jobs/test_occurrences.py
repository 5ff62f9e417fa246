"""What an occurrence does: attempts, pauses between them, the action after a failure, and its history."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from backstay import App
from backstay.domain.jobs.occurrences import Run, by_hand, task_of
from backstay.domain.jobs.records import ActionName, Counters, EntryStatus, HistoryEntry, JobState
from backstay.domain.task import NewTask
from backstay.errors import InvalidId, UnknownWorkflow
from backstay.store.jobs import JobSeen
from tests.support.job_records import PLACE
from tests.support.jobs import ACT
from tests.support.running import eventually, until
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, says

COMPLETED, FAILED = EntryStatus.COMPLETED, EntryStatus.FAILED
MAIN, ERROR = ActionName.MAIN, ActionName.ERROR
HALF_A_MINUTE = timedelta(seconds=30)
NONE = {"retryType": "None"}
TWICE = {"retryType": "Fixed", "retryInterval": "PT1M", "retryCount": 2}


def http(url: str, **more: Any) -> dict[str, Any]:
    request = {"uri": f"{url}/run", "method": "POST", **more.pop("request", {})}
    return {"type": "Http", "request": request, **more}


def told(entries: list[HistoryEntry]) -> list[tuple[ActionName, EntryStatus, int]]:
    return [(one.action, one.status, one.retry) for one in entries]


async def test_a_success_is_one_entry_and_completes_a_job_that_runs_once(
    run_jobs: RunJobs, service: HttpService
):
    service.answers = [says(200, "well done")]

    async with run_jobs() as jobs:
        put = await jobs.put(http(service.url))
        [entry] = await jobs.attempts(1)
        [task_id] = await jobs.ended()
        job = await jobs.calendar.job()

    assert (entry.status, entry.retry, entry.repeat, entry.expected_at) == (COMPLETED, 0, 1, put.next_at)
    assert entry.message.endswith("Body: well done")
    assert put.next_at is not None
    assert put.next_at <= entry.started_at <= entry.ended_at
    assert (job.state, job.counters, job.next_at) == (JobState.COMPLETED, Counters(executions=1), None)
    assert service.headers("Idempotency-Key") == [task_id]
    assert service.headers("x-ms-scheduler-jobid") == ["j"]


async def test_without_a_policy_a_failure_is_tried_again_four_times_half_a_minute_apart(
    run_jobs: RunJobs, service: HttpService
):
    service.answers = [says(503)]

    async with run_jobs() as jobs:
        await jobs.put(http(service.url))
        await jobs.attempts(1)
        for number in (2, 3, 4, 5):
            await jobs.after(HALF_A_MINUTE, number)
        await jobs.ended()
        entries = await jobs.calendar.history()
        job = await jobs.calendar.job()

    assert told(entries) == [(MAIN, FAILED, retry) for retry in range(5)]
    assert len({*service.headers("Idempotency-Key")}) == 1
    assert len({*service.headers("x-ms-client-request-id")}) == 5
    assert (job.state, job.counters) == (JobState.FAULTED, Counters(executions=1, failures=5, faults=1))


async def test_retries_end_with_the_first_success(run_jobs: RunJobs, service: HttpService):
    service.answers = [says(500), says(200)]

    async with run_jobs() as jobs:
        await jobs.put(http(service.url, retryPolicy=TWICE))
        await jobs.attempts(1)
        entries = await jobs.after(timedelta(minutes=1), 2)
        await jobs.ended()
        job = await jobs.calendar.job()

    assert told(entries) == [(MAIN, FAILED, 0), (MAIN, COMPLETED, 1)]
    assert (job.state, job.counters) == (JobState.COMPLETED, Counters(executions=1, failures=1))


async def test_with_a_policy_of_none_there_is_one_attempt(run_jobs: RunJobs, service: HttpService):
    service.answers = [says(404)]

    async with run_jobs() as jobs:
        await jobs.put(http(service.url, retryPolicy=NONE))
        await jobs.ended()
        assert told(await jobs.calendar.history()) == [(MAIN, FAILED, 0)]


async def test_an_action_that_gave_up_is_followed_by_its_error_action_with_retries_of_its_own(
    run_jobs: RunJobs, service: HttpService
):
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=503 if len(service.asked) < 4 else 200)

    service.answers = [answer]
    action = http(service.url, retryPolicy=NONE, errorAction=http(f"{service.url}/sorry", retryPolicy=TWICE))

    async with run_jobs() as jobs:
        await jobs.put(action)
        await jobs.attempts(2)
        for number in (3, 4):
            await jobs.after(timedelta(minutes=1), number)
        await jobs.ended()
        entries = await jobs.calendar.history()
        job = await jobs.calendar.job()

    assert told(entries) == [(MAIN, FAILED, 0), (ERROR, FAILED, 0), (ERROR, FAILED, 1), (ERROR, COMPLETED, 2)]
    assert [one.path for one in service.asked] == ["/run", *["/sorry/run"] * 3]
    assert job.state is JobState.FAULTED
    keys = service.headers("Idempotency-Key")
    assert len({*keys}) == 2


async def test_an_error_action_without_a_policy_has_that_of_the_action(
    run_jobs: RunJobs, service: HttpService
):
    service.answers = [says(503)]

    async with run_jobs() as jobs:
        await jobs.put(http(service.url, retryPolicy=NONE, errorAction=http(service.url)))
        await jobs.ended()
        assert told(await jobs.calendar.history()) == [(MAIN, FAILED, 0), (ERROR, FAILED, 0)]


async def test_secrets_are_sent_and_are_nowhere_else(run_jobs: RunJobs, service: HttpService):
    basic = {"authentication": {"type": "Basic", "username": "u", "password": "hunter2"}}
    service.answers = [says(500)]
    action = http(service.url, request=basic, retryPolicy=NONE, errorAction=http(service.url, request=basic))

    async with run_jobs() as jobs:
        await jobs.put(action)
        [task_id] = await jobs.ended()
        task, steps = await jobs.client.task(task_id), await jobs.client.steps(task_id)
        history = await jobs.calendar.history()

    assert service.headers("Authorization") == ["Basic dTpodW50ZXIy"] * 2
    assert "hunter2" not in f"{msgspec.json.encode([task, steps, history])!r}"
    assert "dTpodW50ZXIy" not in f"{msgspec.json.encode([task, steps, history])!r}"


# What is not run


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            {"type": "Workflow", "workflow": {"name": "unheard-of"}},
            "No task of workflow 'unheard-of' is started: there is no workflow 'unheard-of' here or in any",
        ),
        (
            {"type": "Workflow", "workflow": {"name": "backstay.job", "input": {}}},
            "No task of workflow 'backstay.job' is started: workflow 'backstay.job' is built in",
        ),
    ],
)
async def test_what_cannot_be_run_is_a_failed_attempt_that_says_so(
    run_jobs: RunJobs, action: dict[str, Any], said: str
):
    async with run_jobs() as jobs:
        await jobs.put({**action, "retryPolicy": NONE})
        [entry] = await jobs.attempts(1)
        await jobs.ended()

    assert entry.status is FAILED
    assert said in entry.message


# Workflows


async def test_a_workflow_is_started_once_under_an_id_of_the_occurrence(app: App, run_jobs: RunJobs):
    @app.workflow
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with run_jobs() as jobs:
        workflow = {"name": "greet", "input": "Ada", "attributes": {"customer": "c9"}}
        await jobs.put({"type": "Workflow", "workflow": workflow})
        [entry] = await jobs.attempts(1)
        [occurrence] = await jobs.ended()
        task = await until(jobs.client, f"{occurrence}:main", "processed")

    assert (task.output, task.attributes) == ("hello Ada", {"customer": "c9"})
    assert entry.message == f"Workflow Action - Task '{task.id}' of workflow 'greet' is started."


async def test_an_input_that_does_not_fit_is_a_failed_attempt(app: App, run_jobs: RunJobs):
    @app.workflow
    async def greet(name: str) -> str:
        return name

    async with run_jobs() as jobs:
        await jobs.put({"type": "Workflow", "workflow": {"name": "greet", "input": 7}, "retryPolicy": NONE})
        [entry] = await jobs.attempts(1)

    assert entry.status is FAILED
    assert "input of workflow greet does not fit its type" in entry.message


# What changes meanwhile


async def hanging(service: HttpService, gate: asyncio.Event) -> None:
    async def wait(_request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response(status=500)

    service.answers = [wait, says(200)]


async def test_a_change_of_the_job_is_for_its_next_occurrence(run_jobs: RunJobs, service: HttpService):
    gate = asyncio.Event()
    await hanging(service, gate)

    async with run_jobs() as jobs:
        await jobs.put(http(service.url, retryPolicy=TWICE))
        await eventually(lambda: asyncio.sleep(0, service.inside), bool)
        changed = {"action": http(f"{service.url}/other"), "startTime": "2100-01-01"}
        await jobs.calendar.patch("j", changed, now=jobs.clock.now())
        gate.set()
        await jobs.after(timedelta(minutes=1), 2)
        await jobs.ended()

    assert [one.path for one in service.asked] == ["/run", "/run"]


async def test_what_is_under_way_when_its_job_is_deleted_comes_to_its_end_and_is_not_recorded(
    run_jobs: RunJobs, service: HttpService
):
    gate = asyncio.Event()
    await hanging(service, gate)

    async with run_jobs() as jobs:
        old = await jobs.put(http(service.url, retryPolicy=NONE))
        await eventually(lambda: asyncio.sleep(0, service.inside), bool)
        await jobs.calendar.delete("j", now=jobs.clock.now())
        new = await jobs.calendar.put("j", {"action": http(service.url)}, now=jobs.clock.now())
        gate.set()
        await jobs.ended()

        assert old.key != new.key
        assert await jobs.calendar.history() == []
        assert (await jobs.calendar.job()).counters == Counters()


async def test_without_its_password_a_request_is_not_sent(run_jobs: RunJobs, service: HttpService):
    gate = asyncio.Event()
    await hanging(service, gate)
    basic = {"authentication": {"type": "Basic", "username": "u", "password": "hunter2"}}

    async with run_jobs() as jobs:
        await jobs.put(http(service.url, request=basic, retryPolicy={**TWICE, "retryCount": 1}))
        await eventually(lambda: asyncio.sleep(0, service.inside), bool)
        await jobs.calendar.delete("j", now=jobs.clock.now())
        gate.set()
        await eventually(jobs.calendar.tasks, lambda tasks: tasks[0].state == "waiting")
        jobs.clock.leap(timedelta(minutes=1))
        [task_id] = await jobs.ended()
        task = await jobs.client.task(task_id)

    assert service.headers("Authorization") == ["Basic dTpodW50ZXIy"]
    assert "its password is gone" in task.output["message"]


# By hand


async def test_a_run_by_hand_is_in_the_history_and_uses_up_nothing(run_jobs: RunJobs, service: HttpService):
    async with run_jobs() as jobs:
        now = jobs.clock.now()
        recurring = {
            "action": http(service.url),
            "startTime": "2100-01-01",
            "recurrence": {"frequency": "day", "count": 1},
        }
        before = await jobs.calendar.put("j", recurring, now=now)

        def decide(seen: JobSeen) -> NewTask:
            assert seen.job is not None
            return task_of(by_hand(seen.job, now=now), seen.job, seen.collection)

        assert await jobs.calendar.store.jobs.run(PLACE, "j", decide, act=ACT, now=now)
        [entry] = await jobs.attempts(1)
        await jobs.ended()
        after = await jobs.calendar.job()

    assert (entry.status, entry.expected_at) == (COMPLETED, now)
    assert (after.next_at, after.occurrences, after.state) == (before.next_at, 0, JobState.ENABLED)
    assert after.counters == Counters(executions=1)


# What is built in


async def test_what_is_built_in_cannot_be_submitted(run_jobs: RunJobs):
    async with run_jobs() as jobs:
        with pytest.raises(UnknownWorkflow):
            await jobs.client.enter("backstay.job", {})

        # As whoever knows that it is there, since it is held back.
        await jobs.client.pause_workflow("backstay.job")
        await eventually(
            jobs.client.workflows,
            lambda seen: any(one.name == "backstay.job" and one.versions for one in seen),
        )
        with pytest.raises(UnknownWorkflow, match="is built in and cannot be submitted"):
            await jobs.client.enter("backstay.job", {})


def test_no_application_has_names_like_those_that_are_built_in(app: App):
    with pytest.raises(InvalidId, match=r"names that begin with 'backstay\.' are built in"):
        app.agent("backstay.jobs")

    with pytest.raises(InvalidId):

        @app.workflow(name="backstay.job")
        async def mine() -> None: ...


def test_what_an_occurrence_is_told_stays_what_it_is():
    """A task of an earlier release is read by this one."""
    written = (
        b'{"occurrence":{"job_key":1,"uid":"u","generation":1,"at":"2030-01-01T12:00:00Z","by_hand":false,'
        b'"number":1},"collection":{"subscription":"s","resource_group":"g","name":"jc"},"region":"West US",'
        b'"job":"j","action":{"type":"Http"}}'
    )

    run = msgspec.json.decode(written, type=Run)

    assert msgspec.json.decode(msgspec.json.encode(run)) == msgspec.json.decode(written)


async def test_what_is_built_in_is_listed_while_it_works_and_can_be_held_back(
    run_jobs: RunJobs, service: HttpService
):
    gate = asyncio.Event()
    await hanging(service, gate)

    async with run_jobs(heartbeat="100ms") as jobs:
        operator = jobs.client
        assert await operator.agents() == []
        await jobs.put(http(service.url, retryPolicy=NONE))
        [agent] = await eventually(operator.agents, bool)
        assert (agent.name, agent.instances[0].in_flight) == ("backstay.jobs", 1)
        gate.set()
        await jobs.ended()

        await operator.pause_workflow("backstay.job")
        assert [one.name for one in await operator.workflows()] == ["backstay.job"]
        await jobs.put(http(service.url), name="held")
        held = await eventually(jobs.calendar.tasks, lambda tasks: len(tasks) == 2)
        assert held[-1].state == "pending"
        assert "paused" in (await operator.why(held[-1].id)).reason
