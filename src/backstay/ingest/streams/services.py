"""What everything that reads streams in one process works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from backstay.clock import Clock
from backstay.domain.lease import Owner
from backstay.ingest.calling import Calls
from backstay.ingest.streams.budget import Budget
from backstay.ingest.streams.checkpointer import Checkpointer
from backstay.messaging.exchange import Exchange
from backstay.messaging.streams import Streams
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.submit import Door


@dataclass(frozen=True, slots=True)
class Services:
    streams: Streams
    exchange: Exchange
    store: Store
    owner: Owner
    door: Door
    settings: Settings
    clock: Clock
    random: Random
    checkpointer: Checkpointer
    calls: Calls
    budget: Budget = field(default_factory=Budget)
