"""The workflow that every occurrence of a job is a task of, and the agent that makes its attempts.

    attempt ── failed ──▶ sleep ──▶ attempt … ── retries used up ──▶ errorAction, with retries of its own

A failed attempt is a result, not an exception: whatever becomes of the action, the task comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from backstay.clock import Clock
from backstay.definitions.agents import Agent, Step
from backstay.definitions.calls import current_step, sleep
from backstay.definitions.registry import Registry
from backstay.definitions.workflows import Workflow
from backstay.domain.jobs.occurrences import AGENT, VERSION, WORKFLOW, Run
from backstay.domain.jobs.records import ActionName
from backstay.domain.jobs.retrying import RetryPolicy, policy_of
from backstay.domain.recovery import Recovery
from backstay.domain.retry import Retry
from backstay.jobs.acting import Actor
from backstay.jobs.tried import Tried
from backstay.settings import Settings
from backstay.store.base import Store

#: As no function is called: steps of an application have other names.
STEP: Final = "backstay-attempt"

# Beside the action itself: what it came to is written, if need be while the store is away for a moment.
RECORDING: Final = timedelta(seconds=30)
#: A run waits in line for the agent, behind those of other jobs whose receivers may all hang.
COMPLETE_BY: Final = timedelta(hours=1)

# An attempt fails only where nobody can be told what it came to: sooner or later somebody can.
RECOVERY: Final = Recovery(attempts=3, then="wait", wait="1m")
RETRY: Final = Retry(attempts=4, first="500ms", cap="5s")


def with_jobs(registry: Registry, store: Store, *, settings: Settings, clock: Clock) -> Registry:
    """The same declarations, and with them those that run the occurrences of jobs."""
    extended = registry.copy()
    _Occurrences(extended, Actor(store, registry, settings=settings, clock=clock), settings)
    return extended


class JobAgent(Agent):
    """Makes attempts. It has no breaker: a receiver that fails says nothing about those of other jobs."""

    def __init__(
        self, actor: Actor, settings: Settings, *, register: Callable[[Step[Any, Any]], None]
    ) -> None:
        super().__init__(
            AGENT,
            complete_by=settings.job_http_timeout + RECORDING,
            retry=RETRY,
            breaker=None,
            concurrency=settings.job_concurrency,
            pace=None,
            register=register,
        )
        self._actor = actor

    async def close(self) -> None:
        await self._actor.close()


class _Occurrences:
    """Declares the agent, its step and the workflow; they are known by the registry alone."""

    def __init__(self, registry: Registry, actor: Actor, settings: Settings) -> None:
        self._actor = actor
        agent = JobAgent(actor, settings, register=registry.add_step)
        registry.add_agent(agent)
        self._step = agent.step(name=STEP)(self._attempt)
        registry.add_workflow(
            Workflow(
                self._occur,
                name=WORKFLOW,
                complete_by=COMPLETE_BY,
                version=VERSION,
                recovery=RECOVERY,
                plan=(),
                namespace={},
            )
        )

    async def _attempt(self, run: Run, action: ActionName, retry: int, last: bool) -> Tried:  # noqa: FBT001
        return await self._actor.attempt(run, action, retry, last=last, step=current_step())

    async def _occur(self, run: Run) -> Tried:
        own, errors = run.action.get("retryPolicy"), run.action.get("errorAction")
        tried = await self._tries(run, ActionName.MAIN, policy_of(own))
        if tried.succeeded or errors is None:
            return tried
        await self._tries(run, ActionName.ERROR, policy_of(errors.get("retryPolicy"), own))
        return tried

    async def _tries(self, run: Run, action: ActionName, policy: RetryPolicy) -> Tried:
        tried = await self._step(run, action, 0, policy.count == 0)
        for retry in range(1, policy.count + 1):
            if tried.succeeded:
                break
            await sleep(policy.interval)
            tried = await self._step(run, action, retry, retry == policy.count)
        return tried
