"""Callers who hang up while they wait: nothing may be left in their hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect

from backstay.messaging.message import Message


async def unless_hung_up(
    receiving: Coroutine[Any, Any, list[Message]], hung_up: Callable[[], Awaitable[None]]
) -> list[Message]:
    """What ``receiving`` gives. Raises ClientDisconnect when nobody is left to be told, and gives it back.

    What was received at most once cannot be given back: whoever asks for that takes this, too, upon himself.
    """
    messages = asyncio.ensure_future(receiving)
    hanging_up = asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait({messages, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
        if hanging_up.done():
            raise ClientDisconnect
        return messages.result()
    except (ClientDisconnect, asyncio.CancelledError):
        await _give_back(messages)
        raise
    finally:
        hanging_up.cancel()


async def _give_back(messages: asyncio.Future[list[Message]]) -> None:
    messages.cancel()  # Broken off, a receive leaves nothing locked; that is waited for.
    await asyncio.wait({messages})
    if not messages.cancelled() and not messages.exception():
        held = [message for message in messages.result() if message.lock_token]
        # Those that cannot be given back come back when their locks run out.
        await asyncio.gather(*(message.release() for message in held), return_exceptions=True)
