"""One life of the roles of a process: from registering to retiring, or to being declared dead."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import Final

from backstay.agents.host import AgentHost
from backstay.agents.inbox import Inbox
from backstay.clock import Alarms, Clock
from backstay.definitions.registry import Registry
from backstay.domain.durations import describe
from backstay.domain.lease import Leader, Owner
from backstay.errors import Unavailable
from backstay.ingest.role import Ingest
from backstay.jobs.role import JobsRole
from backstay.messaging.exchange import Exchange
from backstay.messaging.streams import Streams
from backstay.observe import DRAIN_CUT_SHORT, DRAINING, STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.runtime.held_back import HeldBack
from backstay.runtime.roles import Role, Roles
from backstay.scheduler.loop import Scheduler
from backstay.settings import Settings
from backstay.store.base import Report, Store
from backstay.supervisor.loop import Supervisor
from backstay.supervisor.prune import Pruner
from backstay.supervisor.telling import Telling, sinks_of
from backstay.supervisor.watch import Watch

# A store that is away at start-up, or for long, is asked again after this pause.
RECONNECT_SECONDS: Final = 1.0

# How often a process that stops looks whether its agents have come to rest.
DRAIN_LOOK_SECONDS: Final = 0.02

# In a row: between a reply and the write that it leads to, everything looks at rest.
QUIET_LOOKS: Final = 2


class Instance:
    """Everything that runs under one registered id."""

    def __init__(
        self,
        owner: Owner,
        store: Store,
        registry: Registry,
        *,
        settings: Settings,
        clock: Clock,
        random: Random,
        roles: Roles,
        exchange: Exchange,
        streams: Streams,
    ) -> None:
        self._owner = owner
        self._store = store
        self._settings = settings
        self._clock = clock
        self.alarms = Alarms(clock)
        # When the store last answered a sign of life, and when it last did not.
        self._answered = Pulse(clock)
        self._trouble = Pulse(clock)
        self._agents: AgentHost | None = None
        self._inbox: Inbox | None = None
        self._scheduler: Scheduler | None = None
        if Role.AGENTS in roles:
            self._agents = AgentHost(
                registry, settings=settings, clock=clock, alarms=self.alarms, random=random
            )
            self._inbox = Inbox(store, owner, self._agents, settings=settings, clock=clock)
        if Role.SCHEDULER in roles:
            self._scheduler = Scheduler(
                store,
                owner,
                registry,
                self._agents,
                settings=settings,
                clock=clock,
                alarms=self.alarms,
                random=random,
            )
        self._held_back = HeldBack(
            store, self._scheduler, self._agents, self._inbox, settings=settings, clock=clock
        )
        self._supervisor = self._new_supervisor() if Role.SUPERVISOR in roles else None
        self._pruner: Pruner | None = None
        self._watch: Watch | None = None
        self._telling: Telling | None = None
        if self._supervisor is not None:
            lead = self._lead
            self._pruner = Pruner(store.retention, lead, settings=settings, clock=clock)
            self._watch = Watch(store, streams, lead, settings=settings, clock=clock)
            sinks = sinks_of(settings, clock)
            self._telling = Telling(store.alerting, sinks, lead, settings=settings, clock=clock)
        self._ingest: Ingest | None = None
        if Role.INGEST in roles:
            self._ingest = Ingest(
                registry,
                exchange,
                streams,
                owner=owner,
                store=store,
                settings=settings,
                clock=clock,
                random=random,
            )

        self._jobs = JobsRole(store, owner, settings=settings, clock=clock) if Role.JOBS in roles else None

    async def run(self) -> None:
        """All roles, until cancelled. Raises LeaseLost when this instance was declared dead."""
        stop_listening = self._store.listen(self._held_back.changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(), name="backstay-heartbeat")
                if self._scheduler is not None or self._agents is not None:
                    group.create_task(self._held_back.run(), name="backstay-held-back")
                if self._inbox is not None:
                    group.create_task(self._do_work(self._inbox), name="backstay-agents")
                if self._scheduler is not None:
                    group.create_task(self._fetch_mail(self._scheduler), name="backstay-mail")
                    group.create_task(self._schedule(self._scheduler), name="backstay-scheduler")
                if self._supervisor is not None:
                    group.create_task(self._supervisor.run(), name="backstay-supervisor")
                if self._pruner is not None:
                    group.create_task(self._pruner.run(), name="backstay-pruner")
                if self._watch is not None:
                    group.create_task(self._watch.run(), name="backstay-watch")
                if self._telling is not None:
                    group.create_task(self._telling.run(), name="backstay-telling")
                if self._ingest is not None:
                    group.create_task(self._ingest.run(), name="backstay-ingest")
                if self._jobs is not None:
                    group.create_task(self._jobs.run(), name="backstay-jobs")
        finally:
            stop_listening()
            self.alarms.clear()
            if self._agents is not None:
                self._agents.dismiss()

    # Turned by hand

    @property
    def runs(self) -> int:
        """How many tasks are in memory here."""
        return 0 if self._scheduler is None else self._scheduler.in_flight

    @property
    def calls(self) -> int:
        """How many bodies of steps are at work; in the pause between two tries none is."""
        return 0 if self._agents is None else self._agents.in_flight - self.alarms.sleepers

    @property
    def in_motion(self) -> bool:
        """Whether something moves here although no time passes; the bodies of steps aside."""
        if self._held_back.in_motion:
            return True
        scheduling = self._scheduler is not None and self._scheduler.in_motion
        return scheduling or self.alarms.next_due <= self._clock.monotonic()

    async def turn(self) -> bool:
        """One round of each role that waits for time to pass; whether anything came of it."""
        fired = 0 if self._jobs is None else await self._jobs.ticker.run_once()
        sweep = None if self._supervisor is None else await self._supervisor.run_once()
        started = 0 if self._scheduler is None else await self._scheduler.run_once()
        return bool(fired or started) or (sweep is not None and not sweep.idle)

    # What others ask of it

    async def supervise(self) -> bool:
        """One round of the supervisor, now; whether it was ours to make."""
        if self._supervisor is not None:
            return await self._supervisor.run_once(recorded=True) is not None
        passing = self._new_supervisor()
        try:
            return await passing.run_once(recorded=True) is not None
        finally:
            await passing.step_down()

    async def drain(self, within: timedelta) -> None:
        """Begin nothing any more and let what is at work end, for so long at most."""
        emit(DRAINING, in_flight=self._in_flight, within=describe(within))
        if self._scheduler is not None:
            self._scheduler.drain()
        if self._agents is not None:
            self._agents.close()
        if self._inbox is not None:
            self._inbox.close()
        if self._jobs is not None:
            self._jobs.close()
        try:
            async with asyncio.timeout(within.total_seconds()):
                if self._ingest is not None:
                    await self._ingest.drain()
                await self._at_rest()
        except TimeoutError:
            emit(DRAIN_CUT_SHORT, in_flight=self._in_flight)

    @property
    def _in_flight(self) -> int:
        """How many steps and messages are at work here."""
        steps = 0 if self._agents is None else self._agents.in_flight
        return steps + (0 if self._ingest is None else self._ingest.in_flight)

    def deaf(self) -> dict[str, str]:
        """The roles that make no progress although they should.

        While the store is away nobody can, and for a while after that nobody has had the time to.
        """
        patience = self._settings.lease.total_seconds()
        if self._answered.silent_seconds() > 2 * self._settings.heartbeat.total_seconds():
            return {}
        in_contact = self._trouble.silent_seconds()
        return {
            role: f"no progress for {seconds:.0f} s"
            for role, seconds in self._silences().items()
            if min(seconds, in_contact) > patience
        }

    def _silences(self) -> dict[str, float]:
        """For how many seconds each role has said nothing."""
        silent: dict[str, float] = {}
        if self._scheduler is not None:
            unanswered = self._scheduler.unanswered.silent_seconds()
            mail = self._scheduler.mail.pulse.silent_seconds()
            silent[Role.SCHEDULER] = max(self._scheduler.pulse.silent_seconds(), unanswered, mail)
        if self._inbox is not None:
            silent[Role.AGENTS] = self._inbox.pulse.silent_seconds()
        if self._supervisor is not None and self._pruner is not None:
            pulses = (self._supervisor.pulse, self._pruner.pulse)
            silent[Role.SUPERVISOR] = max(pulse.silent_seconds() for pulse in pulses)
        if self._ingest is not None:
            silent[Role.INGEST] = self._ingest.silent_seconds()
        if self._jobs is not None:
            silent[Role.JOBS] = self._jobs.silent_seconds()
        return silent

    # Its own loops

    async def _beat(self) -> None:
        while True:
            pause = self._settings.heartbeat.total_seconds()
            try:
                await self._store.beat(self._owner, now=self._clock.now(), report=self._report())
                self._answered.felt()
            except Unavailable as error:
                self._trouble.felt()
                emit(STORE_UNAVAILABLE, error=error)
                # The lease runs while the store is away: as soon as it is back, it must hear of us.
                pause = min(pause, RECONNECT_SECONDS)
            await asyncio.sleep(pause)

    def _report(self) -> Report:
        return Report(
            in_flight=0 if self._scheduler is None else self._scheduler.in_flight,
            agents={} if self._agents is None else self._agents.report(),
        )

    async def _schedule(self, scheduler: Scheduler) -> None:
        # What is held back must be known before the first step begins.
        await self._held_back.until_known()
        await scheduler.run()

    async def _fetch_mail(self, scheduler: Scheduler) -> None:
        await self._held_back.until_known()
        await scheduler.mail.run(sends=scheduler.sends)

    async def _do_work(self, inbox: Inbox) -> None:
        await self._held_back.until_known()
        await inbox.run()

    # Underneath

    def _lead(self) -> Leader | None:
        return None if self._supervisor is None else self._supervisor.leader

    def _new_supervisor(self) -> Supervisor:
        return Supervisor(
            self._store.supervision,
            self._owner.id,
            settings=self._settings,
            clock=self._clock,
            spare=self._owner,
        )

    async def _at_rest(self) -> None:
        quiet = 0
        while quiet < QUIET_LOOKS:
            unwritten = self._scheduler is not None and self._scheduler.unanswered
            unsaid = self._inbox is not None and self._inbox.in_hand
            quiet = 0 if self._in_flight or unwritten or unsaid else quiet + 1
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
