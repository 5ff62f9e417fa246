"""The agents of this process."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import Final

from backstay.agents.attempt import Attempt, Rest, Surroundings
from backstay.agents.counter import Counter, Place
from backstay.agents.crew import Crew
from backstay.clock import Alarms, Clock
from backstay.definitions.registry import Registry
from backstay.domain.control import Controls, Subject
from backstay.messaging.wire import Reply, Request, Ticket
from backstay.settings import Settings
from backstay.store.base import AgentReport
from backstay.tracing import configured


class AgentHost:
    """Runs steps in this process. An ``AgentLink`` for the scheduler beside it."""

    through_store: Final = False

    def __init__(
        self, registry: Registry, *, settings: Settings, clock: Clock, alarms: Alarms, random: Random
    ) -> None:
        self._registry = registry
        self._rest = Rest()
        self._around = Surroundings(
            clock, alarms, random, settings.payload_bytes_max, copy_context(), self._rest, configured()
        )
        self._crew = Crew()
        self._counters = {name: Counter(agent, clock, alarms) for name, agent in registry.agents.items()}

    @property
    def in_flight(self) -> int:
        """How many steps are at work."""
        return sum(counter.in_flight for counter in self._counters.values())

    def report(self) -> dict[str, AgentReport]:
        return {name: counter.report() for name, counter in self._counters.items()}

    def regulate(self, controls: Controls) -> list[str]:
        """Hold back what operators hold back, and nothing else; the agents whose steps may begin again."""
        return [
            name
            for name, counter in self._counters.items()
            if counter.regulate(controls.of(Subject.AGENT, name))
        ]

    def close(self) -> None:
        """Begin no step any more; those at work go on."""
        for counter in self._counters.values():
            counter.close()

    def vacancies(self, at_most: int) -> dict[str, int]:
        """For each agent that would begin a step now, how many, but no more than ``at_most``."""
        found = {name: counter.vacancies(at_most) for name, counter in self._counters.items()}
        return {name: number for name, number in found.items() if number > 0}

    def has(self, operation: str) -> bool:
        """Whether this process has the code of a step."""
        return operation in self._registry.steps

    def dismiss(self) -> None:
        """Nobody sends requests any more."""
        self._crew.dismiss()

    @property
    def resting(self) -> int:
        return self._rest.waiting + sum(counter.in_line for counter in self._counters.values())

    def when_resting(self, callback: Callable[[], None]) -> None:
        self._rest.begun = callback

    def reserve(self, agent: str) -> Ticket:
        return self._counters[agent].reserve()

    def execute(self, ticket: Ticket, request: Request, reply: Callable[[Reply], None]) -> Attempt:
        assert isinstance(ticket, Place)
        ticket.used = True  # The slot is the attempt's now, and freed when that has ended.
        attempt = Attempt(
            self._registry.steps[request.operation],
            request,
            counter=ticket.counter,
            around=self._around,
            reply=reply,
        )
        self._crew.put(attempt)
        return attempt
