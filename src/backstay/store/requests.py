"""What a state store does for agents in processes of their own: it carries requests, and replies.

A scheduler leaves a request with the transition that records the attempt, and nowhere else: what is not
recorded is not sent. An agent host claims it, and writes its reply beside it; the scheduler that holds the
task by then, which may be another, makes a record of that. A request is known by its attempt (``Reference``):
whatever is said under another attempt changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from backstay.domain.lease import Owner
from backstay.domain.request import Reference, RequestStanding


class Sent(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A request on its way, in place of any earlier one of the same step. As a list, in this order."""

    task_key: int
    step: str
    undo: bool
    agent: str
    attempt: int
    # In whole microseconds since 1970.
    complete_by: int
    # The text of ``domain.request.request_document``.
    body: str


class Mail(msgspec.Struct, frozen=True, gc=False):
    """What a turn of a run sends, and the requests that it needs no longer."""

    sent: Sequence[Sent] = ()
    # Removed; one that somebody is working on is withdrawn, and removed when that has stopped.
    closed: Sequence[Reference] = ()


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A request that an agent host claimed, and how much of its time remains by the store's own clock."""

    reference: Reference
    body: bytes
    remaining_seconds: float


class Answered(msgspec.Struct, frozen=True):
    """What an agent host has to say of a request; ``None``: nothing, but its body has stopped."""

    reference: Reference
    # The text of ``domain.request.reply_document``.
    reply: bytes | None = None


class Requests(Protocol):
    """Each method is one transaction: it happens entirely or not at all."""

    # For agent hosts

    async def waiting(self, agents: Sequence[str], *, now: datetime) -> bool:
        """Whether there is anything to claim for these agents: one cheap look."""

    async def claim(self, owner: Owner, room: Mapping[str, int], *, now: datetime) -> list[Taken]:
        """Take up requests, oldest first, for each agent no more than there is room for.

        Only such as are still waited for, and whose complete-by has not passed. Raises LeaseLost when the
        instance was declared dead.
        """

    async def answer(self, answers: Sequence[Answered], *, now: datetime) -> list[bool]:
        """Write replies; of each, whether it was in time to change anything.

        Fenced by the attempt alone. What was withdrawn is removed, whatever is said of it: it has stopped.
        """

    async def release(self, owner: Owner, references: Sequence[Reference]) -> None:
        """Put back what ``owner`` took up and has not begun: another may have it."""

    async def held(self, owner: Owner) -> list[RequestStanding]:
        """What ``owner`` took up and has not answered."""

    # For schedulers

    async def standing(self, task_keys: Sequence[int]) -> list[RequestStanding]:
        """How the requests of these tasks stand."""

    async def withdraw(
        self, owner: Owner, references: Sequence[Reference], *, now: datetime
    ) -> dict[Reference, RequestStanding]:
        """Stop requests of tasks that ``owner`` holds; each as it was found.

        What nobody has taken up is removed. Who works on one is told to stop. One that was answered
        stays as it is.
        """
