"""What there is once in a process, whichever of its doors somebody comes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from backstay.web.access import Guesses, Keyring, keyring
from backstay.web.ports import Ports
from backstay.web.sampled import Sampled
from backstay.web.standings import (
    QueueGauges,
    Standings,
    TaskGauges,
    sampled_queues,
    sampled_tasks,
    stream_standings,
)
from backstay.web.watchers import Watchers


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """A token that is revoked at one door is unknown at the other; seats are counted together."""

    ports: Ports
    keyring: Keyring
    guesses: Guesses
    watchers: Watchers
    task_gauges: Sampled[TaskGauges]
    queue_gauges: Sampled[QueueGauges]
    stream_standings: Standings

    @classmethod
    def of(cls, ports: Ports) -> Self:
        client, clock = ports.client, ports.clock
        return cls(
            ports=ports,
            keyring=keyring(client.token_records, clock),
            guesses=Guesses(clock),
            watchers=Watchers(ports.settings.watchers_max),
            task_gauges=sampled_tasks(client, clock),
            queue_gauges=sampled_queues(client.exchange.queues, clock),
            stream_standings=stream_standings(client, clock),
        )
