"""Claims that wait for something to claim. Used by the writer's thread alone."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backstay.domain.lease import Owner
from backstay.errors import BackstayError
from backstay.store.base import Claimed, Runnable


@dataclass(slots=True)
class Claim:
    """What an instance would take, and until when it waits for that."""

    owner: Owner
    runs: Sequence[Runnable]
    limit: int
    asked_at: datetime
    patience: timedelta
    future: asyncio.Future[list[Claimed]]
    _since: float = field(default_factory=time.monotonic)

    def now(self) -> datetime:
        """The asker's time: what it gives a task begins when that is claimed."""
        return self.asked_at + self._waited() if self.patience else self.asked_at

    def over(self) -> bool:
        return self._waited() >= self.patience

    def _waited(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._since)


class OpenClaims:
    """Each is tried when it comes, and again whenever there may be something for it.

    One that comes right after its owner was given all there was is spared the first try: nothing has
    happened since.
    """

    def __init__(self) -> None:
        self._due: deque[Claim] = deque()
        self._resting: deque[Claim] = deque()
        # Who was given all there was, and what it ran; None: there may be something.
        self._served: tuple[Owner, Sequence[Runnable]] | None = None

    def __bool__(self) -> bool:
        """Whether one is to be tried."""
        return bool(self._due)

    def add(self, claim: Claim) -> None:
        if claim.patience and self._served == (claim.owner, sorted(claim.runs)):
            # Tried all the same once in a while: a net under what we hear of.
            self._served = None
            self._resting.append(claim)
        else:
            self._due.append(claim)

    def stir(self) -> None:
        """There may be something to claim."""
        self._served = None
        self._due.extend(self._resting)
        self._resting.clear()

    def next(self) -> Claim | None:
        """The one to be tried with the next commit."""
        while self._due:
            claim = self._due.popleft()
            if not claim.future.done():  # Whoever asked may have gone.
                return claim
        return None

    def goes_on(self, claim: Claim, claimed: list[Claimed] | BackstayError | None) -> bool:
        """Whether ``claim``, which was tried and found this, is to wait for something else."""
        if not isinstance(claimed, list):
            return False
        if len(claimed) < claim.limit:
            self._served = claim.owner, sorted(claim.runs)
        if claimed or claim.over():
            return False
        self._resting.append(claim)
        return True

    def take_over(self) -> list[Claim]:
        """Those whose patience is at its end."""
        over = [claim for claim in self._resting if claim.over()]
        if over:
            self._resting = deque(claim for claim in self._resting if claim not in over)
        return over

    def take_all(self) -> list[Claim]:
        """All of them: nobody tries any more."""
        self.stir()
        claims = [*self._due]
        self._due.clear()
        return claims
