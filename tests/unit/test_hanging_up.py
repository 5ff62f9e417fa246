"""Nothing stays in the hands of a caller who hangs up."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from backstay.api.hanging_up import unless_hung_up
from backstay.domain.message import Action, Lock, Settlement
from backstay.errors import LockLost, UnknownQueue
from backstay.messaging.message import Message


class Desk:
    """Where messages are settled; it remembers what was said."""

    def __init__(self, *, lost: bool = False) -> None:
        self.said: list[Action] = []
        self._lost = lost

    async def settle(self, settlement: Settlement) -> None:
        self.said.append(settlement.action)
        if self._lost:
            raise LockLost("orders", "m1")

    async def renew(self, lock: Lock) -> datetime:
        raise NotImplementedError

    async def rewrite(self, lock: Lock, body: Any) -> datetime:
        raise NotImplementedError


async def gives(*messages: Message) -> list[Message]:
    return [*messages]


async def at_once() -> None:
    return


async def never() -> None:
    await asyncio.Event().wait()


async def test_whoever_stays_gets_what_came():
    message = Message("m1", lock_token="1.x", settler=Desk())

    assert await unless_hung_up(gives(message), never) == [message]


@pytest.mark.parametrize("lost", [True, False])
async def test_what_came_when_the_caller_was_gone_is_given_back(lost: bool):
    desk = Desk(lost=lost)

    with pytest.raises(ClientDisconnect):
        await unless_hung_up(gives(Message("m1", lock_token="1.x", settler=desk), Message("m2")), at_once)

    assert desk.said == [Action.RELEASE]


async def test_what_was_waited_for_is_broken_off():
    broken_off = asyncio.Event()

    async def waits() -> list[Message]:
        try:
            await asyncio.Event().wait()
        finally:
            broken_off.set()
        return []

    with pytest.raises(ClientDisconnect):
        await unless_hung_up(waits(), at_once)

    assert broken_off.is_set()


async def test_a_server_that_stops_gives_back_too():
    desk = Desk()
    came = asyncio.Event()

    async def gives_late() -> list[Message]:
        try:
            came.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return [Message("m1", lock_token="1.x", settler=desk)]
        return []

    asking = asyncio.create_task(unless_hung_up(gives_late(), never))
    await came.wait()
    asking.cancel()
    await asyncio.wait([asking])

    assert (asking.cancelled(), desk.said) == (True, [Action.RELEASE])


@pytest.mark.parametrize("hung_up", [at_once, never])
async def test_what_goes_wrong_is_told_if_anybody_is_there(hung_up: Any):
    async def fails() -> list[Message]:
        raise UnknownQueue("orders")

    with pytest.raises(UnknownQueue if hung_up is never else ClientDisconnect):
        await unless_hung_up(fails(), hung_up)
