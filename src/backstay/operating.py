"""Step in: what an operator may do. Each action is in the audit trail once it is done."""

from __future__ import annotations

import copy
import getpass
import secrets
import socket
from typing import Any, Literal, Self

import msgspec

from backstay.clock import Clock
from backstay.definitions.calls import check_signal_name
from backstay.definitions.codec import check_size, encode
from backstay.definitions.registry import Registry
from backstay.domain import operate
from backstay.domain.access import Role, Token, digest_of
from backstay.domain.alert import Alert
from backstay.domain.audit import Act, checked_reason
from backstay.domain.control import Control, Forced, Subject
from backstay.domain.jobs.occurrences import AGENT, WORKFLOW
from backstay.domain.step import StepRecord
from backstay.domain.target import control_target, task_target
from backstay.domain.task import TaskRecord, check_id
from backstay.errors import InvalidInput, UnknownAgent, UnknownWorkflow
from backstay.looking import Onlooker
from backstay.settings import Settings
from backstay.store.base import Amend, Store
from backstay.views import AgentView, Task, WorkflowView, task_view

Breaker = Literal["open", "closed", "auto"]


class Operator(Onlooker):
    """Looks, and steps in under a name."""

    def __init__(
        self, store: Store, registry: Registry, *, settings: Settings, clock: Clock, who: str | None = None
    ) -> None:
        super().__init__(store, registry, settings=settings, clock=clock)
        self.who = who or this_user()

    def acting_as(self, who: str) -> Self:
        """The same under another name: whoever asks over HTTP is not the server."""
        other = copy.copy(self)
        other.who = who
        return other

    # Tasks

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
    ) -> Task:
        """Tell a task something. Signals wait in order until asked for; ``key`` makes one count once."""
        body = encode(payload, f"payload of signal {name}")
        check_size(body, f"payload of signal {name}", self._settings.payload_bytes_max)
        dedup = None if key is None else check_id(key, name="signal key")
        task = await self._store.signal(
            check_id(task_id),
            check_signal_name(name),
            body,
            dedup=dedup,
            now=self._clock.now(),
            act=self._act(f"signal {name}", task_target(task_id), reason),
        )
        return task_view(task)

    async def resubmit(
        self, task_id: str, from_: Literal["failed", "start"] = "failed", *, reason: str | None = None
    ) -> Task:
        """Let a stopped task go on at the step that failed, or begin anew."""
        return await self._amend(
            task_id,
            lambda task, steps: operate.resubmit(task, steps, from_=from_),
            action=f"resubmit from {from_}",
            reason=reason,
        )

    async def undo(self, task_id: str, *, reason: str | None = None) -> Task:
        """Undo what a task did. An undo that failed is tried again."""
        return await self._amend(task_id, operate.request_undo, action="undo", reason=reason)

    async def cancel(self, task_id: str, *, undo: bool = True, reason: str | None = None) -> Task:
        """Stop a task; with ``undo`` what it did is undone."""
        return await self._amend(
            task_id,
            lambda task, steps: operate.cancel(task, steps, undo=undo),
            action="cancel and undo" if undo else "cancel",
            reason=reason,
        )

    async def complete_step(
        self, task_id: str, key: str, output: Any = None, *, reason: str | None = None
    ) -> Task:
        """Record by hand what an agent could not: a step's result, or that its undo has been done."""
        body = encode(output, f"output of step {key}")
        check_size(body, f"output of step {key}", self._settings.payload_bytes_max)
        now = self._clock.now()

        def change(task: TaskRecord, steps: list[StepRecord]) -> operate.Amendment:
            self._check_fits(key, steps, body)
            return operate.complete_step(task, steps, key=key, output=body, now=now)

        return await self._amend(task_id, change, action=f"complete-step {key}", reason=reason, step=key)

    # Workflows and agents

    async def pause_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView:
        """Claim none of its tasks any more, undos as well; those in hand go on."""
        await self._regulate(Subject.WORKFLOW, name, "pause", reason, paused=True)
        return await self.workflow(name)

    async def resume_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView:
        """Let it go on."""
        await self._regulate(Subject.WORKFLOW, name, "resume", reason, paused=False)
        return await self.workflow(name)

    async def pause_agent(self, name: str, *, reason: str | None = None) -> AgentView:
        """Begin none of its steps any more, in any process; those at work may end."""
        await self._regulate(Subject.AGENT, name, "pause", reason, paused=True)
        return await self.agent(name)

    async def resume_agent(self, name: str, *, reason: str | None = None) -> AgentView:
        """Let it go on."""
        await self._regulate(Subject.AGENT, name, "resume", reason, paused=False)
        return await self.agent(name)

    async def force_breaker(self, agent: str, position: Breaker, *, reason: str | None = None) -> AgentView:
        """Hold the breaker of an agent open or closed in every process, or leave it to itself again."""
        if position not in ("open", "closed", "auto"):
            raise InvalidInput(f'breaker is {position!r}; it must be "open", "closed" or "auto"')
        forced = None if position == "auto" else Forced(position)
        await self._regulate(Subject.AGENT, agent, f"breaker {position}", reason, breaker=forced)
        return await self.agent(agent)

    # Alerts and tokens

    async def acknowledge(self, alert_id: int, *, reason: str | None = None) -> Alert:
        """Take an alert up. The first who does stays named."""
        act = self._act("acknowledge", f"alert:{alert_id}", reason)
        return await self._store.records.acknowledge(alert_id, act, now=self._clock.now())

    async def create_token(self, name: str, role: Role) -> str:
        """The secret of a new token: this is the only time that it is told."""
        secret = f"bst_{secrets.token_urlsafe(32)}"
        now = self._clock.now()
        token = Token(
            name=check_id(name, name="name of the token"),
            role=Role(role),
            digest=digest_of(secret),
            created_at=now,
        )
        await self._store.records.add_token(token, self._act("create", f"token:{name}"), now=now)
        return secret

    async def revoke_token(self, name: str, *, reason: str | None = None) -> None:
        """The token opens nothing any more."""
        act = self._act("revoke", f"token:{name}", reason)
        await self._store.records.revoke_token(check_id(name), act, now=self._clock.now())

    # Underneath

    def _act(self, action: str, target: str, reason: str | None = None, *, step: str | None = None) -> Act:
        return Act(who=self.who, action=action, target=target, step=step, reason=checked_reason(reason))

    async def _amend(
        self, task_id: str, change: Amend, *, action: str, reason: str | None, step: str | None = None
    ) -> Task:
        act = self._act(action, task_target(check_id(task_id)), reason, step=step)
        return task_view(await self._store.amend(task_id, change, now=self._clock.now(), act=act))

    def _check_fits(self, key: str, steps: list[StepRecord], body: bytes) -> None:
        """An output that the workflow could not read would only be noticed at its replay."""
        operation = next((step.operation for step in steps if step.key == key), None)
        step = self._registry.steps.get(operation) if operation is not None else None
        undoing = any(one.key == key and one.state.startswith("undo") for one in steps)
        if step is not None and not undoing:
            step.returns.decode(body)

    async def _regulate(
        self, subject: Subject, name: str, action: str, reason: str | None, **changes: Any
    ) -> None:
        await self._check_known(subject, check_id(name, name=f"name of the {subject}"))
        act = self._act(action, control_target(subject, name), reason)
        now = self._clock.now()

        def change(control: Control | None) -> Control:
            known = control or Control(subject=subject, name=name, by=self.who, at=now)
            return msgspec.structs.replace(known, by=self.who, reason=act.reason, at=now, **changes)

        await self._store.records.regulate(subject, name, change, act, now=now)

    async def _check_known(self, subject: Subject, name: str) -> None:
        """A typo must not look as if it had paused something."""
        if subject is Subject.AGENT:
            if name not in {AGENT, *self._registry.agents, *(one.name for one in await self.agents())}:
                raise UnknownAgent(name)
            return
        here = {workflow for workflow, _ in self._registry.workflows}
        known = here | {one.name for one in await self.workflows()}
        if name not in known | {WORKFLOW}:
            names = ", ".join(sorted(known)) or "none"
            raise UnknownWorkflow(
                f"there is no workflow {name!r} here or in any live process; known: {names}"
            )


def this_user() -> str:
    """Who acts, when nobody said otherwise: the user of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A container may know no name for its user.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
