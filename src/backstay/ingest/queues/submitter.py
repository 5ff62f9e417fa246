"""Turns the messages of one queue into tasks.

Of each message: that it is done, whatever the function writes for it, and the task, are one transaction. So
a message that comes again, after a crash at whatever moment, finds all of it or nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from backstay.clock import Clock
from backstay.definitions.queues import ConsumerDefinition
from backstay.definitions.submissions import Submission
from backstay.domain.alert import AlertKind, NewAlert
from backstay.domain.message import REASON_LENGTH_MAX, Action, Settlement, shortened_detail
from backstay.domain.target import queue_target
from backstay.domain.task import NewTask
from backstay.errors import IdConflict, InvalidInput, InvalidRequest, LockLost, Permanent, Unavailable
from backstay.ingest.queues.consumer import RETRY_SECONDS, Consumer
from backstay.ingest.queues.keeper import Held
from backstay.messaging.exchange import Exchange
from backstay.messaging.message import Message
from backstay.observe import STORE_UNAVAILABLE, alert, emit
from backstay.store.accepting import FunctionRaised
from backstay.store.base import Store
from backstay.submit import Door


class Submitter(Consumer):
    """One function at one queue, in this process."""

    def __init__(
        self, declared: ConsumerDefinition, exchange: Exchange, *, store: Store, door: Door, clock: Clock
    ) -> None:
        super().__init__(declared, exchange, clock=clock)
        self._store = store
        self._door = door

    async def _handle(self, held: Held) -> None:
        """Accept a message; as long as its lock may hold, a store that is away is asked again."""
        while True:
            try:
                await self._accept(held)
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                held.settling = False  # Meanwhile its lock is kept.
                await asyncio.sleep(RETRY_SECONDS)
            except FunctionRaised as raised:
                await self._refused(held, raised.error)
            except LockLost:
                held.lost = True
                self._tell_lost(held)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                await self._failed(held, "the function was cancelled, by itself")
            except Exception as error:  # noqa: BLE001  Whatever it was, the message is not lost by it.
                await self._refused(held, error)
            if held.over:
                return

    async def _accept(self, held: Held) -> None:
        message = held.message

        async def function(connection: Any) -> NewTask:
            with self._traced(message):
                task = self._task(await self._declared.handler(message, connection), message)
            # From here on the store knows whether the lock holds: a renewal would come too late.
            held.settling = True
            return task

        await self._store.accept(message.lock, function, now=self._clock.now())
        message.settled = True

    def _task(self, given: object, message: Message) -> NewTask:
        if not isinstance(given, Submission):
            raise InvalidInput(f"the function gave a {type(given).__name__}; it must return a Submission")
        return self._door.new_task(
            given.workflow,
            (given.input,),
            id=message.id if given.id is None else given.id,
            complete_by=given.complete_by,
            reply_to=given.reply_to,
            attributes=given.attributes,
        )

    async def _refused(self, held: Held, error: Exception) -> None:
        """What can never succeed is set aside; all else is received again."""
        if isinstance(error, IdConflict):
            await self._settle(held, partial(self._set_aside_with_alert, held.message, error))
        elif isinstance(error, (Permanent, InvalidRequest)):
            await self._settle(held, partial(held.message.dead_letter, _reason(error), repr(error)))
        else:
            await self._failed(held, repr(error), error)

    async def _set_aside_with_alert(self, message: Message, error: IdConflict) -> None:
        """The task that is there stays as it is; a person has to tell which of the two is right."""
        told = NewAlert(
            kind=AlertKind.SUBMISSION_CONFLICT,
            message=f"message {message.id} of queue {message.queue}: {error}",
            target=queue_target(message.queue),
            task_id=error.task_id,
        )
        said = Settlement(
            lock=message.lock,
            action=Action.DEAD_LETTER,
            reason=_reason(error),
            detail=shortened_detail(str(error)),
            alert=told,
        )
        await self._exchange.settle(said)
        message.settled = True
        alert(told.kind, task_id=told.task_id, queue=message.queue, message=told.message)


def _reason(error: Exception) -> str:
    """One line, by which a person sorts."""
    kind = "" if isinstance(error, Permanent) else f"{type(error).__name__}: "
    said = shortened_detail(str(error).strip())
    return f"{kind}{said}"[:REASON_LENGTH_MAX] or type(error).__name__
