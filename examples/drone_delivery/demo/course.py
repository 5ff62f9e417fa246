"""What happens, in order: start everything, let requests come in, drain, stop, reconcile."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Final

import aiohttp

from drone_delivery.addresses import DEFAULT_PORTS
from drone_delivery.demo import ports
from drone_delivery.demo.afresh import NotAfresh, begin_afresh
from drone_delivery.demo.kills import kill_now_and_then
from drone_delivery.demo.load import Load, LoadFailed
from drone_delivery.demo.plan import Plan
from drone_delivery.demo.processes import DemoProcesses, ProcessFailed
from drone_delivery.demo.reconcile import Report, reconcile
from drone_delivery.demo.scene import Phase, Scene
from drone_delivery.demo.screen import Screen
from drone_delivery.demo.sight import ENDED, NotLetIn, Out, Sight
from drone_delivery.demo.weather import Weather, WeatherFailed
from drone_delivery.services.books import read_books

LOOK_SECONDS: Final = 0.4
DRAIN_SECONDS: Final = 120.0
REQUEST_SECONDS: Final = 5.0
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_KNOWN: Final = (NotAfresh, ports.PortsTaken, ProcessFailed, WeatherFailed, LoadFailed, Out, NotLetIn)


class DemoFailed(Exception):
    """It could not be shown to the end; ``str()`` says why."""


async def run(plan: Plan, screen: Screen, chance: Random) -> Report:
    """The whole demo. Raises DemoFailed; CancelledError when told to stop at once."""
    try:
        chosen = ports.choose(plan.port, len(DEFAULT_PORTS), chance)
        await begin_afresh(plan)
        processes = DemoProcesses(chosen, plan=plan)
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            demo = Demo(plan, processes, session, screen=screen, chance=chance)
            # Around the processes: who asks while they stop must not end us before they have.
            with _on_signals(demo.asked_to_stop), processes:
                await demo.run()
    except (*_KNOWN, ExceptionGroup) as problem:
        cause = _first(problem)
        if isinstance(cause, _KNOWN):
            raise DemoFailed(str(cause)) from problem
        raise
    return reconcile(demo.accepted, demo.sight.seen.states, read_books(plan.folder))


def _first(problem: Exception) -> Exception:
    while isinstance(problem, ExceptionGroup):
        problem = problem.exceptions[0]
    return problem


class Demo:
    """One run."""

    def __init__(
        self,
        plan: Plan,
        processes: DemoProcesses,
        session: aiohttp.ClientSession,
        *,
        screen: Screen,
        chance: Random,
    ) -> None:
        self._plan = plan
        self._processes = processes
        self._session = session
        self._screen = screen
        self._chance = chance
        self._began = time.monotonic()
        self._phase = Phase.STARTING
        self._task = asyncio.current_task()
        self._stop = asyncio.Event()
        self._looked = asyncio.Condition()
        self._seen_as_of = self._began
        self._closed: set[str] | None = None
        self._load = Load(session, processes.server_url, chance=chance)
        self._weather = Weather(session, processes.service_urls, chance=chance, tell=self._tell)
        self.sight = Sight(
            session,
            processes.server_url,
            processes.service_urls,
            folder=processes.folder,
            clock=time.monotonic,
        )

    @property
    def accepted(self) -> set[str]:
        """What got a 202 from us, and what others handed in until the drain began."""
        if self._closed is not None:
            return self._closed
        return self._load.accepted | self.sight.seen.states.keys()

    async def run(self) -> None:
        self._tell(
            "starting six services, a server, two workers, and a service that tells people about failures"
        )
        await self._processes.start(self._session)
        await self._weather.settle(rough=bool(self._plan.rate))
        await self.sight.begin()
        self._tell(f"the server is {self._processes.server_url}; Ctrl-C drains and ends")
        ports_of = self._processes.service_ports
        self._tell(f"ports: {', '.join(f'{name} {port}' for name, port in ports_of.items())}")
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(), name="watch")
            weather = group.create_task(self._weather.run(), name="weather")
            kills = group.create_task(self._kill(), name="kills")
            await self._take_requests()
            kills.cancel()
            self._weather.calm_down()
            await self._drain()
            weather.cancel()
            watching.cancel()
        self._enter(Phase.STOPPING)

    def asked_to_stop(self) -> None:
        """The first time: drain. With nothing to drain, or asked again: end at once."""
        if self._phase is Phase.STOPPING:
            return
        if self._phase is Phase.STARTING or self._stop.is_set():
            assert self._task is not None
            self._task.cancel()
        self._stop.set()

    async def _kill(self) -> None:
        if self._plan.kill_every_seconds is not None:
            await kill_now_and_then(
                self._processes,
                self._session,
                every_seconds=self._plan.kill_every_seconds,
                chance=self._chance,
                tell=self._tell,
            )

    async def _take_requests(self) -> None:
        self._enter(Phase.RUNNING)
        if self._plan.rate:
            await self._load.run(self._plan.rate, seconds=self._plan.seconds, stop=self._stop)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._plan.seconds):
                await self._stop.wait()

    async def _drain(self) -> None:
        """Until everything that was accepted has ended, for so long."""
        self._enter(Phase.DRAINING)
        self._tell("no more requests; what was accepted comes to its end")
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._until(lambda: self.sight.seen.lag == self.sight.seen.changes_lag == 0)
                self.sight.start_over()
                await self._until_looked()
                self._closed = self.accepted
                await self._until_all_ended()
                # What had ended may have been taken back by an operator.
                self.sight.start_over()
                await self._until_all_ended()
        except TimeoutError:
            left = sum(self.sight.seen.states.get(one) not in ENDED for one in self.accepted)
            self._tell(f"{left} deliveries have not ended after {DRAIN_SECONDS:.0f} s")

    async def _until_looked(self) -> None:
        """Until everything has been seen as of now: what was handed in a moment ago is not seen yet."""
        now = time.monotonic()
        async with self._looked:
            await self._looked.wait_for(lambda: self._seen_as_of > now)

    async def _until(self, holds: Callable[[], bool]) -> None:
        await self._until_looked()
        async with self._looked:
            await self._looked.wait_for(holds)

    async def _until_all_ended(self) -> None:
        await self._until(self._all_ended)

    def _all_ended(self) -> bool:
        states = self.sight.seen.states
        return all(states.get(delivery) in ENDED for delivery in self.accepted)

    async def _watch(self) -> None:
        while True:
            self._processes.check()
            # A server that was killed a moment ago is looked at again when it is back.
            with suppress(Out):
                as_of = time.monotonic()
                await self.sight.look()
                async with self._looked:
                    self._seen_as_of = as_of
                    self._looked.notify_all()
            self._show()
            await asyncio.sleep(LOOK_SECONDS)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._show()

    def _tell(self, line: str) -> None:
        self._screen.tell(f"{time.monotonic() - self._began:5.1f} s  {line}")

    def _show(self) -> None:
        self._screen.show(
            Scene(
                seconds=time.monotonic() - self._began,
                phase=self._phase,
                url=self._processes.server_url,
                accepted=len(self.accepted),
                seen=self.sight.seen,
                ending_per_second=self.sight.ending_per_second(),
            )
        )


@contextmanager
def _on_signals(asked: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
