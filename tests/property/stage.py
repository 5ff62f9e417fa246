"""Where stories are told: an event loop, and a store that is open in it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from backstay.store.base import Store


class Stage(NamedTuple):
    runner: asyncio.Runner
    store: Store
