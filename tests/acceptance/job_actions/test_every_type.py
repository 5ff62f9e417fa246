"""Every type of action, from the interface of Azure Scheduler to a receiver, by a server of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.acceptance.job_actions.receivers import (
    APP,
    KINDS,
    Receivers,
    collected,
    ended,
    got,
    history,
    put,
    receivers,
)
from tests.support.running import eventually
from tests.support.serve_command import Served, serving

# 64 jobs at once, each with two actions, on a machine that has other things to do.
PATIENCE_SECONDS = 60

# What the history says of an action that succeeded, and of one that did not.
SAID = {
    "Http": ("Response from host '127.0.0.1': 'OK'", "'InternalServerError'"),
    "Https": ("Response from host '127.0.0.1': 'OK'", "'InternalServerError'"),
    "StorageQueue": (
        "account 'shop1', queue 'orders' succeeded.",
        "queue 'none' of account 'shop1' does not exist",
    ),
    "ServiceBusQueue": (
        "queue 'orders' in namespace 'shop' succeeded:",
        "queue 'none' in namespace 'shop' failed:",
    ),
    "ServiceBusTopic": (
        "topic 'news' in namespace 'shop' succeeded:",
        "topic 'none' in namespace 'shop' failed:",
    ),
    "ServiceBusQueue of Azure": (
        "queue 'orders' in namespace 'legacy' succeeded:",
        "queue 'none' in namespace 'legacy' failed:",
    ),
    "ServiceBusTopic of Azure": (
        "topic 'news' in namespace 'legacy' succeeded:",
        "topic 'none' in namespace 'legacy' failed:",
    ),
    "Workflow": ("of workflow 'report' is started.", "No task of workflow 'none' is started:"),
}


@dataclass
class World:
    server: Served
    receivers: Receivers

    async def settled(self, names: list[str], state: str) -> None:
        async def states() -> list[str]:
            return list(await asyncio.gather(*(ended(self.server, name) for name in names)))

        await eventually(
            states, lambda found: set(found) == {state}, what=f"all are {state}", seconds=PATIENCE_SECONDS
        )


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "shop.py").write_text(APP)
    async with receivers(authority) as those:
        trusting = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        with serving(tmp_path, "shop:app", **those.settings, **trusting) as server:
            await collected(server)
            yield World(server, those)


async def test_every_action_reaches_its_receiver_and_the_history_says_so(world: World):
    names = {kind: f"j{number}" for number, kind in enumerate(KINDS)}

    for kind, name in names.items():
        await put(world.server, name, world.receivers.action(kind, name))
    await world.settled(list(names.values()), "completed")

    assert await got(world.receivers, world.server) == {kind: [name] for kind, name in names.items()}
    for kind, name in names.items():
        [entry] = await history(world.server, name)
        assert "status" not in entry  # As the original service left it out of what went well.
        assert entry["message"].startswith(f"{_action_of(kind)} Action - ")
        assert SAID[kind][0] in entry["message"]
        assert (entry["actionName"], entry["retryCount"]) == ("MainAction", 0)


async def test_after_a_failure_of_any_type_an_error_action_of_any_type_is_run(world: World):
    pairs = list(itertools.product(KINDS, KINDS))
    names = {pair: f"j{number}" for number, pair in enumerate(pairs)}

    for (main, error), name in names.items():
        failing = world.receivers.action(main, name, there=False)
        await put(world.server, name, {**failing, "errorAction": world.receivers.action(error, name)})
    await world.settled(list(names.values()), "faulted")
    entries = await eventually(
        lambda: _all(world, list(names.values())),
        lambda found: all(len(one) == 2 for one in found.values()),
        what="two entries of each job",
        seconds=PATIENCE_SECONDS,
    )

    arrived = await got(world.receivers, world.server)
    for error in KINDS:
        assert sorted(arrived[error]) == sorted(names[main, error] for main in KINDS), error
    for (main, error), name in names.items():
        failed, sent = entries[name]
        assert (failed["actionName"], failed["status"]) == ("MainAction", "failed")
        assert SAID[main][1] in failed["message"]
        assert sent["actionName"] == "ErrorAction"
        assert "status" not in sent
        assert SAID[error][0] in sent["message"]


async def _all(world: World, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    found = await asyncio.gather(*(history(world.server, name) for name in names))
    return dict(zip(names, found, strict=True))


def _action_of(kind: str) -> str:
    # The original service called both of them so.
    return "Http" if kind == "Https" else kind.partition(" ")[0]
